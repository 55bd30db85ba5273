//! One line for each point, the layers beside each other: for a pivot table or to look at.

use std::collections::BTreeMap;

use super::{
    Exporter, Files,
    csv::{field, safe},
    own::has_columns,
};
use crate::{Report, ResultRow};

/// See the module.
pub struct CsvWide;

/// Columns of each point.
const HEAD: [&str; 4] = ["workload", "point", "params", "unit"];

/// Columns of each layer, after its name.
const COLUMNS: [&str; 6] = [
    "value",
    "op_us",
    "ratio",
    "ratio_low",
    "ratio_high",
    "verdict",
];

impl Exporter for CsvWide {
    fn id(&self) -> &'static str {
        "csv_wide"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["wide.csv"]
    }

    fn is_own(&self, head: &str, _: &mut std::fs::File) -> bool {
        has_columns(head, HEAD.into_iter())
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let mut writer = csv::Writer::from_writer(out.open("")?);
        let layers: Vec<&str> = report
            .layers
            .iter()
            .filter(|l| !l.control)
            .map(|l| l.name.as_str())
            .collect();
        let mut head: Vec<String> = HEAD.map(str::to_owned).to_vec();
        for layer in &layers {
            head.extend(COLUMNS.map(|c| safe(&format!("{layer} {c}"))));
        }
        writer.write_record(&head)?;
        for line in lines(report) {
            writer.write_record(record(&line, &layers))?;
        }
        writer.flush()?;
        Ok(())
    }
}

/// The results of each point by layer, in the plan's order.
fn lines(report: &Report) -> Vec<BTreeMap<&str, &ResultRow>> {
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

fn record(line: &BTreeMap<&str, &ResultRow>, layers: &[&str]) -> Vec<String> {
    let mut cells: Vec<String> = line.values().next().map_or_else(Vec::new, |r| {
        vec![
            r.workload.clone(),
            safe(&r.label),
            serde_json::to_string(&r.point).unwrap_or_default(),
            r.unit.clone(),
        ]
    });
    for layer in layers {
        cells.extend(
            line.get(layer)
                .map_or_else(<[String; COLUMNS.len()]>::default, |r| {
                    [
                        number(r.value),
                        number(r.op_us),
                        number(r.ratio.map(|e| e.estimate)),
                        number(r.ratio.and_then(|e| e.interval).map(|i| i[0])),
                        number(r.ratio.and_then(|e| e.interval).map(|i| i[1])),
                        r.probably.map_or(r.verdict.id(), |_| r.word()).into(),
                    ]
                }),
        );
    }
    cells
}

fn number(value: Option<f64>) -> String {
    field(value.into())
}
