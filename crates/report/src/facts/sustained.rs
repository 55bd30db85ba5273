//! Work without pauses, against the work in short turns: a limit that refills while a layer rests shows only there.

use layermark_model::{Limit, Limited, Run, Sustained, Turn};

use crate::{
    facts::limits,
    types::{ResultRow, SustainedRatio, Verdict},
};

/// Stretches of a finding: one alone may have been disturbed, and a second one follows if it was long.
const STRETCHES: usize = 2;
/// A ratio differs if it is this many times beyond the interval of the turns' average, in each stretch.
const BEYOND: f64 = 1.5;
/// A rate is a limit's between these multiples of it. Buckets may be full when a stretch begins.
const AT_LIMIT: [f64; 2] = [0.5, 1.5];

/// The layer's time over the baseline's in each stretch. `None` without stretches of both.
pub fn of(run: &Run, [layer, baseline]: [usize; 2], point: usize) -> Option<SustainedRatio> {
    let of = |l: usize| {
        let mut all = run.sustained.iter();
        all.find(|s| (s.layer, s.point) == (l, point))
    };
    let (here, native) = (of(layer)?, of(baseline)?);
    let net = here.apart && native.apart;
    let disturbed = net && here.disturbed && native.disturbed;
    let ratio = |(a, b): (&Turn, &Turn)| {
        let kernel = disturbed && a.kernel_waited_ns.is_some() && b.kernel_waited_ns.is_some();
        Some(ns_per_op(a, net, kernel)? / ns_per_op(b, net, kernel)?)
    };
    let pairs = here.stretches.iter().zip(&native.stretches);
    let ratios: Vec<f64> = pairs.filter_map(ratio).collect();
    let whole = !ratios.is_empty() && ratios.len() == here.stretches.len() && layer != baseline;
    let ns: u64 = here.stretches.iter().map(|t| t.elapsed_ns).sum();
    whole.then(|| SustainedRatio {
        length_s: ns as f64 / 1e9 / ratios.len() as f64,
        limit: met(run, here, native),
        ratios,
    })
}

/// The limit that stopped the layer in its stretches and not the baseline, which has none like it.
fn met(run: &Run, here: &Sustained, native: &Sustained) -> Option<Limit> {
    let limits = |l: usize| &run.layers[l].facts.limits;
    let sum = |of: fn(&Turn) -> u64| here.stretches.iter().map(of).sum::<u64>() as f64;
    let rate = sum(|t| t.bytes) * 1e9 / sum(|t| t.elapsed_ns).max(1.0);
    let times = |s: &Sustained| s.throttled.map_or(0, |t| t.times);
    let stopped = 2 * times(here) > 3 * times(native);
    let meaning = &run.points[here.point].meaning;
    let is_met = |limit: &&Limit| match limit.of {
        Limited::Cpu => stopped || limit.uncounted,
        _ => limits::waits(meaning, limit) && is_rate_of(limit, rate),
    };
    let alone = |limit: &&Limit| !limits(native.layer).contains(limit);
    let mut own = limits(here.layer).iter().filter(alone);
    own.find(is_met).cloned()
}

/// Nanoseconds per operation; `net`: without the time that the thread waited for a CPU, `kernel`: without that of the kernel's
/// threads.
fn ns_per_op(turn: &Turn, net: bool, kernel: bool) -> Option<f64> {
    let own = turn.waited_ns.filter(|_| net).unwrap_or(0);
    let waited = own.saturating_add(turn.kernel_waited_ns.filter(|_| kernel).unwrap_or(0));
    let ns = turn.elapsed_ns.checked_sub(waited)?;
    (turn.ops > 0 && ns > 0).then(|| ns as f64 / turn.ops as f64)
}

/// Whether a rate of bytes is that of a limit of transfers.
fn is_rate_of(limit: &Limit, rate: f64) -> bool {
    let of_bytes = matches!(limit.of, Limited::ReadBytes | Limited::WrittenBytes);
    let [least, most] = AT_LIMIT.map(|times| times * limit.rate);
    of_bytes && (least..=most).contains(&rate)
}

/// Whether a result is slower at a stretch than its turns allow for. Both are averages: a stretch has its stalls.
pub fn is_slower(row: &ResultRow) -> bool {
    let high = |row: &ResultRow| {
        let ratio = row.ratio?;
        let [_, high] = ratio.average?.interval.or(ratio.interval)?;
        Some(high.max(ratio.average?.estimate))
    };
    let (Some(sustained), Some(high)) = (&row.sustained, high(row)) else {
        return false;
    };
    let trusted = row.verdict != Verdict::Untrusted;
    let enough = sustained.ratios.len() >= STRETCHES;
    trusted && enough && sustained.ratios.iter().all(|ratio| *ratio > BEYOND * high)
}
