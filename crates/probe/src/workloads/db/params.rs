//! Parameters of the workload `db`.

use layermark_model::{
    Direction, Divided, Meaning, PointError, Quantity, Target, TurnCost, Unit, format_size,
};
use serde::{Deserialize, Serialize};

use super::figures;
use crate::{
    limits,
    param::{self, Means, Params, Values, words},
};

words! {
    /// What a transaction does.
    pub enum DbOp {
        /// Changes one row.
        Commit = "commit",
        /// Inserts 100 rows that replace old ones.
        InsertBatch = "insert-batch",
        /// Reads one row.
        Read = "read",
        /// Reads a row in four of five transactions; changes one in the fifth.
        Mixed = "mixed",
    }
}

words! {
    /// How a transaction is kept atomic across a crash.
    pub enum Journal {
        /// The old pages are saved until the commit.
        Rollback = "rollback",
        /// The new pages are appended to a log.
        Wal = "wal",
    }
}

words! {
    /// `PRAGMA synchronous`: when `SQLite` flushes.
    pub enum Synchronous {
        /// At each commit.
        Full = "full",
        /// With `wal` only at a checkpoint.
        Normal = "normal",
        /// Never.
        Off = "off",
    }
}

/// Rows of one batch.
pub const BATCH: u64 = 100;
/// Approximate size of the log at a checkpoint, bytes: 1,000 pages of 4 KiB.
const LOG: u64 = 4 << 20;
/// Maximum overhead of `SQLite` per row, bytes.
const ROW_OVERHEAD: u64 = 64;

type Row = param::Row<DbParams>;

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DbParams {
    pub op: DbOp,
    pub journal: Journal,
    pub synchronous: Synchronous,
    pub rows: u64,
    pub row_size: u64,
}

/// Maximum size of a table on disk with its journal, bytes.
pub fn space(rows: u64, row_size: u64) -> u64 {
    let table = rows.saturating_mul(row_size.saturating_add(ROW_OVERHEAD));
    table.saturating_mul(3).saturating_add(4 * LOG)
}

impl Params for DbParams {
    const ID: &'static str = "db";
    const TABLE: &'static [Row] = &[
        Row::word("op", DbOp::WORDS, "commit")
            .list()
            .help("a transaction: change a row, insert 100 rows in place of old ones, read a row, or 4 reads to 1 change")
            .says(|p| Some(p.op.id().into())),
        Row::word("journal", Journal::WORDS, "rollback,wal")
            .list()
            .help("what makes a transaction whole after a crash: a rollback journal, or a write-ahead log")
            .says(|p| Some(p.journal.id().into())),
        Row::word("synchronous", Synchronous::WORDS, "full")
            .list()
            .help("when SQLite flushes: at each commit; normal: with `wal` at a checkpoint only; off: never")
            .label(|p| (p.synchronous != Synchronous::Full).then(|| p.flushing()))
            .part(|p| Some(p.flushing())),
        Row::count("rows", "10000")
            .list()
            .range(BATCH, 100_000_000)
            .help("rows of the table")
            .label(|p| (p.rows != 10_000).then(|| format!("{} rows", p.rows)))
            .part(|p| Some(format!("{} rows", p.rows)))
            .axis(Quantity::DataSize, |p| p.rows),
        Row::size("row_size", "100")
            .list()
            .range(8, limits::SMALL_FILE)
            .help("bytes of a row")
            .label(|p| (p.row_size != 100).then(|| p.sized()))
            .part(|p| Some(p.sized())),
    ];

    fn scale(&mut self, scale: f64, _: &Values) {
        self.rows = param::scaled(self.rows, scale).max(BATCH);
    }

    fn check(&self) -> Result<(), PointError> {
        let (rows, size) = (self.rows, self.row_size);
        if rows.saturating_mul(size) > limits::FILE_SIZE {
            let what = format!(" = {rows}: rows of {} each are too many", format_size(size));
            return Err(PointError::of("db", "rows", what));
        }
        Ok(())
    }
}

impl Means for DbParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let writes = self.op != DbOp::Read;
        let said = Meaning {
            operation: self.op.id().into(),
            target: Target::Data,
            direction: match self.op {
                DbOp::Read => Direction::Reads,
                DbOp::Mixed => Direction::Both,
                DbOp::Commit | DbOp::InsertBatch => Direction::Writes,
            },
            // The table is made in the layer even for reads.
            changes: true,
            unit: Unit::Transaction,
            flushes: writes && self.each_commit_flushes(),
            sync: writes.then(|| self.synchronous.id().to_owned()),
            divided: Some(Divided {
                in_memory: false,
                uses_up: false,
                working_set: self.rows.saturating_mul(self.row_size),
                cost: TurnCost::Nothing,
                // A checkpoint copies the log of many turns.
                under_way: LOG,
            }),
            ..Meaning::default()
        };
        Ok(self
            .described(said)
            .figures(figures::table(self.op == DbOp::Commit, writes)))
    }
}

impl DbParams {
    /// Whether a commit is on the disk when it returns.
    fn each_commit_flushes(&self) -> bool {
        match self.synchronous {
            Synchronous::Full => true,
            Synchronous::Normal => self.journal == Journal::Rollback,
            Synchronous::Off => false,
        }
    }

    /// Rows that one operation reads or writes.
    pub fn rows_an_op(&self) -> u64 {
        match self.op {
            DbOp::InsertBatch => BATCH,
            DbOp::Commit | DbOp::Read | DbOp::Mixed => 1,
        }
    }

    fn flushing(&self) -> String {
        format!("synchronous {}", self.synchronous.id())
    }

    fn sized(&self) -> String {
        format!("{} each", format_size(self.row_size))
    }
}
