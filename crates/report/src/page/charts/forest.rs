//! Ratios with their intervals: one drawing for each point, layers as rows. If only one layer is
//! compared, one drawing with points as rows.

use std::sync::Arc;

use kuva::prelude::{
    ForestPlot, Layout, Plot, ReferenceLine, ShadedRegion, TextAnnotation, TickFormat,
};

use super::{
    Chart, ChartGroup, Table, label,
    svg::{self, DrawingId},
};
use crate::{
    Report, ResultRow, Verdict,
    facts::{size_table, stalls},
    number::{self, Written},
    page::matrix::Matrix,
    words::charts as words,
};

/// Smallest span of the axis, so that noise does not look like a difference.
const LEAST: [f64; 2] = [0.5, 2.0];
/// Ends of the axis. A ratio beyond them is an arrow with its number, so that one large ratio does
/// not hide the differences between the others.
const CUT: [f64; 2] = [0.1, 10.0];
const ROW: f64 = 24.0;
const LONGEST: usize = 34;
/// With more points in matrices than this, only their tables show them.
const MANY: usize = 60;
/// Most drawings.
const MOST: usize = 24;
/// Units between the left edge of the drawing and its labels, and to the right of its axis.
const EDGES: f64 = 40.0;
/// Width of a letter of a label, and of an arrow's number.
const LETTER: f64 = 6.6;
/// Height by which an annotation stands above its place, and by which it has to be lower to be in
/// line with its row.
const LOWER: f64 = 10.0;

pub fn group(report: &Report) -> Option<ChartGroup> {
    let matrix = size_table::ids_in_matrices(report);
    let many = matrix.len() > MANY * report.layers.len();
    let drawn: Vec<&ResultRow> = report
        .results
        .iter()
        .filter(|r| bounds(r).is_some() && !(many && matrix.contains(r.id.as_str())))
        .collect();
    let (all, baseline) = (Matrix::new(report).ratios(), report.baseline());
    let layers: Vec<&str> = report.layers.iter().map(|l| l.name.as_str()).collect();
    let own = |layer: &&&str| drawn.iter().any(|r| r.layer == **layer);
    let compared: Vec<&&str> = layers.iter().filter(own).collect();
    let mut forests: Vec<Forest> = if let [one] = compared.as_slice() {
        let rows = drawn.iter().map(|r| (r.label.clone(), *r));
        vec![Forest {
            n: 0,
            title: words::cost_against(baseline, Some(one)).into(),
            rows: rows.collect(),
        }]
    } else {
        let name = |layer: &str| {
            let column = all.columns.iter().find(|column| column.name == layer);
            column.map_or_else(|| layer.to_owned(), |column| column.head.clone())
        };
        let of = |point: &str| {
            let rows = drawn.iter().filter(|r| r.label == point);
            rows.map(|r| (name(&r.layer), *r)).collect()
        };
        let points = report.points().into_iter().enumerate();
        let of = points.map(|(n, point)| Forest {
            n,
            title: words::cost_against(baseline, Some(point)).into(),
            rows: of(point),
        });
        of.collect()
    };
    forests.retain(|f| !f.rows.is_empty());
    forests.sort_by(|a, b| b.furthest().total_cmp(&a.furthest()));
    let left_out = forests.len().saturating_sub(MOST);
    forests.truncate(MOST);
    let charts: Vec<Chart> = forests.iter().map(|f| f.chart(report)).collect();
    (!charts.is_empty()).then(|| ChartGroup {
        title: words::cost_against(baseline, None).into(),
        hint: words::about_ratios(report.level, report.delta, left_out).into(),
        charts,
    })
}

/// Estimate and interval; a ratio without an interval is a square without a line.
fn bounds(row: &ResultRow) -> Option<(f64, f64, f64)> {
    let ratio = row.ratio?;
    let [low, high] = ratio.interval.unwrap_or([ratio.estimate; 2]);
    (low > 0.0 && high.is_finite()).then_some((ratio.estimate, low, high))
}

/// A drawing.
struct Forest<'a> {
    /// Its number within the page.
    n: usize,
    title: String,
    /// Results with the labels of their rows.
    rows: Vec<(String, &'a ResultRow)>,
}

