//! Times in the order of the run, and their distribution.

use kuva::prelude::{Histogram, Layout, LinePlot, Plot, ScatterPlot};

use super::{
    Chart, Group, Key, Table,
    svg::{self, DrawingId},
};
use crate::{
    number,
    types::{Section, Sequence, SequenceOfLayer},
};

/// Most points of a chart; with more, none is drawn.
const MOST: usize = 24;
const BINS: usize = 20;

/// The sequences of a section under one heading; `None` where it has none.
pub fn group(section: &Section) -> Option<Group> {
    let all = section.sequences.iter().take(MOST).enumerate();
    let said = section.remarks.join(". ");
    let charts: Vec<Chart> = all
        .flat_map(|(n, of)| {
            let id = DrawingId::nth(&section.name, n);
            let second = id.with("spread");
            [order(id, of, &said), spread(second, of)]
        })
        .collect();
    (!charts.is_empty()).then(|| Group {
        title: format!("{} in the order of the run", section.title),
        hint: "Each dot is a time; a line is the median of a level. Beside it, how often each time was met.".into(),
        charts,
    })
}

/// One unit for a whole chart.
fn scale(of: &Sequence) -> (f64, &'static str) {
    let all = of.series.iter().flat_map(|s| &s.ms);
    let most = all.copied().fold(0.0, f64::max);
    if most >= 2000.0 {
        (1000.0, "s")
    } else {
        (1.0, "ms")
    }
}

fn legend(of: &Sequence) -> Vec<Key> {
    let key = |(n, s): (usize, &SequenceOfLayer)| Key {
        name: s.layer.clone(),
        colour: super::colour(n + 1),
        marker: "<circle cx=\"8\" cy=\"8\" r=\"4\"/>",
    };
    of.series.iter().enumerate().map(key).collect()
}

fn order(id: DrawingId, of: &Sequence, said: &str) -> Chart {
    let (scale, unit) = scale(of);
    let mut plots = Vec::new();
    for (n, s) in of.series.iter().enumerate() {
        let colour = super::colour(n + 1);
        let dots: Vec<(f64, f64)> = (1u32..)
            .zip(&s.ms)
            .map(|(run, ms)| (f64::from(run), ms / scale))
            .collect();
        plots.push(Plot::Scatter(
            ScatterPlot::new()
                .with_data(dots)
                .with_color(&colour)
                .with_size(2.8),
        ));
        for level in &s.levels {
            let y = level.typical_ms / scale;
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
    let title = format!("{}: every run", of.title);
    let description = format!(
        "Each time in the order of the run, with a line at the typical time of each level. {said}"
    );
    let rows = of.series.iter().flat_map(|s| {
        (1..).zip(&s.ms).map(move |(run, ms)| {
            let level = s.levels.iter().position(|l| (l.from..=l.to).contains(&run));
            vec![
                s.layer.clone(),
                run.to_string(),
                number::time(ms * 1e3),
                level.map_or("apart".to_owned(), |l| (l + 1).to_string()),
            ]
        })
    });
    Chart {
        svg: svg::draw(id, &title, &description, plots, layout),
        title,
        legend: legend(of),
        table: Table {
            head: ["layer", "run", "time", "level"]
                .map(str::to_owned)
                .to_vec(),
            rows: rows.collect(),
        },
    }
}

fn spread(id: DrawingId, of: &Sequence) -> Chart {
    let (scale, unit) = scale(of);
    let times = |s: &SequenceOfLayer| -> Vec<f64> { s.ms.iter().map(|ms| ms / scale).collect() };
    let all: Vec<f64> = of.series.iter().flat_map(times).collect();
    let low = all.iter().copied().fold(f64::INFINITY, f64::min);
    let high = all.iter().copied().fold(0.0, f64::max);
    // A series of equal times also needs a width.
    let (low, high) = if high - low < 1e-9 {
        (low * 0.9, high * 1.1 + 1e-9)
    } else {
        (low, high)
    };
    let width = (high - low) / BINS as f64;
    let plots: Vec<Plot> = of
        .series
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
        .with_y_label("runs");
    let title = format!("{}: how the times are spread", of.title);
    let count = |s: &SequenceOfLayer, bin: usize| {
        let at = |t: f64| (((t - low) / width) as usize).min(BINS - 1);
        times(s).into_iter().filter(|t| at(*t) == bin).count()
    };
    let rows = of.series.iter().flat_map(|s| {
        (0..BINS).filter(move |b| count(s, *b) > 0).map(move |b| {
            let from = low + width * b as f64;
            let edges = [from, from + width].map(|t| number::time(t * scale * 1e3));
            vec![s.layer.clone(), edges.join(" to "), count(s, b).to_string()]
        })
    });
    Chart {
        svg: svg::draw(
            id,
            &title,
            &format!("How many of the runs took how long, in {BINS} classes."),
            plots,
            layout,
        ),
        title,
        legend: legend(of),
        table: Table {
            head: ["layer", "time", "runs"].map(str::to_owned).to_vec(),
            rows: rows.collect(),
        },
    }
}
