//! Several runs against each other: the answers of `layermark compare A B C`.

use layermark_model::{Machine, RunStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Estimate;

/// Three or more runs, each compared with the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManyRuns {
    /// [`ManyRuns::SCHEMA`].
    pub schema: String,
    /// The baseline of all runs: values of the other layers are ratios to it, and its own are times. Absent if not all
    /// have one of the same name. Then all values are times.
    pub baseline: Option<String>,
    /// Differences smaller than this share do not matter.
    pub delta: f64,
    /// Level of every interval, such as 0.95.
    pub level: f64,
    /// Which run is the odd one, in a sentence without a full stop.
    pub answer: String,
    /// The runs, in the order in which they were named.
    pub runs: Vec<RunAmong>,
    /// Every point in every layer that at least three runs have. Without the control, and without results that have no
    /// verdict in a run because none was asked for.
    pub results: Vec<ResultAmong>,
    /// How the runs are unlike, in sentences without a full stop.
    pub unlike: Vec<String>,
}

/// One of the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunAmong {
    /// As the user named it.
    pub name: String,
    /// Its id.
    pub run: String,
    /// Name of its plan.
    pub plan: String,
    /// When it started, RFC 3339 UTC.
    pub started: String,
    /// Its state.
    pub status: RunStatus,
    /// Whether its data can be trusted.
    pub trustworthy: bool,
    /// The machine.
    pub machine: Machine,
    /// How often it has each word.
    pub standings: Standings,
    /// How it compares with the others, without a full stop.
    pub text: String,
}

/// Numbers of results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Standings {
    /// Like the others.
    pub like: usize,
    /// Odd.
    pub odd: usize,
    /// The runs differ, and none of them is shown to be the odd one.
    pub split: usize,
    /// The data does not decide.
    pub unknown: usize,
    /// Not compared.
    pub not_compared: usize,
}

/// A point in a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResultAmong {
    /// The layer.
    pub layer: String,
    /// The point's label.
    pub point: String,
    /// One for each run, in their order.
    pub runs: Vec<ValueAmong>,
}

/// A run at a point in a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValueAmong {
    /// Its time, microseconds. Absent if it was not measured.
    pub us: Option<f64>,
    /// The word.
    pub standing: Standing,
    /// Its value over the mean of the others that are not odd. If the runs are split, the mean is that of all others.
    /// Absent if it is not compared.
    pub ratio: Option<Estimate>,
    /// p of "it is like the others" after Holm's correction over all runs, layers and points. Those of the baseline are
    /// corrected apart. The others are those of `ratio`.
    pub p_adjusted: Option<f64>,
    /// Why it is not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// How a run compares with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Within delta of the mean of the others.
    Like,
    /// It differs from each of the runs that are not odd, and is farther from their mean than any two of them are from
    /// each other.
    Odd,
    /// The runs differ, and none of them is shown to be the odd one.
    Split,
    /// The data does not decide.
    Unknown,
    /// It has no value here that could be compared.
    NotCompared,
}

impl ManyRuns {
    /// Name and version of the JSON contract.
    pub const SCHEMA: &'static str = "layermark.odd/1";

    /// Whether the data of all runs can be trusted.
    pub fn trustworthy(&self) -> bool {
        self.runs.iter().all(|run| run.trustworthy)
    }
}

impl Standings {
    /// Of one of the runs.
    pub fn of(results: &[ResultAmong], run: usize) -> Self {
        let mut counts = Self::default();
        for value in results.iter().map(|result| &result.runs[run]) {
            *match value.standing {
                Standing::Like => &mut counts.like,
                Standing::Odd => &mut counts.odd,
                Standing::Split => &mut counts.split,
                Standing::Unknown => &mut counts.unknown,
                Standing::NotCompared => &mut counts.not_compared,
            } += 1;
        }
        counts
    }

    /// Results with a comparison.
    pub fn compared(&self) -> usize {
        self.like + self.odd + self.split + self.unknown
    }
}
