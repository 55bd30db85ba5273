//! E-Divisive change point detection: Matteson & James, "A nonparametric approach for multiple
//! change point analysis of multivariate data", JASA 2014, for one dimension and exponent 1.

use std::ops::Range;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// Significance level of a cut.
pub(crate) const ALPHA: f64 = 0.01;

/// Permutations of the test of one series.
const PERMUTATIONS: usize = 999;

/// The best place to cut a segment in two.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Index of the first value of the second part.
    at: usize,
    /// Index after the last value of the second part. Values from there on are in neither part.
    end: usize,
    /// The scaled energy distance between the two parts.
    energy: f64,
}

/// Change points of the series, in order. A cut is kept if `counts` accepts the values at the
/// indexes before and after it, and the permutation test gives p < 0.01. Both sides are then
/// searched in turn.
pub(crate) fn split(
    values: &[f64],
    shortest: usize,
    seed: u64,
    counts: impl Fn(Range<usize>, Range<usize>) -> bool,
) -> Vec<usize> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut found = Vec::new();
    let mut open = vec![(0, values.len())];
    while let Some((start, end)) = open.pop() {
        let part = &values[start..end];
        let Some(cut) = best_cut(part, shortest) else {
            continue;
        };
        // The cheap test first: most segments end here.
        if counts(start..start + cut.at, start + cut.at..start + cut.end)
            && p_value(part, shortest, cut, PERMUTATIONS, &mut rng) < ALPHA
        {
            found.push(start + cut.at);
            open.extend([(start + cut.at, end), (start, start + cut.at)]);
        }
    }
    found.sort_unstable();
    found
}

/// The cut with the largest energy, over every first part `[0, at)` and second part `[at, end)`.
/// Second parts that end early are also tried, so that a change back does not hide a change.
///
/// O(n^2) time: while `at` decreases, `column[j]` accumulates the distances of j to all of `[at,
/// j)`.
fn best_cut(values: &[f64], shortest: usize) -> Option<Cut> {
    let n = values.len();
    if n < 2 * shortest {
        return None;
    }
    let within = within_prefixes(values);
    let mut column = vec![0.0; n];
    let mut best: Option<Cut> = None;
    for at in (shortest..n).rev() {
        let mut second = 0.0;
        for j in at + 1..n {
            column[j] += (values[at] - values[j]).abs();
            second += column[j];
            if j + 1 < at + shortest {
                continue;
            }
            let across = within[j + 1] - within[at] - second;
            let energy = scaled_energy(at, j + 1 - at, within[at], second, across);
            if energy > best.map_or(0.0, |b| b.energy) {
                best = Some(Cut {
                    at,
                    end: j + 1,
                    energy,
                });
            }
        }
    }
    best
}

/// For each k, the sum of `|x_i - x_j|` over all pairs among the first k values.
fn within_prefixes(values: &[f64]) -> Vec<f64> {
    let mut sums = Vec::with_capacity(values.len() + 1);
    let mut sum = 0.0;
    sums.push(0.0);
    for (j, x) in values.iter().enumerate() {
        sum += values[..j].iter().map(|y| (x - y).abs()).sum::<f64>();
        sums.push(sum);
    }
    sums
}

/// Q of the paper's equation 5 from the sums of distances within and across two parts of n and m.
fn scaled_energy(n: usize, m: usize, first: f64, second: f64, across: f64) -> f64 {
    let (n, m) = (n as f64, m as f64);
    let distance =
        2.0 * across / (n * m) - 2.0 * first / (n * (n - 1.0)) - 2.0 * second / (m * (m - 1.0));
    n * m / (n + m) * distance
}

/// The p-value of "the series never changes", as one of many series. Precise enough for the
/// smallest p that Holm's correction over all of them requires. 1 if no cut counts.
pub(crate) fn first_p(
    values: &[f64],
    shortest: usize,
    seed: u64,
    series: usize,
    counts: impl Fn(Range<usize>, Range<usize>) -> bool,
) -> f64 {
    let Some(cut) = best_cut(values, shortest) else {
        return 1.0;
    };
    if !counts(0..cut.at, cut.at..cut.end) {
        return 1.0;
    }
    let permutations = (PERMUTATIONS + 1) * series.div_ceil(9).max(1) - 1;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    p_value(values, shortest, cut, permutations, &mut rng)
}

/// Share of shuffles with an equally good cut. Stops as soon as the result cannot be below
/// [`ALPHA`] any more, and returns the value so far.
fn p_value(
    values: &[f64],
    shortest: usize,
    cut: Cut,
    permutations: usize,
    rng: &mut ChaCha8Rng,
) -> f64 {
    let mut shuffled = values.to_vec();
    let mut extreme = 0;
    let share = |extreme: usize| (1 + extreme) as f64 / (1 + permutations) as f64;
    for _ in 0..permutations {
        shuffled.shuffle(rng);
        let energy = best_cut(&shuffled, shortest).map_or(0.0, |c| c.energy);
        if energy >= cut.energy * (1.0 - 1e-9) {
            extreme += 1;
            if share(extreme) >= ALPHA {
                break;
            }
        }
    }
    share(extreme)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same statistic, computed directly from its definition.
    fn by_definition(first: &[f64], second: &[f64]) -> f64 {
        let pairs = |a: &[f64], b: &[f64]| {
            a.iter()
                .map(|x| b.iter().map(|y| (x - y).abs()).sum::<f64>())
                .sum::<f64>()
        };
        scaled_energy(
            first.len(),
            second.len(),
            pairs(first, first) / 2.0,
            pairs(second, second) / 2.0,
            pairs(first, second),
        )
    }

    #[test]
    fn the_running_sums_are_those_of_the_definition() {
        let x: Vec<f64> = (0..23).map(|i| f64::from(i * i * 31 % 47)).collect();
        let best = best_cut(&x, 5).expect("long enough");
        let direct = by_definition(&x[..best.at], &x[best.at..best.end]);
        assert!((best.energy - direct).abs() < 1e-9);
        for at in 5..=18 {
            for end in at + 5..=23 {
                assert!(by_definition(&x[..at], &x[at..end]) <= best.energy + 1e-9);
            }
        }
    }

    #[test]
    fn too_short_or_constant_has_no_cut() {
        assert!(best_cut(&[1.0; 9], 5).is_none());
        assert!(best_cut(&[1.0; 20], 5).is_none());
    }
}
