//! The cost models as tables and charts.

use layermark_model::{Quantity, format_size};

use crate::{
    Report,
    facts::cost::OFF,
    number,
    types::{
        Axis, Cell, CostRow, DataTable, Estimate, LineChart, Mark, ResultRow, Section, Series,
    },
    words::cost::per_byte,
};

/// Most charts: of a whole matrix only the first groups are drawn.
const CHARTS: usize = 12;

/// Time per operation over record size, one chart for each group, with the models as lines.
fn charts(rows: &[CostRow], results: &[ResultRow]) -> Vec<LineChart> {
    let mut charts: Vec<(&CostRow, LineChart)> = Vec::new();
    for row in rows {
        let of_family = |c: &&CostRow| c.point == row.point && c.workload == row.workload;
        let at = charts.iter().position(|(c, _)| of_family(c));
        let at = at.unwrap_or_else(|| {
            charts.push((row, empty(&row.label)));
            charts.len() - 1
        });
        charts[at].1.series.push(series(row, results));
    }
    charts.into_iter().take(CHARTS).map(|(_, c)| c).collect()
}

fn empty(label: &str) -> LineChart {
    let axis = |label: &str, unit: &str| Axis {
        label: label.into(),
        unit: unit.into(),
    };
    LineChart {
        title: format!("Time an operation over record size: {label}"),
        x: axis("record size", "B"),
        y: axis("time an operation", "us"),
        series: Vec::new(),
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
    let more = format!("more than {baseline}, an operation");
    let cell = |e: Option<Estimate>, text: fn(&Estimate) -> String| {
        e.map_or_else(Cell::default, |e| Cell::number(text(&e), e.estimate))
    };
    let signed = |e: &Estimate| {
        let sign = if e.estimate > 0.0 { "+" } else { "" };
        format!("{sign}{}", number::time_with(e))
    };
    let signed_bytes = |e: &Estimate| {
        let sign = if e.estimate > 0.0 { "+" } else { "" };
        format!("{sign}{}", per_byte(e))
    };
    let line = |row: &CostRow| {
        let note = if row.fits {
            row.ceiling.map_or_else(String::new, |c| {
                format!("at most {}", number::value(c, "B/s"))
            })
        } else {
            format!(
                "no such model: {} off at {}",
                number::percent(row.worst),
                format_size(row.worst_record)
            )
        };
        vec![
            Cell::text(&row.label),
            Cell::text(&row.layer),
            cell(row.fixed_us, number::time_with),
            cell(row.ns_per_byte, per_byte),
            cell(row.extra_fixed_us, signed),
            cell(row.extra_ns_per_byte, signed_bytes),
            Cell::text(note),
        ]
    };
    Some(Section {
        name: "cost".into(),
        title: "What an operation costs, whatever its size, and what each byte adds".into(),
        about: format!(
            "A line through the record sizes, in a robust fit that one outlying size moves little; {} intervals by resampling repeats. Where a size lies more than {} off, there is no such model.",
            number::percent(report.level),
            number::percent(OFF)
        ),
        tables: vec![DataTable {
            title: "Fixed cost and cost of a byte".into(),
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
