//! Figures of the workload `db`.

use layermark_model::{Amount, Figure, FigureSource, FigureTable, FigureUnit, NoteWhen};
use serde::Serialize;

/// Work of `SQLite` in the turns of a trial. The fields have the names of the figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct DbTrial {
    /// Transactions that changed a row.
    pub commits: u64,
    /// Bytes of the changed rows.
    pub committed_bytes: u64,
    /// Calls of `SQLite` that flush a file.
    pub syncs: u64,
    /// Bytes that `SQLite` wrote to its files.
    pub written_bytes: u64,
    /// Commits that had to copy the log into the table.
    pub checkpoints: u64,
    /// Duration of the longest of them, ns.
    pub checkpoint_ns: Option<u64>,
}

/// The table of figures, of transactions that are commits alone, or that write at all.
pub fn table(commits: bool, writes: bool) -> FigureTable {
    let value = |name: &str| Amount::Value(name.into());
    let a_commit = |name: &str, head: &str, of: Amount| {
        Figure::per(name, FigureUnit::Number, [of], [value("commits")]).head(head)
    };
    let a_byte = |name: &str, head: &str, of: Amount| {
        Figure::per(name, FigureUnit::Number, [of], [value("committed_bytes")]).head(head)
    };
    let latency = |name: &str, source| Figure::new(name, FigureUnit::Time, source);
    let longest = FigureSource::Most(Amount::Nanoseconds("checkpoint_ns".into()));
    let about = "Transactions of an SQLite database. Syncs are calls of SQLite. Flushes and bytes of the device are those of the layer's own device where it has one; elsewhere they are left out while other programs use the device. Written: bytes per committed byte of the rows, by SQLite and at the device. A checkpoint copies the write-ahead log into the table, within the commit that finds it full. PRAGMA integrity_check and the rows were right after every measurement.";
    let rate = if commits {
        "commits/s"
    } else {
        "transactions/s"
    };
    let of_commits = [
        a_commit("syncs_a_commit", "syncs a commit", value("syncs")),
        a_commit(
            "flushes_a_commit",
            "flushes a commit",
            Amount::DeviceFlushes,
        ),
        a_byte("written_a_byte", "written/byte", value("written_bytes")),
        a_byte(
            "device_a_byte",
            "written/byte, device",
            Amount::DeviceWritten,
        ),
        Figure::sum("checkpoints").head("checkpoints"),
        latency("checkpoint_us", longest)
            .head("longest checkpoint")
            .note(
                NoteWhen::Above(STALL_US),
                "{layer}: a commit waited {checkpoint_us} for a checkpoint.",
            ),
    ];
    FigureTable::new("Databases", about)
        .answer()
        .with([
            Figure::new("transactions_s", FigureUnit::Number, FigureSource::Rate).head(rate),
            latency("p50_us", FigureSource::MedianLatency).head("p50"),
            latency("p99_us", FigureSource::P99Latency).head("p99"),
        ])
        .with(of_commits.into_iter().filter(|_| writes))
}

/// A longer checkpoint gets a note, microseconds.
const STALL_US: u32 = 100_000;
