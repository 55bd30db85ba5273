//! Whether to believe a run, in a word.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether to believe the numbers of a run: what stands behind `Trust:`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trusted {
    /// The answer.
    pub word: TrustWord,
    /// Why not, in words. Only with `no`: the checks of `trust` that warn are what `with care` is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answer to "can the numbers be trusted?".
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum TrustWord {
    /// All checks passed that were made.
    #[serde(rename = "yes")]
    Yes,
    /// A check warns, but none shows that the numbers are wrong.
    #[serde(rename = "with care")]
    WithCare,
    /// A check shows that the numbers are wrong, or no layer was where it should be.
    #[serde(rename = "no")]
    No,
}

impl TrustWord {
    /// The word, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::WithCare => "with care",
            Self::No => "no",
        }
    }
}
