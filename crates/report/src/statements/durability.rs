//! Evidence for a verdict on flushes.

use crate::types::{Estimate, LateFlushes, MountPlace};

/// Why a verdict on flushes is what it is.
#[derive(Debug, Clone, PartialEq)]
pub struct FlushEvidence<'a> {
    /// What was seen.
    pub seen: Seen<'a>,
    /// What the configuration says about it.
    pub configured: Option<(&'a Drops, Agrees)>,
}

/// What was seen of flushes.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen<'a> {
    /// The data lies in memory.
    InMemory,
    /// No physical device is known.
    NoDevice,
    /// The device needs no flush.
    WritesThrough,
    /// Nothing is known about the device's cache.
    CacheUnknown,
    /// Nothing counted the device's flushes.
    NotCounted,
    /// So few syncs in all trials; so many are needed.
    FewSyncs(u64, u64),
    /// Flushes that follow the layer's turns.
    Late(LateFlushes),
    /// Flushes and syncs that show the layer's own.
    Counted(Counted),
    /// The same on a device that was silent otherwise.
    Silent(Counted),
    /// Counts that decide nothing, and why.
    Open(FlushCount, Undecided<'a>),
    /// Flushes while programs of the baseline ran.
    BaselinePrograms(u64),
    /// Flushes while programs of the layer ran, and those of the baseline in the same blocks.
    LayerPrograms(u64, u64),
}

/// Flushes of the device and calls that ask for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushCount {
    /// Flushes that the device counted.
    pub flushes: u64,
    /// Calls.
    pub syncs: u64,
}

/// Flushes of some trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counted {
    /// The counts of these trials.
    pub count: FlushCount,
    /// Expected flushes of others among them.
    pub others: f64,
    /// These trials.
    pub trials: usize,
    /// All trials.
    pub of: usize,
}

/// Why counts decide nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Undecided<'a> {
    /// Nobody looked what others flushed.
    Unwatched,
    /// Others flushed in some of all trials.
    Others([usize; 2]),
    /// The same, and these layers flush late.
    LateOthers([usize; 2], &'a [String]),
    /// Fewer syncs than this.
    TooFew(u64),
    /// The device does not count writes that go past its cache.
    ForcedUnitAccess,
    /// The device does not count the flushes of this layer either: a name in a sentence.
    NorThoseOf(&'a str),
    /// No other layer shows that the device counts.
    NoReference,
    /// Too few trials in which the device was silent and counted the flushes of this layer.
    FewSilent(&'a str),
    /// Only some calls have a flush.
    Some,
}

/// How counts and configuration agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agrees {
    /// The configuration alone says it.
    Alone,
    /// Both say it.
    Both,
    /// The counts contradict it.
    Not,
}

/// The setting by which a layer drops flushes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drops {
    /// The cache mode of its disk.
    DiskCache,
    /// A mount option.
    Mounted(MountPlace, String),
}

/// A flush that is faster than the one below it can be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Suspicion {
    /// Time over the baseline's.
    pub ratio: Estimate,
}
