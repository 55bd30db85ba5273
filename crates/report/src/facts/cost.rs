//! Cost model: the fixed cost of an operation, and the cost of each byte.

use layermark_model::Run;
use layermark_stats::{self as stats, CostLine, Line, Pair, Step};

use crate::{
    facts::{
        LEVEL,
        index::Index,
        sweep::{self, Sweep},
    },
    statements::cost::{AddedCost, CostModel, OperationCost},
    types::{self, CostRow, Estimate, ResultRow, Verdict},
    words::{Names, Words},
};

/// Smallest ratio of the largest size to the smallest for a meaningful line.
const SPAN: u64 = 8;
/// How far a size may lie from the line, as a share, for the line to be a model.
pub const OFF: f64 = 0.25;

/// Models of every sweep with enough record sizes, by sweep, then by layer.
pub fn rows(run: &Run, index: &Index, baseline: usize, results: &[ResultRow]) -> Vec<CostRow> {
    let names = Names {
        baseline: run.baseline(),
    };
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
            row.id = types::numbered('k', rows.len() + 1);
            row.layer.clone_from(&of.name);
            row.evidence = results
                .iter()
                .filter(|r| r.layer == of.name)
                .filter(|r| site.labels().any(|l| l == r.label))
                .map(|r| r.id.clone())
                .collect();
            let text = model(&row, layer == baseline).words(&names);
            row.text = text.into();
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
    let ends = read.interval.map(|i| [i.low * scale, i.high * scale]);
    Estimate::new(read.estimate * scale, ends)
}

/// Bytes per second that no record size exceeds. Only known if bytes are at least half of the
/// largest record's cost.
fn ceiling(line: &CostLine, largest: f64) -> Option<f64> {
    let bytes = line.layer.slope * largest;
    (bytes >= line.layer.fixed && bytes > 0.0).then(|| 1e9 / line.layer.slope)
}

/// What a model says beside that of the baseline.
fn model(row: &CostRow, is_baseline: bool) -> CostModel<'_> {
    let cost = match (&row.fixed_us, &row.ns_per_byte) {
        (Some(fixed), Some(bytes)) => {
            let more = row
                .extra_fixed_us
                .as_ref()
                .zip(row.extra_ns_per_byte.as_ref());
            match more.filter(|_| !is_baseline) {
                Some(more) => extra([fixed, bytes], more),
                None => OperationCost::Whole(*fixed, *bytes),
            }
        }
        _ => OperationCost::NoModel {
            record: row.worst_record,
            off: row.worst,
        },
    };
    CostModel { row, cost }
}

/// What the layer adds per operation and per byte.
fn extra(
    [fixed, bytes]: [&Estimate; 2],
    (more, more_bytes): (&Estimate, &Estimate),
) -> OperationCost {
    // Without an interval, only a large part of the whole is reported.
    let above = |e: &Estimate, whole: &Estimate| {
        let large = e.estimate > 0.1 * whole.estimate;
        e.interval.map_or(large, |[low, _]| low > 0.0)
    };
    let below = |e: &Estimate| e.interval.is_some_and(|[_, high]| high < 0.0);
    let parts = [
        above(more, fixed).then_some(AddedCost::Constant(*more)),
        above(more_bytes, bytes).then_some(AddedCost::PerByte(*more_bytes)),
        below(more).then_some(AddedCost::LessConstant(*more)),
        below(more_bytes).then_some(AddedCost::LessPerByte(*more_bytes)),
    ];
    let parts: Vec<AddedCost> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return OperationCost::Nothing {
            with_interval: more.interval.is_some(),
        };
    }
    OperationCost::More(parts)
}
