//! The table, and the transactions on it.

use std::{io, path::Path};

use rusqlite::{Connection, OpenFlags, ffi, params};

use super::{
    figures::DbTrial,
    params::{BATCH, DbOp, DbParams, Journal},
    vfs::{self, Counted},
};
use crate::{ProbeError, clock::monotonic_ns, error::without_shared_mappings, run::drive::Step};

/// A row counts its changes, so that a lost change is detected.
const TABLE: &str =
    "CREATE TABLE rows (id INTEGER PRIMARY KEY, changes INTEGER NOT NULL, data BLOB NOT NULL)";
const CHANGE: &str = "UPDATE rows SET changes = changes + 1, data = ?2 WHERE id = ?1";
const INSERT: &str = "INSERT OR REPLACE INTO rows (id, changes, data) \
    VALUES (?1, 1 + coalesce((SELECT changes FROM rows WHERE id = ?1), -1), ?2)";
const READ: &str = "SELECT data FROM rows WHERE id = ?1";

/// An open database.
pub struct Table {
    db: Connection,
    p: DbParams,
    /// Data of every row.
    data: Vec<u8>,
    random: u64,
    /// Number of changed rows, including lead-ins.
    pub changed: u64,
    /// Work since it was last read.
    pub done: DbTrial,
}

