//! When to look at the data, when to stop, and how much more is needed.
//!
//! Stopping is on precision, never on significance: whether a point goes on depends on the width
//! of its interval alone, not on where the interval lies.

use crate::Interval;
use crate::signed_rank::smallest_p;
use crate::verdict::ALPHA;

/// First number of blocks at which a 95 % interval exists.
const FIRST_LOOK: usize = 6;

/// The numbers of blocks at which the data is looked at: 6, 8, 11, 15, 20, 27, 36, ... each the one
/// before x 1.33, rounded. Few looks keep the intervals honest. Ends before `usize` overflows.
pub fn looks() -> impl Iterator<Item = usize> {
    std::iter::successors(Some(FIRST_LOOK), |&n| {
        n.checked_mul(133)
            .and_then(|x| x.checked_add(50))
            .map(|x| x / 100)
    })
}

/// Whether `n` blocks is a look.
pub fn is_look(n: usize) -> bool {
    looks().take_while(|&look| look <= n).any(|look| look == n)
}

/// The first look after `n` blocks; `usize::MAX` when there is none.
pub fn next_look(n: usize) -> usize {
    look_from(n.saturating_add(1))
}

/// The first look at `n` blocks or after.
pub(crate) fn look_from(n: usize) -> usize {
    looks().find(|&look| look >= n).unwrap_or(usize::MAX)
}

/// Whether an interval of a log ratio is narrow enough: half-width <= ln(1 + precision), so that
/// `precision` 0.05 means a ratio known within 5 %. False for a width or precision that is not a
/// number. From an interval of ratios: `reached(interval.ln(), precision)`.
pub fn reached(interval_of_log_ratio: Interval, precision: f64) -> bool {
    interval_of_log_ratio.half_width() <= precision.ln_1p()
}

/// The smallest look n at which a family of so many comparisons can reach a verdict at all: the
/// smallest possible exact two-sided signed-rank p, 2^(1-n), is <= 0.05 / comparisons.
///
/// Depends on the plan only, so it is fixed before the run and no look at data enters. 0 counts
/// as 1.
pub fn blocks_for_holm(comparisons: usize) -> usize {
    let wanted = ALPHA / comparisons.max(1) as f64;
    looks()
        .find(|&n| smallest_p(n) <= wanted)
        .unwrap_or(usize::MAX)
}

/// How many blocks in all (not how many more) would bring the half-width from `half_width_now`,
/// reached with `n_now`, to `half_width_wanted`, since widths shrink as 1/sqrt(n).
///
/// Never less than `n_now`. `usize::MAX` when nothing would do: a wanted width of 0 or less, or a
/// width that is not a number.
pub fn blocks_needed(n_now: usize, half_width_now: f64, half_width_wanted: f64) -> usize {
    if half_width_now.is_nan() || half_width_wanted.is_nan() || half_width_wanted <= 0.0 {
        return usize::MAX;
    }
    if half_width_now <= half_width_wanted {
        return n_now;
    }
    let factor = (half_width_now / half_width_wanted).powi(2);
    // A cast from f64 saturates. The slack keeps rounding from adding a block.
    ((n_now as f64 * factor * (1.0 - 1e-12)).ceil() as usize).max(n_now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_grow_by_a_third() {
        let first: Vec<usize> = looks().take(12).collect();
        assert_eq!(first, vec![6, 8, 11, 15, 20, 27, 36, 48, 64, 85, 113, 150]);
        assert!(looks().count() > 100);
        assert!(is_look(6) && is_look(27) && !is_look(7) && !is_look(0) && !is_look(usize::MAX));
        assert_eq!((next_look(0), next_look(6), next_look(7)), (6, 8, 8));
        assert_eq!(next_look(usize::MAX), usize::MAX);
    }

    #[test]
    fn stops_on_width_alone() {
        let at = |centre: f64, half: f64| Interval {
            low: centre - half,
            high: centre + half,
        };
        assert!(reached(at(0.0, 0.048), 0.05) && reached(at(3.0, 0.048), 0.05));
        assert!(!reached(at(0.0, 0.049), 0.05));
        assert!(!reached(at(f64::NAN, 0.01), 0.05) && !reached(at(0.0, 0.01), f64::NAN));
    }

    #[test]
    fn family_size_sets_the_fewest_blocks() {
        assert_eq!((blocks_for_holm(0), blocks_for_holm(1)), (6, 6));
        assert_eq!(blocks_for_holm(2), 8); // 2^-7 = 0.0078 <= 0.025, 2^-5 = 0.031 is not
        assert_eq!(blocks_for_holm(6), 8); // 0.0078 <= 0.0083
        assert_eq!(blocks_for_holm(7), 11);
        assert_eq!(blocks_for_holm(51), 11); // 0.000977 <= 0.00098
        assert_eq!(blocks_for_holm(52), 15);
        assert!(blocks_for_holm(usize::MAX) < 100);
    }

    #[test]
    fn a_quarter_of_the_width_takes_sixteen_times_the_blocks() {
        assert_eq!(blocks_needed(10, 0.2, 0.05), 160);
        assert_eq!(blocks_needed(10, 0.01, 0.05), 10);
        assert_eq!(blocks_needed(10, 0.2, 0.0), usize::MAX);
        assert_eq!(blocks_needed(10, f64::NAN, 0.1), usize::MAX);
        assert_eq!(blocks_needed(10, f64::INFINITY, 0.1), usize::MAX);
    }
}
