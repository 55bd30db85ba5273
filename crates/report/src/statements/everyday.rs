//! Work that people do, by the meaning of points, and what a result loses.

use layermark_model::{Meaning, Target, Unit};

use crate::types::ResultRow;

/// Work that people do, as the meaning of a point declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Everyday {
    /// Steps of somebody's work, and scripts.
    Work,
    /// Starts of programs.
    Start,
    /// Transactions that flush.
    Database,
    /// First changes of packaged files.
    Packaged,
}

impl Everyday {
    /// In the order in which they are told.
    pub const ALL: [Self; 4] = [Self::Work, Self::Start, Self::Database, Self::Packaged];

    /// What a point stands for; `None` for a part of such work, such as a read.
    pub fn of(meaning: &Meaning) -> Option<Self> {
        match meaning.target {
            Target::Step | Target::Script => Some(Self::Work),
            Target::Program => Some(Self::Start),
            Target::PackagedFile => Some(Self::Packaged),
            _ if meaning.unit == Unit::Transaction && meaning.flushes => Some(Self::Database),
            _ => None,
        }
    }

    /// Whether a point is an application's work as a whole, and not a single operation.
    pub fn is_application(meaning: &Meaning) -> bool {
        Self::of(meaning).is_some_and(|of| of != Self::Packaged)
    }
}

/// Time over the baseline's; 0 without a number.
pub fn factor(row: &ResultRow) -> f64 {
    row.ratio.map_or(0.0, |e| e.estimate)
}

/// Microseconds an operation that are lost; 0 without a number.
pub fn lost(row: &ResultRow) -> f64 {
    row.extra_us.map_or(0.0, |e| e.estimate)
}
