//! One layer against native at one point: the paired comparison.

use crate::{
    Interval, RESAMPLES, autocorrelation, change_points, effective_n, hodges_lehmann, normal_cdf,
    normal_quantile, outliers, segments, signed_rank_interval, signed_rank_p, stationary,
};

/// Fewest blocks for which change points of a comparison are looked for.
///
/// Segments have at least five values. Ten values then have one place to cut and 126 ways to fill
/// the halves, so that the smallest p there is (1/126) hardly passes p < 0.01; below fifteen a step
/// of the usual noise is found by luck, while each look costs a chance of a false alarm.
pub const MIN_BLOCKS_FOR_CHANGE: usize = 15;

/// What one block says: the median trial value in the layer and natively.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Session, counted in the order they ran.
    pub session: u32,
    /// Block, counted within the session or over the run, in the order they ran.
    pub block: u32,
    /// Cost in the layer: time an operation, in seconds or nanoseconds; above 0.
    pub layer: f64,
    /// Cost natively, in the same unit; above 0.
    pub native: f64,
}

/// What all blocks say about one layer at one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Blocks compared.
    pub n: usize,
    /// Independent blocks they are worth: n, or less when `dependent`.
    pub effective_n: f64,
    /// Cost in the layer over cost natively, no unit: above 1 is slower.
    pub ratio: f64,
    /// Interval of `ratio`; `None` where n is too small for the level.
    pub ratio_interval: Option<Interval>,
    /// Hodges-Lehmann estimate of layer - native, in the unit of the pairs.
    pub diff: f64,
    /// Interval of `diff`, in the unit of the pairs.
    pub diff_interval: Option<Interval>,
    /// Two-sided p of "the layer costs what native costs", before any correction.
    pub p: f64,
    /// Whether neighbouring blocks are correlated: |lag-1 autocorrelation of d| > 2/sqrt(n).
    pub dependent: bool,
    /// Where the ratio changes, as indexes into the pairs in time order.
    pub change_points: Vec<usize>,
    /// False when the ratio changes late in the run, so that no single number describes it.
    pub steady: bool,
    /// Median ratio of each stretch between change points, in time order; one when there are none.
    pub levels: Vec<f64>,
    /// Blocks whose log ratio is an outlier. They are in all numbers.
    pub outliers: usize,
}

/// Compares a layer with native, block by block, on d = ln(layer) - ln(native) in time order
/// (session, then block; the order of `pairs` does not matter).
///
/// * `ratio` = exp(Hodges-Lehmann of d); its interval inverts the signed-rank test. `diff` is the
///   same for layer - native.
/// * When the lag-1 autocorrelation of d exceeds 2/sqrt(n) in size, an interval of the stationary
///   bootstrap (mean block ceil(n^(1/3)), 9,999 resamples) is made as well, and what is reported is
///   the smallest interval that covers both. With 6 to 15 blocks the autocorrelation is mostly
///   noise and a bootstrap is too narrow, so dependence can widen an interval, never shrink it.
///   `p` is then weakened in the same spirit: its normal score is scaled by sqrt(effective n / n).
///   Known limit: strong dependence in a short series stays under-covered (autocorrelation 0.6 at
///   n = 20: about two intervals in three hold the truth), since the test sees it half of the time
///   and blocks of three are short for it. Turn-taking and randomised blocks are what prevents it.
///   Both are looked for around the levels between change points.
/// * Change points are those of the ratio exp(d), so that the 5 % effect means 5 % of the ratio,
///   from [`MIN_BLOCKS_FOR_CHANGE`] blocks on. A change is late unless it lies in the first quarter,
///   where it is taken for warm-up that the Hodges-Lehmann estimate (breakdown point 29 %) bears.
///
/// `None` for no pairs, or when a value is not finite or not above 0: a comparison with a broken
/// trial in it is refused, not repaired. `None` too for a ratio beyond what an `f64` holds.
/// Deterministic for a `seed`.
pub fn compare(pairs: &[Pair], level: f64, seed: u64) -> Option<Comparison> {
    let usable = |x: f64| x.is_finite() && x > 0.0;
    if !pairs.iter().all(|p| usable(p.layer) && usable(p.native)) {
        return None;
    }
    let mut ordered = pairs.to_vec();
    ordered.sort_by_key(|p| (p.session, p.block));
    let d: Vec<f64> = ordered
        .iter()
        .map(|p| p.layer.ln() - p.native.ln())
        .collect();
    let differences: Vec<f64> = ordered.iter().map(|p| p.layer - p.native).collect();
    let n = d.len();

    let ratios: Vec<f64> = d.iter().map(|x| x.exp()).collect();
    let changes = if n >= MIN_BLOCKS_FOR_CHANGE {
        change_points(&ratios, seed)
    } else {
        Vec::new()
    };
    let levels = segments(&ratios, &changes);
    // A step is told as a step; what is left of dependence is looked for around its levels.
    let around: Vec<f64> = levels
        .iter()
        .flat_map(|s| d[s.start..s.end].iter().map(|x| x - s.median.ln()))
        .collect();
    let dependent = autocorrelation(&around, 1).abs() > 2.0 / (n as f64).sqrt();
    let worth = if dependent {
        effective_n(&around)
    } else {
        n as f64
    };
    Some(Comparison {
        n,
        effective_n: worth,
        ratio: hodges_lehmann(&d).map(f64::exp).filter(|r| r.is_normal())?,
        ratio_interval: interval(&d, level, dependent, seed).map(|i| i.exp()),
        diff: hodges_lehmann(&differences)?,
        diff_interval: interval(&differences, level, dependent, seed),
        p: weakened(signed_rank_p(&d), worth / n as f64),
        dependent,
        steady: changes.iter().all(|&at| 4 * at <= n),
        levels: segments(&ratios, &changes)
            .iter()
            .map(|s| s.median)
            .collect(),
        change_points: changes,
        outliers: outliers(&d).len(),
    })
}

