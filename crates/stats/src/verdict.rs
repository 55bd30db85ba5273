//! Verdicts of comparisons.

use crate::{Comparison, Interval, benjamini_hochberg, holm};

/// Chance of one wrong *slower* or *faster* in a report, and share of wrong verdicts among the
/// weaker ones.
pub const ALPHA: f64 = 0.05;

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval lies within delta of 1.
    Same,
    /// The layer costs more, by any amount.
    Slower,
    /// The layer costs less, by any amount. The cause is looked for before this is reported as a
    /// gain.
    Faster,
    /// Slower by the weaker rule: one such verdict in twenty may be wrong.
    ProbablySlower,
    /// Faster by the weaker rule.
    ProbablyFaster,
    /// The data does not decide.
    Undecided,
}

/// The verdict on one point, and its basis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// The word.
    pub verdict: Verdict,
    /// The point's p-value after Holm's correction across its family.
    pub p_adjusted: f64,
    /// The largest difference, as a share, that the interval does not exclude: "no difference
    /// beyond 7 %" is 0.07. `None` without an interval or a steady state.
    pub margin: Option<f64>,
}

/// Judges a family: all points of all layers, `None` for one without a comparison.
///
/// The band is `[1/(1+delta), 1+delta]`. Unlike `1 +/- delta`, it is the same whichever of two layers is
/// called native.
/// * **same**: the interval lies inside the band. No correction applies: both ends of the interval are
///   needed, so at 95 % each side errs in at most 2.5 %.
/// * **slower / faster**: otherwise, if the p-value after Holm's correction across the family is
///   <= 0.05, whatever the size of the difference.
/// * **probably slower / faster**: the same with Benjamini and Hochberg's correction.
/// * Without a steady state no single number applies, and never **same**. But if every level between
///   the changes lies beyond the band on the same side, the direction is still known.
/// * **undecided**: everything else, and always without an interval.
///
/// Verdict and interval cannot contradict each other. Both come from one t, and neither correction
/// makes a p-value smaller. So if a direction is given, p itself is <= 0.05, and the 95 % interval
/// excludes 1 on that side. The converse does not hold. An interval may exclude 1 although the verdict
/// is undecided: one of twenty intervals is expected to exclude it by chance. An interval inside the
/// band may also exclude 1: the difference is then known, but too small to matter.
///
/// Every entry counts in the family, `None` with p = 1. So the plan fixes the family's size, not the
/// outcome. `delta` is a share (0.05 is 5 %). Below 0 or NaN it counts as 0, and nothing is the same.
pub fn judge(family: &[Option<Comparison>], delta: f64) -> Vec<Judgement> {
    judge_at(family, delta, ALPHA)
}

/// [`judge`] with another level than [`ALPHA`]. The intervals of the comparisons have to be of `1 - alpha`, or the words and
/// the intervals may contradict each other.
pub fn judge_at(family: &[Option<Comparison>], delta: f64, alpha: f64) -> Vec<Judgement> {
    let raw: Vec<f64> = family
        .iter()
        .map(|c| c.as_ref().map_or(1.0, |c| c.p))
        .collect();
    let band = delta.max(0.0).ln_1p();
    let corrected = holm(&raw).into_iter().zip(benjamini_hochberg(&raw));
    corrected
        .zip(family)
        .map(|((strong, weak), comparison)| Judgement {
            verdict: comparison.as_ref().map_or(Verdict::Undecided, |c| {
                word(c, band, [strong, weak].map(|p| p <= alpha))
            }),
            p_adjusted: strong,
            margin: comparison.as_ref().and_then(margin),
        })
        .collect()
}

/// The verdict of one comparison; `band` is ln(1 + delta). `passes` is whether its p is small enough by the strong rule and by
/// the weak one.
fn word(c: &Comparison, band: f64, passes: [bool; 2]) -> Verdict {
    let Some(interval) = c.ratio_interval else {
        return Verdict::Undecided;
    };
    let Interval { low, high } = interval.ln();
    let levels = |beyond: fn(f64, f64) -> bool| {
        c.steady || c.levels.iter().all(|level| beyond(level.ln(), band))
    };
    if c.steady && band > 0.0 && low >= -band && high <= band {
        Verdict::Same
    } else if low > 0.0 && levels(|l, b| l > b) {
        called(passes, Verdict::Slower, Verdict::ProbablySlower)
    } else if high < 0.0 && levels(|l, b| l < -b) {
        called(passes, Verdict::Faster, Verdict::ProbablyFaster)
    } else {
        Verdict::Undecided
    }
}

