//! What the study of development machines says.

use crate::{
    statements::power_cuts::{Controls, CutEvidence, Lie},
    types::{CostRow, Estimate, ResultRow, ServedBy},
};

/// The answer: names of layers.
#[derive(Debug)]
pub struct IozoneAnswer<'a> {
    /// Layers that lose acknowledged writes.
    pub lose: Vec<&'a str>,
    /// Layers where a database should not be.
    pub off: Vec<&'a str>,
    /// Layers where it can be.
    pub database: Vec<&'a str>,
    /// The layer that reads best.
    pub reading: Vec<&'a str>,
}

/// The operation of a chart, on a file of so many bytes.
#[derive(Debug, Clone, Copy)]
pub struct PartOf<'a> {
    /// The operation.
    pub op: &'a str,
    /// The largest file, bytes.
    pub file: u64,
}

/// A claim of the study.
#[derive(Debug)]
pub enum IozoneClaim<'a> {
    /// A layer reaches half of the baseline's best: both best results.
    Ceiling(&'a ResultRow, &'a ResultRow, PartOf<'a>),
    /// A layer costs nothing per operation: its cost model, if it has an interval.
    Constant(&'a str, Option<&'a CostRow>),
    /// A guest caches a file.
    Cached {
        /// The layer.
        layer: &'a str,
        /// What was read.
        part: PartOf<'a>,
        /// Record sizes that the guest's memory served, and all.
        own: [usize; 2],
        /// Record sizes that were served from elsewhere.
        elsewhere: Vec<(ServedBy, usize)>,
    },
    /// Whether acknowledged syncs are done.
    Honest(&'a str, SyncProof<'a>),
    /// The fastest sync in a guest is one that is done.
    FastSync(Box<FastSync<'a>>),
    /// A database can be in a layer.
    Database {
        /// The layer.
        layer: &'a str,
        /// Whether it loses what it has acknowledged.
        loses: bool,
        /// Time of a synced random write, microseconds.
        us: f64,
        /// What it is compared with.
        than: Than<'a>,
    },
    /// A layer reads best: layers with the mean of their ratios: the best, the second and the last.
    Reading([(&'a str, f64); 3]),
    /// Calls of the C library take as long as those of the kernel.
    Library(&'a str, LibraryTimes),
}

/// What a synced write is compared with; times in microseconds.
#[derive(Debug, Clone, Copy)]
pub enum Than<'a> {
    /// The baseline.
    Baseline(f64),
    /// It is the fastest of the guests on an emulated CPU that flush.
    Fastest,
    /// The fastest of these guests.
    Guest(&'a str, f64),
    /// Nothing.
    Nothing,
}

/// What shows whether acknowledged syncs are done.
#[derive(Debug)]
pub enum SyncProof<'a> {
    /// Power cuts lost data; also when only the guest was killed.
    Lost(Box<Lie<'a>>, Option<CutEvidence<'a>>),
    /// Power cuts lost nothing.
    Kept {
        /// Acknowledged records.
        records: u64,
        /// Cuts.
        cuts: u64,
        /// When only the guest was killed.
        killed: Option<CutEvidence<'a>>,
    },
    /// Flushes that the device counted, and why no power cut says anything.
    Counted(CountedFlushes<'a>, Option<&'a str>),
}

/// The flushes that the device counted for a result.
#[derive(Debug)]
pub struct CountedFlushes<'a> {
    /// The result.
    pub row: &'a ResultRow,
    /// Whether their number is said, and not only the reason of the verdict.
    pub counted: bool,
    /// The ratio to the baseline, if it is faster without the flushes.
    pub faster: Option<Estimate>,
}

/// The fastest guest among those that lost data, and among those that kept it.
#[derive(Debug)]
pub struct FastSync<'a> {
    /// The fastest of those that lost data, and microseconds of a synced write.
    pub fast: (&'a str, f64),
    /// The fastest of those that kept it, and microseconds of a synced write.
    pub honest: (&'a str, f64),
    /// Whether only one of their CPUs is emulated.
    pub cpus_differ: bool,
    /// Layers of which power cuts lost data.
    pub lost: Vec<&'a str>,
    /// Layers of which they lost none.
    pub kept: Vec<&'a str>,
    /// The controls.
    pub controls: Controls<'a>,
}

/// What the calls of the C library take.
#[derive(Debug)]
pub enum LibraryTimes {
    /// Too few blocks for intervals.
    Unknown,
    /// All intervals of so many pairs overlap.
    Same(usize),
    /// Ratios to the calls of the kernel, by record size in bytes.
    Apart(Vec<(f64, u64)>),
}
