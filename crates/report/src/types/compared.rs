//! Comparison with an older run, and gates.

use layermark_model::Machine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The older run that this run is compared with.
// It names the run; the comparisons are those of the results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Its id.
    pub run: String,
    /// Name of its plan.
    pub label: String,
    /// When it started, RFC 3339 UTC.
    pub started: String,
    /// Its machine. Absent in comparisons that an earlier version wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// The baseline of both runs. The changes of the other layers exclude its own change, wherever
    /// both runs have it. Absent if they have no baseline of the same name.
    pub baseline: Option<String>,
    /// Results of the older run that the newer one lacks, or made with other work.
    pub missing: Vec<Missing>,
}

/// A result that only the older run has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// The layer.
    pub layer: String,
    /// The point's label.
    pub point: String,
}

/// A result checked against a gate.
// Its state judges the result's own comparison against a limit, so it has no second one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateRow {
    /// The gate as the user wrote it, such as `fuse slower=3x`.
    pub gate: String,
    /// The layer.
    pub layer: String,
    /// The point's label.
    pub point: String,
    /// The highest allowed ratio. Absent if no result may be decidedly slower.
    pub limit: Option<f64>,
    /// Whether the gate passed.
    pub state: GateState,
    /// The result in words.
    pub text: String,
}

/// State of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateState {
    /// The cost is decidedly within the limit.
    Passed,
    /// The cost is decidedly beyond the limit.
    Failed,
    /// The data does not decide.
    Undecided,
}
