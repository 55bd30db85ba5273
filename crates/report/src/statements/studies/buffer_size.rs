//! What the study of buffer sizes says.

use crate::types::{BufferRow, Pick};

/// The record size that the study recommends, chosen by eye.
pub const RECOMMENDED: u64 = 1024;

/// The answer.
#[derive(Debug)]
pub enum BufferAnswer<'a> {
    /// It is not decided whether the recommended size is enough.
    Open(&'a BufferRow),
    /// The smallest size that is nearly the best.
    Enough(&'a BufferRow),
    /// What the recommended size costs in each operation, times.
    Costs(&'a BufferRow, Vec<(f64, &'static str)>),
}

/// What records should be enough for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// The throughput.
    Throughput,
    /// The CPU time of the program.
    CpuTime,
}

/// The claim that records of the recommended size are enough.
#[derive(Debug)]
pub struct EnoughBytes<'a> {
    /// What for.
    pub what: Saved,
    /// The operation.
    pub op: &'a str,
    /// The layer and its measured sizes.
    pub row: &'a BufferRow,
    /// The smallest size that is nearly the best.
    pub pick: &'a Pick,
    /// Sizes of the plan that were not measured.
    pub absent: &'a [u64],
}
