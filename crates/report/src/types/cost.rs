//! Cost models.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Estimate;

/// Cost of an operation over its record size, in one layer: a line, if it is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CostRow {
    /// `k3`.
    pub id: String,
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
    /// Every size lies near enough to the line for it to be a model.
    pub fits: bool,
    /// Deviation from the line, as a share: the median over sizes.
    pub typical: f64,
    /// The largest deviation, as a share.
    pub worst: f64,
    /// The record size that has it.
    pub worst_record: u64,
    /// Microseconds an operation, whatever its size. Absent when there is no model.
    pub fixed_us: Option<Estimate>,
    /// Nanoseconds for each byte. Absent when there is no model.
    pub ns_per_byte: Option<Estimate>,
    /// `fixed_us` less that of native. Absent without a model of both.
    pub extra_fixed_us: Option<Estimate>,
    /// `ns_per_byte` less that of native.
    pub extra_ns_per_byte: Option<Estimate>,
    /// Bytes a second that no record size can pass. Absent where bytes cost too little beside the
    /// fixed part for the sizes measured to show it.
    pub ceiling: Option<f64>,
    /// The same in a sentence.
    pub text: String,
    /// Ids of the results it rests on.
    pub evidence: Vec<String>,
}
