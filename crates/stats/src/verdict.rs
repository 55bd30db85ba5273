//! From comparisons to words.

use crate::stop::look_from;
use crate::{
    Comparison, Interval, blocks_for_holm, blocks_needed, holm, min_blocks, next_look,
    normal_quantile,
};

/// Significance level of a family after Holm's correction.
pub const ALPHA: f64 = 0.05;

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval lies within delta of 1.
    Same,
    /// The layer costs more, by more than delta.
    Slower,
    /// The layer costs less, by more than delta. An alarm before it is a win.
    Faster,
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
    /// When undecided: about how many more blocks would settle it. `None` when it is settled, and
    /// when more of the same would not help, because the ratio has no steady state.
    pub more_blocks: Option<usize>,
}

/// Judges a family: all points of all layers, `None` for one without a comparison.
///
/// With the band `[1/(1+delta), 1+delta]`, which unlike `1 +/- delta` is the same whichever of two
/// layers is called native:
/// * **same**: the interval lies inside the band. No correction applies: it takes both ends of the
///   interval, so at 95 % each side errs in at most 2.5 %.
/// * **slower / faster**: the interval excludes 1, the estimate lies outside the band, and the
///   p-value after Holm's correction across the family is <= 0.05.
/// * Without a steady state there is no single number and never **same**; but when every level
///   between the changes lies beyond the band on the same side, the direction is known all the same.
/// * **undecided**: all else, and always without an interval.
///
/// The family counts every entry, `None` with p = 1: its size is fixed by the plan, not by the
/// outcome. `delta` is a share (0.05 is 5 %); below 0 or not a number it counts as 0, and nothing
/// is the same. `level` is that of the intervals and only sets the fewest blocks they take.
pub fn judge(family: &[Option<Comparison>], delta: f64, level: f64) -> Vec<Judgement> {
    let raw: Vec<f64> = family
        .iter()
        .map(|c| c.as_ref().map_or(1.0, |c| c.p))
        .collect();
    let fewest = blocks_for_holm(family.len()).max(look_from(min_blocks(level).unwrap_or(0)));
    let margin = delta.max(0.0).ln_1p();
    holm(&raw)
        .into_iter()
        .zip(family)
        .map(|(p_adjusted, comparison)| {
            let verdict = comparison
                .as_ref()
                .map_or(Verdict::Undecided, |c| word(c, margin, p_adjusted));
            let more_blocks = match (verdict, comparison) {
                (Verdict::Undecided, Some(c)) => more(c, margin, p_adjusted, fewest),
                (Verdict::Undecided, None) => Some(fewest),
                _ => None,
            };
            Judgement {
                verdict,
                p_adjusted,
                more_blocks,
            }
        })
        .collect()
}

/// The word for one comparison; `margin` is ln(1 + delta).
fn word(c: &Comparison, margin: f64, p_adjusted: f64) -> Verdict {
    let Some(interval) = c.ratio_interval else {
        return Verdict::Undecided;
    };
    let Interval { low, high } = interval.ln();
    let estimate = c.ratio.ln();
    let levels = |beyond: fn(f64, f64) -> bool| {
        c.steady || c.levels.iter().all(|level| beyond(level.ln(), margin))
    };
    if c.steady && margin > 0.0 && low >= -margin && high <= margin {
        Verdict::Same
    } else if low > 0.0 && estimate > margin && p_adjusted <= ALPHA && levels(|l, m| l > m) {
        Verdict::Slower
    } else if high < 0.0 && estimate < -margin && p_adjusted <= ALPHA && levels(|l, m| l < -m) {
        Verdict::Faster
    } else {
        Verdict::Undecided
    }
}

/// About how many more blocks an undecided comparison takes, rounded up to a look.
fn more(c: &Comparison, margin: f64, p_adjusted: f64, fewest: usize) -> Option<usize> {
    if !c.steady {
        return None;
    }
    let Some(interval) = c.ratio_interval else {
        return Some(fewest.max(next_look(c.n)) - c.n);
    };
    let (log, estimate) = (interval.ln(), c.ratio.ln());
    let needed = if estimate.abs() <= margin {
        // To fit between the estimate and the nearer edge of the band. An estimate close to the
        // edge will itself move, so no more is asked for than a quarter of the band.
        let half_width = (log.high - estimate).max(estimate - log.low);
        blocks_needed(c.n, half_width, (margin - estimate.abs()).max(margin / 4.0))
    } else {
        let towards_one = if estimate > 0.0 {
            estimate - log.low
        } else {
            log.high - estimate
        };
        let for_interval = blocks_needed(c.n, towards_one, estimate.abs());
        for_interval.max(blocks_for_p(c, p_adjusted)).max(fewest)
    };
    let look = look_from(needed).max(next_look(c.n));
    (look < usize::MAX).then(|| look - c.n)
}

