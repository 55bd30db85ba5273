//! Ratios with their intervals, one drawing per layer, all on the same logarithmic axis.

use std::sync::Arc;

use kuva::prelude::{ForestPlot, Layout, Plot, ReferenceLine, ShadedRegion, TickFormat};

use super::{Chart, Group, Table, label, svg};
use crate::{
    Report, ResultRow, Verdict,
    analysis::{size_table, stalls},
    number,
};

/// Smallest span of the axis, so that noise does not look like a difference.
const LEAST: (f64, f64) = (0.5, 2.0);
const ROW: f64 = 24.0;
const LONGEST: usize = 25;
/// With more points in matrices than this, only their tables show them.
const MANY: usize = 60;

pub fn group(report: &Report) -> Option<Group> {
    let matrix = size_table::ids_in_matrices(report);
    let many = matrix.len() > MANY * report.layers.len();
    let drawn: Vec<&ResultRow> = report
        .results
        .iter()
        .filter(|r| bounds(r).is_some() && !(many && matrix.contains(r.id.as_str())))
        .collect();
    let span = axis(&drawn);
    let layers = report.layers.iter().enumerate();
    let of = |layer: &str| -> Vec<&ResultRow> {
        let own = drawn.iter().copied();
        own.filter(|r| r.layer == layer).collect()
    };
    let mut layers: Vec<_> = layers.map(|(n, l)| (n, &l.name, of(&l.name))).collect();
    layers.retain(|(.., rows)| !rows.is_empty());
    layers.sort_by(|(.., a), (.., b)| slowest(b).total_cmp(&slowest(a)));
    let charts: Vec<Chart> = layers
        .iter()
        .map(|(n, layer, rows)| chart(report, *n, layer, rows, span))
        .collect();
    (!charts.is_empty()).then(|| Group {
        title: "Cost against native".into(),
        hint: format!(
            "Each square is a ratio of time an operation, its line the {} interval. Right of 1 is slower. Within the shaded band ({} either way) a difference does not matter. All drawings share one axis; the layer with the largest ratio comes first.",
            number::percent(report.level),
            number::percent(report.delta)
        ),
        charts,
    })
}

/// Estimate and interval; a ratio without an interval is a square without a line.
fn bounds(row: &ResultRow) -> Option<(f64, f64, f64)> {
    let ratio = row.ratio?;
    let [low, high] = ratio.interval.unwrap_or([ratio.estimate; 2]);
    (low > 0.0 && high.is_finite()).then_some((ratio.estimate, low, high))
}

/// The largest ratio of a layer.
fn slowest(rows: &[&ResultRow]) -> f64 {
    let ratios = rows.iter().filter_map(|r| bounds(r));
    ratios.fold(0.0, |most, (ratio, ..)| most.max(ratio))
}

/// The axis of all drawings: all intervals, and room for the markers at its ends.
fn axis(rows: &[&ResultRow]) -> (f64, f64) {
    let (low, high) = rows
        .iter()
        .filter_map(|r| bounds(r))
        .fold(LEAST, |(l, h), (_, a, b)| (l.min(a), h.max(b)));
    let room = (high / low).powf(0.05);
    (low / room, high * room)
}

fn chart(
    report: &Report,
    n: usize,
    layer: &str,
    rows: &[&ResultRow],
    (low, high): (f64, f64),
) -> Chart {
    let mut forest = ForestPlot::new()
        .with_null_value(1.0)
        .with_marker_size(3.5)
        .with_whisker_width(2.0)
        .with_cap_size(3.5);
    for row in rows {
        if let Some((estimate, low, high)) = bounds(row) {
            forest = forest.with_colored_row(
                label(&row.label, LONGEST),
                estimate,
                low,
                high,
                colour(row.verdict),
            );
        }
    }
    let plots = vec![Plot::Forest(forest)];
    let band = ShadedRegion::vertical(1.0 / (1.0 + report.delta), 1.0 + report.delta)
        .with_color("var(--muted)")
        .with_opacity(0.18);
    let mut layout = Layout::auto_from_plots(&plots)
        .with_width(super::WIDTH)
        .with_height(rows.len() as f64 * ROW + 62.0)
        .with_log_x()
        .with_x_axis_min(low)
        .with_x_axis_max(high)
        .with_x_tick_format(TickFormat::Custom(Arc::new(tick)))
        .with_x_label("time an operation / native (log scale)")
        .with_shaded_region(band);
    for decade in -6..=9 {
        let at = 10f64.powi(decade);
        if at > low && at < high && decade != 0 {
            layout = layout.with_reference_line(
                ReferenceLine::vertical(at)
                    .with_color("var(--line)")
                    .with_stroke_width(1.0)
                    .with_dasharray("none"),
            );
        }
    }
    let id = format!("forest-{n}");
    let title = format!("{layer}: cost against native");
    let slower = rows.iter().filter(|r| r.verdict == Verdict::Slower).count();
    let faster = rows.iter().filter(|r| r.verdict == Verdict::Faster).count();
    let same = rows.iter().filter(|r| r.verdict == Verdict::Same).count();
    let stalls = rows.iter().filter(|r| !stalls::sign(r).is_empty()).count();
    let stalls = match stalls {
        0 => String::new(),
        n => format!(
            " {n} of usual times alone, marked {} in the table: a few operations take so long that the average is another.",
            stalls::SIGN
        ),
    };
    let description = format!(
        "Forest plot of {}: {same} the same as native, {slower} slower, {faster} faster.{stalls} The table below has every figure.",
        number::count(rows.len(), "ratio")
    );
    Chart {
        svg: svg::draw(&id, &title, &description, plots, layout),
        title,
        legend: Vec::new(),
        table: table(rows),
    }
}

fn colour(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Same => "var(--same)",
        Verdict::Slower => "var(--slower)",
        Verdict::Faster => "var(--faster)",
        Verdict::Undecided | Verdict::Baseline | Verdict::Untrusted | Verdict::Descriptive => {
            "var(--muted)"
        }
    }
}

/// Text of a tick, which is a round number: `0.5`, `1`, `20`.
fn tick(value: f64) -> String {
    let text = number::sig3(value);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn table(rows: &[&ResultRow]) -> Table {
    let head = ["operation", "ratio", "from", "to", "verdict", "result"]
        .map(str::to_owned)
        .to_vec();
    let line = |row: &&ResultRow| {
        let ratio = row.ratio?;
        let [from, to] = number::ratio_ends(&ratio).unwrap_or_else(|| ["-".into(), "-".into()]);
        Some(vec![
            row.label.clone(),
            number::ratio_of(&ratio) + stalls::sign(row),
            from,
            to,
            row.word().into(),
            row.id.clone(),
        ])
    };
    Table {
        head,
        rows: rows.iter().filter_map(line).collect(),
    }
}
