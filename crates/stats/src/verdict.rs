//! From comparisons to words.

use crate::{Comparison, Interval, benjamini_hochberg, holm};

/// Chance of one wrong *slower* or *faster* in a report, and share of wrong words among the weaker
/// ones.
pub const ALPHA: f64 = 0.05;

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval lies within delta of 1.
    Same,
    /// The layer costs more, by however little.
    Slower,
    /// The layer costs less, by however little. An alarm before it is a win.
    Faster,
    /// As slower, by the weaker rule: one such word in twenty may be wrong.
    ProbablySlower,
    /// As faster, by the weaker rule.
    ProbablyFaster,
    /// The data does not say.
    Undecided,
}

/// The verdict on one point, and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// The word.
    pub verdict: Verdict,
    /// The point's p-value after Holm's correction across its family.
    pub p_adjusted: f64,
    /// The largest difference, as a share, that the interval leaves possible: "no difference beyond
    /// 7 %" is 0.07. `None` without an interval or a steady state.
    pub margin: Option<f64>,
}

/// Judges a family: all points of all layers, `None` for one without a comparison.
///
/// With the band `[1/(1+delta), 1+delta]`, which unlike `1 +/- delta` is the same whichever of two
/// layers is called native:
/// * **same**: the interval lies inside the band. No correction applies: it takes both ends of the
///   interval, so at 95 % each side errs in at most 2.5 %.
/// * **slower / faster**: otherwise, where the p-value after Holm's correction across the family is
///   <= 0.05, whatever the size of the difference.
/// * **probably slower / faster**: the same by Benjamini and Hochberg's correction.
/// * Without a steady state there is no single number and never **same**; but when every level
///   between the changes lies beyond the band on the same side, the direction is known all the same.
/// * **undecided**: all else, and always without an interval.
///
/// Word and interval cannot contradict each other. Both are of one t, and neither correction ever
/// makes a p-value smaller: where a direction is called, p itself is <= 0.05, so that the 95 %
/// interval leaves 1 out on that side. The converse does not hold: an interval may leave 1 out and the
/// word be undecided, because twenty such intervals are expected to leave it out once by chance; and an
/// interval inside the band may leave 1 out, where the difference is known and does not matter.
///
/// The family counts every entry, `None` with p = 1: its size is fixed by the plan, not by the
/// outcome. `delta` is a share (0.05 is 5 %); below 0 or not a number it counts as 0, and nothing
/// is the same.
pub fn judge(family: &[Option<Comparison>], delta: f64) -> Vec<Judgement> {
    let raw: Vec<f64> = family
        .iter()
        .map(|c| c.as_ref().map_or(1.0, |c| c.p))
        .collect();
    let band = delta.max(0.0).ln_1p();
    let corrected = holm(&raw).into_iter().zip(benjamini_hochberg(&raw));
    corrected
        .zip(family)
        .map(|((strong, weak), comparison)| Judgement {
            verdict: comparison
                .as_ref()
                .map_or(Verdict::Undecided, |c| word(c, band, strong, weak)),
            p_adjusted: strong,
            margin: comparison.as_ref().and_then(margin),
        })
        .collect()
}

/// The word for one comparison; `band` is ln(1 + delta).
fn word(c: &Comparison, band: f64, strong: f64, weak: f64) -> Verdict {
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
        called(strong, weak, Verdict::Slower, Verdict::ProbablySlower)
    } else if high < 0.0 && levels(|l, b| l < -b) {
        called(strong, weak, Verdict::Faster, Verdict::ProbablyFaster)
    } else {
        Verdict::Undecided
    }
}

fn called(strong: f64, weak: f64, sure: Verdict, probable: Verdict) -> Verdict {
    if strong <= ALPHA {
        sure
    } else if weak <= ALPHA {
        probable
    } else {
        Verdict::Undecided
    }
}

/// A gate ends a build, so of a hundred pairs of runs of the same thing it may fail one at most. At 1 %
/// it failed two of some, because the t of few blocks has heavier tails than it says. At this level it
/// fails one or two of a thousand, and still finds what it has to (`tests/simulation.rs`).
pub const GATE_ALPHA: f64 = 0.001;

/// Whether a cost keeps to a limit, the highest ratio that is allowed; `None` where the data does not
/// say. `delta` is the share that does not matter.
///
/// It does not where the word is **slower** with a corrected p of 0.1 % at most, and the whole interval
/// lies above the limit. It does where the whole interval lies at or below it. Without a limit it does
/// not where the word is such a **slower** and the estimate lies beyond delta: two runs of the same thing
/// may really differ by a per cent or two, which no build should fail for. **Same** and **faster** keep
/// to it.
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
            // Without a single ratio every level of a slower result lies beyond delta.
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
