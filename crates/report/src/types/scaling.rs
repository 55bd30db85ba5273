//! How throughput grows with the number of CPUs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Estimate;

/// A result with a number of CPUs, beside those of the same work in the same layer with other numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScalingRow {
    /// The result's id.
    pub result: String,
    /// The layer's name.
    pub layer: String,
    /// What is done, without the CPUs, in words.
    pub what: String,
    /// CPUs that were asked for.
    pub cpus: u32,
    /// X(n): the result's value, in its unit.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Where the value lies at the report's level.
    pub interval: Option<[f64; 2]>,
    /// X(n) / X(1). Absent without a result at 1 CPU, and where this machine has too few CPUs.
    pub speed_up: Option<f64>,
    /// Speed-up over the number of CPUs: 1 is ideal.
    pub efficiency: Option<f64>,
    /// (X(n) - X(n-1)) / X(1): what the last CPU added, as a part of what the first one does.
    pub mp_factor: Option<f64>,
    /// Time an operation over native's with as many CPUs.
    pub ratio: Option<Estimate>,
    /// Why it says nothing of scaling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_scaling: Option<String>,
}
