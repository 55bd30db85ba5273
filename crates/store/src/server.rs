//! A store on a `PostgreSQL` server, shared by many machines.
//!
//! A process holds an advisory lock for the run it works on. The server releases it when the
//! connection ends. After 15 s of silence the server checks whether the client is still alive.

use std::{path::PathBuf, time::Duration};

use sqlx::{
    AnyConnection, ConnectOptions, any::AnyConnectOptions, migrate::Migrate,
    postgres::PgConnectOptions,
};

use crate::{
    StoreError,
    alive::hash,
    connect::{FORMAT, format, migrate, of_migration},
    database::{Inner, from_sqlx},
    path,
    reading::memory,
};

/// Time limit for the server's first answer. A network that drops packets reports nothing.
const ANSWER: Duration = Duration::from_secs(10);

/// Time limit for a write. After that its connection counts as lost.
const WRITE: Duration = Duration::from_secs(30);

/// Time between two attempts to reconnect.
pub(crate) const PAUSE: Duration = Duration::from_millis(250);

/// Sent once per connection. A client that lost its power is detected after 30 s, before a run
/// gives up on its server.
const SETTINGS: &str = "SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5;
    SET tcp_keepalives_count = 3; SET client_min_messages = warning";

/// The address of a store on a server.
pub(crate) struct Server {
    options: AnyConnectOptions,
    /// The address without its password.
    pub shown: PathBuf,
}

impl Server {
    pub(crate) fn at(url: &str) -> Result<Self, StoreError> {
        let shown = path::shown(url);
        let wrong = |e: sqlx::Error| StoreError::Address {
            path: shown.clone(),
            reason: match e {
                sqlx::Error::Configuration(e) => e.to_string(),
                other => other.to_string(),
            },
        };
        // Checks the parameters now, not when the server is reached.
        url.parse::<PgConnectOptions>().map_err(wrong)?;
        let options = url.parse::<AnyConnectOptions>().map_err(wrong)?;
        Ok(Self { options, shown })
    }

    /// Opens the store, and creates its tables if there are none.
    pub(crate) async fn open(&self) -> Result<AnyConnection, StoreError> {
        let mut connection = self.connect().await?;
        let found = format(&mut connection, &self.shown).await?;
        migrate(&mut connection, found, &self.shown).await?;
        Ok(connection)
    }

    /// Opens the store for reading; writes nothing. A database without tables is an empty store.
    pub(crate) async fn open_read(&self) -> Result<AnyConnection, StoreError> {
        let mut connection = self.connect().await?;
        let mut found = format(&mut connection, &self.shown).await?;
        if found < FORMAT {
            // Another process may be creating the tables: it holds this lock meanwhile.
            let waited = async {
                connection.lock().await?;
                connection.unlock().await
            };
            waited.await.map_err(|e| of_migration(e, &self.shown))?;
            found = format(&mut connection, &self.shown).await?;
        }
        match found {
            0 => memory(&self.shown).await,
            FORMAT => Ok(connection),
            found => Err(StoreError::Older {
                path: self.shown.clone(),
                found,
                known: FORMAT,
            }),
        }
    }

    pub(crate) async fn connect(&self) -> Result<AnyConnection, StoreError> {
        let sql = |e| from_sqlx(e, self.shown.clone());
        let connected = async {
            let mut connection = self.options.connect().await?;
            sqlx::raw_sql(SETTINGS).execute(&mut connection).await?;
            Ok(connection)
        };
        within(ANSWER, connected).await.map_err(sql)
    }
}

async fn within<T>(
    time: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let late = || {
        let text = format!("no answer within {} s", time.as_secs());
        sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text))
    };
    let done = tokio::time::timeout(time, work).await;
    done.unwrap_or_else(|_| Err(late()))
}

/// Limits the time of a write, in case the server does not answer.
pub(crate) async fn write(work: impl Future<Output = Result<(), Inner>>) -> Result<(), Inner> {
    let mut other = None;
    let work = async {
        match work.await {
            Err(Inner::Sql(e)) => Err(e),
            done => {
                other = done.err();
                Ok(())
            }
        }
    };
    within(WRITE, work).await?;
    other.map_or(Ok(()), Err)
}

/// Locks the run until the connection ends or [`release`]. False if another process works on it.
pub(crate) async fn hold(c: &mut AnyConnection, run: &str) -> Result<bool, Inner> {
    let held = sqlx::query_scalar("SELECT pg_try_advisory_lock($1)")
        .bind(hash(run).cast_signed())
        .fetch_one(c)
        .await?;
    Ok(held)
}

/// Releases the run.
pub(crate) async fn release(c: &mut AnyConnection, run: &str) -> Result<(), Inner> {
    sqlx::query("SELECT pg_advisory_unlock($1)")
        .bind(hash(run).cast_signed())
        .execute(c)
        .await?;
    Ok(())
}

/// Whether a process works on the run.
pub(crate) async fn is_held(c: &mut AnyConnection, run: &str) -> Result<bool, Inner> {
    let key = hash(run);
    let locks: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_locks
         WHERE locktype = 'advisory' AND objsubid = 1 AND granted
           AND classid::bigint = $1 AND objid::bigint = $2
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
    .bind((key >> 32).cast_signed())
    .bind((key & 0xffff_ffff).cast_signed())
    .fetch_one(c)
    .await?;
    Ok(locks > 0)
}

/// Whether an error code means that the connection is lost or cannot be made now. Too many
/// connections, or the server shuts down, has crashed, or is starting
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
pub(crate) fn is_gone(code: &str) -> bool {
    code.starts_with("08") || matches!(code, "53300" | "57P01" | "57P02" | "57P03" | "57P05")
}
