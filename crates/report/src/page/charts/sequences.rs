//! Times in the order of the run, and their distribution.

use kuva::prelude::{Histogram, Layout, LinePlot, Plot, ScatterPlot};

use super::{
    Chart, ChartGroup, Key, Table,
    svg::{self, DrawingId},
};
use crate::{
    number,
    types::{Section, Sequence, SequenceOfLayer},
    words::{captions, charts as words},
};

/// Most points of a chart; with more, none is drawn.
const MOST: usize = 24;
const BINS: usize = 20;

/// The sequences of a section under one heading; `None` where it has none.
pub fn group(section: &Section) -> Option<ChartGroup> {
    let all = section.sequences.iter().take(MOST).enumerate();
    let said = section.remarks.join(". ");
    let charts: Vec<Chart> = all
        .flat_map(|(n, of)| {
            let id = DrawingId::nth(&section.name, n);
            let second = id.with("spread");
            [order(id, of, &said), spread(second, of)]
        })
        .collect();
    (!charts.is_empty()).then(|| ChartGroup {
        title: words::in_order(&section.title).into(),
        hint: captions::IN_ORDER.into(),
        charts,
    })
}

/// A round step between ticks, 1, 2 or 5 times a power of ten, so that about five are in this span.
fn step(span: f64) -> f64 {
    const TICKS: f64 = 5.0;
    let least = span / TICKS;
    let decade = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    let enough = steps.into_iter().find(|step| *step >= least * 0.999);
    enough.unwrap_or(10.0 * decade)
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
    let runs = of.series.iter().map(|s| s.ms.len()).max().unwrap_or(1) as f64;
    let most = of.series.iter().flat_map(|s| &s.ms).copied();
    let most = most.fold(f64::MIN_POSITIVE, f64::max) / scale;
    let (along, up) = (step(runs).max(1.0), step(most));
    let layout = Layout::auto_from_plots(&plots)
        .with_width(super::WIDTH)
        .with_height(230.0)
        .with_x_axis_min(0.0)
        .with_x_axis_max(along * ((runs + 0.5) / along).ceil())
        .with_x_tick_step(along)
        .with_y_axis_min(0.0)
        .with_y_axis_max(up * (most / up).ceil())
        .with_y_tick_step(up)
        .with_clamp_axis()
        .with_x_label("run")
        .with_y_label(unit);
    let title = String::from(words::every_run(&of.title));
    let description = String::from(words::of_every_run(said));
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
            head: [&of.of, "run", "time", "level"].map(str::to_owned).to_vec(),
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
    let round = step(high - low);
    let layout = Layout::auto_from_plots(&plots)
        .with_width(super::WIDTH)
        .with_height(230.0)
        .with_x_axis_min(round * (low / round).floor())
        .with_x_axis_max(round * (high / round).ceil())
        .with_x_tick_step(round)
        .with_clamp_axis()
        .with_x_label(unit)
        .with_y_label("runs");
    let title = String::from(words::spread(&of.title));
    let description = String::from(words::of_spread(BINS));
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
        svg: svg::draw(id, &title, &description, plots, layout),
        title,
        legend: legend(of),
        table: Table {
            head: [&of.of, "time", "runs"].map(str::to_owned).to_vec(),
            rows: rows.collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_make_few_ticks() {
        for (span, expected) in [
            (4.0, 1.0),
            (12.0, 5.0),
            (30.0, 10.0),
            (0.34, 0.1),
            (1400.0, 500.0),
        ] {
            let found = step(span);
            assert!(
                (found - expected).abs() < 1e-9 * expected,
                "{span}: {found}"
            );
            assert!((2.0..=5.01).contains(&(span / found)), "{span}: {found}");
        }
    }
}
