//! Work that differs in the size of its data and of its requests alone: one table of file sizes by
//! records for each layer.

use layermark_model::{Quantity, Unit};

use crate::{
    Report, ResultRow,
    analysis::sweep::{self, Sweep},
};

/// Points that share everything but the sizes, in all layers.
pub struct SizeTable<'a> {
    sweep: Sweep<2, &'a ResultRow>,
    /// File sizes, bytes, rising.
    pub files: Vec<u64>,
    /// Records, bytes, rising.
    pub records: Vec<u64>,
}

/// The table of everything that moves bytes in requests, in the plan's order.
pub fn tables(report: &Report) -> Vec<SizeTable<'_>> {
    let rows = report.results.iter();
    let bulk = rows.filter(|r| r.meaning.unit == Unit::Byte);
    let sizes = [Quantity::DataSize, Quantity::RequestSize];
    let sweeps = sweep::over(bulk.map(|r| (r, r)), sizes).into_iter();
    sweeps
        .map(|sweep| SizeTable {
            files: sweep.values(0),
            records: sweep.values(1),
            sweep,
        })
        .collect()
}

impl<'a> SizeTable<'a> {
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
        let steps = &self.sweep.steps;
        let from = steps.partition_point(|(sizes, _)| *sizes < [file, record]);
        let there = steps[from..]
            .iter()
            .take_while(|(sizes, _)| *sizes == [file, record]);
        let rows = there.map(|(_, row)| *row);
        rows.filter(|r| r.layer == layer && r.value.is_some_and(f64::is_finite))
            .last()
    }

    /// The value there, in bytes a second.
    pub fn value(&self, layer: &str, file: u64, record: u64) -> Option<f64> {
        self.cell(layer, file, record)?.value
    }

    /// Layers with at least one number, in the report's order.
    pub fn layers(&self, report: &'a Report) -> Vec<&'a str> {
        let measured = |layer: &&str| {
            let mut rows = self.sweep.members();
            rows.any(|r| r.layer == *layer && r.value.is_some_and(f64::is_finite))
        };
        let names = report.layers.iter().map(|l| l.name.as_str());
        names.filter(measured).collect()
    }

    /// Ids of its results.
    pub fn ids(&self) -> impl Iterator<Item = String> {
        self.sweep.members().map(|r| r.id.clone())
    }

    /// What one operation is called, such as `rand-read`.
    pub fn operation(&self) -> &str {
        &self.sweep.meaning.operation
    }

    /// How I/O is made, such as `pread`.
    pub fn engine(&self) -> Option<&str> {
        self.sweep.meaning.engine.as_deref()
    }

    /// What all its points do, in words: `read, warm, pread`.
    pub fn describe(&self) -> String {
        self.sweep.describe()
    }
}
