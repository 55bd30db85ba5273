//! Recommended record size: the smallest that is nearly as good as the best.

use layermark_model::{Run, TrialRecord};
use layermark_stats::{self as stats, Pair, Step};

use crate::{
    facts::{
        LEVEL,
        cost::trusted,
        index::{Index, cost},
        sweep,
    },
    types::{BufferRow, Pick, ResultRow},
};

/// `Nearly` means within this share of the best.
pub const NEARLY: f64 = 0.05;

/// Recommendations for every sweep with enough record sizes, by sweep, then by layer.
pub fn rows(run: &Run, index: &Index, results: &[ResultRow]) -> Vec<BufferRow> {
    let mut rows = Vec::new();
    for sweep in sweep::request_sizes(run) {
        if sweep.steps.len() < stats::MIN_SIZES {
            continue;
        }
        let layers = run.layers.iter().enumerate().filter(|(_, l)| !l.control);
        for (number, layer) in layers {
            let steps = |value: fn(&TrialRecord) -> Option<f64>| -> Vec<Step> {
                let at = sweep.steps.iter();
                at.filter(|(_, at)| trusted(results, &layer.name, &run.points[*at].label))
                    .map(|([size], at)| step(*size, &index.trials(number, *at), value))
                    .filter(|s| !s.pairs.is_empty())
                    .collect()
            };
            let wall = pick(&steps(cost), 1.0 / (1.0 - NEARLY), run.seed);
            let records = steps(cost).iter().map(|s| s.size as u64).collect();
            let Some(wall) = wall else { continue };
            rows.push(BufferRow {
                workload: sweep.workload.clone(),
                label: sweep.describe(),
                operation: sweep.meaning.operation.clone(),
                point: sweep.params.clone(),
                layer: layer.name.clone(),
                records,
                wall,
                cpu: pick(&steps(cpu), 1.0 + NEARLY, run.seed),
            });
        }
    }
    rows
}

fn step(size: u64, trials: &[&TrialRecord], value: fn(&TrialRecord) -> Option<f64>) -> Step {
    let pair = |record: &&TrialRecord| {
        let cost = value(record)?;
        Some(Pair::new(
            (record.cell.session, record.cell.block),
            cost,
            cost,
        ))
    };
    Step {
        size: size as f64,
        pairs: trials.iter().filter_map(pair).collect(),
    }
}

/// CPU time of the probe per operation, nanoseconds.
fn cpu(record: &TrialRecord) -> Option<f64> {
    let trial = record.trial.as_ref()?;
    let ns = (trial.cpu.user_ns + trial.cpu.sys_ns) as f64 / trial.ops() as f64;
    (ns.is_finite() && ns > 0.0).then_some(ns)
}

fn pick(steps: &[Step], limit: f64, seed: u64) -> Option<Pick> {
    if steps.len() < stats::MIN_SIZES {
        return None;
    }
    let choice = stats::choose_size(steps, limit, LEVEL, stats::CURVE_RESAMPLES, seed)?;
    let size = |at: usize| steps[at].size as u64;
    let seconds = |at: usize| {
        let costs: Vec<f64> = steps[at].pairs.iter().map(|p| p.layer).collect();
        stats::median(&costs).map(|ns| ns / steps[at].size / 1e9)
    };
    Some(Pick {
        record: size(choice.step),
        between: choice.between.map(|(low, high)| [size(low), size(high)]),
        best: size(choice.best),
        seconds_per_byte: seconds(choice.step)?,
        best_seconds_per_byte: seconds(choice.best)?,
    })
}
