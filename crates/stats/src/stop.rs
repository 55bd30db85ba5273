//! When to look at the data, when to stop, and how many more blocks are needed.
//!
//! Stopping is on precision, never on significance. Whether a point continues depends only on the
//! width of its interval, not on its position.

use crate::{ALPHA, Interval};

/// Blocks that every point gets, and the first look at the data. With fewer, an interval depends on
/// two or three values.
pub const FEWEST_BLOCKS: usize = 8;

/// The numbers of blocks at which the data is looked at: 8, 11, 15, 20, 27, 36, ... Each is the one
/// before times 1.33, rounded. Few looks keep the intervals honest. Ends before `usize` overflows.
pub fn looks() -> impl Iterator<Item = usize> {
    std::iter::successors(Some(FEWEST_BLOCKS), |&n| {
        n.checked_mul(133)
            .and_then(|x| x.checked_add(50))
            .map(|x| x / 100)
    })
}

/// Whether `n` blocks is a look.
pub fn is_look(n: usize) -> bool {
    looks().take_while(|&look| look <= n).any(|look| look == n)
}

/// Significance level of the words that a run gives when it has made `n` blocks, while it goes on. `None` if that is no look.
///
/// Each look spends half of what earlier ones have left of [`ALPHA`]: 2.5 %, 1.25 %, 0.625 %, ... So the chance that any look
/// of a run gives a wrong *slower* or *faster* is at most the chance that its report gives one, however many looks there are.
/// (The first look has the most, because a word is worth most then; a difference that is real is seen ever more clearly.)
pub fn look_alpha(n: usize) -> Option<f64> {
    let number = looks()
        .take_while(|&look| look <= n)
        .position(|look| look == n)?;
    Some(ALPHA * 0.5_f64.powi(i32::try_from(number).ok()? + 1))
}

/// The last look at or before `n` blocks. `None` if there was none.
pub fn last_look(n: usize) -> Option<usize> {
    looks().take_while(|&look| look <= n).last()
}

/// Whether an interval of a log ratio is narrow enough: half-width <= ln(1 + precision). So a
/// `precision` of 0.05 means a ratio known within 5 %. False if the width or the precision is NaN.
/// For an interval of ratios: `reached(interval.ln(), precision)`.
pub fn reached(interval_of_log_ratio: Interval, precision: f64) -> bool {
    interval_of_log_ratio.half_width() <= precision.ln_1p()
}

/// How many blocks in total (not additional) would reach the half-width `half_width_wanted`, from
/// `half_width_now` at `n_now` blocks. Widths shrink as 1/sqrt(n).
///
/// Never less than `n_now`. `usize::MAX` if no number suffices: a wanted width of 0 or less, or a
/// width that is NaN.
pub fn blocks_needed(n_now: usize, half_width_now: f64, half_width_wanted: f64) -> usize {
    if half_width_now.is_nan() || half_width_wanted.is_nan() || half_width_wanted <= 0.0 {
        return usize::MAX;
    }
    if half_width_now <= half_width_wanted {
        return n_now;
    }
    let factor = (half_width_now / half_width_wanted).powi(2);
    // A cast from f64 saturates. The tolerance keeps rounding from adding a block.
    ((n_now as f64 * factor * (1.0 - 1e-12)).ceil() as usize).max(n_now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_grow_by_a_third() {
        let first: Vec<usize> = looks().take(12).collect();
        assert_eq!(
            first,
            vec![8, 11, 15, 20, 27, 36, 48, 64, 85, 113, 150, 200]
        );
        assert!(looks().count() > 100);
        assert!(is_look(8) && is_look(27) && !is_look(7) && !is_look(0) && !is_look(usize::MAX));
    }

    #[test]
    fn all_looks_together_spend_the_level_of_the_report() {
        for (n, part) in [(8, 2.0), (11, 4.0), (15, 8.0)] {
            assert!((look_alpha(n).unwrap() * part / ALPHA - 1.0).abs() < 1e-12);
        }
        let all: f64 = looks().filter_map(look_alpha).sum();
        assert!((0.049..=ALPHA).contains(&all), "{all}");
        assert_eq!([0, 7, 9, 14].map(look_alpha), [None; 4]);
        let last = [0, 7, 8, 10, 11, 19, 20].map(last_look);
        assert_eq!(
            last,
            [None, None, Some(8), Some(8), Some(11), Some(15), Some(20)]
        );
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
    fn a_quarter_of_the_width_takes_sixteen_times_the_blocks() {
        assert_eq!(blocks_needed(10, 0.2, 0.05), 160);
        assert_eq!(blocks_needed(10, 0.01, 0.05), 10);
        assert_eq!(blocks_needed(10, 0.2, 0.0), usize::MAX);
        assert_eq!(blocks_needed(10, f64::NAN, 0.1), usize::MAX);
        assert_eq!(blocks_needed(10, f64::INFINITY, 0.1), usize::MAX);
    }
}
