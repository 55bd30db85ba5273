//! Estimates of a time, compared with the time itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Estimate;

/// An estimate of what a layer costs an operation, and the operation itself in the same layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EstimateCheck {
    /// The layer.
    pub layer: String,
    /// Id of the result that is the estimate.
    pub estimate: String,
    /// Id of the result of the operation itself.
    pub measured: String,
    /// Microseconds of the estimate in the layer.
    pub estimate_us: Option<f64>,
    /// Microseconds of the operation in the layer.
    pub measured_us: Option<f64>,
    /// Ratio of the estimate: its time in the layer over its time in the baseline.
    pub estimate_ratio: Option<Estimate>,
    /// Ratio of the operation itself.
    pub measured_ratio: Option<Estimate>,
    /// How far the first ratio is from the second, as a share of it: 0.22 is 22 % above.
    pub difference: Option<Estimate>,
    /// The largest difference, as a share, that counts as explained.
    pub within: f64,
    /// Whether the estimate explains what the layer costs.
    pub verdict: EstimateVerdict,
    /// The verdict in words.
    pub text: String,
}

/// Whether an estimate explains what a layer costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EstimateVerdict {
    /// The whole interval of the difference is within the limit.
    #[serde(rename = "explained")]
    Explained,
    /// The whole interval is beyond it, on one side.
    #[serde(rename = "not explained")]
    NotExplained,
    /// The data does not decide.
    #[serde(rename = "undecided")]
    Undecided,
}

impl EstimateVerdict {
    /// The word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Explained => "explained",
            Self::NotExplained => "not explained",
            Self::Undecided => "not decided",
        }
    }
}
