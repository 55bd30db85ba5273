//! Scaling of throughput with the number of CPUs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Estimate;

/// A result with a number of CPUs, compared with the same work in the same layer on other numbers.
/// Its ratio to the baseline is shown beside the speed-up, and no verdict is asked on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScalingRow {
    /// The result's id.
    pub result: String,
    /// The layer's name.
    pub layer: String,
    /// The work in words, without the CPUs.
    pub what: String,
    /// Requested CPUs.
    pub cpus: u32,
    /// X(n): the result's value, in its unit.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Interval of the value at the report's level.
    pub interval: Option<[f64; 2]>,
    /// X(n) / X(1). Absent without a result at 1 CPU, or if this machine has too few CPUs.
    pub speed_up: Option<f64>,
    /// Speed-up over the number of CPUs: 1 is ideal.
    pub efficiency: Option<f64>,
    /// (X(n) - X(n-1)) / X(1): what the last CPU added, relative to the first one.
    pub mp_factor: Option<f64>,
    /// Time per operation over the baseline's with the same number of CPUs.
    pub ratio: Option<Estimate>,
    /// Why it does not show scaling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_scaling: Option<String>,
}
