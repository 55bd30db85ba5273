//! What an operation and a byte cost.

use crate::types::{CostRow, Estimate};

/// The cost model of a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct CostModel<'a> {
    /// The model.
    pub row: &'a CostRow,
    /// What it says.
    pub cost: OperationCost,
}

/// The cost of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum OperationCost {
    /// A line does not fit: records of this size are so far from it, as a share.
    NoModel {
        /// Bytes.
        record: u64,
        /// Share.
        off: f64,
    },
    /// Microseconds an operation and nanoseconds a byte.
    Whole(Estimate, Estimate),
    /// What it adds to the baseline's.
    More(Vec<AddedCost>),
    /// Nothing that can be told from chance.
    Nothing {
        /// Whether there are intervals.
        with_interval: bool,
    },
}

/// A part of what a layer adds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AddedCost {
    /// Microseconds more an operation.
    Constant(Estimate),
    /// Nanoseconds more a byte.
    PerByte(Estimate),
    /// Microseconds less an operation, as a number below 0.
    LessConstant(Estimate),
    /// Nanoseconds less a byte, as a number below 0.
    LessPerByte(Estimate),
}
