//! What the workload `devload` has beside its results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Estimate;

/// A result of the workload `devload`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DevLoadRow {
    /// The result's id.
    pub result: String,
    /// The layer's name.
    pub layer: String,
    /// What the point does but for its users, in words.
    pub what: String,
    /// Users who worked at the same time.
    pub users: u64,
    /// Scripts an hour, the centre of the trials.
    pub scripts_per_hour: f64,
    /// Where that lies at the report's level.
    pub interval: Option<[f64; 2]>,
    /// From the barrier to the end of the last script, seconds.
    pub seconds: f64,
    /// CPU seconds of a script: of the user's commands.
    pub cpu_s: f64,
    /// Share (0..=1) of all CPU time, layermark's own included, that was the users' commands'.
    pub in_commands: f64,
    /// Time a script here over natively.
    pub ratio: Option<Estimate>,
    /// No number of users in this layer had more scripts an hour.
    pub peak: bool,
    /// There is no larger number of users to tell whether the peak lies beyond.
    pub last: bool,
}
