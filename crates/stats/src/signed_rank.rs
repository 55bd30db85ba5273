//! Wilcoxon's signed-rank test, the interval that inverts it, and the Hodges-Lehmann estimate.

use crate::{Interval, all_finite, normal_cdf, normal_quantile};

/// Up to this many values the distribution of the signed-rank statistic is enumerated, not
/// approximated. Its counts stay below 2^50, so they are exact in an `f64`.
const EXACT_UP_TO: usize = 50;

/// Hodges-Lehmann estimate of the centre, in the unit of the values: the median of the Walsh
/// averages `(x_i + x_j) / 2` over all i <= j, i = j included (Hodges & Lehmann, "Estimates of
/// location based on rank tests", 1963).
///
/// Takes O(n log n) time and O(n) memory: the n(n+1)/2 averages are never stored.
/// `None` for no values or when one is not finite.
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    let sorted = sorted_finite(values)?;
    let pairs = pair_count(sorted.len());
    let upper = walsh_average(&sorted, pairs / 2 + 1);
    if pairs % 2 == 1 {
        return Some(upper);
    }
    Some(walsh_average(&sorted, pairs / 2).midpoint(upper))
}

/// Confidence interval for the centre of a symmetric distribution, by inverting the signed-rank
/// test: from the c-th smallest to the c-th largest Walsh average (Hollander, Wolfe & Chicken,
/// "Nonparametric Statistical Methods", 3rd ed., section 3.3; `wilcox.test(conf.int = TRUE)` in R).
///
/// Exact up to n = 50, so its coverage is at least `level` (96.9 % for 95 % at n = 6); above by the
/// normal approximation with continuity correction. Unit of the values.
///
/// `None` where no such interval exists, that is where 2^(1-n) > 1 - level: below n = 6 for 95 %,
/// below 8 for 99 %. `None` too for a `level` outside (0, 1) or a value that is not finite.
pub fn signed_rank_interval(values: &[f64], level: f64) -> Option<Interval> {
    let n = values.len();
    if !interval_exists(n, level) {
        return None;
    }
    let sorted = sorted_finite(values)?;
    let pairs = pair_count(n);
    let from_end = if n <= EXACT_UP_TO {
        exact_cut(n, 1.0 - level)
    } else {
        approximate_cut(n, 1.0 - level)
    };
    Some(Interval {
        low: walsh_average(&sorted, from_end),
        high: walsh_average(&sorted, pairs + 1 - from_end),
    })
}

/// Two-sided p-value of Wilcoxon's signed-rank test of "the centre is 0" (Wilcoxon 1945), as
/// `scipy.stats.wilcoxon(zero_method="wilcox", correction=False)`.
///
/// Exact with n <= 50, no zero and no two equal absolute values; else the normal approximation with
/// tie correction. Zeros are dropped. 1 when nothing is left and 1 when a value is not finite, so
/// that bad input is never evidence.
pub fn signed_rank_p(values: &[f64]) -> f64 {
    if !all_finite(values) {
        return 1.0;
    }
    let mut kept: Vec<f64> = values.iter().copied().filter(|x| *x != 0.0).collect();
    if kept.is_empty() {
        return 1.0;
    }
    let zeros = values.len() - kept.len();
    kept.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let ranked = rank_sums(&kept);
    if zeros == 0 && ranked.ties == 0.0 && kept.len() <= EXACT_UP_TO {
        let smaller = ranked.positive.min(ranked.negative) as usize;
        let below: f64 = counts(kept.len())[..=smaller].iter().sum();
        return (below * smallest_p(kept.len())).min(1.0);
    }
    let n = kept.len() as f64;
    let variance = (n * (n + 1.0) * (2.0 * n + 1.0) - 0.5 * ranked.ties) / 24.0;
    let z = (ranked.positive - n * (n + 1.0) / 4.0) / variance.sqrt();
    (2.0 * normal_cdf(-z.abs())).min(1.0)
}

/// The fewest blocks with which an interval of this `level` exists: the smallest n with
/// 2^(1-n) <= 1 - level. 6 for 95 %, 8 for 99 %. `None` for a `level` outside (0, 1).
pub fn min_blocks(level: f64) -> Option<usize> {
    (1..=64).find(|&n| interval_exists(n, level))
}

/// 2^(1-n): the smallest two-sided p that n values can give, all of one sign.
pub(crate) fn smallest_p(n: usize) -> f64 {
    (1.0 - n as f64).exp2()
}

/// Whether n values can carry an interval of this level at all.
pub(crate) fn interval_exists(n: usize, level: f64) -> bool {
    // The slack takes up the rounding of 1 - 0.95 and the like.
    n > 0 && level > 0.0 && level < 1.0 && smallest_p(n) <= (1.0 - level) * (1.0 + 1e-9)
}

/// Number of Walsh averages of n values.
fn pair_count(n: usize) -> usize {
    n * (n + 1) / 2
}

