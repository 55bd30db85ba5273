//! Change points of a series, and whether the series is steady.

use std::ops::Range;

use crate::{all_finite, edivisive, mad, median, pelt};

/// Shortest segment, values. Five is the window of [`steady`], and the fewest values whose median
/// does not depend on a single one. The studies' launch series then has exactly one step: 6.2 s,
/// then 3.5 s from the fifteenth run on, with a first run of 12.7 s and a single 5.5 s.
pub const MIN_SEGMENT: usize = 5;

/// Smallest effect that counts as a change: this share of the level before it.
pub const MIN_EFFECT: f64 = 0.05;

/// Series of this length or longer use PELT, shorter ones E-Divisive.
const PELT_FROM: usize = 100;

/// PELT's penalty for one more change point is this factor times ln n.
const PENALTY: f64 = 15.0;

/// Factor from a raw MAD to a standard deviation.
const MAD_TO_SD: f64 = 1.4826;

/// A part of a series between two changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Index of its first value.
    pub start: usize,
    /// Index after its last value.
    pub end: usize,
    /// Median of its values, in their unit; NaN if one of them is not finite.
    pub median: f64,
}

/// Values further than this many raw MADs from the median (three standard deviations) are moved to
/// that distance. So a lone outlier is not a change.
const WINSOR_MADS: f64 = 3.0 * MAD_TO_SD;

/// Indexes at which a new segment of the series starts, in order; empty if nothing changes.
/// `values` is in time order, in any unit, above 0. The tests use their winsorised logarithms.
///
/// * n >= 100: PELT (Killick, Fearnhead & Eckley 2012) on mean and variance, with normal cost and
///   penalty 15 ln n. A change counts if the median moves by at least 5 %, or the spread (1.4826 MAD of
///   the logarithms) by 0.05. Both are robust, so a lone outlier is not a change.
/// * n < 100: E-Divisive (Matteson & James 2014), 999 permutations, p < 0.01. The median must move by
///   at least 5 %.
///
/// No segment has fewer than [`MIN_SEGMENT`] values. A series with a value that is not finite or not
/// above 0 has no change points. `seed` affects only the permutations.
pub fn change_points(values: &[f64], seed: u64) -> Vec<usize> {
    let Some((logs, held)) = logs(values) else {
        return Vec::new();
    };
    if logs.len() < PELT_FROM {
        let found = edivisive::split(&held, MIN_SEGMENT, seed, counts(&logs));
        return keep_effects(&logs, found, level_moves);
    }
    let penalty = PENALTY * (logs.len() as f64).ln();
    let found = pelt::split(&held, MIN_SEGMENT, penalty);
    keep_effects(&logs, found, |a, b| {
        level_moves(a, b).max(spread_moves(a, b))
    })
}

/// [`change_points`] of many series, of which none or few change. Holm's correction keeps the
/// chance of one false change among all of them below 1 %. A series long enough for PELT has no
/// p-value to correct and relies on its penalty.
pub fn change_points_of_many(series: &[Vec<f64>], seed: u64) -> Vec<Vec<usize>> {
    let p = |values: &Vec<f64>| match logs(values) {
        None => 1.0,
        Some((logs, _)) if logs.len() >= PELT_FROM => 0.0,
        Some((logs, held)) => {
            edivisive::first_p(&held, MIN_SEGMENT, seed, series.len(), counts(&logs))
        }
    };
    let raw: Vec<f64> = series.iter().map(p).collect();
    let adjusted = crate::holm(&raw).into_iter();
    let found = adjusted.zip(series).map(|(p, values)| {
        if p < edivisive::ALPHA {
            change_points(values, seed)
        } else {
            Vec::new()
        }
    });
    found.collect()
}

/// The logarithms, and the winsorised logarithms, in which a step remains and a lone outlier does
/// not. The first give the size of a step. `None` if there are too few values for two segments, or
/// a value has no logarithm.
fn logs(values: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
    let logs: Vec<f64> = values.iter().map(|x| x.ln()).collect();
    if logs.len() < 2 * MIN_SEGMENT || !all_finite(&logs) {
        return None;
    }
    let (centre, spread) = (median(&logs)?, mad(&logs)?);
    // Most values are equal, so an outlier cannot be distinguished from a change.
    let reach = if spread > 0.0 {
        WINSOR_MADS * spread
    } else {
        f64::INFINITY
    };
    let held = logs.iter().map(|x| x.clamp(centre - reach, centre + reach));
    let held = held.collect();
    Some((logs, held))
}

/// The segments between the given change points, in order. Together they cover the series. Change
/// points out of range are ignored; their order does not matter.
pub fn segments(values: &[f64], change_points: &[usize]) -> Vec<Segment> {
    let mut bounds: Vec<usize> = change_points
        .iter()
        .copied()
        .filter(|&c| c > 0 && c < values.len())
        .collect();
    bounds.extend([0, values.len()]);
    bounds.sort_unstable();
    bounds.dedup();
    bounds
        .windows(2)
        .map(|w| Segment {
            start: w[0],
            end: w[1],
            median: median(&values[w[0]..w[1]]).unwrap_or(f64::NAN),
        })
        .collect()
}

