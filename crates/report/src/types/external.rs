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

/// Two imports next to each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportComparison {
    /// Name and version of this document: `layermark.imports/1`.
    pub schema: String,
    /// The older import.
    pub old: ImportSide,
    /// The newer one.
    pub new: ImportSide,
    /// Points of both.
    pub rows: Vec<ImportPair>,
    /// Points that only the older one has.
    pub only_old: Vec<String>,
    /// Points that only the newer one has.
    pub only_new: Vec<String>,
}

/// An import without its points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportSide {
    /// Its id.
    pub import: String,
    /// The program, with its version if the file names it.
    pub tool: String,
    /// The file it came from.
    pub file: String,
    /// When it was measured, as written in the file.
    pub measured: Option<String>,
    /// Remarks of the import.
    pub notes: Vec<String>,
}

/// A point of both imports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportPair {
    /// The newer import's point, described.
    pub point: String,
    /// Its name in the older import.
    pub old_name: String,
    /// `B/s`, `ops/s` or `us`.
    pub unit: String,
    /// The older value.
    pub old: f64,
    /// The newer value.
    pub new: f64,
    /// Time per operation, new over old: above 1, the newer one took longer.
    pub ratio: f64,
    /// Differences between the two, as far as the files show them.
    pub differences: Vec<String>,
}
