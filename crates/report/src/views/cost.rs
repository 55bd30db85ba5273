//! The cost models as tables and charts.

use layermark_model::Quantity;

use crate::{
    Report,
    facts::cost::OFF,
    group, number,
    types::{
        Axis, Cell, CostRow, DataTable, Estimate, LineChart, Mark, ResultRow, Section, Series,
    },
    words::{captions, charts::over_record_size, cost as words},
};

/// Most charts: of a whole matrix only the first groups are drawn.
const CHARTS: usize = 12;

/// Time per operation over record size, one chart for each group, with the models as lines.
fn charts(rows: &[CostRow], results: &[ResultRow]) -> Vec<LineChart> {
    let families = group::by(rows, |row| (&row.point, &row.workload));
    let charts = families.iter().take(CHARTS);
    charts.map(|(_, rows)| chart(rows, results)).collect()
}

fn chart(rows: &[&CostRow], results: &[ResultRow]) -> LineChart {
    LineChart {
        title: over_record_size(&rows[0].label).into(),
        x: Axis::new("record size", "B"),
        y: Axis::new("time an operation", "us"),
        series: rows.iter().map(|row| series(row, results)).collect(),
    }
}

fn series(row: &CostRow, results: &[ResultRow]) -> Series {
    let mut points: Vec<Mark> = results
        .iter()
        .filter(|r| row.evidence.contains(&r.id))
        .filter_map(|r| {
            Some(Mark {
                x: r.meaning.value(Quantity::RequestSize)? as f64,
                y: r.op_us?,
                interval: r.op_us_interval,
            })
        })
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let model = row.fixed_us.zip(row.ns_per_byte).map(|(fixed, bytes)| {
        let at = |x: u64| [x as f64, fixed.estimate + bytes.estimate * x as f64 / 1e3];
        row.records.iter().map(|x| at(*x)).collect()
    });
    Series {
        name: row.layer.clone(),
        points,
        model,
    }
}

/// The models as a section of the report; `None` if there are none.
pub fn section(report: &Report) -> Option<Section> {
    let (rows, baseline) = (&report.cost, report.baseline());
    if rows.is_empty() {
        return None;
    }
    let more = String::from(words::more_than(baseline));
    let cell = |e: Option<Estimate>, text: fn(&Estimate) -> String| {
        e.map_or_else(Cell::default, |e| Cell::number(text(&e), e.estimate))
    };
    let signed = |e: &Estimate| number::signed(e.estimate, &number::time_with(e));
    let signed_bytes = |e: &Estimate| number::signed(e.estimate, &words::per_byte(e));
    let line = |row: &CostRow| {
        let note = if row.fits {
            row.ceiling.map(words::at_most).unwrap_or_default()
        } else {
            words::no_model(row.worst, row.worst_record)
        };
        vec![
            Cell::text(&row.label),
            Cell::text(&row.layer),
            cell(row.fixed_us, number::time_with),
            cell(row.ns_per_byte, words::per_byte),
            cell(row.extra_fixed_us, signed),
            cell(row.extra_ns_per_byte, signed_bytes),
            Cell::text(note),
        ]
    };
    Some(Section {
        name: "cost".into(),
        title: captions::COST.title.into(),
        about: words::about_models(report.level, OFF).into(),
        tables: vec![DataTable {
            title: captions::COST_MODELS.title.into(),
            note: String::new(),
            head: [
                "operation",
                "layer",
                "an operation",
                "a byte",
                &more,
                "a byte",
                "",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: rows.iter().map(line).collect(),
        }],
        charts: charts(rows, &report.results),
        ..Section::default()
    })
}