/// How far the median of the logarithms moves, as a share.
fn level_moves(before: &[f64], after: &[f64]) -> f64 {
    let (Some(a), Some(b)) = (median(before), median(after)) else {
        return 0.0;
    };
    (b - a).abs().exp_m1()
}

/// Whether the level moves enough from one part of the logarithms to the next.
fn counts(logs: &[f64]) -> impl Fn(Range<usize>, Range<usize>) -> bool {
    |before, after| level_moves(&logs[before], &logs[after]) >= MIN_EFFECT
}

/// How far the spread of the logarithms moves.
fn spread_moves(before: &[f64], after: &[f64]) -> f64 {
    match (mad(before), mad(after)) {
        (Some(a), Some(b)) => (MAD_TO_SD * (b - a)).abs(),
        _ => 0.0,
    }
}

/// Removes change points with too small an effect, smallest first, until all remaining ones count.
fn keep_effects(
    values: &[f64],
    mut found: Vec<usize>,
    effect: impl Fn(&[f64], &[f64]) -> f64,
) -> Vec<usize> {
    loop {
        let weakest = (0..found.len())
            .map(|i| {
                let start = if i == 0 { 0 } else { found[i - 1] };
                let end = found.get(i + 1).copied().unwrap_or(values.len());
                (i, effect(&values[start..found[i]], &values[found[i]..end]))
            })
            .min_by(|a, b| a.1.total_cmp(&b.1));
        match weakest {
            Some((i, size)) if size < MIN_EFFECT => found.remove(i),
            _ => return found,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Launch times in seconds from the studies, in order of runs.
    const LAUNCHES: [f64; 30] = [
        12.7, 6.2, 6.3, 6.1, 6.2, 6.1, 6.1, 6.2, 6.9, 6.1, 6.1, 6.5, 6.1, 6.0, 5.5, 3.5, 3.5, 3.5,
        3.9, 3.5, 3.5, 3.6, 3.6, 3.7, 3.5, 3.5, 3.8, 3.6, 3.6, 3.7,
    ];

    #[test]
    fn the_studies_launch_series_has_one_step() {
        for seed in 0..5 {
            assert_eq!(change_points(&LAUNCHES[1..], seed), vec![14]);
            assert_eq!(change_points(&LAUNCHES, seed), vec![15]);
        }
        let parts = segments(&LAUNCHES[1..], &[14]);
        assert_eq!((parts[0].start, parts[0].end, parts[1].end), (0, 14, 29));
        assert!((parts[0].median - 6.1).abs() < 1e-12 && (parts[1].median - 3.6).abs() < 1e-12);
    }

    #[test]
    fn no_change_in_what_does_not_change() {
        assert!(change_points(&[], 1).is_empty());
        assert!(change_points(&[5.0; 40], 1).is_empty());
        assert!(change_points(&[5.0; 400], 1).is_empty());
        assert!(change_points(&[0.0; 40], 1).is_empty());
        let mut bad = [5.0; 40];
        bad[20..].fill(9.0);
        assert_eq!(change_points(&bad, 1), vec![20]);
        bad[3] = f64::NAN;
        assert!(change_points(&bad, 1).is_empty());
    }

    #[test]
    fn up_and_down_again_is_two_changes() {
        let wave =
            |i: usize| 100.0 + (i * 7 % 5) as f64 + if (20..40).contains(&i) { 60.0 } else { 0.0 };
        let short: Vec<f64> = (0..60).map(wave).collect();
        assert_eq!(change_points(&short, 1), vec![20, 40]);
        let long: Vec<f64> = (0..120).map(wave).collect();
        assert_eq!(change_points(&long, 1), vec![20, 40]);
    }

    #[test]
    fn small_steps_and_lone_outliers_do_not_count() {
        let step = |i: usize| 100.0 + (i % 3) as f64 * 0.1 + if i < 60 { 0.0 } else { 3.0 };
        let mut x: Vec<f64> = (0..120).map(step).collect();
        assert!(
            change_points(&x, 1).is_empty(),
            "3 % is below the effect that counts"
        );
        assert!(change_points(&x[30..90], 1).is_empty());
        x[30] = 5000.0;
        assert!(change_points(&x, 1).is_empty(), "one outlier is no segment");
    }

    #[test]
    fn spread_alone_counts_in_long_series() {
        let x: Vec<f64> = (0..200)
            .map(|i| 100.0 + [-1.0, 0.3, 1.0, -0.4, 0.1][i % 5] * if i < 100 { 1.0 } else { 25.0 })
            .collect();
        let found = change_points(&x, 1);
        assert!(found.len() == 1 && found[0].abs_diff(100) <= 2, "{found:?}");
    }

    #[test]
    fn segments_take_any_list() {
        assert!(segments(&[], &[3]).is_empty());
        let parts = segments(&[1.0, 2.0, 3.0, 4.0], &[9, 2, 0, 2]);
        assert_eq!(
            parts.iter().map(|s| (s.start, s.end)).collect::<Vec<_>>(),
            [(0, 2), (2, 4)]
        );
        assert!(segments(&[f64::NAN], &[])[0].median.is_nan());
    }
}