impl Forest<'_> {
    /// The largest distance of a ratio from 1, as |ln ratio|.
    fn furthest(&self) -> f64 {
        let ratios = self.rows.iter().filter_map(|(_, r)| bounds(r));
        ratios.fold(0.0, |most, (ratio, ..)| most.max(ratio.ln().abs()))
    }

    /// The axis: all intervals as far as [`CUT`], and room for the markers at its ends.
    fn axis(&self) -> [f64; 2] {
        let [low, high] = self
            .rows
            .iter()
            .filter_map(|(_, r)| bounds(r))
            .fold(LEAST, |[l, h], (_, a, b)| [l.min(a), h.max(b)]);
        let (low, high) = (low.max(CUT[0]), high.min(CUT[1]));
        let room = (high / low).powf(0.05);
        [low / room, high * room]
    }

    fn chart(&self, report: &Report) -> Chart {
        let axis @ [low, high] = self.axis();
        let (forest, arrows) = self.drawn(axis);
        let plots = vec![Plot::Forest(forest)];
        let band = ShadedRegion::vertical(1.0 / (1.0 + report.delta), 1.0 + report.delta)
            .with_color("var(--muted)")
            .with_opacity(0.18);
        let mut layout = Layout::auto_from_plots(&plots)
            .with_width(super::WIDTH)
            .with_height(self.rows.len() as f64 * ROW + 62.0)
            .with_log_x()
            .with_x_axis_min(low)
            .with_x_axis_max(high)
            .with_x_tick_format(TickFormat::Custom(Arc::new(number::tick)))
            .with_x_label(String::from(words::ratio_axis(report.baseline())))
            .with_shaded_region(band);
        for decade in CUT.into_iter().filter(|at| *at > low && *at < high) {
            layout = layout.with_reference_line(
                ReferenceLine::vertical(decade)
                    .with_color("var(--line)")
                    .with_stroke_width(1.0)
                    .with_dasharray("none"),
            );
        }
        for arrow in arrows {
            layout = layout.with_annotation(arrow);
        }
        let id = DrawingId::nth("forest", self.n);
        Chart {
            svg: svg::draw(
                id,
                &self.title,
                &self.description(report.baseline()),
                plots,
                layout,
            ),
            title: self.title.clone(),
            legend: Vec::new(),
            table: self.table(),
        }
    }

    /// Squares and lines within the axis, and an arrow for each row that goes beyond it.
    fn drawn(&self, [low, high]: [f64; 2]) -> (ForestPlot, Vec<TextAnnotation>) {
        let mut forest = ForestPlot::new()
            .with_null_value(1.0)
            .with_marker_size(3.5)
            .with_whisker_width(2.0)
            .with_cap_size(3.5);
        let longest = self.rows.iter().map(|(name, _)| name.chars().count());
        let labels = LETTER * longest.max().unwrap_or(0).min(LONGEST) as f64;
        // The share of the axis that a letter takes.
        let letter = LETTER / (super::WIDTH - EDGES - labels);
        let mut arrows = Vec::new();
        for (n, (name, row)) in self.rows.iter().enumerate() {
            let Some((estimate, from, to)) = bounds(row) else {
                continue;
            };
            let inside = |v: f64| v.clamp(low, high);
            let beyond = estimate < low || estimate > high;
            let colour = if beyond { "none" } else { colour(row.verdict) };
            forest = forest.with_colored_row(
                label(name, LONGEST),
                inside(estimate),
                inside(from),
                inside(to),
                colour,
            );
            let times = Written::in_row(row).map(|r| r.times()).unwrap_or_default();
            let right: Option<String> = match () {
                () if estimate > high => Some(words::beyond(&times, true).into()),
                () => (to > high).then(|| "\u{2192}".into()),
            };
            let left: Option<String> = match () {
                () if estimate < low => Some(words::beyond(&times, false).into()),
                () => (from < low).then(|| "\u{2190}".into()),
            };
            let y = (self.rows.len() - n) as f64 - LOWER / ROW;
            // Annotations are centred.
            let inwards = |text: &str| {
                let half = letter * text.chars().count() as f64 / 2.0;
                (high / low).powf(half)
            };
            let right = right.map(|text| (high / inwards(&text), text));
            let left = left.map(|text| (low * inwards(&text), text));
            for (x, text) in right.into_iter().chain(left) {
                arrows.push(TextAnnotation::new(text, x, y).with_font_size(11));
            }
        }
        (forest, arrows)
    }

    fn description(&self, baseline: &str) -> String {
        let having = |verdict| {
            let of = self.rows.iter().filter(|(_, r)| r.verdict == verdict);
            of.count()
        };
        let rows = self.rows.iter();
        let stalls = rows.filter(|(_, r)| !stalls::sign(r).is_empty());
        let drawn = words::DrawnRatios {
            all: self.rows.len(),
            verdicts: [Verdict::Same, Verdict::Slower, Verdict::Faster].map(having),
            stalls: stalls.count(),
        };
        drawn.words(baseline).into()
    }

    fn table(&self) -> Table {
        let head = [
            "layer",
            "operation",
            "ratio",
            "from",
            "to",
            "verdict",
            "result",
        ];
        let line = |(_, row): &(String, &ResultRow)| {
            let ratio = Written::in_row(row)?;
            let ends = ratio.ends();
            let [from, to] = ends.unwrap_or_else(|| ["-".into(), "-".into()]);
            Some(vec![
                row.layer.clone(),
                row.label.clone(),
                ratio.ratio() + stalls::sign(row),
                from,
                to,
                row.word().into(),
                row.id.clone(),
            ])
        };
        Table {
            head: head.map(str::to_owned).to_vec(),
            rows: self.rows.iter().filter_map(line).collect(),
        }
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
