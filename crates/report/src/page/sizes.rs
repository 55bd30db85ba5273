//! Results by file size and record size: a matrix for each test, with cells for each layer.

use super::{
    cell::MatrixCell,
    charts::{self, Chart},
    results::{ResultLine, is_large},
};
use crate::{
    Report,
    facts::size_table::{self, LayerTable, SizeTable},
    views::iozone,
};

/// A test: points that share everything except the sizes.
pub struct SizeMatrix<'a> {
    /// Description of its points: `read, warm, pread`.
    pub title: String,
    /// File sizes, bytes, ascending.
    pub files: Vec<u64>,
    /// Record sizes, bytes, ascending.
    pub records: Vec<u64>,
    /// Layers with at least one number, in the report's order.
    pub layers: Vec<SizeLayer<'a>>,
    /// All its results, if no other table need have them.
    pub folded: Vec<ResultLine<'a>>,
    table: SizeTable<'a>,
}

/// The cells of a layer.
pub struct SizeLayer<'a> {
    /// The layer's name.
    pub name: &'a str,
    /// Whether the others are compared with it.
    pub is_baseline: bool,
    /// A row for each file size, with a cell for each record size, if it has a number.
    pub cells: Vec<Vec<Option<MatrixCell<'a>>>>,
}

/// iozone's tables of a layer, for a sheet.
pub struct IozoneSheet<'a> {
    /// The layer's name.
    pub layer: &'a str,
    /// In iozone's order.
    pub tables: Vec<IozoneTable<'a>>,
}

/// A table with one of iozone's titles.
pub struct IozoneTable<'a> {
    /// The title, without the word `report`.
    pub title: &'static str,
    /// Number of the table in iozone's order, from 0.
    pub place: u32,
    /// File sizes, bytes.
    pub files: Vec<u64>,
    /// Record sizes, bytes.
    pub records: Vec<u64>,
    /// The results.
    pub cells: Vec<Vec<Option<MatrixCell<'a>>>>,
}

impl<'a> SizeMatrix<'a> {
    /// Tests with at least two sizes in each direction.
    pub fn all(report: &'a Report) -> Vec<Self> {
        let tables = size_table::tables(report).into_iter();
        let matrices = tables.filter(SizeTable::is_matrix);
        matrices.map(|table| Self::new(report, table)).collect()
    }

    /// Tests with several sizes, all in whole kB (1,024 bytes).
    pub fn in_kb(report: &'a Report) -> Vec<Self> {
        let tests = iozone::tests(report).into_iter();
        let several = tests.filter(|test| test.files.len() * test.records.len() > 1);
        several.map(|table| Self::new(report, table)).collect()
    }

    fn new(report: &'a Report, table: SizeTable<'a>) -> Self {
        let layers = table.layers.iter().map(|of| SizeLayer {
            name: &of.layer.name,
            is_baseline: of.layer.baseline,
            cells: cells(report, of),
        });
        let folded = table.results.iter().filter(|_| is_large(report));
        Self {
            title: table.title.clone(),
            files: table.files.clone(),
            records: table.records.clone(),
            layers: layers.collect(),
            folded: folded.map(|row| ResultLine::new(row)).collect(),
            table,
        }
    }

    /// A surface for each layer with enough numbers. `n` is the number of the test within the page.
    pub fn surfaces(&self, n: usize) -> Vec<Chart> {
        charts::surfaces(&self.table, n)
    }
}

impl SizeLayer<'_> {
    /// The numbers of its cells.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        let cells = self.cells.iter().flatten().flatten();
        cells.filter_map(|cell| cell.value)
    }
}

fn cells<'a>(report: &'a Report, of: &LayerTable<'a>) -> Vec<Vec<Option<MatrixCell<'a>>>> {
    let cell = |row| MatrixCell::new(Some(row), report.baseline());
    let line = |rows: &Vec<Option<_>>| rows.iter().map(|row| row.map(cell)).collect();
    of.cells.iter().map(line).collect()
}

/// iozone's tables of each layer that has a matrix among them. Tests whose titles another one has already, such
/// as those with a cold cache, have none.
pub fn iozone_sheets<'a>(report: &'a Report) -> Vec<IozoneSheet<'a>> {
    let tests = iozone::tests(report);
    let sets = iozone::table_sets(report, &tests).into_iter();
    let first = sets.filter(|set| set.number == 0);
    let first = first.filter(|set| set.tables.iter().any(|t| t.test.is_matrix()));
    let sheet = |set: iozone::TableSet<'_, 'a>| {
        let tables = set.tables.iter().map(|t| IozoneTable {
            title: t.title,
            place: t.place,
            files: t.test.files.clone(),
            records: t.test.records.clone(),
            cells: cells(report, t.in_layer),
        });
        IozoneSheet {
            layer: set.layer,
            tables: tables.collect(),
        }
    };
    first.map(sheet).collect()
}
