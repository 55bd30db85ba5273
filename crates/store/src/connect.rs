use std::{
    ffi::OsString,
    fmt::Write,
    fs::Metadata,
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sqlx::{
    AnyConnection, AssertSqlSafe, ConnectOptions, Connection, SqlSafeStr,
    any::AnyConnectOptions,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};

use crate::{StoreError, alive, database::from_sqlx, directory::Directory, server};

/// How long a writer waits for another process's transaction. A transaction lasts milliseconds, or
/// as long as a slow disk takes to sync. A locked store is also retried for this long: `SQLite`
/// itself does not wait if another process is switching to the write-ahead log.
pub(crate) const BUSY: Duration = Duration::from_mins(1);

/// Attempts to migrate, in case another process creates the same store at the same time.
const TRIES: u32 = 20;

/// The table in which the migrator records the completed steps.
pub(crate) const FORMATS: &str = "_sqlx_migrations";

/// The format that this layermark writes.
pub(crate) const FORMAT: i64 = 6;

/// The only earlier format that can be read and converted. Those before it were never released.
pub(crate) const EARLIER: i64 = 5;

const TABLES: &str = include_str!("../migrations/0006_runs.sql");

/// The tables whose rows differ in [`EARLIER`], each with the query that converts `old_runs`,
/// `old_layers`, `old_points` and `old_trials`.
pub(crate) const CONVERTED: [(&str, &str); 2] = [
    ("runs", include_str!("../migrations/runs_of_5.sql")),
    ("trials", include_str!("../migrations/trials_of_5.sql")),
];

/// `SQLite`'s functions in [`CONVERTED`], for `PostgreSQL`.
const FUNCTIONS: [&str; 2] = [
    "CREATE FUNCTION json_quote(text) RETURNS text LANGUAGE sql
         AS 'SELECT coalesce(to_json($1)::text, ''null'')';
     CREATE FUNCTION printf(text, double precision) RETURNS text LANGUAGE sql
         AS 'SELECT $2::text';",
    "DROP FUNCTION json_quote(text); DROP FUNCTION printf(text, double precision);",
];

/// Converts the tables of [`EARLIER`].
fn conversion(is_sqlite: bool) -> String {
    let [begin, end] = if is_sqlite { ["", ""] } else { FUNCTIONS };
    let [runs, trials] = CONVERTED.map(|(_, query)| query);
    format!(
        "{begin} DROP INDEX runs_by_time; DROP INDEX layers_by_spec;
         ALTER TABLE runs RENAME TO old_runs; ALTER TABLE layers RENAME TO old_layers;
         ALTER TABLE points RENAME TO old_points; ALTER TABLE trials RENAME TO old_trials;
         {TABLES}
         INSERT INTO runs {runs};
         INSERT INTO layers SELECT run_id, idx, name, spec, control FROM old_layers;
         INSERT INTO trials {trials};
         DROP TABLE old_trials; DROP TABLE old_points; DROP TABLE old_layers; DROP TABLE old_runs;
         {end}"
    )
}

/// Opens a store in a held directory, and creates it if it does not exist.
pub(crate) async fn open(
    path: &Path,
    directory: &Directory,
    pages: Option<u32>,
) -> Result<AnyConnection, StoreError> {
    let started = Instant::now();
    loop {
        match open_once(path, directory, pages).await {
            Err(StoreError::Locked { .. }) if started.elapsed() < BUSY => {
                std::thread::sleep(Duration::from_millis(25));
            }
            done => return done,
        }
    }
}

async fn open_once(
    path: &Path,
    directory: &Directory,
    pages: Option<u32>,
) -> Result<AnyConnection, StoreError> {
    if !path.exists() {
        begin_anew(path, directory);
    }
    // The first look is read-only, because a write would change even a file that is refused
    // afterwards.
    let found = match std::fs::metadata(path) {
        Ok(m) => {
            only_a_file(path, &m)?;
            if m.len() > 0 { look(path).await? } else { 0 }
        }
        Err(_) => 0,
    };
    let mut connection = connect(path, "mode=rwc").await?;
    // FULL syncs the log at each commit. Trials in quick succession use NORMAL.
    let mut settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL".to_owned();
    if let Some(pages) = pages {
        let _ = write!(settings, "; PRAGMA max_page_count = {pages}");
    }
    sqlx::raw_sql(AssertSqlSafe(settings))
        .execute(&mut connection)
        .await
        .map_err(|e| from_sqlx(e, path.to_owned()))?;
    migrate(&mut connection, found, path).await?;
    if found == EARLIER {
        // Gives back the space of the old tables, more than half of the file. Without space for it,
        // the file stays large.
        let _ = sqlx::query("VACUUM").execute(&mut connection).await;
    }
    Ok(connection)
}

/// Refuses a directory and a device. Opening a FIFO would block, and `SQLite` would wait for whoever holds a
/// lock on `/dev/null`.
pub(crate) fn only_a_file(path: &Path, found: &Metadata) -> Result<(), StoreError> {
    let source = if found.is_file() {
        return Ok(());
    } else if found.is_dir() {
        io::ErrorKind::IsADirectory.into()
    } else {
        io::Error::other("it is not a file")
    };
    let path = path.into();
    Err(StoreError::Directory { path, source })
}

/// Opens a file. Special characters in its path are percent-encoded.
pub(crate) async fn connect(path: &Path, how: &str) -> Result<AnyConnection, StoreError> {
    let mut url = String::from("sqlite:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => url.push(char::from(*byte)),
            _ => drop(write!(url, "%{byte:02X}")),
        }
    }
    let connected = async {
        let options: AnyConnectOptions = format!("{url}?{how}").parse()?;
        let mut connection = options.connect().await?;
        let busy = format!("PRAGMA busy_timeout = {}", BUSY.as_millis());
        sqlx::raw_sql(AssertSqlSafe(busy))
            .execute(&mut connection)
            .await?;
        Ok(connection)
    };
    connected.await.map_err(|e| from_sqlx(e, path.to_owned()))
}

