//! Results of other programs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One import, set beside the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Beside")]
pub struct ExternalResults {
    /// The import's id.
    pub import: String,
    /// The program, with its version where its file told.
    pub tool: String,
    /// The file it came from.
    pub file: String,
    /// When it was measured, in the file's own words.
    pub measured: Option<String>,
    /// Remarks of the import.
    pub notes: Vec<String>,
    /// Points of both, by operation, record, file size, queue depth and threads.
    pub rows: Vec<ExternalRow>,
    /// Their points for which we have none.
    pub unmatched: Vec<String>,
}

/// One of our results and one of theirs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BesideRow")]
pub struct ExternalRow {
    /// Our result's id.
    pub result: String,
    /// Our point's label.
    pub point: String,
    /// Our layer.
    pub layer: String,
    /// What they call it.
    pub name: String,
    /// `B/s`, `ops/s` or `us`.
    pub unit: String,
    /// Our value.
    pub ours: f64,
    /// Its interval.
    pub interval: Option<[f64; 2]>,
    /// Their value.
    pub theirs: f64,
    /// Time an operation, ours over theirs: above 1, ours took longer.
    pub ratio: f64,
    /// In what the two differ, as far as their file tells.
    pub differences: Vec<String>,
}
