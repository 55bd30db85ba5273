//! What power cuts show.

use layermark_model::witness::{ClosedFiles, LostRecord, WitnessTrial};

/// What all power cuts show together.
#[derive(Debug, Clone, PartialEq)]
pub enum PowerCuts<'a> {
    /// The controls were wrong.
    Unbelievable(ControlFault<'a>),
    /// A layer lost data.
    Lost {
        /// The first loss.
        first: Loss<'a>,
        /// Other layers that lost acknowledged data.
        more_lies: usize,
        /// Other layers that lost closed files.
        more_closed: usize,
        /// The controls.
        controls: Controls<'a>,
    },
}

/// What a layer lost.
#[derive(Debug, Clone, PartialEq)]
pub enum Loss<'a> {
    /// Acknowledged data, in a power cut.
    Lie(Lie<'a>),
    /// Files that were closed before a clean unmount.
    Closed(&'a str, &'a ClosedFiles),
}

/// A layer that lost acknowledged data in a power cut.
#[derive(Debug, Clone, PartialEq)]
pub struct Lie<'a> {
    /// The layer.
    pub layer: &'a str,
    /// The trial of the writer that lost something in most cuts.
    pub worst: &'a WitnessTrial,
    /// Its first lost record.
    pub first: &'a LostRecord,
    /// Acknowledged records of all writers.
    pub records: u64,
    /// Flushes below, if they were counted.
    pub flushes: Option<u64>,
    /// The writers that sync a directory, if only they lost data.
    pub only: Option<Vec<&'a str>>,
}

/// What else was seen of a layer.
#[derive(Debug, Clone, PartialEq)]
pub enum CutEvidence<'a> {
    /// Files that were closed before a clean unmount.
    Closed(&'a ClosedFiles),
    /// Records that were lost when only the guest was killed.
    LostWhenKilled(u64),
    /// It could not be set up again after that: why.
    NotSetUpWhenKilled(&'a str),
    /// A call that it refuses, with the error.
    Refuses(&'a str),
}

/// The layers that are cut because the answer is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Controls<'a> {
    /// One that keeps its data.
    pub honest: Option<ControlCut<'a>>,
    /// One that loses it.
    pub lying: Option<ControlCut<'a>>,
}

/// Power cuts of a control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlCut<'a> {
    /// Its name.
    pub layer: &'a str,
    /// Cuts in which it lost something.
    pub losing: u64,
    /// All cuts.
    pub cuts: u64,
    /// Why nothing is known of it.
    pub open: Option<ControlOpen<'a>>,
}

/// Why no cut of a control says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlOpen<'a> {
    /// It was not cut, and why; `None`: it is not known.
    Uncut(Option<&'a str>),
    /// So many cuts are not judged, and the error.
    Unjudged(u64, &'a str),
    /// After so many cuts it could not be set up again, and why.
    Unrecovered(u64, &'a str),
}

/// What is wrong with a control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlFault<'a> {
    /// It is known to lie and lost nothing.
    LiarNotCaught(&'a str),
    /// It is known to be honest and lost data.
    HonestLost(&'a str),
    /// It is known to lie and lost nothing that POSIX promises after sequences of operations.
    LiarKeptSequences(&'a str),
    /// It is known to be honest and lost what POSIX promises after one.
    HonestLostSequence(&'a str),
}
