//! What a series of launches shows.

use layermark_model::Untraced;

use crate::types::{ChangePoint, LaunchRun};

/// What a series shows.
#[derive(Debug, Clone, PartialEq)]
pub enum SeriesFinding<'a> {
    /// The first launch is not counted with the others, and why.
    FirstApart(&'a LaunchRun, &'a str),
    /// The level changes.
    Step(&'a ChangePoint),
    /// The layer was restarted before so many of all launches; median milliseconds.
    Restarted {
        /// Launches after a restart.
        launches: usize,
        /// All launches.
        of: usize,
        /// Median, milliseconds.
        ms: f64,
    },
    /// Of a launch of so many milliseconds, so many waited for I/O.
    WaitedForIo {
        /// What waited.
        ms: f64,
        /// The whole launch.
        of_ms: f64,
    },
    /// What a traced launch of so many milliseconds waited for.
    Traced(Vec<TracedCalls>, f64),
    /// No launch could be traced, and why.
    NotTraced(&'a Untraced),
}

/// Calls of a traced launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TracedCalls {
    /// What they did.
    pub kind: CallKind,
    /// How many.
    pub calls: u64,
    /// All of them, milliseconds.
    pub ms: f64,
}

/// What calls of a traced launch did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// Lookups that found nothing.
    FailedLookup,
    /// Lookups of names that exist.
    Lookup,
    /// Reads of files.
    Read,
}
