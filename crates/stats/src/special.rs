//! Functions for the t-test and its moderation that `statrs` lacks in this form.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::{beta::beta_reg, gamma::digamma};

/// Two-sided p of a t statistic. Exact far out in the tails, where 1 minus the distribution
/// function would be 0. 1 if a number is NaN.
pub(crate) fn t_p(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() || df <= 0.0 {
        return 1.0;
    }
    if t.is_infinite() {
        return 0.0;
    }
    beta_reg(df / 2.0, 0.5, df / (df + t * t)).clamp(0.0, 1.0)
}

/// Half-width of a two-sided interval at `level`, in standard errors.
pub(crate) fn t_quantile(level: f64, df: f64) -> f64 {
    StudentsT::new(0.0, 1.0, df).map_or(f64::NAN, |t| t.inverse_cdf(f64::midpoint(1.0, level)))
}

/// Upper tail of the F distribution.
pub(crate) fn f_p(f: f64, df1: f64, df2: f64) -> f64 {
    if f.is_nan() || f <= 0.0 {
        return 1.0;
    }
    if f.is_infinite() {
        return 0.0;
    }
    beta_reg(df2 / 2.0, df1 / 2.0, df2 / (df2 + df1 * f)).clamp(0.0, 1.0)
}

/// Mean of the logarithm of a chi-squared variable over its degrees of freedom.
pub(crate) fn log_chi2_mean(df: f64) -> f64 {
    digamma(df / 2.0) - (df / 2.0).ln()
}

/// Variance of the logarithm of a chi-squared variable over its degrees of freedom.
pub(crate) fn log_chi2_variance(df: f64) -> f64 {
    trigamma(df / 2.0)
}

/// The degrees of freedom at which [`log_chi2_variance`] equals `variance`, which must be above 0.
pub(crate) fn log_chi2_df(variance: f64) -> f64 {
    // Trigamma decreases from infinity to 0: bisect on a logarithmic scale.
    let (mut low, mut high) = (1e-8_f64.ln(), 1e8_f64.ln());
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if trigamma(middle.exp()) > variance {
            low = middle;
        } else {
            high = middle;
        }
    }
    2.0 * f64::midpoint(low, high).exp()
}

/// Second derivative of the logarithm of the gamma function, for `x` above 0. Uses Abramowitz &
/// Stegun 6.4.12 from 10 on, and the recurrence 6.4.6 below.
fn trigamma(x: f64) -> f64 {
    let mut sum = 0.0;
    let mut x = x;
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series =
        1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y * (1.0 / 30.0 - y * 5.0 / 66.0)));
    sum + 1.0 / x + y / 2.0 + y / x * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigamma_has_its_known_values() {
        let pi2 = std::f64::consts::PI.powi(2);
        for (x, expected) in [(1.0, pi2 / 6.0), (0.5, pi2 / 2.0), (2.0, pi2 / 6.0 - 1.0)] {
            assert!((trigamma(x) - expected).abs() < 1e-12, "{x}");
        }
        for df in [0.3, 2.0, 5.0, 40.0, 1e4] {
            assert!((log_chi2_df(log_chi2_variance(df)) / df - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn tails_do_not_vanish() {
        assert!(t_p(60.0, 10.0) > 0.0 && t_p(60.0, 10.0) < 1e-12);
        assert!((t_p(t_quantile(0.95, 7.0), 7.0) - 0.05).abs() < 1e-9);
        assert!((t_p(f64::INFINITY, 5.0), t_p(f64::NAN, 5.0)) == (0.0, 1.0));
        // With two groups, F is the square of t.
        assert!((f_p(4.0, 1.0, 9.0) - t_p(2.0, 9.0)).abs() < 1e-12);
    }
}
