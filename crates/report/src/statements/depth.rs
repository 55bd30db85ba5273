//! Where a deeper queue stops paying.

use crate::types::DepthPoint;

/// Where throughput over response time is greatest.
#[derive(Debug, Clone, PartialEq)]
pub struct DepthBend<'a> {
    /// Where.
    pub bend: Bend<'a>,
    /// Blocks whose own greatest power is at the same depth.
    pub agree: usize,
    /// All blocks.
    pub blocks: usize,
}

/// Where a curve bends.
#[derive(Debug, Clone, PartialEq)]
pub enum Bend<'a> {
    /// Not up to this depth.
    Beyond(&'a DepthPoint),
    /// At a depth.
    At {
        /// The depth.
        knee: &'a DepthPoint,
        /// Whether no smaller one was measured.
        is_least: bool,
        /// The next depth.
        next: &'a DepthPoint,
        /// The last one, if it is another.
        last: Option<&'a DepthPoint>,
    },
}
