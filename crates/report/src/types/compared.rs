//! A run set against an older one, and what results are held to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The older run that a report's run is set against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Its id.
    pub run: String,
    /// Name of its plan.
    pub label: String,
    /// When it began, RFC 3339 UTC.
    pub started: String,
    /// The baseline of both. Its own change is taken out of those of the other layers, wherever both
    /// runs have it. Absent where they have no baseline of one name.
    pub baseline: Option<String>,
    /// What the older run measured and the newer one did not, or did as other work.
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

/// A result held to a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateRow {
    /// The gate as the user wrote it, such as `fuse slower=3x`.
    pub gate: String,
    /// The layer.
    pub layer: String,
    /// The point's label.
    pub point: String,
    /// The highest ratio that is allowed. Absent where nothing may be decidedly slower.
    pub limit: Option<f64>,
    /// How it came out.
    pub state: GateState,
    /// What was found.
    pub text: String,
}

/// How a gate came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateState {
    /// The cost is decidedly within the limit.
    Passed,
    /// The cost is decidedly beyond the limit.
    Failed,
    /// The data does not say.
    Undecided,
}
