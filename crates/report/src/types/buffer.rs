//! Recommended record sizes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The recommended record sizes for one kind of work in one layer.
// A choice of a size, not of a word: it has ranges of sizes, and no ratio to a reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BufferRow {
    /// The workload.
    pub workload: String,
    /// What the points have in common, in words.
    pub label: String,
    /// Name of their operation. Not in the JSON.
    #[serde(skip)]
    pub operation: String,
    /// The points' parameters without the record.
    pub point: Map<String, Value>,
    /// The layer's name.
    pub layer: String,
    /// Record sizes, bytes, ascending.
    pub records: Vec<u64>,
    /// For throughput: the smallest size with at least 95 % of the best.
    pub wall: Pick,
    /// For the CPU time of the program: the smallest size with at most 105 % of the least. Absent
    /// if the CPU time was too short to measure.
    pub cpu: Option<Pick>,
}

/// A chosen record size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pick {
    /// The size, bytes.
    pub record: u64,
    /// Range of the choice at the report's level, by resampling blocks. Absent below six blocks.
    pub between: Option<[u64; 2]>,
    /// The best size of all, bytes.
    pub best: u64,
    /// Seconds per byte at `record`.
    pub seconds_per_byte: f64,
    /// Seconds per byte at `best`.
    pub best_seconds_per_byte: f64,
}