fn sorted_finite(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || !all_finite(values) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

/// The k-th smallest (from 1) Walsh average: bisection over the ordered bit patterns of the
/// doubles, so the answer is one of the averages exactly, after at most 64 counts of O(n).
fn walsh_average(sorted: &[f64], k: usize) -> f64 {
    let mut low = order_key(sorted[0]);
    let mut high = order_key(sorted[sorted.len() - 1]);
    while low < high {
        let middle = low + (high - low) / 2;
        if averages_up_to(sorted, from_order_key(middle), k) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    from_order_key(low) + 0.0
}

/// Whether at least `k` Walsh averages are <= `limit`.
fn averages_up_to(sorted: &[f64], limit: f64, k: usize) -> bool {
    let mut count = 0;
    let mut end = sorted.len();
    for (i, &x) in sorted.iter().enumerate() {
        while end > i && x.midpoint(sorted[end - 1]) > limit {
            end -= 1;
        }
        if end <= i {
            break;
        }
        count += end - i;
        if count >= k {
            return true;
        }
    }
    false
}

/// Maps doubles to integers in the same order.
fn order_key(x: f64) -> u64 {
    let bits = x.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

fn from_order_key(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 {
        key & !(1 << 63)
    } else {
        !key
    })
}

/// How many of the 2^n sign patterns give each value 0..=n(n+1)/2 of the signed-rank statistic.
fn counts(n: usize) -> Vec<f64> {
    let mut counts = vec![0.0; pair_count(n) + 1];
    counts[0] = 1.0;
    for rank in 1..=n {
        for sum in (rank..=pair_count(rank)).rev() {
            counts[sum] += counts[sum - rank];
        }
    }
    counts
}

/// The largest c >= 1 with 2 P(T <= c - 1) <= alpha. The caller has seen to it that c = 1 fits.
fn exact_cut(n: usize, alpha: f64) -> usize {
    let scale = smallest_p(n);
    let mut tail = 0.0;
    let fits = counts(n).into_iter().take_while(|&count| {
        tail += count * scale;
        tail <= alpha * (1.0 + 1e-9)
    });
    // Never beyond the middle, where the two ends would cross.
    fits.count().clamp(1, pair_count(n).div_ceil(2))
}

/// As [`exact_cut`] from the normal approximation with continuity correction.
fn approximate_cut(n: usize, alpha: f64) -> usize {
    let pairs = pair_count(n);
    let middle = pairs as f64 / 2.0;
    let sd = (pairs as f64 * (2.0 * n as f64 + 1.0) / 12.0).sqrt();
    let cut = middle + 0.5 + normal_quantile(alpha / 2.0) * sd;
    (cut.max(1.0) as usize).clamp(1, pairs.div_ceil(2))
}

/// Rank sums of the positive and the negative values and the sum of t^3 - t over ties of size t.
struct RankSums {
    positive: f64,
    negative: f64,
    ties: f64,
}

/// Ranks by absolute value, mid-ranks for ties; `by_size` is in order of absolute value.
fn rank_sums(by_size: &[f64]) -> RankSums {
    let mut sums = RankSums {
        positive: 0.0,
        negative: 0.0,
        ties: 0.0,
    };
    let mut start = 0;
    for group in by_size.chunk_by(|a, b| a.abs().total_cmp(&b.abs()).is_eq()) {
        let size = group.len() as f64;
        let rank = start as f64 + f64::midpoint(1.0, size);
        for x in group {
            if *x > 0.0 {
                sums.positive += rank;
            } else {
                sums.negative += rank;
            }
        }
        sums.ties += size * (size * size - 1.0);
        start += group.len();
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_interval_below_the_smallest_n() {
        let x: Vec<f64> = (1..=8).map(f64::from).collect();
        assert_eq!(signed_rank_interval(&x[..5], 0.95), None);
        assert_eq!(
            signed_rank_interval(&x[..6], 0.95),
            Some(Interval {
                low: 1.0,
                high: 6.0
            })
        );
        assert_eq!(signed_rank_interval(&x[..7], 0.99), None);
        assert_eq!(
            signed_rank_interval(&x, 0.99),
            Some(Interval {
                low: 1.0,
                high: 8.0
            })
        );
        assert_eq!((min_blocks(0.95), min_blocks(0.99)), (Some(6), Some(8)));
        for level in [0.0, 1.0, -1.0, 2.0, f64::NAN] {
            assert_eq!(signed_rank_interval(&x, level), None);
            assert_eq!(min_blocks(level), None);
        }
    }

    #[test]
    fn kth_walsh_average_is_that_of_the_sorted_list() {
        let x: [f64; 7] = [-3.5, -1.0, -1.0, 0.0, 0.25, 2.0, 7.5];
        let mut all: Vec<f64> = Vec::new();
        for i in 0..x.len() {
            all.extend(x[i..].iter().map(|b| x[i].midpoint(*b)));
        }
        all.sort_by(f64::total_cmp);
        for (k, expected) in all.iter().enumerate() {
            assert!(
                (walsh_average(&x, k + 1) - expected).abs() < 1e-300,
                "k = {k}"
            );
        }
    }

    #[test]
    fn keys_keep_the_order() {
        let x = [f64::MIN, -1.0, -1e-300, -0.0, 0.0, 1e-300, 1.0, f64::MAX];
        for pair in x.windows(2) {
            assert!(order_key(pair[0]) < order_key(pair[1]));
        }
        for v in x {
            assert_eq!(from_order_key(order_key(v)).to_bits(), v.to_bits());
        }
    }

    #[test]
    fn p_of_nothing_is_one() {
        for nothing in [&[][..], &[0.0, 0.0], &[f64::NAN, 1.0], &[f64::INFINITY; 9]] {
            assert!((signed_rank_p(nothing) - 1.0).abs() < 1e-15);
        }
    }

    #[test]
    fn large_samples_are_quick_and_contain_the_estimate() {
        let x: Vec<f64> = (0..100_000)
            .map(|i| f64::from(i * 7919 % 100_003))
            .collect();
        let interval = signed_rank_interval(&x, 0.95).expect("n is large");
        assert!(interval.contains(hodges_lehmann(&x).expect("finite")));
    }
}
