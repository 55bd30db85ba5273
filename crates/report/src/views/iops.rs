//! Iometer's table, the curves over queue depth and their knees, as a part of the report.

use crate::{
    Report,
    code_span::code,
    group,
    number::{self, ranged, sig3},
    types::{
        Axis, Cell, DataTable, DepthCurve, DepthPoint, IopsRow, LineChart, Mark, Section, Series,
    },
    words::{Text, captions, charts::over_depth, depth as words, lists::said_of},
};

/// `None` without results of the workload.
pub fn section(report: &Report) -> Option<Section> {
    if report.iops.is_empty() {
        return None;
    }
    let families = group::by(&report.iops, |row| row.what.as_str());
    let mut tables = Vec::new();
    for (title, rows) in families {
        let percentiles = percentiles(title, &rows, report.level);
        tables.push(table(title, &rows));
        tables.extend(percentiles);
    }
    tables.extend(knees(&report.depth_curves));
    Some(Section {
        name: "iops".into(),
        title: captions::IOPS.title.into(),
        about: captions::IOPS.about.into(),
        is_answer: true,
        tables,
        charts: charts(&report.depth_curves),
        ..Section::default()
    })
}

fn table(title: &str, rows: &[&IopsRow]) -> DataTable {
    let rated = rows.iter().any(|r| r.service_ms.is_some());
    let mut head = vec![
        "layer",
        "depth",
        "IOPS",
        "MiB/s",
        "MB/s",
        "avg",
        "max",
        "p99",
        "p99.99",
        "%CPU",
        "IOPS/%CPU",
    ];
    let note = if rated { captions::RATED } else { "" };
    if rated {
        head.extend(["service avg", "service max"]);
    }
    DataTable {
        title: title.into(),
        note: note.into(),
        head: head.into_iter().map(str::to_owned).collect(),
        rows: rows.iter().map(|r| line(r, rated)).collect(),
    }
}

fn line(row: &IopsRow, rated: bool) -> Vec<Cell> {
    let known = |value: f64| Cell::bare(sig3(value), value);
    let some = |value: Option<f64>| value.map_or_else(Cell::default, known);
    let mut cells = vec![
        Cell::text(code(&row.layer)),
        Cell::count(row.iodepth),
        whole(row.iops),
        known(row.mib_s),
        known(row.mb_s),
        known(row.response_ms),
        known(row.response_max_ms),
        some(row.p99_ms),
        some(row.p9999_ms),
        some(row.cpu_percent),
        row.iops_per_cpu.map_or_else(Cell::default, whole),
    ];
    if rated {
        cells.extend([some(row.service_ms), some(row.service_max_ms)]);
    }
    cells
}

/// The response times with their intervals, if there are enough blocks.
fn percentiles(what: &str, rows: &[&IopsRow], level: f64) -> Option<DataTable> {
    let known: Vec<&&IopsRow> = rows
        .iter()
        .filter(|r| r.p50_interval_ms.is_some())
        .collect();
    let head = ["layer", "depth", "avg", "p50", "p99", "p99.9", "p99.99"];
    (!known.is_empty()).then(|| DataTable {
        title: words::percentiles(what, level).into(),
        note: captions::PERCENTILES.into(),
        head: head.map(str::to_owned).to_vec(),
        rows: known.into_iter().map(|r| spans(r)).collect(),
    })
}

fn spans(row: &IopsRow) -> Vec<Cell> {
    let cell = |value: Option<f64>, interval: Option<[f64; 2]>| match (value, interval) {
        (Some(value), Some(ends)) => Cell::number(ranged(value, Some(ends), sig3), value),
        (Some(value), None) => Cell::bare(sig3(value), value),
        (None, _) => Cell::default(),
    };
    vec![
        Cell::text(code(&row.layer)),
        Cell::count(row.iodepth),
        cell(Some(row.response_ms), row.response_interval_ms),
        cell(Some(row.p50_ms), row.p50_interval_ms),
        cell(row.p99_ms, row.p99_interval_ms),
        cell(row.p999_ms, row.p999_interval_ms),
        cell(row.p9999_ms, row.p9999_interval_ms),
    ]
}

fn whole(value: f64) -> Cell {
    Cell::bare(number::whole(value), value)
}

fn knees(curves: &[DepthCurve]) -> Option<DataTable> {
    let rows: Vec<Vec<Cell>> = curves
        .iter()
        .filter_map(|curve| {
            let knee = curve.knee.as_ref()?;
            Some(vec![
                Cell::text(code(&curve.layer)),
                knee.iodepth.map_or_else(Cell::default, Cell::count),
                Cell::text(said_of(&curve.what.as_str().into(), &knee.text)),
            ])
        })
        .collect();
    (!rows.is_empty()).then(|| DataTable {
        title: captions::KNEES.title.into(),
        note: captions::KNEES.about.into(),
        head: ["layer", "knee at depth", ""].map(str::to_owned).to_vec(),
        rows,
    })
}

fn charts(curves: &[DepthCurve]) -> Vec<LineChart> {
    let families = group::by(curves, |curve| curve.what.as_str());
    families
        .iter()
        .flat_map(|(what, own)| {
            let [rate, response] = over_depth(what);
            [
                chart(rate, "I/Os a second", "ops/s", own, |p| p.iops),
                chart(response, "response time", "us", own, |p| {
                    p.response_ms * 1e3
                }),
            ]
        })
        .collect()
}

fn chart(
    title: Text,
    label: &str,
    unit: &str,
    curves: &[&DepthCurve],
    of: fn(&DepthPoint) -> f64,
) -> LineChart {
    let series = |curve: &&DepthCurve| {
        let marks = curve.points.iter().map(|p| Mark {
            x: p.iodepth as f64,
            y: of(p),
            interval: None,
        });
        Series::along(&curve.layer, marks)
    };
    LineChart {
        title: title.into(),
        x: Axis::new("queue depth", ""),
        y: Axis::new(label, unit),
        series: curves.iter().map(series).collect(),
    }
}
