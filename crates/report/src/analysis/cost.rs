//! Cost model: the fixed cost of an operation, and the cost of each byte.

use layermark_model::{Run, format_size};
use layermark_stats::{self as stats, CostLine, Line, Pair, Step};

use crate::{
    analysis::{
        LEVEL,
        index::Index,
        sweep::{self, Sweep},
    },
    code_span::{self, code},
    number,
    types::{CostRow, Estimate, ResultRow, Verdict},
};

/// Smallest ratio of the largest size to the smallest for a meaningful line.
const SPAN: u64 = 8;
/// How far a size may lie from the line, as a share, for the line to be a model.
pub const OFF: f64 = 0.25;

/// Models of every sweep with enough record sizes, by sweep, then by layer.
pub fn rows(run: &Run, index: &Index, baseline: usize, results: &[ResultRow]) -> Vec<CostRow> {
    let mut rows = Vec::new();
    for sweep in sweep::request_sizes(run) {
        for (layer, of) in run.layers.iter().enumerate() {
            if of.control {
                continue;
            }
            let site = CostSite {
                index,
                baseline,
                layer,
                sweep: &sweep,
                trusted: &|label| trusted(results, &of.name, label),
                run,
            };
            let Some(mut row) = site.row() else { continue };
            row.id = format!("k{}", rows.len() + 1);
            row.layer.clone_from(&of.name);
            row.evidence = results
                .iter()
                .filter(|r| r.layer == of.name)
                .filter(|r| site.labels().any(|l| l == r.label))
                .map(|r| r.id.clone())
                .collect();
            row.text = sentence(&row, layer == baseline, run.baseline());
            rows.push(row);
        }
    }
    rows
}

/// Whether the result there may be used.
pub fn trusted(results: &[ResultRow], layer: &str, label: &str) -> bool {
    results
        .iter()
        .any(|r| r.layer == layer && r.label == label && r.verdict != Verdict::Untrusted)
}

struct CostSite<'a> {
    run: &'a Run,
    index: &'a Index<'a>,
    baseline: usize,
    layer: usize,
    sweep: &'a Sweep<1, usize>,
    trusted: &'a dyn Fn(&str) -> bool,
}

impl CostSite<'_> {
    fn labels(&self) -> impl Iterator<Item = &str> {
        let label = |at: &usize| self.run.points[*at].label.as_str();
        self.sweep.members().map(label)
    }

    /// Nanoseconds per operation as seen by one thread, by size and block.
    fn steps(&self) -> Vec<Step> {
        let threads = self.sweep.meaning.under_way();
        let scaled = |p: Pair| Pair {
            layer: p.layer * threads,
            native: p.native * threads,
            ..p
        };
        self.sweep
            .steps
            .iter()
            .filter(|(_, at)| (self.trusted)(&self.run.points[*at].label))
            .map(|([size], at)| Step {
                size: *size as f64,
                pairs: self
                    .index
                    .pairs(self.layer, self.baseline, *at)
                    .into_iter()
                    .map(scaled)
                    .collect(),
            })
            .filter(|s| !s.pairs.is_empty())
            .collect()
    }

    fn row(&self) -> Option<CostRow> {
        let steps = self.steps();
        let records: Vec<u64> = steps.iter().map(|s| s.size as u64).collect();
        let (first, last) = (*records.first()?, *records.last()?);
        if records.len() < stats::MIN_SIZES || last < SPAN * first {
            return None;
        }
        let line = stats::cost_line(&steps, LEVEL, stats::CURVE_RESAMPLES, self.run.seed)?;
        let fits = is_model(&line.layer);
        let both = fits && self.layer != self.baseline && is_model(&line.native);
        let us = |read| estimate(read, 1e-3);
        let ns = |read| estimate(read, 1.0);
        Some(CostRow {
            id: String::new(),
            workload: self.sweep.workload.clone(),
            label: self.sweep.describe(),
            point: self.sweep.params.clone(),
            layer: String::new(),
            fits,
            typical: share(line.layer.typical),
            worst: share(line.layer.worst),
            worst_record: records[line.layer.worst_at],
            fixed_us: fits.then(|| us(line.fixed)),
            ns_per_byte: fits.then(|| ns(line.slope)),
            extra_fixed_us: both.then(|| us(line.extra_fixed)),
            extra_ns_per_byte: both.then(|| ns(line.extra_slope)),
            // The line is that of one operation. All operations in flight together are that many
            // times as fast.
            ceiling: ceiling(&line, last as f64)
                .filter(|_| fits)
                .map(|rate| rate * self.sweep.meaning.under_way()),
            records,
            text: String::new(),
            evidence: Vec::new(),
        })
    }
}

