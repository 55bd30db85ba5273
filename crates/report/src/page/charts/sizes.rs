//! Throughput over record size, one drawing for each operation with at least two sizes.

use std::collections::BTreeSet;

use layermark_model::{Quantity, Unit};

use super::{Chart, ChartGroup, lines, svg::DrawingId};
use crate::{
    Report, ResultRow,
    facts::sweep::{self, Sweep},
    types::{Axis, LineChart, Mark, Series},
    words::{captions, charts as words},
};

/// Most drawings of a page.
const MOST: usize = 24;

/// Results that differ only in the size of a request, in all layers.
type Sizes<'a> = Sweep<1, &'a ResultRow>;

pub fn group(report: &Report) -> Option<ChartGroup> {
    let rows = report.results.iter();
    let bulk = rows.filter(|r| r.meaning.unit == Unit::Byte && r.value.is_some());
    let mut sweeps = sweep::over(bulk.map(|r| (r, r)), [Quantity::RequestSize]);
    sweeps.retain(Sweep::varies);
    let many = sweeps.len() > MOST;
    if many {
        largest_files(&mut sweeps);
    }
    let charts: Vec<Chart> = sweeps
        .iter()
        .enumerate()
        .map(|(n, sweep)| chart(report, n, sweep))
        .collect();
    (!charts.is_empty()).then(|| ChartGroup {
        title: captions::RECORD_SIZES.into(),
        hint: words::about_sizes(report.level, many).into(),
        charts,
    })
}

/// Of sweeps that differ only in file size, keeps that of the largest.
fn largest_files(sweeps: &mut Vec<Sizes>) {
    let by_file = sweep::over(sweeps.iter().zip(0..), [Quantity::DataSize]);
    let smaller = |of: Sweep<1, usize>| of.steps.into_iter().rev().skip(1).map(|(_, n)| n);
    let smaller: BTreeSet<usize> = by_file.into_iter().flat_map(smaller).collect();
    let mut number = 0..;
    sweeps.retain(|_| number.next().is_some_and(|n| !smaller.contains(&n)));
}

/// The sweep as lines over record size, one for each layer.
fn chart(report: &Report, n: usize, sweep: &Sizes) -> Chart {
    let layers = report.layers.iter().map(|l| l.name.as_str());
    let series = |layer: &str| {
        let own = sweep.steps.iter().filter(|(_, r)| r.layer == layer);
        let marks = own.filter_map(|([record], r)| {
            Some(Mark {
                x: *record as f64,
                y: r.value?,
                interval: r.interval,
            })
        });
        Series::along(layer, marks)
    };
    let chart = LineChart {
        title: words::sizes(&sweep.describe()).into(),
        x: Axis::new("record size", "B"),
        y: Axis::new("throughput", "B/s"),
        series: layers.map(series).collect(),
    };
    lines::draw(DrawingId::nth("sizes", n), &chart)
}
