//! Throughput over record size, one drawing for each operation that has at least two sizes.

use std::sync::Arc;

use kuva::prelude::{Layout, LinePlot, MarkerShape, Plot, ScatterPlot, TickFormat};
use layermark_model::format_size;
use serde_json::{Map, Value};

use super::{Chart, Group, Key, Table, colour, svg};
use crate::{Report, ResultRow, number};

const SHAPES: [(MarkerShape, &str); 6] = [
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
    let charts: Vec<Chart> = families
        .iter()
        .filter(|(_, rows)| rows.iter().any(|r| record(r) != record(rows[0])))
        .enumerate()
        .map(|(n, (_, rows))| chart(report, n, rows))
        .collect();
    (!charts.is_empty()).then(|| Group {
        title: "Throughput over record size",
        hint: format!("Lines are the centres of the trials (Hodges-Lehmann), bands their {} intervals; both axes are logarithmic.", number::percent(report.level)),
        charts,
    })
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

fn chart(report: &Report, n: usize, rows: &[&ResultRow]) -> Chart {
    let mut plots: Vec<Plot> = Vec::new();
    let mut legend = Vec::new();
    let mut lines = Vec::new();
    let layers = report
        .layers
        .iter()
        .map(|l| l.name.as_str())
        .filter(|l| rows.iter().any(|r| r.layer == *l));
    for (series, layer) in layers.enumerate() {
        let mut own: Vec<&&ResultRow> = rows.iter().filter(|r| r.layer == layer).collect();
        own.sort_by_key(|r| record(r));
        plots.extend(drawing(series, &own));
        legend.push(Key {
            name: layer.to_owned(),
            colour: colour(series),
            marker: SHAPES[series % SHAPES.len()].1,
        });
        lines.extend(own.iter().map(|r| line(r)));
    }
    let sizes: Vec<f64> = rows.iter().map(|r| (record(r) as f64).log2()).collect();
    let (first, last) = sizes
        .iter()
        .fold((f64::MAX, f64::MIN), |(a, b), s| (a.min(*s), b.max(*s)));
    let step = ((last - first) / 6.0).ceil().max(1.0);
    let (id, what) = (format!("sizes-{n}"), what(rows[0]));
    let title = format!("Throughput over record size: {what}");
    let layout = Layout::auto_from_plots(&plots)
        .with_width(super::WIDTH)
        .with_height(300.0)
        .with_log_y()
        .with_x_axis_min((first - 0.3).floor())
        .with_x_axis_max((last + 0.3).ceil())
        .with_x_tick_step(step)
        .with_x_tick_format(TickFormat::Custom(Arc::new(|v| {
            format_size(v.exp2().round() as u64)
        })))
        .with_y_tick_format(TickFormat::Custom(Arc::new(|v| number::value(v, "B/s"))))
        .with_x_label("record size");
    let description = format!(
        "Line chart of {} at {}. The table below has every figure.",
        number::count(legend.len(), "layer"),
        number::count(count_of(&sizes), "record size")
    );
    let head = ["layer", "record", "throughput", "from", "to", "result"]
        .map(str::to_owned)
        .to_vec();
    Chart {
        svg: svg::draw(&id, &title, &description, plots, layout),
        title,
        legend,
        table: Table { head, rows: lines },
    }
}

fn count_of(sizes: &[f64]) -> usize {
    let mut sizes = sizes.to_vec();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes.len()
}

/// What the points of a drawing share, in words.
fn what(row: &ResultRow) -> String {
    let mut params = row.point.clone();
    params.remove("record");
    crate::points::describe(&layermark_model::Point {
        workload: row.workload.clone(),
        label: String::new(),
        params,
    })
}

fn drawing(series: usize, rows: &[&&ResultRow]) -> Vec<Plot> {
    let at: Vec<(f64, f64)> = rows
        .iter()
        .filter_map(|r| Some(((record(r) as f64).log2(), r.value?)))
        .collect();
    let end = |n: usize| -> Vec<f64> {
        rows.iter()
            .filter_map(|r| Some(r.interval.map_or(r.value?, |i| i[n])))
            .collect()
    };
    let line = LinePlot::new()
        .with_data(at.clone())
        .with_color(colour(series))
        .with_stroke_width(2.0)
        .with_band(end(0), end(1));
    let marks = ScatterPlot::new()
        .with_data(at)
        .with_color(colour(series))
        .with_size(4.5)
        .with_marker(SHAPES[series % SHAPES.len()].0);
    vec![Plot::Line(line), Plot::Scatter(marks)]
}

fn line(row: &ResultRow) -> Vec<String> {
    let end = |n: usize| {
        row.interval
            .map_or_else(|| "-".into(), |i| number::value(i[n], &row.unit))
    };
    vec![
        row.layer.clone(),
        format_size(record(row)),
        number::result_value(row),
        end(0),
        end(1),
        row.id.clone(),
    ]
}
