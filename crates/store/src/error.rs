use std::path::{Path, PathBuf};

use sqlx::postgres::PgConnectOptions;

use crate::{
    connect::EARLIER,
    path::{is_server, option},
};

/// An error of a store. The failed call changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Neither `XDG_DATA_HOME` nor `HOME` gives a place for runs.
    #[error("no place to keep runs: neither XDG_DATA_HOME nor HOME is an absolute path")]
    NoHome,
    /// An unsupported kind of store.
    #[error("`{scheme}://` stores are not supported")]
    Unsupported {
        /// The part of the address before `://`.
        scheme: String,
    },
    /// An invalid address of a server.
    #[error("`{path}` is not the address of a store: {reason}", path = path.display())]
    Address {
        /// The address, without its password.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The server does not answer.
    #[error("the store {path} cannot be reached: {reason}", path = path.display())]
    Unreachable {
        /// The store.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The connection to the server was lost during a run and could not be restored.
    #[error("the connection to the store {path} was lost and could not be restored: {reason}", path = path.display())]
    Lost {
        /// The run.
        run: String,
        /// The store.
        path: PathBuf,
        /// The error of the last attempt.
        reason: String,
    },
    /// The server does not support TLS, or its certificate is not accepted.
    #[error("the store {path} cannot be reached by TLS: {reason}", path = path.display())]
    Tls {
        /// The store.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A wrong password, or a user who may not connect.
    #[error("the store {path} refuses the user: {reason}", path = path.display())]
    Login {
        /// The store.
        path: PathBuf,
        /// What the server said.
        reason: String,
    },
    /// The server has no database of this name.
    #[error("the store {path} is not there: {reason}", path = path.display())]
    NoDatabase {
        /// The store.
        path: PathBuf,
        /// What the server said.
        reason: String,
    },
    /// The user may connect, but not use the tables.
    #[error("the store {path} may not be used: {reason}", path = path.display())]
    Denied {
        /// The store.
        path: PathBuf,
        /// What the server said.
        reason: String,
    },
    /// A store written by an older layermark, in a format that is not converted, or not on a server
    /// that is only read.
    #[error("the store {path} was written by an older layermark (format {found}, this one reads {known})", path = path.display())]
    Older {
        /// The store.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The format of this version.
        known: i64,
    },
    /// The directory of the store could not be created or used.
    #[error("the store {path} cannot be opened: {source}", path = path.display())]
    Directory {
        /// The store.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Other users could create files next to the store, or redirect its path.
    #[error("cannot keep a store in {dir}: {by} can be changed by other users", dir = parent(path).display(), by = by.display())]
    Exposed {
        /// The store.
        path: PathBuf,
        /// Its directory, or a directory or symbolic link on the way to it.
        by: PathBuf,
    },
    /// A file next to the store that neither `SQLite` nor layermark created.
    #[error("the store {path} cannot be opened: {file} was put there by another user, or is not a file", path = path.display(), file = file.display())]
    Planted {
        /// The store.
        path: PathBuf,
        /// The file next to it.
        file: PathBuf,
    },
    /// Written by a newer layermark.
    #[error("the store {path} was written by a newer layermark (format {found}, this one knows up to {known})", path = path.display())]
    Newer {
        /// The store.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format known here.
        known: i64,
    },
    /// Not an `SQLite` file, or a damaged one.
    #[error("the store {path} is damaged or not a store: {reason}", path = path.display())]
    Corrupt {
        /// The store.
        path: PathBuf,
        /// What `SQLite` said.
        reason: String,
    },
    /// A valid `SQLite` file of another program.
    #[error("{path} is a database of another program: it has a table `{table}` and no layermark runs", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// A table in it.
        table: String,
    },
    /// The disk below the store is full.
    #[error("the disk is full: {path} could not be written", path = path.display())]
    Full {
        /// The store.
        path: PathBuf,
    },
    /// A file of the store may not grow.
    #[error("the store {path} could not be written: no file may have more than {limit} bytes here (ulimit -f)", path = path.display())]
    Limit {
        /// The store.
        path: PathBuf,
        /// Bytes that a file may have.
        limit: u64,
    },
    /// The store or its directory cannot be written.
    #[error("the store {path} cannot be written: {reason}", path = path.display())]
    ReadOnly {
        /// The store.
        path: PathBuf,
        /// What `SQLite` said.
        reason: String,
    },
    /// Trials are in the write-ahead log next to the store, which cannot be read there.
    #[error(
        "the store {path} was not closed, and its write-ahead log {path}-wal cannot be read there: {reason}",
        path = path.display()
    )]
    Log {
        /// The store.
        path: PathBuf,
        /// What `SQLite` said.
        reason: String,
    },
    /// The store's file was deleted while it was open, and its contents could not be written to a
    /// new one.
    #[error(
        "the store {path} was deleted while a run wrote to it, and its contents cannot be written to a new one: {reason}",
        path = path.display()
    )]
    Gone {
        /// The store.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Another process works on the run.
    #[error("another process is at work on run {run}, in the store {path}", path = path.display())]
    AtWork {
        /// The run.
        run: String,
        /// The store.
        path: PathBuf,
    },
    /// Another process locked the store for longer than the waiting time.
    #[error("another process keeps the store {path} locked", path = path.display())]
    Locked {
        /// The store.
        path: PathBuf,
    },
    /// No run of this id.
    #[error("no run `{id}` in the store {path}", path = path.display())]
    NotFound {
        /// The requested id.
        id: String,
        /// The store.
        path: PathBuf,
    },
    /// The id of an import, where a run was asked for.
    #[error("`{id}` in the store {path} is an import, and not a run", path = path.display())]
    IsImport {
        /// The requested id.
        id: String,
        /// The store.
        path: PathBuf,
    },
    /// No import of this id.
    #[error("no import `{id}` in the store {path}", path = path.display())]
    NoImport {
        /// The requested id.
        id: String,
        /// The store.
        path: PathBuf,
    },
    /// A prefix of more than one id.
    #[error("`{id}` is the beginning of more than one run or import: {examples}")]
    Ambiguous {
        /// The requested prefix.
        id: String,
        /// The store.
        path: PathBuf,
        /// Some of the ids.
        examples: String,
    },
    /// A stored value that cannot be read back, or a value that cannot be stored.
    #[error("the store {path}: {what}: {reason}", path = path.display())]
    Value {
        /// The store.
        path: PathBuf,
        /// Table and column.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Any other error of the database.
    #[error("the store {path}: {source}", path = path.display())]
    Database {
        /// The store.
        path: PathBuf,
        /// The error.
        source: sqlx::Error,
    },
}

impl StoreError {
    /// A hint: what to do about it, with a command where one helps.
    pub fn hint(&self) -> Option<String> {
        self.hint_to_go_on("layermark run --resume")
    }

    /// The same for a run that goes on by this command, which is followed by its id.
    pub fn hint_to_go_on(&self, resume: &str) -> Option<String> {
        let aside = |path: &Path| {
            format!(
                "set it aside and start a new one: mv {0} {0}.broken",
                path.display()
            )
        };
        Some(match self {
            Self::NoHome => "say where: export XDG_DATA_HOME=/var/lib".into(),
            Self::Unsupported { .. } | Self::Address { .. } => {
                "write a path, or postgres://USER@HOST/DATABASE".into()
            }
            Self::Unreachable { path, .. } => {
                format!("see whether it answers: pg_isready{}", options(path, false))
            }
            Self::Lost { run, path, .. } => format!(
                "once it answers (pg_isready{}), continue: {resume} {run}{}",
                options(path, false),
                option(path)
            ),
            Self::Tls { .. } => "name who signed its certificate: ?sslrootcert=FILE; or go without TLS on a network \
                you trust: ?sslmode=disable"
                .into(),
            Self::Login { path, .. } => format!(
                "try it: psql{}; the password is read from PGPASSWORD, or from ~/.pgpass (chmod 600)",
                options(path, true)
            ),
            Self::NoDatabase { path, .. } => format!("make it: createdb{}", options(path, true)),
            Self::Denied { path, .. } => format!(
                "let the tables' owner allow it; or use a database of your own: createdb{}-2",
                options(path, true)
            ),
            Self::Older { found, .. } if *found == EARLIER => {
                "use that layermark; the next run that this one stores there brings it up to date".into()
            }
            Self::Older { path, .. } | Self::Newer { path, .. } | Self::Foreign { path, .. }
                if is_server(path) =>
            format!(
                "keep these runs in another database: createdb{}-2",
                options(path, true)
            ),
            Self::Full { path } | Self::ReadOnly { path, .. } if is_server(path) => {
                format!("repair the server; then continue: {resume} last{}", option(path))
            }
            Self::Locked { path } if is_server(path) => format!(
                "see which: psql{} -c 'SELECT * FROM pg_stat_activity'",
                options(path, true)
            ),
            Self::Directory { path, .. } | Self::ReadOnly { path, .. } => format!(
                "see who may write there: ls -ld {}; or keep runs elsewhere: export XDG_DATA_HOME=DIR",
                parent(path).display()
            ),
            Self::Limit { path, .. } => format!(
                "allow more: ulimit -f unlimited; then continue: {resume} last{}",
                option(path)
            ),
            Self::Exposed { .. } => {
                "keep runs in a directory that only you and root can change: --store ~/runs.db".into()
            }
            Self::Planted { file, .. } => format!(
                "see whose it is, and remove it: ls -l {0}; rm {0}",
                shell_words::quote(&file.to_string_lossy())
            ),
            Self::Older { path, .. } | Self::Newer { path, .. } => format!(
                "use that layermark, or start a new store: mv {0} {0}.kept",
                path.display()
            ),
            Self::Corrupt { path, .. } => aside(path),
            Self::IsImport { id, path } => {
                format!("compare a run with it: layermark report last --beside {id}{}", option(path))
            }
            Self::Foreign { .. } => "keep runs elsewhere: export XDG_DATA_HOME=DIR".into(),
            Self::Full { path } => format!(
                "make room: df -h {}; then continue: {resume} last{}",
                path.parent().unwrap_or(Path::new(".")).display(),
                option(path)
            ),
            Self::Log { path, .. } => format!(
                "copy both to where only you may write: cp {0} {0}-wal ~ && layermark history --store ~/{1}",
                path.display(),
                path.file_name().unwrap_or_default().display()
            ),
            Self::Gone { path, .. } => format!(
                "make room and keep the directory: df -h {}",
                path.parent().unwrap_or(Path::new(".")).display()
            ),
            Self::AtWork { path, .. } => format!("wait for its end: layermark history{}", option(path)),
            Self::Locked { path } => format!("see which: fuser -v {}", path.display()),
            // Nothing was measured, so there is nothing to list.
            Self::NotFound { id, path } if id == "last" => {
                format!("measure one: layermark run{}", option(path))
            }
            Self::NotFound { path, .. } | Self::NoImport { path, .. } | Self::Ambiguous { path, .. } => {
                format!("list them: layermark history{}", option(path))
            }
            Self::Value { .. } | Self::Database { .. } => return None,
        })
    }

    /// Whether the key in a table already exists.
    pub(crate) fn is_duplicate(&self) -> bool {
        matches!(self, Self::Database { source: sqlx::Error::Database(e), .. } if e.is_unique_violation())
    }

    /// Whether a retry may succeed: the server may answer again, or release a run that this process
    /// held through a lost connection.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::AtWork { .. })
    }

    /// Whether this is a usage error.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NotFound { .. }
                | Self::NoImport { .. }
                | Self::IsImport { .. }
                | Self::Ambiguous { .. }
                | Self::AtWork { .. }
                | Self::Exposed { .. }
                | Self::Address { .. }
                | Self::Unsupported { .. }
        )
    }

    pub(crate) fn closed(path: &Path) -> Self {
        Self::Database {
            path: path.to_owned(),
            source: sqlx::Error::PoolClosed,
        }
    }
}

/// The directory of a store.
fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// The options of `psql` and similar programs for the server of an address.
fn options(shown: &Path, database: bool) -> String {
    let Ok(to) = shown.to_string_lossy().parse::<PgConnectOptions>() else {
        return String::new();
    };
    let host = match to.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => to.get_host().to_owned(),
    };
    let mut words = vec!["-h".into(), host, "-p".into(), to.get_port().to_string()];
    if database {
        words.extend(["-U".into(), to.get_username().to_owned()]);
        words.push(to.get_database().unwrap_or(to.get_username()).to_owned());
    }
    format!(" {}", shell_words::join(words))
}
