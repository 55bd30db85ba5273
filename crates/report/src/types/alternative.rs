//! Results that differ in what their user chooses between, such as two commands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Estimate, Verdict, result::word};

/// A result beside the reference: the first one of its layer that does the same otherwise.
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
    /// Time an operation over the reference's: above 1 is slower.
    pub ratio: Option<Estimate>,
    /// Microseconds an operation more than the reference's.
    pub extra_us: Option<Estimate>,
    /// Two-sided p of "it takes the reference's time".
    pub p: Option<f64>,
    /// The same after Holm's correction over all rows.
    pub p_adjusted: Option<f64>,
    /// What the numbers say.
    pub verdict: Verdict,
    /// `slower` or `faster` where the verdict is `undecided` and a weaker rule calls it so.
    pub probably: Option<Verdict>,
    /// The largest difference, as a share, that the interval leaves possible.
    pub margin: Option<f64>,
    /// Blocks that an interval lacks. Absent where there is one.
    pub more_blocks: Option<usize>,
}

impl AlternativeRow {
    /// The verdict in a word or two, the weaker ones among them.
    pub fn word(&self) -> &'static str {
        word(self.verdict, self.probably, self.more_blocks)
    }
}
