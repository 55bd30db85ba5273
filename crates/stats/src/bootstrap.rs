//! Bootstrap intervals for means and tails.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::robust::quantile_of_sorted;
use crate::{Interval, all_finite, mean, normal_cdf, normal_quantile};

/// The usual number of resamples.
pub const RESAMPLES: usize = 1_999;

/// From this many sessions, the jackknife for the acceleration leaves out whole sessions.
const SESSIONS_FOR_JACKKNIFE: usize = 5;

/// Bias-corrected and accelerated bootstrap interval (`BCa`; Efron, "Better bootstrap confidence
/// intervals", 1987) of `statistic`, in the statistic's unit.
///
/// `blocks_by_session` holds one list of block values for each session. A resample draws sessions
/// with replacement, then blocks within each drawn session. (Source: Davison & Hinkley, "Bootstrap
/// Methods and their Application", section 3.8.) The statistic gets all drawn values in one list.
/// With one session this is the ordinary `BCa` interval of `scipy.stats.bootstrap`.
///
/// The acceleration comes from the jackknife: over sessions if there are at least five, else over
/// blocks. The skewness of two to four sessions would be noise.
///
/// Empty sessions are left out. Returns `None` in these cases: too few blocks for the level (below
/// 6 for 95 %), `resamples` of 0, `level` outside (0, 1), or a value or a resample's statistic that
/// is not finite.
pub fn bca(
    blocks_by_session: &[Vec<f64>],
    statistic: impl Fn(&[f64]) -> f64,
    level: f64,
    resamples: usize,
    seed: u64,
) -> Option<Interval> {
    let sessions: Vec<&[f64]> = blocks_by_session
        .iter()
        .map(Vec::as_slice)
        .filter(|s| !s.is_empty())
        .collect();
    let all = sessions.concat();
    if !interval_exists(all.len(), level) || !all_finite(&all) || resamples == 0 {
        return None;
    }
    let estimate = statistic(&all);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn = Vec::with_capacity(all.len());
    let mut replicates = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        drawn.clear();
        for _ in 0..sessions.len() {
            let session = sessions[rng.random_range(0..sessions.len())];
            drawn.extend((0..session.len()).map(|_| session[rng.random_range(0..session.len())]));
        }
        replicates.push(statistic(&drawn));
    }
    if !estimate.is_finite() || !all_finite(&replicates) {
        return None;
    }
    replicates.sort_by(f64::total_cmp);
    let acceleration = acceleration(&jackknife(&sessions, &all, &statistic));
    Some(corrected(&replicates, estimate, acceleration, level))
}

/// The two quantiles of the replicates that are the ends of the `BCa` interval.
fn corrected(sorted: &[f64], estimate: f64, acceleration: f64, level: f64) -> Interval {
    let total = sorted.len() as f64;
    // Replicates equal to the estimate count half, as in SciPy; kept off 0 and 1, where the
    // normal quantile is infinite.
    let below = sorted.partition_point(|r| *r < estimate) as f64;
    let up_to = sorted.partition_point(|r| *r <= estimate) as f64;
    let share = (f64::midpoint(below, up_to) / total).clamp(0.5 / total, 1.0 - 0.5 / total);
    let bias = normal_quantile(share);
    let end = |p: f64| {
        let z = bias + normal_quantile(p);
        let shrink = 1.0 - acceleration * z;
        let shifted = if shrink > 0.0 {
            bias + z / shrink
        } else {
            z.signum() * f64::INFINITY
        };
        quantile_of_sorted(sorted, normal_cdf(shifted).clamp(0.0, 1.0))
    };
    let tail = (1.0 - level) / 2.0;
    let (a, b) = (end(tail), end(1.0 - tail));
    Interval {
        low: a.min(b),
        high: a.max(b),
    }
}

/// The statistic with one session left out at a time; with few sessions, one block.
fn jackknife(sessions: &[&[f64]], all: &[f64], statistic: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let by_session = sessions.len() >= SESSIONS_FOR_JACKKNIFE;
    let lengths = if by_session {
        sessions.iter().map(|s| s.len()).collect()
    } else {
        vec![1; all.len()]
    };
    let mut start = 0;
    let mut left_out = Vec::with_capacity(lengths.len());
    for length in lengths {
        let rest = [&all[..start], &all[start + length..]].concat();
        left_out.push(statistic(&rest));
        start += length;
    }
    left_out
}

/// Acceleration from jackknife values (Efron 1987, equation 6.6); 0 if undefined.
fn acceleration(left_out: &[f64]) -> f64 {
    let Some(centre) = mean(left_out) else {
        return 0.0;
    };
    let squares: f64 = left_out.iter().map(|x| (centre - x).powi(2)).sum();
    let cubes: f64 = left_out.iter().map(|x| (centre - x).powi(3)).sum();
    let a = cubes / (6.0 * squares.powf(1.5));
    if a.is_finite() { a } else { 0.0 }
}

/// Whether there are enough values for an interval at this level: six for 95 %. A
/// share 2^(1-n) of all resamples of n values would lie beyond any interval.
pub(crate) fn interval_exists(n: usize, level: f64) -> bool {
    let inside = level > 0.0 && level < 1.0;
    let exponent = i32::try_from(n).unwrap_or(i32::MAX).saturating_sub(1);
    inside && n > 0 && 0.5_f64.powi(exponent) <= (1.0 - level) * (1.0 + 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::median;

    fn average(x: &[f64]) -> f64 {
        mean(x).unwrap_or(f64::NAN)
    }

    #[test]
    fn same_seed_same_interval() {
        let x: Vec<f64> = (0..12).map(|i| f64::from(i * i % 17)).collect();
        let sessions = [x.clone()];
        let run = |seed| bca(&sessions, average, 0.95, 500, seed);
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn sessions_that_differ_widen_the_interval() {
        let noise = [0.1, -0.2, 0.0, 0.2, -0.1, 0.3, -0.3, 0.0];
        let session = |level: f64| noise.iter().map(|e| level + e).collect::<Vec<_>>();
        let apart = [session(1.0), session(2.0), session(3.0)];
        let two_levels = bca(&apart, average, 0.95, 2000, 7).expect("24 blocks");
        let one_level = bca(&[apart.concat()], average, 0.95, 2000, 7).expect("24 blocks");
        assert!(two_levels.width() > 1.5 * one_level.width());
        let five: Vec<Vec<f64>> = (1..=5).map(|i| session(f64::from(i))).collect();
        assert!(
            bca(&five, average, 0.95, 2000, 7)
                .expect("40 blocks")
                .contains(3.0)
        );
    }

    #[test]
    fn bad_input_gives_nothing() {
        let ok = vec![vec![1.0, 2.0, 3.0], vec![], vec![4.0, 5.0, 6.0]];
        assert!(bca(&ok, average, 0.95, 100, 1).is_some());
        assert_eq!(bca(&ok[..2], average, 0.95, 100, 1), None);
        assert_eq!(bca(&[], average, 0.95, 100, 1), None);
        assert_eq!(bca(&ok, average, 1.0, 100, 1), None);
        assert_eq!(bca(&ok, average, 0.95, 0, 1), None);
        assert_eq!(bca(&ok, |_| f64::NAN, 0.95, 100, 1), None);
        let constant = bca(&[vec![2.0; 8]], |x| median(x).unwrap_or(0.0), 0.95, 100, 1);
        assert_eq!(
            constant,
            Some(Interval {
                low: 2.0,
                high: 2.0
            })
        );
    }
}
