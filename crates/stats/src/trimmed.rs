//! The 20 % trimmed mean and its error.

use crate::special::t_quantile;
use crate::{Interval, all_finite};

/// Share of the values that is removed at each end.
pub const TRIM: f64 = 0.2;

/// A trimmed mean and its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trimmed {
    /// Mean of the values without the lowest and the highest fifth, in their unit.
    pub mean: f64,
    /// The winsorised variance, scaled so that `variance / kept` is the squared standard error of
    /// `mean` (Yuen, "The two-sample trimmed t for unequal population variances", 1974).
    pub variance: f64,
    /// Number of values kept, n - 2 floor(0.2 n). The standard error has one degree of freedom
    /// less.
    pub kept: usize,
}

impl Trimmed {
    /// `None` without values or if one is not finite. The variance of one value is 0.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || !all_finite(values) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (n, cut) = (sorted.len(), cut(sorted.len()));
        let kept = n - 2 * cut;
        let mean = sorted[cut..n - cut].iter().sum::<f64>() / kept as f64;
        let held = held(&sorted, sorted[cut], sorted[n - cut - 1]);
        let centre = held.iter().sum::<f64>() / n as f64;
        let squares: f64 = held.iter().map(|x| (x - centre).powi(2)).sum();
        let variance = if kept > 1 {
            squares / (kept - 1) as f64
        } else {
            0.0
        };
        mean.is_finite().then_some(Self {
            mean,
            variance,
            kept,
        })
    }

    /// Degrees of freedom of `variance`.
    pub fn df(&self) -> f64 {
        (self.kept - 1) as f64
    }

    /// The interval of the mean from these values alone. `None` below [`MIN_VALUES`], and for a
    /// `level` outside (0, 1).
    pub fn interval(&self, level: f64) -> Option<Interval> {
        if self.kept < MIN_VALUES || !(level > 0.0 && level < 1.0) {
            return None;
        }
        let reach = t_quantile(level, self.df()) * (self.variance / self.kept as f64).sqrt();
        let interval = Interval {
            low: self.mean - reach,
            high: self.mean + reach,
        };
        reach.is_finite().then_some(interval)
    }
}

/// The mean of two trimmed means over the same blocks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TwoMeans {
    /// The mean of both, with the variance that their blocks have together.
    pub both: Trimmed,
    /// For each block in order, the mean of both winsorised values.
    pub held: Vec<f64>,
}

impl TwoMeans {
    /// `None` as [`Trimmed::of`], for either side. Two equal sides have the trimmed mean and variance of one.
    ///
    /// To the first order a trimmed mean moves with a value as far as its winsorised value does. So the mean of two
    /// moves with a block by the mean of both winsorised values, and has their variance.
    pub(crate) fn of(one: &[f64], other: &[f64]) -> Option<Self> {
        let (first, second) = (Trimmed::of(one)?, Trimmed::of(other)?);
        let sides = winsorised(one).into_iter().zip(winsorised(other));
        let held: Vec<f64> = sides.map(|(a, b)| f64::midpoint(a, b)).collect();
        if one == other {
            return Some(Self { both: first, held });
        }
        let centre = held.iter().sum::<f64>() / held.len() as f64;
        let squares: f64 = held.iter().map(|x| (x - centre).powi(2)).sum();
        let kept = first.kept;
        let variance = squares / kept.saturating_sub(1).max(1) as f64;
        let both = Trimmed {
            mean: f64::midpoint(first.mean, second.mean),
            variance: if kept > 1 { variance } else { 0.0 },
            kept,
        };
        Some(Self { both, held })
    }
}

/// Fewest values for an interval: with fewer than three, one value decides its width.
pub const MIN_VALUES: usize = 3;

/// The trimmed mean alone.
pub fn trimmed_mean(values: &[f64]) -> Option<f64> {
    Trimmed::of(values).map(|t| t.mean)
}

/// The values in order. Those that [`Trimmed`] removes are replaced by the nearest kept value.
pub(crate) fn winsorised(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (n, cut) = (sorted.len(), cut(sorted.len()));
    if n == 0 {
        return sorted;
    }
    held(values, sorted[cut], sorted[n - cut - 1])
}

fn held(values: &[f64], low: f64, high: f64) -> Vec<f64> {
    values.iter().map(|x| x.clamp(low, high)).collect()
}

/// Number of values removed at each end: floor(0.2 n), in whole numbers.
fn cut(n: usize) -> usize {
    n / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wild_value_in_five_moves_nothing() {
        let calm = Trimmed::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let wild = Trimmed::of(&[1.0, 2.0, 3.0, 4.0, 1e9]).unwrap();
        assert_eq!(calm, wild);
        assert_eq!((calm.mean, calm.kept), (3.0, 3));
        // Winsorised to 2, 2, 3, 4, 4: squares 4, over kept - 1.
        assert!((calm.variance - 2.0).abs() < 1e-12);
        assert_eq!(
            winsorised(&[1e9, 1.0, 2.0, 3.0, 4.0]),
            [4.0, 2.0, 2.0, 3.0, 4.0]
        );
    }

    #[test]
    fn too_few_values_have_no_interval() {
        assert!(Trimmed::of(&[]).is_none() && Trimmed::of(&[f64::NAN]).is_none());
        let two = Trimmed::of(&[1.0, 2.0]).unwrap();
        assert!(two.interval(0.95).is_none());
        let three = Trimmed::of(&[1.0, 2.0, 3.0]).unwrap();
        assert!(three.interval(0.95).is_some() && three.interval(1.0).is_none());
        let i = Trimmed::of(&[2.0; 6]).unwrap().interval(0.95).unwrap();
        assert_eq!((i.low, i.high), (2.0, 2.0));
    }
}
