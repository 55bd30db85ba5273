//! Speed during the run: every trial against the median of its own point and layer.

use std::collections::BTreeMap;

use kuva::prelude::{Layout, LinePlot, MarkerShape, Plot, ReferenceLine, ScatterPlot, TickFormat};
use layermark_stats::median;

use super::{
    Chart, ChartGroup, Key, Table,
    svg::{self, DrawingId},
};
use crate::{
    Report, ResultRow, TrialRow, TrustItem, TrustState, number,
    words::{captions, charts as words},
};

/// Most dots of a drawing. With more trials every second, third and so on is drawn; the lines use
/// all.
const DOTS: usize = 1_500;

/// A trial's time and its speed relative to the median of its point.
struct Dot<'a> {
    layer: &'a str,
    block: u32,
    seconds: f64,
    speed: f64,
}

/// Trials of a block, whose median is the block's speed.
struct DriftBlock {
    seconds: f64,
    speed: f64,
    trials: usize,
}

pub fn group(report: &Report) -> Option<ChartGroup> {
    let dots = dots(report);
    // A single trial is its own median, so a layer is drawn from its second block on.
    let shown = |layer: &&str| {
        is_flagged(report, layer) && dots.iter().any(|d| d.layer == *layer && d.block > 0)
    };
    let names: Vec<&str> = report.layers.iter().map(|l| l.name.as_str()).collect();
    let charts: Vec<Chart> = names
        .iter()
        .enumerate()
        .filter(|(_, l)| shown(l))
        .map(|(n, layer)| chart(n, layer, names[0], &dots))
        .collect();
    (!charts.is_empty()).then(|| ChartGroup {
        title: captions::DRIFT.into(),
        hint: words::about_drift(report.baseline()).into(),
        charts,
    })
}

/// Whether a ratio of the layer changed during the run; or, if none did, the baseline's own time. With
/// a changed ratio the baseline is the dashed line of that drawing.
fn is_flagged(report: &Report, layer: &str) -> bool {
    let changed = |r: &&ResultRow| r.steady == Some(false);
    let mut ratios = report.results.iter().filter(changed).peekable();
    if ratios.peek().is_some() {
        return ratios.any(|r| r.layer == layer);
    }
    let drift = |t: &TrustItem| t.id == "drift" && t.state == TrustState::Warn;
    let is_baseline = report.layers.iter().any(|l| l.baseline && l.name == layer);
    is_baseline && report.trust.iter().any(drift)
}

fn dots(report: &Report) -> Vec<Dot<'_>> {
    let mut costs: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    let usable = |t: &TrialRow| t.op_us.filter(|us| *us > 0.0);
    for trial in &report.trials {
        if let Some(us) = usable(trial) {
            costs
                .entry((&trial.layer, &trial.point))
                .or_default()
                .push(us);
        }
    }
    let middle: BTreeMap<(&str, &str), f64> = costs
        .into_iter()
        .filter_map(|(k, v)| Some((k, median(&v)?)))
        .collect();
    let dot = |t: &'_ TrialRow| {
        let speed = middle.get(&(t.layer.as_str(), t.point.as_str()))? / usable(t)?;
        Some((t.at_ms as f64 / 1e3, speed))
    };
    report
        .trials
        .iter()
        .filter_map(|t| {
            dot(t).map(|(seconds, speed)| Dot {
                layer: &t.layer,
                block: t.block,
                seconds,
                speed,
            })
        })
        .collect()
}

