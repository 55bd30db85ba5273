//! Statistics: estimates, intervals, change points and verdicts from numbers.
//!
//! The specification of every number here is `docs/method` (section "Statistics"). The crate is
//! pure: no file, no clock, no global state. Random functions take a `u64` seed and draw from
//! `ChaCha8`, so they give the same results on every machine.
//!
//! Values are seconds or nanoseconds per operation, or any other unit that the caller uses
//! consistently. NaN and infinite input is refused (`None`, an empty list, or the most cautious
//! result). It is never skipped silently and never causes a panic.

mod added;
mod average;
mod bootstrap;
mod change;
mod compare;
mod curve;
mod edivisive;
mod estimate;
mod fleet;
mod interval;
mod line;
mod many;
mod moderate;
mod odd;
mod pelt;
mod pooled;
mod quotient;
mod robust;
mod scaling;
mod shift;
mod special;
mod stop;
mod trimmed;
mod verdict;

pub use added::SharedTime;
pub use average::{Average, Round, STALLS_BEYOND, average};
pub use bootstrap::{RESAMPLES, bca};
pub use change::{
    MIN_EFFECT, MIN_SEGMENT, Segment, change_points, change_points_of_many, segments,
};
pub use compare::{
    Comparison, MIN_BLOCKS, MIN_BLOCKS_FOR_CHANGE, TwoRuns, compare, compare_all, compare_runs,
    estimate_pairs,
};
pub use curve::{CURVE_RESAMPLES, Choice, CostLine, Read, Step, choose_size, cost_line};
pub use estimate::{BlockValue, Cell, Estimate, Pair, estimate};
pub use fleet::{Knee, MIN_KNEE_BLOCKS, fairness, knee};
pub use interval::Interval;
pub use line::{Line, MIN_SIZES, fit_line};
pub use many::{benjamini_hochberg, holm};
pub use moderate::{Prior, prior};
pub use odd::{AmongRuns, MIN_RUNS, Oddness, odd_runs};
pub use pooled::{Histograms, Operations, Pooled, encode};
pub use quotient::{BoundedRatio, quotient};
pub use robust::{cv, mad, mean, median, outliers, quantile};
pub use scaling::{Scaled, scaling};
pub use shift::shift;
pub use stop::{FEWEST_BLOCKS, blocks_needed, is_look, last_look, look_alpha, looks, reached};
pub use trimmed::{MIN_VALUES, TRIM, Trimmed, trimmed_mean};
pub use verdict::{ALPHA, GATE_ALPHA, Judgement, Verdict, judge, judge_at, keeps_to};

/// Whether every value is finite. Every estimate checks this first.
fn all_finite(values: &[f64]) -> bool {
    values.iter().all(|x| x.is_finite())
}

/// Distribution function of the standard normal distribution.
fn normal_cdf(z: f64) -> f64 {
    use statrs::distribution::{ContinuousCDF, Normal};
    Normal::standard().cdf(z)
}

/// Quantile of the standard normal distribution; `p` is clamped to [1e-300, 1 - 1e-16].
fn normal_quantile(p: f64) -> f64 {
    use statrs::distribution::{ContinuousCDF, Normal};
    Normal::standard().inverse_cdf(p.clamp(1e-300, 1.0 - 1e-16))
}
