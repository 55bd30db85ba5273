//! Limits of control groups that refill: CPU quotas and rates of I/O. Turns are short, and while a layer rests
//! its limit refills.

use layermark_model::{Direction, Facts, Limit, Limited, Meaning, Throttled, Trial};

use crate::types::{Cause, ResultRow};

/// The lowest CPU quota of a layer.
pub fn of_cpu(facts: &Facts) -> Option<&Limit> {
    let quotas = facts.limits.iter().filter(|l| l.of == Limited::Cpu);
    quotas.min_by(|a, b| a.rate.total_cmp(&b.rate))
}

/// Sum over trials; `None` without a quota.
pub fn throttled(trials: &[&Trial]) -> Option<Throttled> {
    let all = trials.iter().filter_map(|t| t.throttled);
    all.reduce(|a, b| Throttled {
        times: a.times + b.times,
        ns: a.ns + b.ns,
    })
}

/// How often a quota stopped a result, per trial.
pub fn stopped(row: &ResultRow) -> f64 {
    let times = row.throttled.map_or(0, |t| t.times);
    times as f64 / row.trials.max(1) as f64
}

/// Whether operations of a point wait for the transfers that are limited.
pub fn waits(meaning: &Meaning, limit: &Limit) -> bool {
    match limit.of {
        Limited::Cpu => false,
        Limited::ReadBytes | Limited::Reads => {
            meaning.direction != Direction::Writes && (meaning.is_cold() || meaning.is_direct())
        }
        Limited::WrittenBytes | Limited::Writes => {
            meaning.direction != Direction::Reads && (meaning.flushes || meaning.is_direct())
        }
    }
}

/// A CPU quota of a layer that stopped it more often than native.
pub fn cause([here, native]: [&ResultRow; 2], facts: &Facts) -> Option<Cause> {
    let more = stopped(here) > 1.5 * stopped(native) && stopped(here) > 0.0;
    let limit = of_cpu(facts).filter(|_| more)?;
    Some(Cause::CpuLimit(limit.clone(), here.throttled?.times))
}
