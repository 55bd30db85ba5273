//! Record sizes to use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The record sizes to choose for one kind of work in one layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BufferRow {
    /// The workload.
    pub workload: String,
    /// What the points share, in words.
    pub label: String,
    /// The points' parameters without the record.
    pub point: Map<String, Value>,
    /// The layer's name.
    pub layer: String,
    /// Record sizes, bytes, going up.
    pub records: Vec<u64>,
    /// For throughput: the smallest size with at least 95 % of the best.
    pub wall: Pick,
    /// For the CPU time of the program: the smallest size with at most 105 % of the least. Absent
    /// when CPU time was too short to be counted.
    pub cpu: Option<Pick>,
}

/// A record size that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pick {
    /// The size, bytes.
    pub record: u64,
    /// Between which sizes it lies at the report's level, by resampling blocks. Absent below six.
    pub between: Option<[u64; 2]>,
    /// The size that is best of all, bytes.
    pub best: u64,
    /// Seconds for each byte at `record`.
    pub seconds_per_byte: f64,
    /// Seconds for each byte at `best`.
    pub best_seconds_per_byte: f64,
}
