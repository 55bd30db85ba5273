//! Work that differs in file size and record alone: one table of file sizes by records for each layer.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{Report, ResultRow};

/// Points that share everything but the sizes, in all layers.
pub struct Family<'a> {
    /// The parameters they share.
    params: Map<String, Value>,
    workload: &'a str,
    /// File sizes, bytes, rising.
    pub files: Vec<u64>,
    /// Records, bytes, rising.
    pub records: Vec<u64>,
    cells: BTreeMap<&'a str, BTreeMap<(u64, u64), &'a ResultRow>>,
}

/// Every family that moves bytes in records, in the plan's order.
pub fn families(report: &Report) -> Vec<Family<'_>> {
    let mut order: BTreeMap<String, usize> = BTreeMap::new();
    let mut found: Vec<Family> = Vec::new();
    for row in report.results.iter().filter(|r| r.unit == "B/s") {
        let (Some(file), Some(record)) = (size(row, "file_size"), size(row, "record")) else {
            continue;
        };
        let mut params = row.point.clone();
        // How it was written back afterwards changes nothing of what the clock saw.
        params.retain(|key, _| !["file_size", "record", "no_debt"].contains(&key.as_str()));
        let key = format!("{} {}", row.workload, Value::Object(params.clone()));
        let at = *order.entry(key).or_insert_with(|| {
            found.push(Family {
                params,
                workload: &row.workload,
                files: Vec::new(),
                records: Vec::new(),
                cells: BTreeMap::new(),
            });
            found.len() - 1
        });
        let family = &mut found[at];
        insert(&mut family.files, file);
        insert(&mut family.records, record);
        let cells = family.cells.entry(&row.layer).or_default();
        cells.insert((file, record), row);
    }
    found
}

fn size(row: &ResultRow, key: &str) -> Option<u64> {
    row.point.get(key)?.as_u64().filter(|n| *n > 0)
}

fn insert(sorted: &mut Vec<u64>, value: u64) {
    if let Err(at) = sorted.binary_search(&value) {
        sorted.insert(at, value);
    }
}

impl<'a> Family<'a> {
    /// Leaves out file sizes and records that a format cannot name.
    pub fn keep_sizes(&mut self, wanted: fn(u64) -> bool) {
        self.files.retain(|n| wanted(*n));
        self.records.retain(|n| wanted(*n));
    }

    /// Two sizes each way: enough for a table.
    pub fn is_matrix(&self) -> bool {
        self.files.len() > 1 && self.records.len() > 1
    }

    /// The result at a file size and a record, if it has a number.
    pub fn cell(&self, layer: &str, file: u64, record: u64) -> Option<&'a ResultRow> {
        let row = *self.cells.get(layer)?.get(&(file, record))?;
        row.value.is_some_and(f64::is_finite).then_some(row)
    }

    /// The value there, in bytes a second.
    pub fn value(&self, layer: &str, file: u64, record: u64) -> Option<f64> {
        self.cell(layer, file, record)?.value
    }

    /// Layers with at least one number, in the report's order.
    pub fn layers(&self, report: &'a Report) -> Vec<&'a str> {
        report
            .layers
            .iter()
            .map(|l| l.name.as_str())
            .filter(|l| {
                let cells = self.cells.get(l).into_iter().flat_map(BTreeMap::values);
                cells
                    .into_iter()
                    .any(|r| r.value.is_some_and(f64::is_finite))
            })
            .collect()
    }

    /// Ids of its results.
    pub fn ids(&self) -> impl Iterator<Item = String> {
        let rows = self.cells.values().flat_map(BTreeMap::values);
        rows.map(|r| r.id.clone())
    }

    /// A parameter that is text, such as `op`; empty when it has none.
    pub fn text(&self, key: &str) -> &str {
        self.params
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The workload's id.
    pub fn workload(&self) -> &'a str {
        self.workload
    }

    /// What all its points do, in words: `read, warm, pread`.
    pub fn describe(&self) -> String {
        crate::analysis::points::describe(&layermark_model::Point {
            workload: self.workload.to_owned(),
            label: String::new(),
            params: self.params.clone(),
        })
    }
}
