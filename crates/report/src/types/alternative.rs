//! Comparisons of alternatives that the user chooses between, such as two commands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Comparison;

/// A result compared with its reference: the first result of its layer that is equal otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AlternativeRow {
    /// The result's id.
    pub result: String,
    /// Id of the result that it is compared with.
    pub reference: String,
    /// The layer of both.
    pub layer: String,
    /// What both do, in words.
    pub what: String,
    /// Pairs: blocks in which both have a number.
    pub blocks: usize,
    /// How its time compares with the reference's.
    #[serde(flatten)]
    pub comparison: Comparison,
}
