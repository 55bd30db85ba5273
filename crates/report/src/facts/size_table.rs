//! Tables of file sizes by record sizes, one for each layer, for work that differs only in these
//! sizes.

use std::collections::BTreeSet;

use layermark_model::{Quantity, Unit};

use crate::{LayerReport, Report, ResultRow, facts::sweep};

/// Points that share everything except the sizes, in all layers.
pub struct SizeTable<'a> {
    /// Description of all its points: `read, warm, pread`.
    pub title: String,
    /// Name of one operation, such as `rand-read`.
    pub operation: String,
    /// The I/O engine, such as `pread`.
    pub engine: Option<String>,
    /// File sizes, bytes, ascending.
    pub files: Vec<u64>,
    /// Record sizes, bytes, ascending.
    pub records: Vec<u64>,
    /// Layers with at least one number, in the report's order.
    pub layers: Vec<LayerTable<'a>>,
    /// All its results, in the report's order.
    pub results: Vec<&'a ResultRow>,
}

/// The table in one layer.
pub struct LayerTable<'a> {
    /// The layer.
    pub layer: &'a LayerReport,
    /// A row for each file size, with a cell for each record size: the result, if it has a number.
    pub cells: Vec<Vec<Option<&'a ResultRow>>>,
}

/// The tables of all work that moves bytes in requests, in the plan's order.
pub fn tables(report: &Report) -> Vec<SizeTable<'_>> {
    tables_of(report, |_| true)
}

/// The tables, limited to `wanted` file and record sizes, such as those that a format can name.
pub fn tables_of(report: &Report, wanted: fn(u64) -> bool) -> Vec<SizeTable<'_>> {
    let sizes = [Quantity::DataSize, Quantity::RequestSize];
    let fits = |r: &&ResultRow| {
        let mut sizes = sizes.iter().filter_map(|q| r.meaning.value(*q));
        r.meaning.unit == Unit::Byte && sizes.all(wanted)
    };
    let bulk = report.results.iter().zip(0..).filter(|(r, _)| fits(r));
    let sweeps = sweep::over(bulk, sizes).into_iter();
    sweeps
        .map(|sweep| {
            let (files, records) = (sweep.values(0), sweep.values(1));
            let mut places: Vec<usize> = sweep.members().copied().collect();
            places.sort_unstable();
            let results: Vec<_> = places.iter().map(|at| &report.results[*at]).collect();
            let layers = report.layers.iter();
            let tables = layers.filter_map(|l| layer_table(l, &results, &files, &records));
            SizeTable {
                title: sweep.describe(),
                layers: tables.collect(),
                operation: sweep.meaning.operation,
                engine: sweep.meaning.engine,
                files,
                records,
                results,
            }
        })
        .collect()
}

fn layer_table<'a>(
    layer: &'a LayerReport,
    results: &[&'a ResultRow],
    files: &[u64],
    records: &[u64],
) -> Option<LayerTable<'a>> {
    let mut cells = vec![vec![None; records.len()]; files.len()];
    let own = results.iter().filter(|r| r.layer == layer.name);
    let mut measured = own
        .filter(|r| r.value.is_some_and(f64::is_finite))
        .peekable();
    measured.peek()?;
    for row in measured {
        let place = |q, sizes: &[u64]| sizes.binary_search(&row.meaning.value(q)?).ok();
        let file = place(Quantity::DataSize, files)?;
        cells[file][place(Quantity::RequestSize, records)?] = Some(*row);
    }
    Some(LayerTable { layer, cells })
}

/// Ids of the results in matrices.
pub fn ids_in_matrices(report: &Report) -> BTreeSet<&str> {
    let tables = tables(report).into_iter().filter(SizeTable::is_matrix);
    tables
        .flat_map(|t| t.results)
        .map(|r| r.id.as_str())
        .collect()
}

impl<'a> SizeTable<'a> {
    /// Whether there are at least two sizes in each direction.
    pub fn is_matrix(&self) -> bool {
        self.files.len() > 1 && self.records.len() > 1
    }

    /// Its table in a layer, if the layer has results.
    pub fn in_layer(&self, name: &str) -> Option<&LayerTable<'a>> {
        self.layers.iter().find(|t| t.layer.name == name)
    }
}