impl Table {
    /// Makes the database, in the journal mode of the point.
    pub fn make(path: &Path, p: &DbParams, seed: u64) -> Result<Self, ProbeError> {
        if !vfs::register() {
            return Err(ProbeError::new("db: SQLite knows no file system here"));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let fail = |e: rusqlite::Error| error("make", path, &e);
        let db = Connection::open_with_flags_and_vfs(path, flags, vfs::NAME).map_err(fail)?;
        let wanted = match p.journal {
            Journal::Rollback => "delete",
            Journal::Wal => "wal",
        };
        let set = format!("PRAGMA journal_mode = {wanted}");
        let got: String = db.query_row(&set, [], |row| row.get(0)).map_err(fail)?;
        if got != wanted {
            let message = format!("db: SQLite has no write-ahead log here: it stays with `{got}`");
            let hint = without_shared_mappings("use a rollback journal: --journal rollback");
            return Err(ProbeError::new(message).hint(hint));
        }
        db.execute(TABLE, []).map_err(fail)?;
        let mut table = Self {
            db,
            p: p.clone(),
            data: vec![0x5a; p.row_size as usize],
            random: seed | 1,
            changed: 0,
            done: DbTrial::default(),
        };
        table.fill().map_err(fail)?;
        let set = format!("PRAGMA synchronous = {}", p.synchronous.id());
        table.db.execute_batch(&set).map_err(fail)?;
        Ok(table)
    }

    /// Inserts all rows in one transaction.
    fn fill(&mut self) -> rusqlite::Result<()> {
        let all = self.db.transaction()?;
        {
            let mut insert = all.prepare(INSERT)?;
            for id in 0..self.p.rows {
                insert.execute(params![id.cast_signed(), self.data])?;
            }
        }
        all.commit()?;
        self.db.set_prepared_statement_cache_capacity(8);
        Ok(())
    }

    /// A random row with uniform distribution (xorshift64).
    fn any_row(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % self.p.rows
    }

    fn change(&mut self) -> rusqlite::Result<()> {
        let id = self.any_row();
        let mut change = self.db.prepare_cached(CHANGE)?;
        self.changed += change.execute(params![id.cast_signed(), self.data])? as u64;
        Ok(())
    }

    fn insert(&mut self) -> rusqlite::Result<()> {
        let first = self.any_row();
        self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for id in (first..first + BATCH).map(|id| id % self.p.rows) {
            let mut insert = self.db.prepare_cached(INSERT)?;
            insert.execute(params![id.cast_signed(), self.data])?;
        }
        self.db.prepare_cached("COMMIT")?.execute([])?;
        self.changed += BATCH;
        Ok(())
    }

    fn read(&mut self) -> rusqlite::Result<()> {
        let id = self.any_row();
        let mut read = self.db.prepare_cached(READ)?;
        let length = read.query_row([id.cast_signed()], |row| {
            Ok(row.get_ref(0)?.as_blob()?.len())
        })?;
        if length == self.data.len() {
            Ok(())
        } else {
            Err(rusqlite::Error::InvalidQuery)
        }
    }

    /// Runs a transaction and counts the work of `SQLite`.
    fn transact(&mut self, i: u64) -> rusqlite::Result<()> {
        let reads = match self.p.op {
            DbOp::Read => true,
            DbOp::Mixed => i % 5 != 4,
            DbOp::Commit | DbOp::InsertBatch => false,
        };
        if reads {
            return self.read();
        }
        let (before, since) = (Counted::now(), monotonic_ns());
        match self.p.op {
            DbOp::InsertBatch => self.insert()?,
            _ => self.change()?,
        }
        let after = Counted::now();
        self.done.commits += 1;
        self.done.committed_bytes += self.p.rows_an_op() * self.p.row_size;
        self.done.syncs += after.syncs - before.syncs;
        self.done.written_bytes += after.written - before.written;
        // With a log, only a checkpoint writes the table itself.
        if self.p.journal == Journal::Wal && after.table_writes > before.table_writes {
            self.done.checkpoints += 1;
            let took = monotonic_ns() - since;
            self.done.checkpoint_ns = self.done.checkpoint_ns.max(Some(took));
        }
        Ok(())
    }

    /// Checks that the database is intact and has every change. Returns the number of rows checked.
    pub fn check(&self) -> Result<u64, String> {
        let text = |e: rusqlite::Error| e.to_string();
        let whole: String = self
            .db
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .map_err(text)?;
        if whole != "ok" {
            return Err(whole);
        }
        let (rows, changes): (i64, i64) = self
            .db
            .query_row("SELECT count(*), sum(changes) FROM rows", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .map_err(text)?;
        let wanted = (self.p.rows, self.changed);
        if (rows as u64, changes as u64) == wanted {
            return Ok(wanted.0);
        }
        Err(format!(
            "it has {rows} rows and {changes} changes instead of {} and {}",
            wanted.0, wanted.1
        ))
    }
}

impl Step for Table {
    fn run(&mut self, i: u64) -> io::Result<()> {
        self.transact(i).map_err(io::Error::other)
    }
}

/// An error of `SQLite`, with the path, and the `errno` that the measuring process acts on.
pub(super) fn error(doing: &str, path: &Path, error: &rusqlite::Error) -> ProbeError {
    let code = error.sqlite_error().map_or(0, |e| e.extended_code);
    if matches!(
        code,
        ffi::SQLITE_IOERR_SHMMAP | ffi::SQLITE_IOERR_SHMOPEN | ffi::SQLITE_IOERR_SHMSIZE
    ) {
        let path = path.display();
        return ProbeError::new(format!(
            "db: cannot {doing} {path}: SQLite's write-ahead log needs a shared mapping of a file, and none can be made \
             here ({error})"
        ))
        .hint(without_shared_mappings("use a rollback journal: --journal rollback"));
    }
    let errno = match code {
        ffi::SQLITE_FULL => Some(libc::ENOSPC),
        // Writes may be lost. Others, such as a log that needs shared memory, fail one point.
        ffi::SQLITE_IOERR_WRITE
        | ffi::SQLITE_IOERR_FSYNC
        | ffi::SQLITE_IOERR_DIR_FSYNC
        | ffi::SQLITE_IOERR_TRUNCATE
        | ffi::SQLITE_IOERR_CLOSE => Some(libc::EIO),
        _ => None,
    };
    let hint = match errno {
        Some(libc::ENOSPC) => {
            "make room or choose another place with --dir; `df -h` shows the free space"
        }
        _ => "see whether the same works on the host's own disk: layermark db -l native",
    };
    ProbeError {
        errno,
        ..ProbeError::new(format!("db: cannot {doing} {}: {error}", path.display()))
    }
    .hint(hint)
}
