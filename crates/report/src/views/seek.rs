//! Latency over the distance between one read and the next.

use layermark_model::format_size;
use serde_json::Value;

use crate::{
    number,
    types::{Axis, Cell, DataTable, LineChart, Mark, ResultRow, Section, Series},
};

/// Results by distance as a section of the report; `None` when fewer than two were asked for.
pub fn section(results: &[ResultRow]) -> Option<Section> {
    let mut families: Vec<(String, Vec<&ResultRow>)> = Vec::new();
    for row in results.iter().filter(|r| distance(r) > 0) {
        let what = what(row);
        match families.iter_mut().find(|(w, _)| *w == what) {
            Some((_, rows)) => rows.push(row),
            None => families.push((what, vec![row])),
        }
    }
    families.retain(|(_, rows)| rows.iter().any(|r| distance(r) != distance(rows[0])));
    if families.is_empty() {
        return None;
    }
    Some(Section {
        name: "seek".into(),
        title: "Latency over the distance of a seek".into(),
        about: "Time of a read that lies this far from the one before it.".into(),
        tables: families
            .iter()
            .map(|(what, rows)| table(what, rows))
            .collect(),
        charts: families
            .iter()
            .map(|(what, rows)| chart(what, rows))
            .collect(),
        conclusions: Vec::new(),
        files: Vec::new(),
    })
}

fn distance(row: &ResultRow) -> u64 {
    let distance = row.point.get("distance").and_then(Value::as_u64);
    distance
        .filter(|_| row.point.get("op").and_then(Value::as_str) == Some("seek-read"))
        .unwrap_or(0)
}

/// What stays the same when only the distance changes, in words.
fn what(row: &ResultRow) -> String {
    let mut params = row.point.clone();
    params.remove("distance");
    crate::analysis::points::describe(&layermark_model::Point {
        workload: row.workload.clone(),
        label: String::new(),
        params,
    })
}

fn layers<'a>(rows: &[&'a ResultRow]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.layer.as_str()) {
            names.push(&row.layer);
        }
    }
    names
}

fn table(what: &str, rows: &[&ResultRow]) -> DataTable {
    let layers = layers(rows);
    let mut distances: Vec<u64> = rows.iter().map(|r| distance(r)).collect();
    distances.sort_unstable();
    distances.dedup();
    let cell = |layer: &str, at: u64| {
        let row = rows.iter().find(|r| r.layer == layer && distance(r) == at);
        row.and_then(|r| r.op_us)
            .map_or_else(Cell::default, |us| Cell::number(number::time(us), us))
    };
    let line = |at: &u64| {
        let first = Cell::number(format_size(*at), *at as f64);
        std::iter::once(first)
            .chain(layers.iter().map(|l| cell(l, *at)))
            .collect()
    };
    DataTable {
        title: format!("Latency over distance: {what}"),
        note: "Centres of the trials; the values are microseconds.".into(),
        head: std::iter::once("distance")
            .chain(layers.iter().copied())
            .map(str::to_owned)
            .collect(),
        rows: distances.iter().map(line).collect(),
    }
}

fn chart(what: &str, rows: &[&ResultRow]) -> LineChart {
    let series = |layer: &str| {
        let own = rows.iter().filter(|r| r.layer == layer);
        let marks = own.filter_map(|r| {
            Some(Mark {
                x: distance(r) as f64,
                y: r.op_us?,
                interval: r.op_us_interval,
            })
        });
        Series::along(layer, marks)
    };
    LineChart {
        title: format!("Latency over distance: {what}"),
        x: Axis {
            label: "distance".into(),
            unit: "B".into(),
        },
        y: Axis {
            label: "time a read".into(),
            unit: "us".into(),
        },
        series: layers(rows).into_iter().map(series).collect(),
    }
}
