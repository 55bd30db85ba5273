//! What the study of virtualised applications says.

use crate::types::{ResultRow, ServedBy};

/// How a result differs from native, by the report's own rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AgainstNative {
    /// The same.
    No,
    /// Slower, certainly or probably, by this ratio.
    Slower(f64),
    /// Faster, certainly or probably, by this ratio.
    Faster(f64),
    /// Undecided.
    Open,
}

/// The verdict on the repeats of a result.
#[derive(Debug, Clone, Copy)]
pub struct RepeatsVerdict<'a> {
    /// The result.
    pub row: &'a ResultRow,
    /// How it differs.
    pub apart: AgainstNative,
}

/// Mean and range of repeats, seconds.
#[derive(Debug, Clone, Copy)]
pub struct MeanOfRepeats {
    /// The mean.
    pub mean: f64,
    /// The smallest and the largest.
    pub range: [f64; 2],
}

/// One repeat.
#[derive(Debug, Clone, Copy)]
pub struct OneRepeat {
    /// Seconds.
    pub seconds: f64,
    /// Where it was served from, if from elsewhere than most.
    pub apart: Option<ServedBy>,
}

/// A claim of the study about a layer.
#[derive(Debug)]
pub enum FileioClaim<'a> {
    /// Later reads come from memory, the first from the device.
    LaterReads {
        /// The layer.
        layer: &'a str,
        /// First reads that came from the device, and all.
        first: [usize; 2],
        /// Later reads that came from memory, and all.
        again: [usize; 2],
        /// Seconds of the first and of the later ones, if the claim holds.
        seconds: Option<[f64; 2]>,
    },
    /// Nearly everything is written when the application ends.
    Written {
        /// The layer.
        layer: &'a str,
        /// What was left.
        left: LeftToWrite,
    },
    /// A file is changed without a copy of it.
    InPlace {
        /// The layer.
        layer: &'a str,
        /// The file's size, bytes.
        size: u64,
        /// Seconds of the first write, there and natively.
        seconds: [f64; 2],
        /// How it differs from native, where a copy is not the reason.
        verdict: Option<RepeatsVerdict<'a>>,
    },
}

/// Data that was left to write when the program had ended.
#[derive(Debug, Clone, Copy)]
pub enum LeftToWrite {
    /// Nothing is known of it.
    Unknown,
    /// No device counts it.
    NotCounted,
    /// A part that matters.
    Much {
        /// Bytes that were left, and all.
        bytes: [f64; 2],
        /// Seconds of the program, and until the rest was written.
        seconds: [f64; 2],
    },
    /// A small part: bytes that were left, and all.
    Little([f64; 2]),
}