/// The signed-rank interval, widened to cover that of the stationary bootstrap under dependence.
fn interval(values: &[f64], level: f64, dependent: bool, seed: u64) -> Option<Interval> {
    let exact = signed_rank_interval(values, level)?;
    if !dependent {
        return Some(exact);
    }
    let block = (values.len() as f64).cbrt().ceil();
    let statistic = |x: &[f64]| hodges_lehmann(x).unwrap_or(f64::NAN);
    let resampled = stationary(values, statistic, level, block, RESAMPLES, seed);
    Some(resampled.map_or(exact, |r| exact.hull(&r)))
}

/// The p-value whose normal score is that of `p` times the root of `share`, where `share` is the
/// part of the blocks that count as independent.
fn weakened(p: f64, share: f64) -> f64 {
    if share >= 1.0 || p >= 1.0 {
        return p;
    }
    let z = normal_quantile(p / 2.0) * share.sqrt();
    (2.0 * normal_cdf(z)).clamp(p, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ratios: &[f64]) -> Vec<Pair> {
        ratios
            .iter()
            .zip(0..)
            .map(|(r, block)| Pair {
                session: block / 8,
                block,
                layer: 100.0 * r,
                native: 100.0,
            })
            .collect()
    }

    #[test]
    fn a_constant_ratio_is_itself() {
        let c = compare(&pairs(&[1.25; 8]), 0.95, 1).expect("eight pairs");
        assert!((c.ratio - 1.25).abs() < 1e-12 && (c.diff - 25.0).abs() < 1e-9);
        assert!(c.ratio_interval.is_some_and(|i| i.width().abs() < 1e-12));
        assert!(c.steady && !c.dependent && c.outliers == 0 && c.n == 8);
        assert!(c.p < 0.05);
    }

    #[test]
    fn few_pairs_have_no_interval_and_none_no_comparison() {
        let c = compare(&pairs(&[1.1, 1.2, 1.0]), 0.95, 1).expect("three pairs");
        assert!(c.ratio_interval.is_none() && c.diff_interval.is_none());
        assert!(compare(&[], 0.95, 1).is_none());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(compare(&pairs(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, bad]), 0.95, 1).is_none());
        }
    }

    #[test]
    fn order_of_the_pairs_does_not_matter() {
        let mut p = pairs(&[1.1, 0.9, 1.2, 1.0, 1.3, 1.05, 0.95]);
        let forward = compare(&p, 0.95, 1);
        p.reverse();
        assert_eq!(forward, compare(&p, 0.95, 1));
    }

    #[test]
    fn dependence_widens_and_weakens() {
        let drift: Vec<f64> = (0..12).map(|i| 1.05 + 0.02 * f64::from(i / 3)).collect();
        let c = compare(&pairs(&drift), 0.95, 1).expect("twelve pairs");
        assert!(c.dependent && c.effective_n < 12.0);
        let d: Vec<f64> = drift.iter().map(|r| r.ln()).collect();
        let exact = signed_rank_interval(&d, 0.95).expect("n = 12").exp();
        let wide = c.ratio_interval.expect("n = 12");
        assert!(wide.low <= exact.low * (1.0 + 1e-12) && wide.high >= exact.high * (1.0 - 1e-12));
        assert!(c.p > signed_rank_p(&d));
    }

    #[test]
    fn a_late_step_means_no_steady_state() {
        let noise = [0.0, 0.01, -0.01, 0.005, -0.004];
        let step = |at: usize, n: usize| -> Vec<f64> {
            (0..n)
                .map(|i| noise[i % 5] + if i < at { 1.5 } else { 1.0 })
                .collect()
        };
        let late = compare(&pairs(&step(12, 24)), 0.95, 1).expect("pairs");
        assert_eq!(
            (late.change_points.as_slice(), late.steady),
            (&[12][..], false)
        );
        let early = compare(&pairs(&step(5, 24)), 0.95, 1).expect("pairs");
        assert_eq!(
            (early.change_points.as_slice(), early.steady),
            (&[5][..], true)
        );
        let short = compare(&pairs(&step(6, 12)), 0.95, 1).expect("pairs");
        assert!(short.change_points.is_empty() && short.steady);
    }
}
