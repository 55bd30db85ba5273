//! A trend: each run's value with its interval, and the lasting changes.

use kuva::prelude::{Layout, LinePlot, MarkerShape, Plot, ReferenceLine, ScatterPlot, TickFormat};

use super::{
    Chart, Table,
    svg::{self, DrawingId},
};
use crate::{Change, Trend, TrendRun, facts::stalls, number, words::charts as words};

/// The trend's only chart.
pub fn chart(title: &str, trend: &Trend) -> Chart {
    let (is_time, runs, changes) = (trend.is_time, &trend.runs, &trend.changes);
    let at = |run: &TrendRun| run.number as f64;
    let shown = if is_time {
        number::time_with
    } else {
        number::ratio_with
    };
    let values = runs.iter().map(|run| (at(run), run.value.estimate));
    let ends = |run: &TrendRun| {
        let v = run.value.estimate;
        let [low, high] = run.value.interval.unwrap_or([v, v]);
        (v - low, high - v)
    };
    let dots = ScatterPlot::new()
        .with_data(values)
        .with_y_err_asymmetric(runs.iter().map(ends))
        .with_color("var(--c1)")
        .with_size(3.0)
        .with_marker(MarkerShape::Circle);
    let medians = medians(runs, changes).into_iter().map(|ends| {
        let line = LinePlot::new().with_data(ends);
        Plot::Line(line.with_color("var(--muted)").with_stroke_width(1.5))
    });
    let plots: Vec<Plot> = medians.chain([Plot::Scatter(dots)]).collect();
    let tick = move |v: f64| {
        if is_time {
            number::time(v)
        } else {
            number::multiple(v)
        }
    };
    // Only whole numbers: there is nothing between two runs.
    let whole = |v: f64| {
        if v.fract() == 0.0 {
            v.to_string()
        } else {
            String::new()
        }
    };
    let (first, last) = (at(&runs[0]), at(&runs[runs.len() - 1]));
    let mut layout = Layout::auto_from_plots(&plots)
        .with_width(super::WIDTH)
        .with_height(260.0)
        .with_x_label("run")
        .with_x_axis_min(first - 1.0)
        .with_x_axis_max(last + 1.0)
        .with_x_tick_format(TickFormat::Custom(std::sync::Arc::new(whole)))
        .with_y_tick_format(TickFormat::Custom(std::sync::Arc::new(tick)));
    for change in changes {
        layout = layout.with_reference_line(
            ReferenceLine::vertical(at(&runs[change.at]) - 0.5)
                .with_color("var(--muted)")
                .with_stroke_width(1.0)
                .with_dasharray("2,3"),
        );
    }
    let description = String::from(words::of_trend(runs.len(), changes.len()));
    let row = |run: &TrendRun| {
        let id = run.id.clone();
        vec![
            run.number.to_string(),
            id,
            run.started.clone(),
            shown(&run.value) + if run.stalls { stalls::SIGN } else { "" },
        ]
    };
    Chart {
        svg: svg::draw(DrawingId::only("trend"), title, &description, plots, layout),
        title: title.to_owned(),
        legend: Vec::new(),
        table: Table {
            head: ["#", "run", "started", "value"].map(str::to_owned).to_vec(),
            rows: runs.iter().map(row).collect(),
        },
    }
}

/// A line at the median of each part between two changes. Without changes there are no lines.
fn medians(runs: &[TrendRun], changes: &[Change]) -> Vec<[(f64, f64); 2]> {
    let starts = [0].into_iter().chain(changes.iter().map(|c| c.at));
    let ends = changes.iter().map(|c| c.at).chain([runs.len()]);
    let heights = changes.first().map(|c| c.before).into_iter();
    let heights = heights.chain(changes.iter().map(|c| c.after));
    let place = |at: usize| runs[at].number as f64;
    starts
        .zip(ends)
        .zip(heights)
        .map(|((from, to), y)| [(place(from) - 0.4, y), (place(to - 1) + 0.4, y)])
        .collect()
}