/// Blocks at which the p-value would pass Holm's correction, were the effect to stay as it is:
/// the normal score grows as sqrt(n).
fn blocks_for_p(c: &Comparison, p_adjusted: f64) -> usize {
    if p_adjusted <= ALPHA {
        return c.n;
    }
    let factor = (p_adjusted / c.p).max(1.0);
    let now = normal_quantile(c.p / 2.0).abs();
    let wanted = normal_quantile(ALPHA / factor / 2.0).abs();
    blocks_needed(c.n, wanted, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(n: usize, ratio: f64, low: f64, high: f64, p: f64) -> Comparison {
        Comparison {
            n,
            effective_n: n as f64,
            ratio,
            ratio_interval: Some(Interval { low, high }),
            diff: 0.0,
            diff_interval: None,
            p,
            dependent: false,
            change_points: Vec::new(),
            steady: true,
            levels: vec![ratio],
            outliers: 0,
        }
    }

    fn verdict_of(c: impl Into<Option<Comparison>>) -> Verdict {
        judge(&[c.into()], 0.05, 0.95)[0].verdict
    }

    #[test]
    fn the_four_words() {
        assert_eq!(
            verdict_of(comparison(20, 1.01, 0.99, 1.04, 0.3)),
            Verdict::Same
        );
        assert_eq!(
            verdict_of(comparison(20, 1.02, 1.01, 1.04, 0.001)),
            Verdict::Same
        );
        assert_eq!(
            verdict_of(comparison(20, 1.20, 1.10, 1.30, 0.001)),
            Verdict::Slower
        );
        assert_eq!(
            verdict_of(comparison(20, 0.80, 0.75, 0.85, 0.001)),
            Verdict::Faster
        );
        assert_eq!(
            verdict_of(comparison(20, 1.04, 1.01, 1.07, 0.001)),
            Verdict::Undecided
        );
        assert_eq!(
            verdict_of(comparison(20, 1.10, 0.96, 1.20, 0.2)),
            Verdict::Undecided
        );
        assert_eq!(
            verdict_of(comparison(20, 1.20, 1.10, 1.30, 0.06)),
            Verdict::Undecided
        );
        assert_eq!(verdict_of(None), Verdict::Undecided);
    }

    #[test]
    fn the_band_is_symmetric_in_the_logarithm() {
        assert_eq!(
            verdict_of(comparison(20, 1.0, 0.9525, 1.0499, 1.0)),
            Verdict::Same
        );
        assert_eq!(
            verdict_of(comparison(20, 1.0, 0.951, 1.04, 1.0)),
            Verdict::Undecided
        );
    }

    #[test]
    fn holm_takes_back_a_lone_lucky_point() {
        let lucky = comparison(20, 1.2, 1.01, 1.3, 0.03);
        assert_eq!(verdict_of(lucky.clone()), Verdict::Slower);
        let mut family = vec![Some(lucky)];
        family.extend((0..4).map(|_| Some(comparison(20, 1.0, 0.9, 1.1, 0.9))));
        let judged = judge(&family, 0.05, 0.95);
        assert_eq!(judged[0].verdict, Verdict::Undecided);
        assert!((judged[0].p_adjusted - 0.15).abs() < 1e-12);
        // z from 2.17 to 2.58: (2.58 / 2.17)^2 x 20 = 28.2, and the next look is 36.
        assert_eq!(judged[0].more_blocks, Some(16));
    }

    #[test]
    fn without_a_steady_state_only_levels_that_agree_give_a_direction() {
        let judged = |levels: &[f64]| {
            let mut c = comparison(30, 1.5, 1.4, 1.6, 1e-6);
            (c.steady, c.levels) = (false, levels.to_vec());
            let j = judge(&[Some(c)], 0.05, 0.95)[0];
            (j.verdict, j.more_blocks)
        };
        assert_eq!(judged(&[1.2, 1.8]), (Verdict::Slower, None));
        assert_eq!(judged(&[1.04, 1.8]), (Verdict::Undecided, None));
        assert_eq!(judged(&[0.8, 1.8]), (Verdict::Undecided, None));
        let mut same = comparison(30, 1.0, 0.99, 1.01, 0.9);
        same.steady = false;
        assert_eq!(
            judge(&[Some(same)], 0.05, 0.95)[0].verdict,
            Verdict::Undecided
        );
    }

    #[test]
    fn says_how_many_more_blocks() {
        let more = |c| judge(&[Some(c)], 0.05, 0.95)[0].more_blocks;
        assert_eq!(more(comparison(20, 1.01, 0.99, 1.04, 0.3)), None);
        // Half-width 8 % about 1, wanted 5 %: about 2.6 times the blocks.
        assert_eq!(
            more(comparison(20, 1.0, 1.0 / 1.08, 1.08, 0.9)),
            Some(64 - 20)
        );
        let mut short = comparison(3, 1.0, 0.9, 1.1, 1.0);
        short.ratio_interval = None;
        assert_eq!(more(short), Some(3));
        assert_eq!(judge(&[None], 0.05, 0.95)[0].more_blocks, Some(6));
        assert!(more(comparison(20, 1.05, 0.9, 1.2, 0.3)).is_some_and(|m| m < 2000));
    }

    #[test]
    fn a_senseless_delta_decides_nothing() {
        let same = Some(comparison(20, 1.0, 0.99, 1.01, 0.9));
        for delta in [-1.0, f64::NAN, 0.0] {
            assert_eq!(
                judge(std::slice::from_ref(&same), delta, 0.95)[0].verdict,
                Verdict::Undecided
            );
        }
        assert!(judge(&[], 0.05, 0.95).is_empty());
    }
}
