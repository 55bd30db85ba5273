//! Figures that a workload declares beside its time.

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
    /// What each figure is, in which unit, and how it was made of the trials.
    pub declared: FigureTable,
    /// One row for each result.
    pub rows: Vec<FigureRow>,
}

/// Figures of a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FigureRow {
    /// The result's id.
    pub result: String,
    /// The layer's name.
    pub layer: String,
    /// The point's name.
    pub label: String,
    /// By the figures' names. What is not known is absent.
    pub values: BTreeMap<String, FigureValue>,
}
