//! Figures that a workload declares besides its time.

use std::collections::BTreeMap;

use layermark_model::{FigureTable, FigureValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Figures of results that do the same work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FigureGroup {
    /// The workload.
    pub workload: String,
    /// What all of them do, in words.
    pub what: String,
    /// The meaning, unit and source of each figure.
    pub declared: FigureTable,
    /// One row for each result.
    pub rows: Vec<FigureRow>,
}

/// Figures of a result.
// Its ratio is that of the result, which has the comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FigureRow {
    /// The result's id.
    pub result: String,
    /// The layer's name.
    pub layer: String,
    /// The point's name.
    pub label: String,
    /// Values by the figures' names. Unknown values are absent.
    pub values: BTreeMap<String, FigureValue>,
    /// Names of figures without a value because the device was also in use while no layer worked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}
