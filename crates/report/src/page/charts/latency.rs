//! How many operations take longer than a time: one drawing for each point, from the histograms.

use super::{Chart, ChartGroup, SERIES, lines, svg::DrawingId};
use crate::{
    Report, ResultRow,
    facts::latency::SLOWER,
    types::{Axis, LineChart, Mark, Series},
    words::{captions, charts as words},
};

/// Fewest marks of a line.
const MARKS: usize = 3;
/// Most drawings.
const MOST: usize = 24;

pub fn group(report: &Report) -> Option<ChartGroup> {
    let points = report.points().into_iter().enumerate();
    let drawn = points.filter_map(|(n, point)| chart(report, n, point));
    let mut charts: Vec<Chart> = drawn.collect();
    let left_out = charts.len().saturating_sub(MOST);
    charts.truncate(MOST);
    (!charts.is_empty()).then(|| ChartGroup {
        title: captions::LATENCY.into(),
        hint: words::about_latency(report.baseline(), SERIES, left_out).into(),
        charts,
    })
}

fn chart(report: &Report, n: usize, point: &str) -> Option<Chart> {
    let control = |name: &str| report.layers.iter().any(|l| l.control && l.name == name);
    let rows = report.results.iter();
    let mut rows: Vec<&ResultRow> = rows
        .filter(|r| r.label == point && !control(&r.layer) && marks(r).count() >= MARKS)
        .collect();
    let is_baseline = |r: &ResultRow| {
        report
            .layers
            .iter()
            .any(|l| l.baseline && l.name == r.layer)
    };
    let usual = |r: &ResultRow| r.latency_us.map_or(0.0, |l| l.p50);
    rows.sort_by(|a, b| {
        let first = is_baseline(b).cmp(&is_baseline(a));
        first.then(usual(b).total_cmp(&usual(a)))
    });
    rows.truncate(SERIES);
    let drawn = LineChart {
        title: words::latency(point).into(),
        x: Axis::new("latency", "us"),
        y: Axis::new("take longer", "share"),
        series: rows
            .iter()
            .map(|r| Series::along(&r.layer, marks(r)))
            .collect(),
    };
    (!rows.is_empty()).then(|| lines::draw(DrawingId::nth("latency", n), &drawn))
}

fn marks(row: &ResultRow) -> impl Iterator<Item = Mark> {
    let found = row.latency_us.map(|l| l.slower).unwrap_or_default();
    let marks = SLOWER.into_iter().zip(found);
    marks.filter_map(|(share, us)| {
        us.filter(|us| *us > 0.0).map(|us| Mark {
            x: us,
            y: share,
            interval: None,
        })
    })
}
