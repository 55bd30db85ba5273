//! Opens a store for reading without writing anything, neither to it nor next to it.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use sqlx::{AnyConnection, Connection, migrate::Migrator};

use crate::{
    StoreError,
    connect::{FORMATS, READABLE, beside, connect, format, known, look, migrate, migrations},
    database::from_sqlx,
};

/// The state of a store file when it was opened, to detect later changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
    log: bool,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self {
            inode: file.ino(),
            size: file.size(),
            changed: (file.mtime(), file.mtime_nsec()),
            log: has_log(path),
        })
    }

    /// Whether the file is unchanged.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        Self::of(path).as_ref() == Some(self)
    }
}

/// A read-only connection. With a stamp, it reads a file that apparently nobody writes. The data is
/// valid only if the stamp still holds afterwards.
///
/// In a directory that is not `safe`, no file next to the store is opened: another user may have
/// put it there.
pub(crate) async fn open(
    path: &Path,
    safe: bool,
) -> Result<(AnyConnection, Option<Stamp>), StoreError> {
    let sql = |e| from_sqlx(e, path.to_owned());
    match fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok((memory(path, known()).await?, None));
        }
        Ok(file) if file.is_file() && file.len() == 0 => {
            return Ok((memory(path, known()).await?, None));
        }
        Err(source) => {
            return Err(StoreError::Directory {
                path: path.into(),
                source,
            });
        }
        Ok(file) if file.is_dir() => {
            let source = std::io::ErrorKind::IsADirectory.into();
            return Err(StoreError::Directory {
                path: path.into(),
                source,
            });
        }
        // Opening a FIFO would block.
        Ok(file) if !file.is_file() => {
            let source = std::io::Error::other("it is not a file");
            return Err(StoreError::Directory {
                path: path.into(),
                source,
            });
        }
        Ok(_) => {}
    }
    let log = has_log(path);
    if log && !safe {
        return Err(StoreError::Log {
            path: path.into(),
            reason: "other users may write to its directory".into(),
        });
    }
    // Without a log the file itself is complete, and `SQLite` needs no file next to it.
    let stamp = Stamp::of(path).filter(|_| !log);
    let how = if log {
        "mode=ro"
    } else {
        "mode=ro&immutable=1"
    };
    let opened = match connect(path, how).await {
        Ok(mut connection) => match format(&mut connection, path).await {
            Ok(found) => Ok((connection, found)),
            Err(e) => Err(e),
        },
        Err(e) => Err(e),
    };
    let (connection, found) = opened.map_err(|e| if log { of_log(e) } else { e })?;
    if found >= READABLE {
        return Ok((connection, stamp));
    }
    // An older format, which is read without converting the file.
    connection.close().await.map_err(sql)?;
    match copied(path, found, log).await {
        // Another process is creating or changing the store right now.
        Err(_) if safe && look(path).await? != found => Box::pin(open(path, safe)).await,
        copy => Ok((copy?, None)),
    }
}

/// Why a file with a log could not be read. In most cases `SQLite` needs the log's index next to
/// it, which is missing and cannot be created.
fn of_log(error: StoreError) -> StoreError {
    match error {
        StoreError::ReadOnly { path, reason } => StoreError::Log { path, reason },
        StoreError::Full { path } => StoreError::Log {
            path,
            reason: "the disk is full".into(),
        },
        other => other,
    }
}

/// Whether trials are still in the write-ahead log, because a run is in progress or was killed.
fn has_log(path: &Path) -> bool {
    fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0)
}

/// An empty store in memory, in the given format.
pub(crate) async fn memory(path: &Path, version: i64) -> Result<AnyConnection, StoreError> {
    let mut connection = connect(Path::new(":memory:"), "mode=rwc").await?;
    let wanted = migrations().into_iter().filter(|m| m.version <= version);
    let migrator = Migrator::with_migrations(wanted.collect());
    migrate(&mut connection, &migrator, path).await?;
    Ok(connection)
}

/// A copy of a store in memory, converted to the newest format.
async fn copied(path: &Path, found: i64, log: bool) -> Result<AnyConnection, StoreError> {
    let sql = |e| from_sqlx(e, path.to_owned());
    let mut to = memory(path, found).await?;
    let mode = if log { "mode=ro" } else { "immutable=1" };
    sqlx::query("ATTACH DATABASE $1 AS old")
        .bind(format!("file:{}?{mode}", escaped(path)))
        .execute(&mut to)
        .await
        .map_err(sql)?;
    // Names of our own tables, just created; none of them comes from the file.
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name <> $1",
    )
    .bind(FORMATS)
    .fetch_all(&mut to)
    .await
    .map_err(sql)?;
    for table in tables {
        let copy = format!("INSERT INTO main.{table} SELECT * FROM old.{table}");
        sqlx::query(sqlx::AssertSqlSafe(copy))
            .execute(&mut to)
            .await
            .map_err(sql)?;
    }
    sqlx::query("DETACH DATABASE old")
        .execute(&mut to)
        .await
        .map_err(sql)?;
    migrate(&mut to, &Migrator::with_migrations(migrations()), path).await?;
    Ok(to)
}

/// Percent-encodes a path for a URI.
fn escaped(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23")
}