fn is_model(line: &Line) -> bool {
    share(line.worst) <= OFF
}

/// Converts a deviation of logarithms to a share.
fn share(deviation: f64) -> f64 {
    deviation.exp_m1()
}

fn estimate(read: stats::Read, scale: f64) -> Estimate {
    Estimate {
        estimate: read.estimate * scale,
        interval: read.interval.map(|i| [i.low * scale, i.high * scale]),
        average: None,
    }
}

/// Bytes per second that no record size exceeds. Only known if bytes are at least half of the
/// largest record's cost.
fn ceiling(line: &CostLine, largest: f64) -> Option<f64> {
    let bytes = line.layer.slope * largest;
    (bytes >= line.layer.fixed && bytes > 0.0).then(|| 1e9 / line.layer.slope)
}

/// Whether it is certainly above 0 or, without an interval, above `least`.
fn above(e: &Estimate, least: f64) -> bool {
    e.interval.map_or(e.estimate > least, |i| i[0] > 0.0)
}

/// Whether it is certainly below 0.
fn below(e: &Estimate) -> bool {
    e.interval.is_some_and(|i| i[1] < 0.0)
}

/// Nanoseconds per byte: `0.31 ns (0.28 to 0.33 ns)`.
pub fn per_byte(e: &Estimate) -> String {
    number::time_with(&in_us(e))
}

fn in_us(ns: &Estimate) -> Estimate {
    Estimate {
        estimate: ns.estimate / 1e3,
        interval: ns.interval.map(|i| i.map(|v| v / 1e3)),
        average: None,
    }
}

fn sentence(row: &CostRow, is_baseline: bool, baseline: &str) -> String {
    let (Some(fixed), Some(bytes)) = (&row.fixed_us, &row.ns_per_byte) else {
        return format!(
            "{}, {}: no such model: records of {} lie {} off the best line",
            code(&row.layer),
            row.label,
            format_size(row.worst_record),
            number::percent(row.worst)
        );
    };
    let cost = match (&row.extra_fixed_us, &row.extra_ns_per_byte) {
        (Some(more), Some(more_bytes)) if !is_baseline => {
            extra((fixed, more), (bytes, more_bytes), baseline)
        }
        _ => format!(
            "{} an operation and {} a byte",
            number::time_with(fixed),
            per_byte(bytes)
        ),
    };
    let limit = row.ceiling.map_or_else(String::new, |c| {
        let most = number::value(c, "B/s");
        format!("; never above {most}, whatever the record")
    });
    format!("{}, {}: {cost}{limit}", code(&row.layer), row.label)
}

/// What the layer adds per operation and per byte.
fn extra(
    (fixed, more): (&Estimate, &Estimate),
    (bytes, more_bytes): (&Estimate, &Estimate),
    baseline: &str,
) -> String {
    let mut parts = Vec::new();
    // Without an interval, only a large part of the whole is reported.
    if above(more, 0.1 * fixed.estimate) {
        parts.push(format!(
            "a constant {} more an operation: no record size helps, larger ones only spread it over more bytes",
            number::time_with(more)
        ));
    }
    if above(more_bytes, 0.1 * bytes.estimate) {
        parts.push(format!("{} more a byte", per_byte(more_bytes)));
    }
    if below(more) {
        parts.push(format!("{} an operation", number::time_with(more)));
    }
    if below(more_bytes) {
        parts.push(format!("{} a byte", per_byte(more_bytes)));
    }
    if parts.is_empty() {
        let known = if more.interval.is_some() {
            ""
        } else {
            " (too few blocks for an interval)"
        };
        let baseline = code_span::baseline(baseline);
        return format!("no cost beside {baseline}'s that can be told from chance{known}");
    }
    parts.join(", and ")
}
