//! All launches in the order of the run with their levels, and the distribution of their times.

use kuva::prelude::{Histogram, Layout, LinePlot, Plot, ScatterPlot};

use super::{Chart, Group, Key, Table, svg};
use crate::{LaunchSeries, Report, number};

/// Most points of a chart; with more, none is drawn.
const MOST: usize = 24;
const BINS: usize = 20;

pub fn group(report: &Report) -> Option<Group> {
    let mut labels: Vec<&str> = Vec::new();
    for s in report.series.iter().filter(|s| s.runs.len() > 1) {
        if !labels.contains(&s.label.as_str()) {
            labels.push(&s.label);
        }
    }
    let of = |label: &str| -> Vec<&LaunchSeries> {
        let here = report.series.iter().filter(|s| s.label == label);
        here.collect()
    };
    let charts: Vec<Chart> = labels
        .iter()
        .take(MOST)
        .enumerate()
        .flat_map(|(n, label)| [order(n, label, &of(label)), spread(n, label, &of(label))])
        .collect();
    (!charts.is_empty()).then(|| Group {
        title: "Launches in the order of the run".into(),
        hint: "Each dot is a launch; a line is the median of a level. Beside it, how often each time was met.".into(),
        charts,
    })
}

/// One unit for a whole chart.
fn scale(series: &[&LaunchSeries]) -> (f64, &'static str) {
    let most = series
        .iter()
        .flat_map(|s| &s.runs)
        .map(|r| r.elapsed_ms)
        .fold(0.0, f64::max);
    if most >= 2000.0 {
        (1000.0, "s")
    } else {
        (1.0, "ms")
    }
}

fn legend(series: &[&LaunchSeries]) -> Vec<Key> {
    let key = |(n, s): (usize, &&LaunchSeries)| Key {
        name: s.layer.clone(),
        colour: super::colour(n + 1),
        marker: "<circle cx=\"8\" cy=\"8\" r=\"4\"/>",
    };
    series.iter().enumerate().map(key).collect()
}

fn order(n: usize, label: &str, series: &[&LaunchSeries]) -> Chart {
    let (scale, unit) = scale(series);
    let mut plots = Vec::new();
    for (n, s) in series.iter().enumerate() {
        let colour = super::colour(n + 1);
        let dots: Vec<(f64, f64)> = s
            .runs
            .iter()
            .map(|r| (r.run as f64, r.elapsed_ms / scale))
            .collect();
        plots.push(Plot::Scatter(
            ScatterPlot::new()
                .with_data(dots)
                .with_color(&colour)
                .with_size(2.8),
        ));
        for level in &s.levels {
            let y = level.median_ms / scale;
            let ends = vec![(level.from as f64 - 0.4, y), (level.to as f64 + 0.4, y)];
            plots.push(Plot::Line(
                LinePlot::new()
                    .with_data(ends)
                    .with_color(&colour)
                    .with_stroke_width(1.8),
            ));
        }
    }
    let layout = Layout::auto_from_plots(&plots)
        .with_width(super::WIDTH)
        .with_height(230.0)
        .with_y_axis_min(0.0)
        .with_x_label("run")
        .with_y_label(unit);
    let title = format!("{label}: every launch");
    let steps: Vec<String> = series
        .iter()
        .flat_map(|s| s.says.iter().map(move |t| format!("{}: {t}.", s.layer)))
        .collect();
    let description = format!(
        "Time of each launch in the order of the run, with a line at the median of each level. {}",
        steps.join(" ")
    );
    let rows = series.iter().flat_map(|s| {
        s.runs.iter().map(move |r| {
            let level = r.level.map_or("apart".to_owned(), |l| l.to_string());
            vec![
                s.layer.clone(),
                r.run.to_string(),
                number::time(r.elapsed_ms * 1e3),
                level,
            ]
        })
    });
    Chart {
        svg: svg::draw(&format!("launch-{n}"), &title, &description, plots, layout),
        title,
        legend: legend(series),
        table: Table {
            head: ["layer", "run", "time", "level"]
                .map(str::to_owned)
                .to_vec(),
            rows: rows.collect(),
        },
    }
}

fn spread(n: usize, label: &str, series: &[&LaunchSeries]) -> Chart {
    let (scale, unit) = scale(series);
    let times =
        |s: &LaunchSeries| -> Vec<f64> { s.runs.iter().map(|r| r.elapsed_ms / scale).collect() };
    let all: Vec<f64> = series.iter().flat_map(|s| times(s)).collect();
    let low = all.iter().copied().fold(f64::INFINITY, f64::min);
    let high = all.iter().copied().fold(0.0, f64::max);
    // A series of equal times also needs a width.
    let (low, high) = if high - low < 1e-9 {
        (low * 0.9, high * 1.1 + 1e-9)
    } else {
        (low, high)
    };
    let width = (high - low) / BINS as f64;
    let plots: Vec<Plot> = series
        .iter()
        .enumerate()
        .map(|(n, s)| {
            let bars = Histogram::new()
                .with_data(times(s))
                .with_bins(BINS)
                .with_range((low, high))
                .with_color(super::colour(n + 1));
            Plot::Histogram(bars)
        })
        .collect();
    let layout = Layout::auto_from_plots(&plots)
        .with_width(super::WIDTH)
        .with_height(230.0)
        .with_x_label(unit)
        .with_y_label("launches");
    let title = format!("{label}: how the times are spread");
    let count = |s: &LaunchSeries, bin: usize| {
        let at = |t: f64| (((t - low) / width) as usize).min(BINS - 1);
        times(s).into_iter().filter(|t| at(*t) == bin).count()
    };
    let rows = series.iter().flat_map(|s| {
        (0..BINS).filter(move |b| count(s, *b) > 0).map(move |b| {
            let from = low + width * b as f64;
            let edges = [from, from + width].map(|t| number::time(t * scale * 1e3));
            vec![s.layer.clone(), edges.join(" to "), count(s, b).to_string()]
        })
    });
    Chart {
        svg: svg::draw(
            &format!("launch-spread-{n}"),
            &title,
            &format!("How many of the launches took how long, in {BINS} classes."),
            plots,
            layout,
        ),
        title,
        legend: legend(series),
        table: Table {
            head: ["layer", "time", "launches"].map(str::to_owned).to_vec(),
            rows: rows.collect(),
        },
    }
}