fn blocks(dots: &[Dot], layer: &str) -> BTreeMap<u32, DriftBlock> {
    let mut by: BTreeMap<u32, Vec<&Dot>> = BTreeMap::new();
    for dot in dots.iter().filter(|d| d.layer == layer) {
        by.entry(dot.block).or_default().push(dot);
    }
    let middle = |dots: &[&Dot], pick: fn(&Dot) -> f64| {
        median(&dots.iter().map(|d| pick(d)).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    let block = |dots: Vec<&Dot>| DriftBlock {
        seconds: middle(&dots, |d| d.seconds),
        speed: middle(&dots, |d| d.speed),
        trials: dots.len(),
    };
    by.into_iter().map(|(n, dots)| (n, block(dots))).collect()
}

fn line(blocks: &BTreeMap<u32, DriftBlock>) -> Vec<(f64, f64)> {
    blocks.values().map(|b| (b.seconds, b.speed)).collect()
}

fn chart(n: usize, layer: &str, baseline: &str, dots: &[Dot]) -> Chart {
    let own = blocks(dots, layer);
    let here: Vec<(f64, f64)> = dots
        .iter()
        .filter(|d| d.layer == layer)
        .map(|d| (d.seconds, d.speed))
        .collect();
    let every = here.len().div_ceil(DOTS).max(1);
    let here: Vec<(f64, f64)> = here.into_iter().step_by(every).collect();
    let mut plots = vec![Plot::Scatter(
        ScatterPlot::new()
            .with_data(here)
            .with_color("var(--c1)")
            .with_size(2.2)
            .with_marker_opacity(0.35),
    )];
    let mut legend = Vec::new();
    if layer != baseline {
        let base = LinePlot::new()
            .with_data(line(&blocks(dots, baseline)))
            .with_color("var(--muted)")
            .with_stroke_width(1.5)
            .with_dashed();
        plots.push(Plot::Line(base));
        legend.push(Key {
            name: baseline.to_owned(),
            colour: "var(--muted)".into(),
            marker: "<path d=\"M0 7h6v2H0zM10 7h6v2h-6z\"/>",
        });
    }
    plots.push(Plot::Line(
        LinePlot::new()
            .with_data(line(&own))
            .with_color("var(--c1)")
            .with_stroke_width(2.0),
    ));
    plots.push(Plot::Scatter(
        ScatterPlot::new()
            .with_data(line(&own))
            .with_color("var(--c1)")
            .with_size(3.5)
            .with_marker(MarkerShape::Circle),
    ));
    legend.insert(
        0,
        Key {
            name: layer.to_owned(),
            colour: "var(--c1)".into(),
            marker: "<circle cx=\"8\" cy=\"8\" r=\"4\"/>",
        },
    );
    let (low, high) = dots.iter().fold((0.9, 1.1f64), |(l, h): (f64, f64), d| {
        (l.min(d.speed), h.max(d.speed))
    });
    // A single outlying trial must not flatten all others.
    let (low, high) = (low.max(0.4) - 0.02, high.min(1.6) + 0.02);
    let id = DrawingId::nth("drift", n);
    let title = String::from(words::drift(layer));
    let layout = Layout::auto_from_plots(&plots)
        .with_width(super::WIDTH)
        .with_height(230.0)
        .with_y_axis_min(low)
        .with_y_axis_max(high)
        .with_clamp_axis()
        .with_y_tick_format(TickFormat::Custom(std::sync::Arc::new(
            number::whole_percent,
        )))
        .with_x_label("seconds since the run began")
        .with_reference_line(
            ReferenceLine::horizontal(1.0)
                .with_color("var(--muted)")
                .with_stroke_width(1.0)
                .with_dasharray("2,3"),
        );
    let away = dots
        .iter()
        .filter(|d| d.layer == layer && (d.speed < low || d.speed > high))
        .count();
    let description = String::from(words::of_drift(own.len(), away, every));
    Chart {
        svg: svg::draw(id, &title, &description, plots, layout),
        title,
        legend,
        table: table(&own),
    }
}

fn table(blocks: &BTreeMap<u32, DriftBlock>) -> Table {
    let head = [
        "repeat",
        "seconds",
        "throughput against median",
        "measurements",
    ]
    .map(str::to_owned)
    .to_vec();
    let rows = blocks.iter().map(|(n, b)| {
        vec![
            n.to_string(),
            number::sig3(b.seconds),
            number::percent(b.speed),
            b.trials.to_string(),
        ]
    });
    Table {
        head,
        rows: rows.collect(),
    }
}
