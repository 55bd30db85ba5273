//! The long tables of a report, for every format with a table of all results, trials or launches.

use std::{borrow::Cow, collections::BTreeMap};

use crate::{LaunchLevel, LaunchSeries, Report, ResultRow};

pub mod benchmarks;
pub mod cases;
mod columns;
pub mod points;

use columns::Column;
pub use columns::{LAUNCHES, LEVELS, RESULTS, TRIALS};

/// The content of a cell.
pub enum Field {
    /// Text; may be empty.
    Text(String),
    /// A number; never NaN or infinite.
    Number(f64),
    /// A count.
    Count(u64),
    /// No value.
    Empty,
}

impl From<Option<f64>> for Field {
    fn from(value: Option<f64>) -> Self {
        value
            .filter(|v| v.is_finite())
            .map_or(Self::Empty, Self::Number)
    }
}

impl From<Option<u64>> for Field {
    fn from(value: Option<u64>) -> Self {
        value.map_or(Self::Empty, Self::Count)
    }
}

impl From<u64> for Field {
    fn from(value: u64) -> Self {
        Self::Count(value)
    }
}

impl From<usize> for Field {
    fn from(value: usize) -> Self {
        Self::Count(value as u64)
    }
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// The format of a column in a spreadsheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnFormat {
    /// Short text, and counts without separators.
    Plain,
    /// Text that may be long.
    Words,
    /// Whole numbers.
    Whole,
    /// Microseconds and other small units.
    Fine,
    /// Ratios.
    Ratio,
    /// Shares of one.
    Share,
    /// Probabilities.
    Small,
}

/// A table that is written line by line.
pub struct LongTable<'a> {
    /// Names of the columns, and the formats of their numbers.
    pub head: Vec<(Cow<'a, str>, ColumnFormat)>,
    /// Lines with as many fields as the head.
    pub lines: Box<dyn Iterator<Item = Vec<Field>> + 'a>,
}

impl<'a> LongTable<'a> {
    fn new<F>(columns: &[Column<F>], lines: impl Iterator<Item = Vec<Field>> + 'a) -> Self {
        let head = columns
            .iter()
            .map(|(name, shown, _)| (Cow::Borrowed(*name), *shown));
        Self {
            head: head.collect(),
            lines: Box::new(lines),
        }
    }
}

/// Every result, the control's last.
pub fn results(report: &Report) -> LongTable<'_> {
    let control = report.control.iter().flat_map(|c| &c.results);
    let rows = report.results.iter().chain(control);
    let line = move |row| RESULTS.iter().map(|(.., of)| of((report, row))).collect();
    LongTable::new(RESULTS, rows.map(line))
}

/// Every trial in the order of the run.
pub fn trials(report: &Report) -> LongTable<'_> {
    let line = |trial| TRIALS.iter().map(|(.., of)| of(trial)).collect();
    LongTable::new(TRIALS, report.trials.iter().map(line))
}

/// Every launch in the order of the run.
pub fn launches(report: &Report) -> LongTable<'_> {
    let series = report.series.iter();
    let mut all: Vec<_> = series
        .flat_map(|s| s.runs.iter().map(move |r| (s, r)))
        .collect();
    all.sort_by_key(|(_, run)| run.seq);
    let line = |launch| LAUNCHES.iter().map(|(.., of)| of(launch)).collect();
    LongTable::new(LAUNCHES, all.into_iter().map(line))
}

/// The levels of each series of launches.
fn levels(report: &Report) -> LongTable<'_> {
    let line = |series: &LaunchSeries, level: &LaunchLevel| -> Vec<Field> {
        LEVELS.iter().map(|(.., of)| of((series, level))).collect()
    };
    let series = report.series.iter();
    let lines = series.flat_map(move |s| s.levels.iter().map(move |l| line(s, l)));
    LongTable::new(LEVELS, lines)
}

