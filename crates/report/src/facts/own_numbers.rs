//! What a layer's own trials show, without a comparison: its time an operation, its rate, CPU and unwritten data.

use layermark_model::{ClockTime, Trial, TrialRecord};
use layermark_stats as stats;

use crate::{
    facts::{LEVEL, index::typical_by, judged::span},
    types::{CpuCost, DebtRow, ResultRow},
};

const GIB: f64 = (1u64 << 30) as f64;

/// Centre of a sample of costs and its interval, computed on logarithms like ratios.
fn centre(costs: &[f64]) -> (Option<f64>, Option<[f64; 2]>) {
    let logs: Vec<f64> = costs.iter().map(|c| c.ln()).collect();
    let Some(centre) = stats::Trimmed::of(&logs) else {
        return (None, None);
    };
    let interval = centre.interval(LEVEL).map(|i| span(i.exp()));
    (Some(centre.mean.exp()), interval)
}

/// Sets the time that the ratio is of. What follows from it keeps its relative width.
pub fn retime(row: &mut ResultRow, us: f64) {
    let Some(before) = row.op_us.replace(us) else {
        return;
    };
    let by = us / before;
    row.op_us_interval = row.op_us_interval.map(|ends| ends.map(|end| end * by));
    if !row.meaning.paced {
        row.value = row.value.map(|value| value / by);
        row.interval = row.interval.map(|ends| ends.map(|end| end / by));
    }
}

pub(super) fn speed(
    row: &mut ResultRow,
    records: &[&TrialRecord],
    under_way: f64,
    time: ClockTime,
) {
    let costs = records.iter().filter_map(|r| typical_by(time, r));
    let costs: Vec<f64> = costs.collect();
    let (ns, interval) = centre(&costs);
    // A value is elapsed time over the operations of all threads; a single thread waits longer.
    let us = |ns: f64| ns * under_way / 1e3;
    row.op_us = ns.map(us);
    row.op_us_interval = interval.map(|i| i.map(us));
    let moved = sums(records);
    let per_op = if row.unit == "B/s" {
        moved.bytes / moved.ops
    } else {
        row.meaning.unit.seconds()
    };
    let trials: Vec<&Trial> = records.iter().filter_map(|r| r.trial.as_ref()).collect();
    if trials.iter().any(|t| t.response_ns.is_some()) {
        // Its cost is a response time, which says nothing about the rate.
        row.value = reached(&trials);
    } else if per_op > 0.0 && per_op.is_finite() {
        row.value = ns.map(|ns| per_op * 1e9 / ns);
        row.interval = interval.map(|[low, high]| [per_op * 1e9 / high, per_op * 1e9 / low]);
    }
}

/// Centre of the rates that trials reached, if their value is a response time.
fn reached(trials: &[&Trial]) -> Option<f64> {
    let rates: Vec<f64> = trials
        .iter()
        .filter(|t| t.elapsed_ns() > 0)
        .map(|t| t.ops() as f64 * 1e9 / t.elapsed_ns() as f64)
        .collect();
    stats::median(&rates)
}

#[derive(Default)]
struct Sums {
    ops: f64,
    bytes: f64,
    probe_ns: f64,
    upkeep_ns: f64,
}

fn sums(records: &[&TrialRecord]) -> Sums {
    records
        .iter()
        .filter_map(|r| r.trial.as_ref().map(|t| (r, t)))
        .fold(Sums::default(), |mut sum, (record, trial)| {
            sum.ops += trial.ops() as f64;
            sum.bytes += trial.bytes() as f64;
            sum.probe_ns += (trial.cpu.user_ns + trial.cpu.sys_ns) as f64;
            sum.upkeep_ns += record.upkeep_ns as f64;
            sum
        })
}

pub(super) fn cpu(row: &mut ResultRow, records: &[&TrialRecord]) {
    let sum = sums(records);
    if sum.ops > 0.0 {
        row.cpu_us_per_op = Some(CpuCost {
            probe: sum.probe_ns / 1e3 / sum.ops,
            upkeep: sum.upkeep_ns / 1e3 / sum.ops,
        });
    }
    if row.unit == "B/s" && sum.bytes > 0.0 {
        let per_gib = GIB / sum.bytes / 1e9;
        row.cpu_s_per_gib = Some(CpuCost {
            probe: sum.probe_ns * per_gib,
            upkeep: sum.upkeep_ns * per_gib,
        });
    }
}

pub(super) fn debt(trials: &[&Trial]) -> Option<DebtRow> {
    let debts: Vec<_> = trials
        .iter()
        .filter_map(|t| Some((t.debt?, t.ops().max(1))))
        .filter(|(d, _)| d.seconds.is_finite())
        .collect();
    let bytes: Vec<f64> = debts
        .iter()
        .filter_map(|(d, _)| d.bytes.map(|bytes| bytes as f64))
        .collect();
    let seconds: Vec<f64> = debts.iter().map(|(d, _)| d.seconds).collect();
    let each = debts.iter().map(|(d, ops)| d.seconds * 1e6 / *ops as f64);
    Some(DebtRow {
        bytes: stats::median(&bytes),
        seconds: stats::median(&seconds)?,
        us_per_op: stats::median(&each.collect::<Vec<f64>>())?,
    })
}
