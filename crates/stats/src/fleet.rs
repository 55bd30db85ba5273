//! Several hosts at one store: how evenly they are served, and how many it can serve.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Interval, Read, all_finite, robust::quantile_of_sorted};

/// Fewest blocks for the interval of a knee.
pub const MIN_KNEE_BLOCKS: usize = 6;

/// Number of resamples of a knee. Only percentiles are taken.
const RESAMPLES: usize = 999;

/// Jain's fairness index of what each host got: 1 if all got the same, 1/n if one got all (Jain, Chiu and Hawe 1984,
/// <https://arxiv.org/abs/cs/9809099>). `None` without values, or if one is negative, not finite, or all are 0.
pub fn fairness(shares: &[f64]) -> Option<f64> {
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    let sum: f64 = shares.iter().sum();
    let usable = all_finite(shares) && shares.iter().all(|x| *x >= 0.0) && squares > 0.0;
    usable.then(|| sum * sum / (shares.len() as f64 * squares))
}

/// How many hosts, each alone, would get as much as all together get at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// Where the line through the rate of one host meets the highest rate of all: that many hosts would use the
    /// store up if none waited for another.
    pub hosts: Read,
    /// Whether the curve has bent: the rate of the most hosts is below that line, by more than `tolerance` and beyond
    /// the noise. If not, the knee is not reached.
    pub reached: bool,
    /// Whether the curve is straight: the rate of the most hosts is within `tolerance` of that line, beyond the noise.
    pub straight: bool,
}

/// The knee of rates over numbers of hosts. A block has the rate at each number of hosts, in any order.
///
/// The rate at each number is the geometric mean over blocks. The interval has the percentiles of resamples of blocks,
/// and needs [`MIN_KNEE_BLOCKS`]. `None` without a rate at one host and at two numbers in all, or if blocks differ in
/// their numbers, or a rate is not above 0. Deterministic for a `seed`.
///
/// What is said of bends has `level` over all `curves` that are looked at together (Bonferroni).
pub fn knee(
    blocks: &[Vec<(u32, f64)>],
    (tolerance, curves): (f64, usize),
    level: f64,
    seed: u64,
) -> Option<Knee> {
    let mut blocks = blocks.to_vec();
    for block in &mut blocks {
        block.sort_by_key(|(hosts, _)| *hosts);
    }
    let hosts: Vec<u32> = blocks.first()?.iter().map(|(hosts, _)| *hosts).collect();
    let same = |block: &Vec<(u32, f64)>| {
        block.iter().map(|(n, _)| *n).eq(hosts.iter().copied())
            && block
                .iter()
                .all(|(_, rate)| rate.is_finite() && *rate > 0.0)
    };
    let distinct = hosts.windows(2).all(|w| w[0] < w[1]);
    if hosts.first() != Some(&1) || hosts.len() < 2 || !distinct || !blocks.iter().all(same) {
        return None;
    }
    let logs: Vec<Vec<f64>> = blocks
        .iter()
        .map(|block| block.iter().map(|(_, rate)| rate.ln()).collect())
        .collect();
    let all: Vec<usize> = (0..logs.len()).collect();
    let (estimate, efficiency) = read(&hosts, &logs, &all);
    let mut knees = Vec::with_capacity(RESAMPLES);
    let mut efficiencies = Vec::with_capacity(RESAMPLES);
    let enough = blocks.len() >= MIN_KNEE_BLOCKS;
    if enough {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut drawn = all.clone();
        for _ in 0..RESAMPLES {
            drawn.fill_with(|| random.random_range(0..logs.len()));
            let (knee, efficiency) = read(&hosts, &logs, &drawn);
            knees.push(knee);
            efficiencies.push(efficiency);
        }
        knees.sort_by(f64::total_cmp);
        efficiencies.sort_by(f64::total_cmp);
    }
    let tail = (1.0 - level) / 2.0;
    let curves = curves.max(1) as f64;
    let interval = enough.then(|| Interval {
        low: quantile_of_sorted(&knees, tail),
        high: quantile_of_sorted(&knees, 1.0 - tail),
    });
    let is_below = |efficiency: f64| efficiency < (1.0 - tolerance).ln();
    Some(Knee {
        hosts: Read { estimate, interval },
        reached: enough
            && is_below(efficiency)
            && is_below(quantile_of_sorted(&efficiencies, 1.0 - tail / curves)),
        straight: enough && !is_below(quantile_of_sorted(&efficiencies, tail / curves)),
    })
}