/// The tables that a workbook has as a sheet each, with their names.
pub fn lists(report: &Report) -> Vec<(&'static str, LongTable<'_>)> {
    let mut all = Vec::new();
    if !report.series.is_empty() {
        all.push(("Every launch", launches(report)));
        all.push(("Launch levels", levels(report)));
    }
    all.push(("Results", results(report)));
    all.push(("Trials", trials(report)));
    all
}

/// Columns of [`wide`] for each point.
pub const POINT: [&str; 4] = ["workload", "point", "params", "unit"];

/// Columns of [`wide`] for each layer, after its name.
const IN_LAYER: [&str; 7] = [
    "value",
    "op_us",
    "ratio",
    "ratio_low",
    "ratio_high",
    "verdict",
    "native_us",
];

/// Every point, with the layers side by side.
pub fn wide(report: &Report) -> LongTable<'_> {
    let layers = report.layers.iter().filter(|l| !l.control);
    let layers: Vec<&str> = layers.map(|l| l.name.as_str()).collect();
    let of_point = POINT.map(|name| (Cow::Borrowed(name), ColumnFormat::Plain));
    let of_layers = layers.iter().flat_map(|layer| {
        IN_LAYER.map(|name| ([*layer, name].join(" ").into(), ColumnFormat::Plain))
    });
    let head = of_point.into_iter().chain(of_layers).collect();
    let lines = by_point(report).into_iter();
    LongTable {
        head,
        lines: Box::new(lines.map(move |line| wide_line(&line, &layers))),
    }
}

/// The results of each point by layer, in the plan's order.
fn by_point(report: &Report) -> Vec<BTreeMap<&str, &ResultRow>> {
    let mut at: BTreeMap<&str, usize> = BTreeMap::new();
    let mut lines: Vec<BTreeMap<&str, &ResultRow>> = Vec::new();
    for row in &report.results {
        let line = *at.entry(&row.label).or_insert_with(|| {
            lines.push(BTreeMap::new());
            lines.len() - 1
        });
        lines[line].insert(&row.layer, row);
    }
    lines
}

fn wide_line(line: &BTreeMap<&str, &ResultRow>, layers: &[&str]) -> Vec<Field> {
    let of_point = line
        .values()
        .next()
        .into_iter()
        .flat_map(|row| -> [Field; 4] {
            [
                row.workload.as_str().into(),
                row.label.as_str().into(),
                serde_json::to_string(&row.point).unwrap_or_default().into(),
                row.unit.as_str().into(),
            ]
        });
    let in_layer = |layer: &&str| -> [Field; 7] {
        let Some(row) = line.get(layer) else {
            return [const { Field::Empty }; 7];
        };
        let end = |n: usize| row.ratio.and_then(|e| e.interval).map(|i| i[n]).into();
        [
            row.value.into(),
            row.op_us.into(),
            row.ratio.map(|e| e.estimate).into(),
            end(0),
            end(1),
            row.probably.map_or(row.verdict.id(), |_| row.word()).into(),
            row.native_us.into(),
        ]
    };
    of_point.chain(layers.iter().flat_map(in_layer)).collect()
}

/// Columns of [`section_cells`].
pub const SECTION_CELL: [&str; 7] = ["run", "section", "table", "row", "column", "text", "value"];

/// Every cell of every table besides the results.
pub fn section_cells(report: &Report) -> LongTable<'_> {
    let mut lines: Vec<Vec<Field>> = Vec::new();
    for section in report.all_sections() {
        for table in &section.tables {
            for (number, row) in table.rows.iter().enumerate() {
                lines.extend(table.head.iter().zip(row).map(|(head, cell)| {
                    vec![
                        report.run.as_str().into(),
                        section.name.as_str().into(),
                        table.title.as_str().into(),
                        (number + 1).into(),
                        head.as_str().into(),
                        cell.text.as_str().into(),
                        cell.value.into(),
                    ]
                }));
            }
        }
    }
    let head = SECTION_CELL.map(|name| (Cow::Borrowed(name), ColumnFormat::Plain));
    LongTable {
        head: head.to_vec(),
        lines: Box::new(lines.into_iter()),
    }
}
