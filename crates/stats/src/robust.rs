//! Location, spread and outliers of one sample.

use crate::all_finite;

/// Distance from the median, in raw MADs, beyond which a value is an outlier: ten standard
/// deviations of a normal distribution (10 x 1.4826).
const OUTLIER_MADS: f64 = 14.826;

/// Median, in the unit of the values. `None` without values or if one is not finite.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Quantile of type 7 (Hyndman & Fan, "Sample quantiles in statistical packages", 1996): the
/// default of R and of `numpy.quantile`, linear between order statistics.
///
/// `None` without values, with a value that is not finite, or for a `p` outside `[0, 1]`.
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    if values.is_empty() || !all_finite(values) || !(0.0..=1.0).contains(&p) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(quantile_of_sorted(&sorted, p))
}

/// Like [`quantile`], for sorted values. They must be finite and at least one, and `p` in `[0, 1]`.
pub(crate) fn quantile_of_sorted(sorted: &[f64], p: f64) -> f64 {
    let last = sorted.len() - 1;
    let at = p * last as f64;
    let below = (at.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let weight = at - below as f64;
    // The clamp returns the exact value between equal neighbours, whatever the rounding.
    let x = sorted[below] * (1.0 - weight) + sorted[above] * weight;
    x.clamp(sorted[below], sorted[above])
}

/// Median absolute deviation from the median, raw: not scaled by 1.4826. Unit of the values. `None`
/// without values or if one is not finite.
pub fn mad(values: &[f64]) -> Option<f64> {
    let centre = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|x| (x - centre).abs()).collect();
    median(&deviations)
}

/// Indexes of the values with |x - median| / MAD > 14.826, in order. They are only flagged and
/// counted, never deleted.
///
/// If more than half of the values are equal, the MAD is 0 and every other value is flagged. Empty
/// without values or if one is not finite.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let (Some(centre), Some(spread)) = (median(values), mad(values)) else {
        return Vec::new();
    };
    let limit = OUTLIER_MADS * spread;
    (0..values.len())
        .filter(|&i| (values[i] - centre).abs() > limit)
        .collect()
}

/// Arithmetic mean, in the unit of the values. `None` without values or if one is not finite.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || !all_finite(values) {
        return None;
    }
    Some(values.iter().sum::<f64>() / values.len() as f64).filter(|m| m.is_finite())
}

/// Coefficient of variation: standard deviation (n - 1 in the denominator) over the mean, no unit.
/// `None` below two values, for a mean of 0 or if a value is not finite.
pub fn cv(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    if values.len() < 2 || centre == 0.0 {
        return None;
    }
    let squares: f64 = values.iter().map(|x| (x - centre).powi(2)).sum();
    let sd = (squares / (values.len() - 1) as f64).sqrt();
    Some(sd / centre).filter(|c| c.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_flagged_by_mad() {
        let mut x = vec![10.0, 10.1, 9.9, 10.2, 9.8, 10.0, 12.7];
        assert_eq!(outliers(&x), vec![6]);
        x[6] = 10.9;
        assert!(outliers(&x).is_empty());
        assert_eq!(outliers(&[1.0, 1.0, 1.0, 2.0]), vec![3]);
        assert!(outliers(&[1.0, 1.0, 1.0]).is_empty());
    }

    #[test]
    fn nothing_comes_of_nothing() {
        for bad in [&[][..], &[1.0, f64::NAN], &[f64::INFINITY, 1.0]] {
            assert_eq!(median(bad), None);
            assert_eq!(mad(bad), None);
            assert_eq!(mean(bad), None);
            assert_eq!(cv(bad), None);
            assert!(outliers(bad).is_empty());
        }
        assert_eq!(quantile(&[1.0], 1.1), None);
        assert_eq!(quantile(&[1.0], f64::NAN), None);
        assert_eq!(cv(&[1.0]), None);
        assert_eq!(cv(&[-1.0, 1.0]), None);
    }
}
