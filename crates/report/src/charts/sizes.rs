//! Throughput over record size, one drawing for each operation that has at least two sizes.

use std::collections::BTreeMap;

use kuva::prelude::MarkerShape;
use serde_json::{Map, Value};

use super::{Chart, Group, lines};
use crate::{
    Report, ResultRow, number,
    types::{Axis, LineChart, Mark, Series},
};

/// Markers of lines, and how a legend draws them.
pub const SHAPES: [(MarkerShape, &str); 6] = [
    (MarkerShape::Circle, "<circle cx=\"8\" cy=\"8\" r=\"4.5\"/>"),
    (MarkerShape::Square, "<path d=\"M4 4h8v8H4z\"/>"),
    (MarkerShape::Triangle, "<path d=\"M8 3l5 9H3z\"/>"),
    (
        MarkerShape::Diamond,
        "<path d=\"M8 2.5L13.5 8 8 13.5 2.5 8z\"/>",
    ),
    (MarkerShape::TriangleDown, "<path d=\"M8 13L3 4h10z\"/>"),
    (
        MarkerShape::Pentagon,
        "<path d=\"M8 3l5 3.8-1.9 6H4.9L3 6.8z\"/>",
    ),
];

/// Drawings that a page can hold.
const MOST: usize = 24;

pub fn group(report: &Report) -> Option<Group> {
    let mut families: Vec<(String, Vec<&ResultRow>)> = Vec::new();
    for row in report
        .results
        .iter()
        .filter(|r| r.unit == "B/s" && r.value.is_some() && record(r) > 0)
    {
        let key = family(row);
        match families.iter_mut().find(|(k, _)| *k == key) {
            Some((_, rows)) => rows.push(row),
            None => families.push((key, vec![row])),
        }
    }
    families.retain(|(_, rows)| rows.iter().any(|r| record(r) != record(rows[0])));
    let many = families.len() > MOST;
    if many {
        largest_files(&mut families);
    }
    let charts: Vec<Chart> = families
        .iter()
        .enumerate()
        .map(|(n, (_, rows))| chart(report, n, rows))
        .collect();
    (!charts.is_empty()).then(|| Group {
        title: "Throughput over record size".into(),
        hint: format!(
            "Lines are the centres of the trials (trimmed means), bands their {} intervals; both axes are logarithmic.{}",
            number::percent(report.level),
            if many {
                " Of each test the largest file is drawn; the tables have all."
            } else {
                ""
            }
        ),
        charts,
    })
}

/// Keeps, of families that differ in file size alone, that of the largest.
fn largest_files(families: &mut Vec<(String, Vec<&ResultRow>)>) {
    let size = |row: &ResultRow| row.point.get("file_size").and_then(Value::as_u64);
    let rest = |row: &ResultRow| {
        let mut params = row.point.clone();
        params.retain(|key, _| key != "record" && key != "file_size");
        format!("{} {}", row.workload, Value::Object(params))
    };
    let mut largest: BTreeMap<String, Option<u64>> = BTreeMap::new();
    for (_, rows) in families.iter() {
        let most = largest.entry(rest(rows[0])).or_default();
        *most = size(rows[0]).max(*most);
    }
    families.retain(|(_, rows)| largest.get(&rest(rows[0])) == Some(&size(rows[0])));
}

fn record(row: &ResultRow) -> u64 {
    row.point.get("record").and_then(Value::as_u64).unwrap_or(0)
}

/// What stays the same when only the record's size changes.
fn family(row: &ResultRow) -> String {
    let rest: Map<String, Value> = row
        .point
        .iter()
        .filter(|(k, _)| *k != "record")
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    format!("{} {}", row.workload, Value::Object(rest))
}

/// The family as lines over record size, one for each layer.
fn chart(report: &Report, n: usize, rows: &[&ResultRow]) -> Chart {
    let axis = |label: &str, unit: &str| Axis {
        label: label.into(),
        unit: unit.into(),
    };
    let layers = report.layers.iter().map(|l| l.name.as_str());
    let series = |layer: &str| {
        let own = rows.iter().filter(|r| r.layer == layer);
        let marks = own.filter_map(|r| {
            Some(Mark {
                x: record(r) as f64,
                y: r.value?,
                interval: r.interval,
            })
        });
        Series::along(layer, marks)
    };
    let chart = LineChart {
        title: format!("Throughput over record size: {}", what(rows[0])),
        x: axis("record size", "B"),
        y: axis("throughput", "B/s"),
        series: layers.map(series).collect(),
    };
    lines::draw(&format!("sizes-{n}"), &chart)
}

/// What the points of a drawing share, in words.
fn what(row: &ResultRow) -> String {
    let mut params = row.point.clone();
    params.remove("record");
    crate::analysis::points::describe(&layermark_model::Point {
        workload: row.workload.clone(),
        label: String::new(),
        params,
    })
}
