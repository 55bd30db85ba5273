//! What differs between two runs, apart from their results.

use layermark_model::StoreOption;
use serde_json::Value;

use crate::statements::caveats::BusyMachine;

/// Which of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OneRun {
    /// The older one.
    Old,
    /// The newer one.
    New,
}

/// A difference.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference<'a> {
    /// Two values of one thing; an empty one is not known.
    Values {
        /// Its name; may be empty.
        what: &'static str,
        /// In the older run.
        old: String,
        /// In the newer run.
        new: String,
    },
    /// Layers of one run only.
    Layers(OneRun, Vec<&'a str>),
    /// Points of one run only.
    Points(OneRun, Vec<&'a str>),
    /// The baselines. Then times are compared, because ratios to two layers are not alike.
    Baselines([&'a str; 2]),
    /// Points of one name that are different work, and what differs in the first of them.
    OtherWork(Vec<&'a str>, Vec<(String, [Value; 2])>),
    /// Results of one run only, although both runs have the layer and the point.
    Holes(Vec<Holes<'a>>),
    /// Layers were set up only once in these runs.
    SetUpOnce(Vec<OneRun>),
    /// A run that is not trustworthy.
    Untrusted(OneRun, &'a str, &'a StoreOption),
    /// A run that is not complete: its status.
    Unfinished(OneRun, &'static str),
    /// Other programs ran beside a run: what its caveat says.
    Busy(OneRun, BusyMachine),
}

/// A layer of one run only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotInBoth(pub OneRun);

/// Why a result of two runs is not compared although both measured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotCompared<'a> {
    /// It is not trusted in this run: why.
    Untrusted(OneRun, &'a str),
    /// No baseline tells its change from one of the machine.
    Alone,
    /// Its flush reached the device in the older run only.
    FlushLost,
    /// Its flush reaches the device in the newer run only.
    FlushWon,
}

/// A caveat of one of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaveatOf<'a>(pub OneRun, pub &'a str);

/// Results of one run only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holes<'a> {
    /// The run that has them.
    pub run: OneRun,
    /// How many.
    pub results: usize,
    /// The point of the first one.
    pub point: &'a str,
    /// The layer of the first one.
    pub layer: &'a str,
}
