//! Why a command is slow in a layer: the answers of `layermark why`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ForecastCall, Verdict};

/// Why a command is slow in layers, and in which it is not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// [`Why::SCHEMA`].
    pub schema: String,
    /// The run with the measurements.
    pub run: String,
    /// The command.
    pub command: String,
    /// The layer that the others are compared with.
    pub baseline: String,
    /// Its time in the baseline, microseconds. Absent if it failed there.
    pub native_us: Option<f64>,
    /// A layer each, the slowest first.
    pub layers: Vec<WhyLayer>,
    /// What to use, in a sentence without a full stop.
    pub answer: String,
    /// Limits of all of this, such as a busy machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<String>,
    /// Why calls have no cost, in sentences without a full stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

/// A command in a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyLayer {
    /// The layer.
    pub layer: String,
    /// Its time there, microseconds. Absent if it failed.
    pub us: Option<f64>,
    /// Whether it is slower there than in the baseline.
    pub verdict: Verdict,
    /// Whether that is of a weaker rule: one such verdict in twenty may be wrong.
    #[serde(default)]
    pub probably: bool,
    /// How data that was flushed can be lost there, such as `skips fsync`. Absent if nothing shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loses: Option<String>,
    /// The kinds of calls that it makes, with their costs there, the most costly first. Empty if these are not known.
    pub calls: Vec<ForecastCall>,
    /// Whether the calls explain the time. Absent without calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<bool>,
    /// All of it in a sentence without a full stop.
    pub text: String,
    /// Id of the result.
    pub evidence: String,
}

impl Why {
    /// Name and version of the JSON contract.
    pub const SCHEMA: &'static str = "layermark.why/1";
}
