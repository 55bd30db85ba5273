//! Results of other programs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An import, shown next to the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Beside")]
pub struct ExternalResults {
    /// The import's id.
    pub import: String,
    /// The program, with its version if the file names it.
    pub tool: String,
    /// The file it came from.
    pub file: String,
    /// When it was measured, as written in the file.
    pub measured: Option<String>,
    /// Remarks of the import.
    pub notes: Vec<String>,
    /// Points of both, by operation, record, file size, queue depth and threads.
    pub rows: Vec<ExternalRow>,
    /// Points of the import without a matching result of ours.
    pub unmatched: Vec<String>,
}

/// One of our results and a matching one of the import.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BesideRow")]
pub struct ExternalRow {
    /// Our result's id.
    pub result: String,
    /// Our point's label.
    pub point: String,
    /// Our layer.
    pub layer: String,
    /// Its name in the import.
    pub name: String,
    /// `B/s`, `ops/s` or `us`.
    pub unit: String,
    /// Our value.
    pub ours: f64,
    /// Its interval.
    pub interval: Option<[f64; 2]>,
    /// The import's value.
    pub theirs: f64,
    /// Time per operation, ours over theirs: above 1, ours took longer.
    pub ratio: f64,
    /// Differences between the two, as far as the file shows them.
    pub differences: Vec<String>,
}
