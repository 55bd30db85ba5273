//! Converts database errors into errors that a user can act on.

use std::{
    io,
    path::{Path, PathBuf},
};

use rustix::process::{Resource, getrlimit};
use sqlx::sqlite::SqliteError;

use crate::{StoreError, path::is_server, server};

/// An error without the path of its store.
#[derive(Debug)]
pub(crate) enum Inner {
    Sql(sqlx::Error),
    NotFound(String),
    NoImport(String),
    Ambiguous(String, String),
    Value(String, String),
}

impl From<sqlx::Error> for Inner {
    fn from(e: sqlx::Error) -> Self {
        Self::Sql(e)
    }
}

impl Inner {
    pub(crate) fn at(self, path: &Path) -> StoreError {
        let path = path.to_owned();
        match self {
            Self::Sql(e) => from_sqlx(e, path),
            Self::NotFound(id) => StoreError::NotFound { id, path },
            Self::NoImport(id) => StoreError::NoImport { id, path },
            Self::Ambiguous(id, examples) => StoreError::Ambiguous { id, path, examples },
            Self::Value(what, reason) => StoreError::Value { path, what, reason },
        }
    }
}

/// A write failed for a reason other than a full disk.
const IOERR_WRITE: i64 = 778;
/// The index of the write-ahead log could not grow. On a full disk this is the first error.
const IOERR_SHMSIZE: i64 = 4874;

/// Converts a database error.
pub(crate) fn from_sqlx(error: sqlx::Error, path: PathBuf) -> StoreError {
    match &error {
        sqlx::Error::Database(e) if e.try_downcast_ref::<SqliteError>().is_some() => {
            from_sqlite(error, path)
        }
        _ if is_server(&path) => from_postgres(error, path),
        _ => StoreError::Database {
            path,
            source: error,
        },
    }
}

/// Converts by the codes of <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn from_postgres(error: sqlx::Error, path: PathBuf) -> StoreError {
    let database = |source| StoreError::Database {
        path: path.clone(),
        source,
    };
    let said = match &error {
        sqlx::Error::Database(said) => said,
        // rustls rejects the certificate.
        sqlx::Error::Io(e) if e.kind() == io::ErrorKind::InvalidData => {
            let reason = e.to_string();
            return StoreError::Tls { path, reason };
        }
        sqlx::Error::Io(e) => {
            let reason = e.to_string();
            return StoreError::Unreachable { path, reason };
        }
        sqlx::Error::Tls(e) => {
            let reason = e.to_string();
            return StoreError::Tls { path, reason };
        }
        sqlx::Error::Protocol(reason) => {
            let reason = format!("unexpected reply of a PostgreSQL server: {reason}");
            return StoreError::Unreachable { path, reason };
        }
        _ => return database(error),
    };
    let reason = said.message().to_owned();
    match said.code().as_deref() {
        Some(code) if server::is_gone(code) => StoreError::Unreachable { path, reason },
        Some("28000" | "28P01") => StoreError::Login { path, reason },
        Some("3D000") => StoreError::NoDatabase { path, reason },
        Some("42501") => StoreError::Denied { path, reason },
        Some("25006") => StoreError::ReadOnly { path, reason },
        Some("53100") => StoreError::Full { path },
        Some("55P03") => StoreError::Locked { path },
        _ => database(error),
    }
}

/// Converts by the codes of <https://sqlite.org/rescode.html>.
fn from_sqlite(error: sqlx::Error, path: PathBuf) -> StoreError {
    let Some(code) = sqlite_code(&error) else {
        return StoreError::Database {
            path,
            source: error,
        };
    };
    let reason = error
        .as_database_error()
        .map(|e| e.message().to_owned())
        .unwrap_or_default();
    if [IOERR_WRITE, IOERR_SHMSIZE].contains(&code)
        && let Some(limit) = getrlimit(Resource::Fsize).current
    {
        return StoreError::Limit { path, limit };
    }
    if code == IOERR_SHMSIZE {
        return StoreError::Full { path };
    }
    // The low byte is the primary code; the other bits are details.
    match code & 0xff {
        5 | 6 => StoreError::Locked { path },
        8 | 14 => StoreError::ReadOnly { path, reason },
        11 | 26 => StoreError::Corrupt { path, reason },
        13 => StoreError::Full { path },
        _ => StoreError::Database {
            path,
            source: error,
        },
    }
}

pub(crate) fn sqlite_code(error: &sqlx::Error) -> Option<i64> {
    error.as_database_error()?.code()?.parse().ok()
}
