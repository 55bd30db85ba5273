//! One ratio over another.

use crate::Interval;

/// A ratio above 0 and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundedRatio {
    /// The estimate.
    pub value: f64,
    /// Its interval.
    pub interval: Interval,
}

/// `a / b` of two independent estimates, with its interval at their common level: the method of variance estimates
/// recovery (Zou and Donner 2008, <https://doi.org/10.1002/sim.3095>) for the difference of their logarithms. It takes
/// intervals as they are, also lopsided ones. `None` unless each number is above 0 and finite.
pub fn quotient(a: BoundedRatio, b: BoundedRatio) -> Option<BoundedRatio> {
    let usable = |k: &BoundedRatio| {
        let ends = [k.interval.low, k.value, k.interval.high];
        ends.iter().all(|x| x.is_finite() && *x > 0.0) && ends.is_sorted()
    };
    if !usable(&a) || !usable(&b) {
        return None;
    }
    let (above, below) = (a.value.ln(), b.value.ln());
    let (ia, ib) = (a.interval.ln(), b.interval.ln());
    let middle = above - below;
    let found = BoundedRatio {
        value: middle.exp(),
        interval: Interval {
            low: (middle - (above - ia.low).hypot(ib.high - below)).exp(),
            high: (middle + (ia.high - above).hypot(below - ib.low)).exp(),
        },
    };
    usable(&found).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(low: f64, value: f64, high: f64) -> BoundedRatio {
        BoundedRatio {
            value,
            interval: Interval { low, high },
        }
    }

    #[test]
    fn exact_ratios_have_an_exact_quotient() {
        let found = quotient(known(3.0, 3.0, 3.0), known(2.0, 2.0, 2.0)).unwrap();
        assert!((found.value - 1.5).abs() < 1e-12 && found.interval.width() < 1e-12);
    }

    #[test]
    fn half_widths_of_logarithms_add_up_as_squares() {
        // ln 3 and ln 4, each with its own side.
        let (e3, e4) = (0.03f64.exp(), 0.04f64.exp());
        let found = quotient(known(2.0 / e3, 2.0, 2.0 * e3), known(1.0 / e4, 1.0, e4)).unwrap();
        let ends = found.interval.ln();
        assert!(
            (ends.high - (2f64.ln() + 0.05)).abs() < 1e-12
                && (ends.low - (2f64.ln() - 0.05)).abs() < 1e-12
        );
    }

    #[test]
    fn each_end_is_made_of_the_sides_that_lead_there() {
        // Above only the lower end is open, below only the upper one: both make the quotient smaller.
        let found = quotient(known(1.8, 2.0, 2.0), known(1.0, 1.0, 1.2)).unwrap();
        assert!(
            (found.interval.high - 2.0).abs() < 1e-12 && found.interval.low < 1.8 / 1.1,
            "{found:?}"
        );
        let back = quotient(known(1.0, 1.0, 1.2), known(1.8, 2.0, 2.0)).unwrap();
        assert!(
            (back.interval.high * found.interval.low - 1.0).abs() < 1e-12,
            "the inverse has the inverse interval"
        );
    }

    #[test]
    fn what_is_no_interval_is_refused() {
        let good = known(1.0, 2.0, 3.0);
        for bad in [
            known(0.0, 1.0, 2.0),
            known(1.0, f64::NAN, 2.0),
            known(1.0, 2.0, f64::INFINITY),
            known(2.0, 1.0, 3.0),
        ] {
            assert_eq!(
                (quotient(bad, good), quotient(good, bad)),
                (None, None),
                "{bad:?}"
            );
        }
    }
}