/// Creates the file, and moves away the log and index of a deleted store of that name. A run may
/// still write to the deleted one, and the new one must not use its files.
fn begin_anew(path: &Path, directory: &Directory) {
    let left = [beside(path, "-wal"), beside(path, "-shm")];
    let left = left.map(|path| (identity(&path), path));
    // Only the process that creates the file does this. If it fails here, the next step fails too
    // and reports the reason.
    if directory.create().is_ok_and(|made| made) {
        for (before, path) in left {
            if before.is_some() && identity(&path) == before {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// The store's path with the suffix of a file that `SQLite` or layermark adds.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// Device and inode of a file.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// Reads the format of an existing file; 0 if it has none yet.
pub(crate) async fn look(path: &Path) -> Result<i64, StoreError> {
    let mut connection = connect(path, "mode=ro").await?;
    let found = format(&mut connection, path).await?;
    let closed = connection.close().await;
    closed.map_err(|e| from_sqlx(e, path.to_owned()))?;
    Ok(found)
}

/// The format of the store behind a connection; 0 if it has none yet.
pub(crate) async fn format(connection: &mut AnyConnection, path: &Path) -> Result<i64, StoreError> {
    let sql = |e| from_sqlx(e, path.to_owned());
    let tables = match connection.backend_name() {
        "SQLite" => "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name",
        _ => {
            "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
        }
    };
    let tables: Vec<String> = sqlx::query_scalar(tables)
        .fetch_all(&mut *connection)
        .await
        .map_err(sql)?;
    let has = |name: &str| tables.iter().any(|t| t == name);
    let mut found = 0;
    if has(FORMATS) {
        let newest: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
            .fetch_one(connection)
            .await
            .map_err(sql)?;
        found = newest.unwrap_or(0);
    }
    // Another program's database may use the same library to record its format.
    let stranger = tables
        .iter()
        .find(|t| t.as_str() != FORMATS && !has("runs"));
    if let Some(table) = stranger.or_else(|| tables.first().filter(|_| !has(FORMATS))) {
        return Err(StoreError::Foreign {
            path: path.to_owned(),
            table: table.clone(),
        });
    }
    let (path, known) = (path.to_owned(), FORMAT);
    match found {
        0 | EARLIER | FORMAT => Ok(found),
        _ if found < FORMAT => Err(StoreError::Older { path, found, known }),
        _ => Err(StoreError::Newer { path, found, known }),
    }
}

/// Creates the tables of a new store, or converts those of the `found` format.
pub(crate) async fn migrate(
    connection: &mut AnyConnection,
    found: i64,
    path: &Path,
) -> Result<(), StoreError> {
    if found == FORMAT {
        return Ok(());
    }
    let is_sqlite = connection.backend_name() == "SQLite";
    let sql = if found == EARLIER {
        check_idle(connection, is_sqlite, path).await?;
        AssertSqlSafe(conversion(is_sqlite)).into_sql_str()
    } else {
        TABLES.into_sql_str()
    };
    let step = Migration::new(FORMAT, "runs".into(), MigrationType::Simple, sql, false);
    let mut migrator = Migrator::with_migrations(vec![step]);
    migrator.set_ignore_missing(true);
    let mut tries = 0;
    loop {
        let error = match migrator.run(&mut *connection).await {
            Ok(()) => return Ok(()),
            Err(e) => e,
        };
        tries += 1;
        if is_sqlite {
            // The transaction that a full disk kept from committing. Otherwise the next attempt
            // would consider it done.
            let _ = sqlx::query("ROLLBACK").execute(&mut *connection).await;
        }
        match &error {
            // `SQLite` does not lock migrations. If two processes create the same store, one fails,
            // and finds everything done on its next attempt.
            MigrateError::Execute(_) | MigrateError::ExecuteMigration(..) if tries < TRIES => {
                std::thread::sleep(Duration::from_millis(25));
            }
            _ => return Err(of_migration(error, path)),
        }
    }
}

/// Refuses a store in which an earlier layermark is at work: after the conversion, it could store no
/// more trials.
async fn check_idle(
    connection: &mut AnyConnection,
    is_sqlite: bool,
    path: &Path,
) -> Result<(), StoreError> {
    let running: Vec<String> = sqlx::query_scalar("SELECT id FROM runs WHERE status = 'running'")
        .fetch_all(&mut *connection)
        .await
        .map_err(|e| from_sqlx(e, path.to_owned()))?;
    for run in running {
        let held = if is_sqlite {
            let held = alive::Locks::open(path).and_then(|locks| locks.hold(&run));
            matches!(held, Ok(false))
        } else {
            let held = server::is_held(connection, &run).await;
            held.map_err(|e| e.at(path))?
        };
        if held {
            let path = path.to_owned();
            return Err(StoreError::AtWork { run, path });
        }
    }
    Ok(())
}

pub(crate) fn of_migration(error: MigrateError, path: &Path) -> StoreError {
    match error {
        MigrateError::Execute(e) | MigrateError::ExecuteMigration(e, _) => {
            from_sqlx(e, path.to_owned())
        }
        other => StoreError::Corrupt {
            path: path.to_owned(),
            reason: other.to_string(),
        },
    }
}
