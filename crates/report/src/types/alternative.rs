//! Comparisons of alternatives that the user chooses between, such as two commands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Comparison, Estimate, Verdict};

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
    /// Time per operation over the reference's: above 1 is slower.
    pub ratio: Option<Estimate>,
    /// Additional microseconds per operation compared with the reference.
    pub extra_us: Option<Estimate>,
    /// Two-sided p of "it takes the reference's time".
    pub p: Option<f64>,
    /// `p` after Holm's correction over all rows.
    pub p_adjusted: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// `slower` or `faster` if the verdict is `undecided` and a weaker rule gives one of these.
    pub probably: Option<Verdict>,
    /// The largest difference, as a share, that the interval does not exclude.
    pub margin: Option<f64>,
    /// Missing blocks for an interval. Absent if there is one.
    pub more_blocks: Option<usize>,
}

impl AlternativeRow {
    /// Its comparison with its reference.
    pub fn comparison(&self) -> Comparison {
        Comparison {
            ratio: self.ratio,
            verdict: self.verdict,
            probably: self.probably,
            more_blocks: self.more_blocks,
        }
    }
}