fn called([strong, weak]: [bool; 2], sure: Verdict, probable: Verdict) -> Verdict {
    match (strong, weak) {
        (true, _) => sure,
        (_, true) => probable,
        _ => Verdict::Undecided,
    }
}

/// Significance level of gates. A gate fails a build, so it may fail at most one of a hundred pairs
/// of identical runs. At 1 % it failed up to two, because the t of few blocks has heavier tails
/// than assumed. At this level it fails one or two of a thousand, and still finds what it has to
/// (`tests/simulation.rs`).
pub const GATE_ALPHA: f64 = 0.001;

/// Whether a cost meets a limit, the highest allowed ratio. `None` if the data does not decide.
/// `delta` is the share that does not matter.
///
/// With a limit, it fails if the verdict is **slower** with a corrected p of at most 0.1 % and the
/// whole interval lies above the limit. It passes if the whole interval lies at or below the limit.
///
/// Without a limit, it fails on the same **slower** if the estimate also lies beyond delta. Two
/// runs of the same thing may really differ by a per cent or two, which should not fail a build.
/// **Same** and **faster** pass.
pub fn keeps_to(
    limit: Option<f64>,
    delta: f64,
    verdict: Verdict,
    p_adjusted: f64,
    ratio: Option<f64>,
    interval: Option<Interval>,
) -> Option<bool> {
    let slower = verdict == Verdict::Slower && p_adjusted <= GATE_ALPHA;
    let (beyond, within) = match (limit, interval) {
        (None, _) => (
            // Without a single ratio, every level of a slower result lies beyond delta.
            ratio.is_none_or(|ratio| ratio > 1.0 + delta),
            matches!(verdict, Verdict::Same | Verdict::Faster),
        ),
        (Some(limit), Some(i)) => (i.low > limit, i.high <= limit),
        (Some(_), None) => return None,
    };
    match (slower && beyond, within) {
        (true, _) => Some(false),
        (_, true) => Some(true),
        _ => None,
    }
}

