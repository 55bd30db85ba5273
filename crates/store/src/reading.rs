//! Opens a store for reading without writing anything, neither to it nor next to it.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use sqlx::{AnyConnection, AssertSqlSafe};

use crate::{
    StoreError,
    connect::{CONVERTED, EARLIER, beside, connect, format, migrate, only_a_file},
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
    match fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok((memory(path).await?, None));
        }
        Ok(file) if file.is_file() && file.len() == 0 => {
            return Ok((memory(path).await?, None));
        }
        Err(source) => {
            return Err(StoreError::Directory {
                path: path.into(),
                source,
            });
        }
        Ok(found) => only_a_file(path, &found)?,
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
    let (mut connection, found) = opened.map_err(|e| if log { of_log(e) } else { e })?;
    match found {
        // Another process is creating the store right now.
        0 => return Ok((memory(path).await?, None)),
        EARLIER => convert(&mut connection, path).await?,
        _ => {}
    }
    Ok((connection, stamp))
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

/// An empty store in memory.
pub(crate) async fn memory(path: &Path) -> Result<AnyConnection, StoreError> {
    let mut connection = connect(Path::new(":memory:"), "mode=rwc").await?;
    migrate(&mut connection, 0, path).await?;
    Ok(connection)
}

/// Converts rows of the earlier format when they are read: temporary views replace its tables. Only
/// memory is written.
async fn convert(connection: &mut AnyConnection, path: &Path) -> Result<(), StoreError> {
    let [runs, trials] = CONVERTED.map(|(table, query)| {
        let query = query.replace("old_", "main.");
        format!("CREATE TEMP VIEW {table} AS {query};")
    });
    let views = format!("PRAGMA temp_store = MEMORY; {runs} {trials}");
    let created = sqlx::raw_sql(AssertSqlSafe(views))
        .execute(connection)
        .await;
    created.map_err(|e| from_sqlx(e, path.to_owned()))?;
    Ok(())
}
