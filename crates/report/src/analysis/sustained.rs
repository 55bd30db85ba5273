//! Work without pauses, against the work in short turns: a limit that refills while a layer rests shows only there.

use layermark_model::{Limit, Limited, Run, Turn};

use crate::{
    analysis::limits,
    types::{ResultRow, SustainedRatio},
};

/// A ratio differs if it is this many times beyond the interval of the turns, in each stretch.
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
    let (here, native) = (&here.stretches, &native.stretches);
    let ratio = |(a, b)| Some(ns_per_op(a, net)? / ns_per_op(b, net)?);
    let ratios: Vec<f64> = here.iter().zip(native).filter_map(ratio).collect();
    let whole = !ratios.is_empty() && ratios.len() == here.len() && layer != baseline;
    let ns: u64 = here.iter().map(|t| t.elapsed_ns).sum();
    let bytes: u64 = here.iter().map(|t| t.bytes).sum();
    let rate = bytes as f64 * 1e9 / ns.max(1) as f64;
    let facts = &run.layers[layer].facts;
    let limits = facts.limits.iter();
    let meaning = &run.points[point].meaning;
    let mut met = limits.filter(|l| limits::waits(meaning, l) && is_met(l, rate));
    whole.then(|| SustainedRatio {
        length_s: ns as f64 / 1e9 / ratios.len() as f64,
        limit: met.next().or_else(|| limits::of_cpu(facts)).cloned(),
        ratios,
    })
}

/// Nanoseconds per operation; `net`: without the time that the thread waited for a CPU.
fn ns_per_op(turn: &Turn, net: bool) -> Option<f64> {
    let waited = turn.waited_ns.filter(|_| net);
    let ns = turn.elapsed_ns.checked_sub(waited.unwrap_or(0))?;
    (turn.ops > 0 && ns > 0).then(|| ns as f64 / turn.ops as f64)
}

/// Whether a rate of bytes is that of a limit of transfers.
fn is_met(limit: &Limit, rate: f64) -> bool {
    let of_bytes = matches!(limit.of, Limited::ReadBytes | Limited::WrittenBytes);
    let [least, most] = AT_LIMIT.map(|times| times * limit.rate);
    of_bytes && (least..=most).contains(&rate)
}

/// Whether a result is slower without pauses than its turns allow for.
pub fn is_slower(row: &ResultRow) -> bool {
    let (Some(sustained), Some([_, high])) = (&row.sustained, row.ratio.and_then(|r| r.interval))
    else {
        return false;
    };
    sustained.ratios.iter().all(|ratio| *ratio > BEYOND * high)
}