fn margin(c: &Comparison) -> Option<f64> {
    let Interval { low, high } = c.ratio_interval.filter(|_| c.steady)?.ln();
    Some(high.max(-low).exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(ratio: f64, low: f64, high: f64, p: f64) -> Comparison {
        Comparison {
            n: 20,
            effective_n: 20.0,
            ratio,
            ratio_interval: Some(Interval { low, high }),
            cost: 1.0,
            diff: 0.0,
            diff_interval: None,
            p,
            change_points: Vec::new(),
            steady: true,
            levels: vec![ratio],
            outliers: 0,
        }
    }

    fn verdict_of(c: impl Into<Option<Comparison>>) -> Verdict {
        judge(&[c.into()], 0.05)[0].verdict
    }

    #[test]
    fn the_words() {
        for (ratio, low, high, p, expected) in [
            (1.01, 0.99, 1.04, 0.3, Verdict::Same),
            (1.02, 1.01, 1.04, 0.001, Verdict::Same),
            (1.20, 1.10, 1.30, 0.001, Verdict::Slower),
            (0.80, 0.75, 0.85, 0.001, Verdict::Faster),
            (1.04, 1.03, 1.06, 0.001, Verdict::Slower),
            (0.96, 0.94, 0.98, 0.001, Verdict::Faster),
            (1.04, 1.01, 1.07, 0.06, Verdict::Undecided),
            (1.10, 0.96, 1.20, 0.2, Verdict::Undecided),
            (1.20, 1.10, 1.30, 0.06, Verdict::Undecided),
        ] {
            assert_eq!(verdict_of(comparison(ratio, low, high, p)), expected);
        }
        assert_eq!(verdict_of(None), Verdict::Undecided);
    }

    #[test]
    fn the_band_is_symmetric_in_the_logarithm() {
        assert_eq!(
            verdict_of(comparison(1.0, 0.9525, 1.0499, 1.0)),
            Verdict::Same
        );
        assert_eq!(
            verdict_of(comparison(1.0, 0.951, 1.04, 1.0)),
            Verdict::Undecided
        );
    }

    #[test]
    fn a_lone_lucky_point_is_taken_back_and_one_of_several_is_probable() {
        let lucky = || Some(comparison(1.2, 1.01, 1.3, 0.03));
        let calm = || Some(comparison(1.0, 0.9, 1.1, 0.9));
        assert_eq!(judge(&[lucky()], 0.05)[0].verdict, Verdict::Slower);
        let alone = judge(&[lucky(), calm(), calm(), calm(), calm()], 0.05);
        assert_eq!(alone[0].verdict, Verdict::Undecided);
        assert!((alone[0].p_adjusted - 0.15).abs() < 1e-12);
        assert!((alone[0].margin.unwrap() - 0.3).abs() < 1e-12);
        let several = judge(&[lucky(), lucky(), lucky(), lucky(), calm()], 0.05);
        assert!(
            several[..4]
                .iter()
                .all(|j| j.verdict == Verdict::ProbablySlower)
        );
    }

    #[test]
    fn without_a_steady_state_only_levels_that_agree_give_a_direction() {
        let judged = |levels: &[f64]| {
            let mut c = comparison(1.5, 1.4, 1.6, 1e-6);
            (c.steady, c.levels) = (false, levels.to_vec());
            let j = judge(&[Some(c)], 0.05)[0];
            (j.verdict, j.margin)
        };
        assert_eq!(judged(&[1.2, 1.8]), (Verdict::Slower, None));
        assert_eq!(judged(&[1.04, 1.8]), (Verdict::Undecided, None));
        assert_eq!(judged(&[0.8, 1.8]), (Verdict::Undecided, None));
        let mut same = comparison(1.0, 0.99, 1.01, 0.9);
        same.steady = false;
        assert_eq!(verdict_of(same), Verdict::Undecided);
    }

    #[test]
    fn a_limit_is_passed_and_failed_by_whole_intervals() {
        let i = |low, high| Some(Interval { low, high });
        for (limit, verdict, p, interval, expected) in [
            (None, Verdict::Slower, 0.001, None, Some(false)),
            (None, Verdict::Slower, 0.002, None, None),
            (None, Verdict::Slower, 0.001, i(1.03, 1.08), Some(false)),
            (None, Verdict::Slower, 0.001, i(1.02, 1.06), None),
            (None, Verdict::Same, 0.9, i(0.99, 1.01), Some(true)),
            (None, Verdict::Faster, 0.001, i(0.8, 0.9), Some(true)),
            (None, Verdict::ProbablySlower, 0.2, i(1.01, 1.2), None),
            (Some(1.1), Verdict::Slower, 0.001, i(1.11, 1.2), Some(false)),
            (Some(1.1), Verdict::Slower, 0.002, i(1.11, 1.2), None),
            (Some(1.1), Verdict::Slower, 0.001, i(1.10, 1.2), None),
            (Some(1.1), Verdict::Slower, 0.001, i(1.06, 1.1), Some(true)),
            (Some(1.1), Verdict::ProbablySlower, 0.2, i(1.11, 1.2), None),
            (Some(1.1), Verdict::Undecided, 0.5, i(0.9, 1.09), Some(true)),
            (Some(1.1), Verdict::Undecided, 0.5, i(0.9, 1.2), None),
            (Some(1.1), Verdict::Slower, 0.001, None, None),
        ] {
            let ratio = interval.map(|i: Interval| f64::midpoint(i.low, i.high));
            let kept = keeps_to(limit, 0.05, verdict, p, ratio, interval);
            assert_eq!(kept, expected, "{limit:?} {verdict:?} {p}");
        }
    }

    #[test]
    fn with_a_senseless_delta_nothing_is_the_same() {
        let same = Some(comparison(1.0, 0.99, 1.01, 0.9));
        let known = Some(comparison(1.02, 1.01, 1.03, 0.001));
        for delta in [-1.0, f64::NAN, 0.0] {
            let word = |c: &Option<Comparison>| judge(std::slice::from_ref(c), delta)[0].verdict;
            assert_eq!(word(&same), Verdict::Undecided);
            assert_eq!(word(&known), Verdict::Slower);
        }
        assert!(judge(&[], 0.05).is_empty());
    }
}
