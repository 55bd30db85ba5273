use std::{
    fs, io,
    path::{Path, PathBuf},
};

use layermark_model::witness::{Found, Stamp};
use rusqlite::{Connection, params};

use crate::witness::{Site, Writer, Writing};

/// A row of an `SQLite` database for each record, one transaction each.
pub struct Sqlite {
    /// A write-ahead log, or a journal that is deleted at the commit.
    pub wal: bool,
}

impl Writer for Sqlite {
    fn id(&self) -> &'static str {
        if self.wal { "sqlite-wal" } else { "sqlite" }
    }

    fn about(&self) -> &'static str {
        if self.wal {
            "a transaction of SQLite with a write-ahead log, synchronous = full"
        } else {
            "a transaction of SQLite with a rollback journal, synchronous = extra"
        }
    }

    fn slots(&self) -> Option<u64> {
        None
    }

    /// A rollback journal is committed by the removal of its name.
    fn syncs_directory(&self) -> bool {
        !self.wal
    }

    fn prepare(&self, site: &Site) -> io::Result<Box<dyn Writing>> {
        let path = path(site);
        let made = || {
            let db = Connection::open(&path)?;
            // With `full` and a rollback journal a power cut may undo the last commit: the directory
            // is not synced after the journal was deleted. `extra` does that (sqlite.org/pragma.html).
            let (journal, synchronous) = if self.wal {
                ("wal", "full")
            } else {
                ("delete", "extra")
            };
            let got: String =
                db.query_row(&format!("PRAGMA journal_mode = {journal}"), [], |row| {
                    row.get(0)
                })?;
            if got != journal {
                return Ok(Err(got));
            }
            db.execute_batch(&format!(
                "PRAGMA synchronous = {synchronous};
                 CREATE TABLE records (block INTEGER PRIMARY KEY, data BLOB NOT NULL)"
            ))?;
            Ok(Ok(db))
        };
        match made().map_err(words)? {
            Ok(db) => Ok(Box::new(Committing(db))),
            Err(got) => Err(io::Error::other(format!(
                "SQLite has no write-ahead log here: it stays with `{got}`"
            ))),
        }
    }

    /// `SQLite` recovers the database when it is opened, as an application would.
    fn look(&self, site: &Site) -> io::Result<Vec<Found>> {
        let path = path(site);
        // SQLite would make an absent one, and says of no error which it is.
        fs::File::open(&path)?;
        let rows = || {
            let db = Connection::open(&path)?;
            let whole: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
            if whole != "ok" {
                return Ok(Err(whole));
            }
            let mut all = db.prepare("SELECT block, data FROM records")?;
            let rows = all.query_map([], |row| {
                let (block, data): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
                Ok(Found {
                    block: block.cast_unsigned(),
                    content: site.content(&data),
                })
            })?;
            rows.collect::<Result<_, _>>().map(Ok)
        };
        let damaged = |why| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("integrity_check: {why}"),
            )
        };
        rows().map_err(words)?.map_err(damaged)
    }
}

fn path(site: &Site) -> PathBuf {
    site.dir.join(Path::new("records.db"))
}

#[allow(clippy::needless_pass_by_value, reason = "used in `map_err`")]
fn words(e: rusqlite::Error) -> io::Error {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, SystemIoFailure, Unknown};
    // Unknown: the statement is wrong, as it is when its table is gone.
    let kind = match e.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase | SystemIoFailure | Unknown) => {
            io::ErrorKind::InvalidData
        }
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, format!("SQLite: {e}"))
}

struct Committing(Connection);

impl Writing for Committing {
    fn write(&mut self, stamp: Stamp, record: &[u8]) -> io::Result<()> {
        let insert = "INSERT INTO records (block, data) VALUES (?1, ?2)";
        let block = stamp.block.cast_signed();
        self.0
            .execute(insert, params![block, record])
            .map_err(words)?;
        Ok(())
    }
}
