//! Latency over the distance between two successive reads.

use layermark_model::{Quantity, format_size};

use crate::{
    facts::sweep::{self, Sweep},
    group, number,
    types::{Axis, Cell, DataTable, LineChart, Mark, ResultRow, Section, Series},
    words::{captions, charts::over_distance},
};

/// Results over one distance, in all layers.
type Distances<'a> = Sweep<1, &'a ResultRow>;

/// Results by distance as a section of the report; `None` with fewer than two distances.
pub fn section(results: &[ResultRow]) -> Option<Section> {
    let mut sweeps = sweep::over(results.iter().map(|r| (r, r)), [Quantity::Distance]);
    sweeps.retain(Sweep::varies);
    if sweeps.is_empty() {
        return None;
    }
    Some(Section {
        name: "seek".into(),
        title: captions::SEEK.title.into(),
        about: captions::SEEK.about.into(),
        tables: sweeps.iter().map(table).collect(),
        charts: sweeps.iter().map(chart).collect(),
        ..Section::default()
    })
}

fn layers<'a>(sweep: &Distances<'a>) -> Vec<&'a str> {
    group::distinct(sweep.members().map(|row| row.layer.as_str()))
}

fn table(sweep: &Distances) -> DataTable {
    let layers = layers(sweep);
    let cell = |layer: &str, at: u64| {
        let row = sweep
            .steps
            .iter()
            .find(|(d, r)| r.layer == layer && *d == [at]);
        row.and_then(|(_, r)| r.op_us)
            .map_or_else(Cell::default, |us| Cell::number(number::time(us), us))
    };
    let line = |at: &u64| {
        let first = Cell::number(format_size(*at), *at as f64);
        std::iter::once(first)
            .chain(layers.iter().map(|l| cell(l, *at)))
            .collect()
    };
    DataTable {
        title: over_distance(&sweep.describe()).into(),
        note: captions::SEEK_TABLE.into(),
        head: std::iter::once("distance")
            .chain(layers.iter().copied())
            .map(str::to_owned)
            .collect(),
        rows: sweep.values(0).iter().map(line).collect(),
    }
}

fn chart(sweep: &Distances) -> LineChart {
    let series = |layer: &str| {
        let own = sweep.steps.iter().filter(|(_, r)| r.layer == layer);
        let marks = own.filter_map(|([distance], r)| {
            Some(Mark {
                x: *distance as f64,
                y: r.op_us?,
                interval: r.op_us_interval,
            })
        });
        Series::along(layer, marks)
    };
    LineChart {
        title: over_distance(&sweep.describe()).into(),
        x: Axis::new("distance", "B"),
        y: Axis::new("time a read", "us"),
        series: layers(sweep).into_iter().map(series).collect(),
    }
}
