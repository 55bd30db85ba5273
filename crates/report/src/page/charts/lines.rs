//! Line charts over a size, from a section of the report.

use std::sync::Arc;

use kuva::prelude::{Layout, LinePlot, MarkerShape, Plot, ScatterPlot, TickFormat};

use super::{
    Chart, ChartGroup, Key, Table, colour,
    svg::{self, DrawingId},
};
use crate::{
    number,
    types::{LineChart, Mark, Section, Series},
    words::charts as words,
};

/// Markers of lines, and their SVG in a legend.
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

/// The charts of a section under one heading; `None` if none has a point.
pub fn group(section: &Section, level: f64) -> Option<ChartGroup> {
    let drawn = section.charts.iter().enumerate();
    let charts: Vec<Chart> = drawn
        .filter(|(_, c)| c.series.iter().any(|s| !s.points.is_empty()))
        .map(|(n, chart)| draw(DrawingId::nth(&section.name, n), chart))
        .collect();
    (!charts.is_empty()).then(|| ChartGroup {
        title: section.title.clone(),
        hint: words::about_lines(level).into(),
        charts,
    })
}

/// One chart.
pub fn draw(id: DrawingId, chart: &LineChart) -> Chart {
    let mut plots: Vec<Plot> = Vec::new();
    let mut legend = Vec::new();
    let mut rows = Vec::new();
    let filled = chart.series.iter().filter(|s| !s.points.is_empty());
    for (n, series) in filled.enumerate() {
        plots.extend(drawing(n, series));
        legend.push(Key {
            name: series.name.clone(),
            colour: colour(n),
            marker: SHAPES[n % SHAPES.len()].1,
        });
        rows.extend(series.points.iter().map(|m| line(chart, series, m)));
    }
    let unit = chart.y.unit.clone();
    let x_unit = chart.x.unit.clone();
    let (first, last) = chart
        .series
        .iter()
        .flat_map(|s| &s.points)
        .map(|m| m.x.log2())
        .fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(x), b.max(x)));
    let step = ((last - first) / 6.0).ceil().max(1.0);
    let layout = Layout::auto_from_plots(&plots)
        .with_width(super::WIDTH)
        .with_height(300.0)
        .with_log_y()
        .with_x_axis_min((first - 0.3).floor())
        .with_x_axis_max((last + 0.3).ceil())
        .with_x_tick_step(step)
        .with_x_tick_format(TickFormat::Custom(Arc::new(move |v| {
            number::on_axis(v.exp2(), &x_unit)
        })))
        .with_y_tick_format(TickFormat::Custom(Arc::new(move |v| {
            number::on_axis(v, &unit)
        })))
        .with_x_label(&chart.x.label);
    let description = String::from(words::of_lines(legend.len(), &chart.x.label));
    let head = ["", &chart.x.label, &chart.y.label, "from", "to"];
    Chart {
        svg: svg::draw(id, &chart.title, &description, plots, layout),
        title: chart.title.clone(),
        legend,
        table: Table {
            head: head.map(str::to_owned).to_vec(),
            rows,
        },
    }
}

fn drawing(n: usize, series: &Series) -> Vec<Plot> {
    let at: Vec<(f64, f64)> = series.points.iter().map(|m| (m.x.log2(), m.y)).collect();
    let path = series.model.as_ref().map_or_else(
        || at.clone(),
        |model| {
            let above = model.iter().filter(|[_, y]| *y > 0.0);
            above.map(|[x, y]| (x.log2(), *y)).collect()
        },
    );
    let mut line = LinePlot::new()
        .with_data(path)
        .with_color(colour(n))
        .with_stroke_width(2.0);
    if series.model.is_none() {
        let end = |i: usize| -> Vec<f64> {
            let of = |m: &Mark| m.interval.map_or(m.y, |span| span[i]);
            series.points.iter().map(of).collect()
        };
        line = line.with_band(end(0), end(1));
    }
    let marks = ScatterPlot::new()
        .with_data(at)
        .with_color(colour(n))
        .with_size(4.5)
        .with_marker(SHAPES[n % SHAPES.len()].0);
    vec![Plot::Line(line), Plot::Scatter(marks)]
}

fn line(chart: &LineChart, series: &Series, mark: &Mark) -> Vec<String> {
    let y = |v: f64| number::on_axis(v, &chart.y.unit);
    let end = |i: usize| mark.interval.map_or_else(|| "-".into(), |span| y(span[i]));
    vec![
        series.name.clone(),
        number::on_axis(mark.x, &chart.x.unit),
        y(mark.y),
        end(0),
        end(1),
    ]
}
