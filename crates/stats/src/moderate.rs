//! Moderated variances: the variance of each cell, shrunk towards the common one.

use crate::median;
use crate::special::{log_chi2_df, log_chi2_mean, log_chi2_variance};

/// The common variance of the cells, and its weight in degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Degrees of freedom. 0 if the cells say nothing about each other, infinite if they differ by
    /// no more than chance.
    pub df: f64,
    /// The variance.
    pub variance: f64,
}

/// Fits a scaled F distribution to variances with their degrees of freedom, by the moments of their
/// logarithms.
///
/// Source: Smyth, "Linear models and empirical Bayes methods for assessing differential expression
/// in microarray experiments", 2004, section 6.2. In limma it is `fitFDist`, whose floor of 1e-5 of
/// the median limits the effect of a variance of 0.
///
/// No prior below two cells, or if the median is 0: most cells then have no spread at all.
pub fn prior(cells: &[(f64, f64)]) -> Prior {
    let usable = |(v, df): &&(f64, f64)| v.is_finite() && *v >= 0.0 && *df > 0.0;
    let cells: Vec<(f64, f64)> = cells.iter().filter(usable).copied().collect();
    let variances: Vec<f64> = cells.iter().map(|c| c.0).collect();
    let floor = 1e-5 * median(&variances).unwrap_or(0.0);
    if cells.len() < 2 || floor <= 0.0 {
        return Prior {
            df: 0.0,
            variance: 0.0,
        };
    }
    let n = cells.len() as f64;
    let logs = cells
        .iter()
        .map(|(v, df)| v.max(floor).ln() - log_chi2_mean(*df));
    let logs: Vec<f64> = logs.collect();
    let centre = logs.iter().sum::<f64>() / n;
    let spread = logs.iter().map(|x| (x - centre).powi(2)).sum::<f64>() / (n - 1.0);
    let by_chance = cells.iter().map(|c| log_chi2_variance(c.1)).sum::<f64>() / n;
    if spread > by_chance {
        let df = log_chi2_df(spread - by_chance);
        Prior {
            df,
            variance: (centre + log_chi2_mean(df)).exp(),
        }
    } else {
        let sum: f64 = variances.iter().map(|v| v.max(floor)).sum();
        Prior {
            df: f64::INFINITY,
            variance: sum / n,
        }
    }
}

impl Prior {
    /// A cell's variance shrunk towards the prior, and its degrees of freedom. The prior counts for
    /// at most `most` degrees of freedom, so that a noisy cell keeps most of its own variance.
    pub fn moderate(&self, variance: f64, df: f64, most: f64) -> (f64, f64) {
        let own = self.df.min(most).max(0.0);
        let all = own + df;
        if all <= 0.0 {
            return (variance, df);
        }
        ((own * self.variance + df * variance) / all, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_alike_lend_each_other_all_they_may() {
        let alike = prior(&[(1.0, 5.0), (1.1, 5.0), (0.9, 5.0), (1.05, 5.0)]);
        assert!(alike.df.is_infinite() && (alike.variance - 1.0125).abs() < 1e-12);
        let (v, df) = alike.moderate(2.0125, 5.0, 5.0);
        assert!((v - 1.5125).abs() < 1e-12 && (df - 10.0).abs() < 1e-12);
    }

    #[test]
    fn cells_that_differ_by_decades_lend_little() {
        let apart = prior(&[(1e-4, 5.0), (1e-2, 5.0), (1.0, 5.0), (1e2, 5.0)]);
        assert!(apart.df < 1.0, "{apart:?}");
    }

    #[test]
    fn nothing_comes_of_one_cell_or_of_none_with_spread() {
        for cells in [
            &[][..],
            &[(1.0, 5.0)],
            &[(0.0, 5.0); 6],
            &[(f64::NAN, 5.0); 3],
        ] {
            let none = prior(cells);
            assert_eq!(none.moderate(0.3, 4.0, 4.0), (0.3, 4.0));
        }
        assert_eq!(prior(&[]).moderate(0.3, 0.0, 0.0), (0.3, 0.0));
    }
}
