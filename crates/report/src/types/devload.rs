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
    pub cpu_in_commands: f64,
    /// Time a script here over natively.
    pub ratio: Option<Estimate>,
    /// No other number of users in this layer had more scripts an hour. Results that are not trusted
    /// are left out.
    pub highest: bool,
    /// It is the highest, and its interval lies above that of the next larger number of users.
    pub peak: bool,
    /// The next larger number of users in this layer.
    pub next_users: Option<u64>,
}
