//! Results as iozone's own tables, with its titles and positions.

use layermark_model::{IozoneTable, iozone_tables};

use crate::{
    Report, ResultRow,
    facts::size_table::{LayerTable, SizeTable, tables_of},
    group,
};

/// Tables of file sizes and record sizes in whole kB (1,024 bytes).
pub fn tests(report: &Report) -> Vec<SizeTable<'_>> {
    tables_of(report, |bytes| bytes.is_multiple_of(1024))
}

/// The tests of a file of iozone. A test with one file size and one record size is a table only if all results are such
/// tests. Next to other work it counts as a single number.
pub fn tests_alone(report: &Report) -> Vec<SizeTable<'_>> {
    let mut tests = tests(report);
    let in_tests: usize = tests.iter().map(|t| t.results.len()).sum();
    if in_tests < report.results.len() {
        tests.retain(|t| t.files.len() * t.records.len() > 1);
    }
    tests
}

/// Throughput in iozone's unit.
pub fn kib_per_s(row: &ResultRow) -> Option<f64> {
    Some(row.value? / 1024.0)
}

/// iozone's tables of a layer, each title once.
pub struct TableSet<'t, 'a> {
    /// The layer's name.
    pub layer: &'a str,
    /// 0 is the first set of its layer. The next one has titles that the first already contains,
    /// such as the same tests with a cold cache.
    pub number: usize,
    /// In iozone's order; at least one.
    pub tables: Vec<TitledTable<'t, 'a>>,
}

/// A table with one of iozone's titles.
#[derive(Clone, Copy)]
pub struct TitledTable<'t, 'a> {
    /// The title, without the word `report`.
    pub title: &'static str,
    /// Number of the table in iozone's order, from 0.
    pub place: u32,
    /// The test.
    pub test: &'t SizeTable<'a>,
    /// The results in the layer.
    pub in_layer: &'t LayerTable<'a>,
}

/// The tables of every layer, in the report's order.
pub fn table_sets<'t, 'a>(report: &'a Report, tests: &'t [SizeTable<'a>]) -> Vec<TableSet<'t, 'a>> {
    let mut sets: Vec<TableSet> = Vec::new();
    for layer in report.layers.iter().filter(|l| !l.control) {
        let mut own = Vec::new();
        for (place, IozoneTable { title, op, engine }) in (0..).zip(iozone_tables()) {
            let fits = |t: &&SizeTable| t.operation == op && own_title(t, tests) == engine;
            for (number, test) in tests.iter().filter(fits).enumerate() {
                let Some(in_layer) = test.in_layer(&layer.name) else {
                    continue;
                };
                let table = TitledTable {
                    title,
                    place,
                    test,
                    in_layer,
                };
                own.push((number, table));
            }
        }
        let mut own = group::grouped(own);
        own.sort_by_key(|(number, _)| *number);
        let set = |(number, tables)| TableSet {
            layer: &layer.name,
            number,
            tables,
        };
        sets.extend(own.into_iter().map(set));
    }
    sets
}

/// The engine that gives a test its own titles. iozone's plain tests are those of read(2) and
/// write(2). If `pread` is the only engine of that kind in the run, which is the default, its tests
/// are the plain ones.
fn own_title(test: &SizeTable, all: &[SizeTable]) -> Option<&'static str> {
    match test.engine.as_deref()? {
        "stdio" => Some("stdio"),
        "preadv" => Some("preadv"),
        "pread" if all.iter().any(|t| t.engine.as_deref() == Some("sync")) => Some("pread"),
        _ => None,
    }
}
