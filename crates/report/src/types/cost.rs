//! Cost models.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Estimate;

/// Cost of an operation over its record size, in one layer. A line, if the sizes fit one.
// Its parts are differences with intervals, and no verdict is asked on a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CostRow {
    /// Its id, such as `k3`.
    pub id: String,
    /// The workload.
    pub workload: String,
    /// What the points have in common, in words.
    pub label: String,
    /// The points' parameters without the record.
    pub point: Map<String, Value>,
    /// The layer's name.
    pub layer: String,
    /// Record sizes, bytes, ascending.
    pub records: Vec<u64>,
    /// Whether every size lies near enough to the line for it to be a model.
    pub fits: bool,
    /// Median deviation from the line over the sizes, as a share.
    pub typical: f64,
    /// The largest deviation, as a share.
    pub worst: f64,
    /// The record size with the largest deviation.
    pub worst_record: u64,
    /// Microseconds per operation, independent of its size. Absent without a model.
    pub fixed_us: Option<Estimate>,
    /// Nanoseconds per byte. Absent without a model.
    pub ns_per_byte: Option<Estimate>,
    /// `fixed_us` minus that of the baseline. Absent without a model of both.
    pub extra_fixed_us: Option<Estimate>,
    /// `ns_per_byte` minus that of the baseline.
    pub extra_ns_per_byte: Option<Estimate>,
    /// Bytes per second that no record size can exceed. Absent if the cost of bytes is too small in
    /// the measured sizes to show it.
    pub ceiling: Option<f64>,
    /// The model in a sentence.
    pub text: String,
    /// Ids of the results behind it.
    pub evidence: Vec<String>,
}
