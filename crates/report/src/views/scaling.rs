//! Scaling of throughput with CPUs: a table, and a chart with the ideal line.

use crate::{
    Report,
    code_span::code,
    group,
    number::{self, sig3},
    types::{Axis, Cell, DataTable, LineChart, Mark, ScalingRow, Section, Series},
    words::{Text, captions, charts::over_cpus, scaling as words},
};

/// `None` if no work was done with several numbers of CPUs.
pub fn section(report: &Report) -> Option<Section> {
    if report.scaling.is_empty() {
        return None;
    }
    let works = group::by(&report.scaling, |row| row.what.as_str());
    let baseline = report.baseline();
    Some(Section {
        name: "scaling".into(),
        title: captions::SCALING.title.into(),
        about: words::about_scaling(&report.names()).into(),
        tables: works
            .iter()
            .map(|(what, rows)| table(what, rows, baseline))
            .collect(),
        charts: works
            .iter()
            .filter_map(|(what, rows)| chart(what, rows))
            .collect(),
        ..Section::default()
    })
}

fn table(what: &str, rows: &[&ScalingRow], baseline: &str) -> DataTable {
    let ratio = String::from(words::ratio_to(baseline));
    let head = [
        "layer",
        "CPUs",
        "X(n)",
        "speed-up",
        "efficiency",
        "MP factor",
        &ratio,
    ];
    let not = rows.iter().filter_map(|r| {
        let why = r.not_scaling.as_ref()?;
        Some(words::not_scaling(r, why))
    });
    DataTable {
        title: words::scaling(what).into(),
        note: Text::joined(not, " ").into(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.iter().map(|r| line(r)).collect(),
    }
}

fn line(row: &ScalingRow) -> Vec<Cell> {
    let value = |v: f64| number::value(v, &row.unit);
    let rate = number::ranged(row.value, row.interval, value);
    let some = |v: Option<f64>| v.map_or_else(|| Cell::text("-"), |v| Cell::bare(sig3(v), v));
    let ratio = row.ratio.as_ref();
    vec![
        Cell::text(code(&row.layer)),
        Cell::count(row.cpus.into()),
        Cell::number(rate, row.value),
        some(row.speed_up),
        some(row.efficiency),
        some(row.mp_factor),
        ratio.map_or_else(Cell::default, |r| {
            Cell::number(number::ratio_with(r), r.estimate)
        }),
    ]
}

/// Speed-up over CPUs in each layer; `None` if no two numbers of CPUs can be compared.
fn chart(what: &str, rows: &[&ScalingRow]) -> Option<LineChart> {
    let drawn: Vec<(&ScalingRow, f64)> = rows
        .iter()
        .filter_map(|r| Some((*r, r.speed_up?)))
        .collect();
    let most = drawn.iter().map(|(r, _)| r.cpus).max().filter(|n| *n > 1)?;
    let mut layers: Vec<&str> = drawn.iter().map(|(r, _)| r.layer.as_str()).collect();
    layers.dedup();
    let of_layer = |layer: &&str| {
        let own = drawn.iter().filter(|(r, _)| r.layer == *layer);
        let marks = own.map(|(r, speed_up)| Mark {
            x: f64::from(r.cpus),
            y: *speed_up,
            // The interval of X(n). X(1) is used as an exact number.
            interval: r.interval.map(|span| span.map(|v| v * speed_up / r.value)),
        });
        Series::along(layer, marks)
    };
    let ends = [1.0, f64::from(most)];
    let ideal = Series {
        model: Some(ends.map(|n| [n, n]).to_vec()),
        ..Series::along(
            "ideal",
            ends.into_iter().map(|n| Mark {
                x: n,
                y: n,
                interval: None,
            }),
        )
    };
    Some(LineChart {
        title: over_cpus(what).into(),
        x: Axis::new("CPUs", ""),
        y: Axis::new("speed-up", ""),
        series: layers.iter().map(of_layer).chain([ideal]).collect(),
    })
}