/// The knee, and the logarithm of the efficiency at the most hosts.
fn read(hosts: &[u32], logs: &[Vec<f64>], drawn: &[usize]) -> (f64, f64) {
    let mean = |at: usize| {
        let sum: f64 = drawn.iter().map(|block| logs[*block][at]).sum();
        sum / drawn.len() as f64
    };
    let means: Vec<f64> = (0..hosts.len()).map(mean).collect();
    let best = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let last = hosts.len() - 1;
    let efficiency = means[last] - means[0] - f64::from(hosts[last]).ln();
    ((best - means[0]).exp(), efficiency)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_one_for_equal_shares_and_one_nth_for_one_that_has_all() {
        let near = |shares: &[f64], index: f64| {
            let found = fairness(shares).unwrap();
            assert!((found - index).abs() < 1e-12, "{shares:?}: {found}");
        };
        near(&[3.0; 7], 1.0);
        near(&[0.0, 5.0, 0.0, 0.0], 0.25);
        near(&[1.0, 2.0], 0.9);
        for bad in [&[][..], &[0.0, 0.0], &[-1.0, 2.0], &[f64::NAN]] {
            assert_eq!(fairness(bad), None, "{bad:?}");
        }
    }

    /// Rates of a store that serves `capacity` times what one host asks for, with some noise.
    fn store(capacity: f64, hosts: &[u32], blocks: usize) -> Vec<Vec<(u32, f64)>> {
        let noise =
            |b: usize, h: u32| 1.0 + 0.02 * (((b * 7 + h as usize * 3) % 5) as f64 - 2.0) / 2.0;
        let rate = |b, h: u32| 100.0 * f64::from(h).min(capacity) * noise(b, h);
        let block = |b| hosts.iter().map(|h| (*h, rate(b, *h))).collect();
        (0..blocks).map(block).collect()
    }

    #[test]
    fn the_knee_is_where_one_hosts_line_meets_the_highest_rate() {
        let found = knee(&store(3.0, &[8, 1, 2, 4], 9), (0.1, 1), 0.95, 1).unwrap();
        let interval = found.hosts.interval.unwrap();
        assert!((found.hosts.estimate - 3.0).abs() < 0.1, "{found:?}");
        assert!(
            interval.contains(found.hosts.estimate) && interval.width() < 0.3,
            "{found:?}"
        );
        assert!(found.reached && !found.straight, "{found:?}");
        assert_eq!(
            knee(&store(3.0, &[8, 1, 2, 4], 9), (0.1, 1), 0.95, 1),
            Some(found)
        );
    }

    #[test]
    fn a_curve_that_does_not_bend_has_not_reached_its_knee() {
        let found = knee(&store(100.0, &[1, 2, 4], 9), (0.1, 1), 0.95, 1).unwrap();
        assert!(
            !found.reached && (found.hosts.estimate - 4.0).abs() < 0.2,
            "{found:?}"
        );
        let few = knee(&store(1.0, &[1, 2, 4], 5), (0.1, 1), 0.95, 1).unwrap();
        assert!(!few.reached && few.hosts.interval.is_none(), "{few:?}");
    }

    #[test]
    fn a_curve_without_one_host_or_with_gaps_has_no_knee() {
        let mut gap = store(3.0, &[1, 2], 9);
        gap[4].pop();
        let mut zero = store(3.0, &[1, 2], 9);
        zero[4][1].1 = 0.0;
        for blocks in [
            vec![],
            gap,
            zero,
            store(3.0, &[2, 4], 9),
            store(3.0, &[1], 9),
            store(3.0, &[1, 1], 9),
        ] {
            assert_eq!(knee(&blocks, (0.1, 1), 0.95, 1), None, "{blocks:?}");
        }
    }
}
