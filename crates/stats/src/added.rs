//! Costs that contain a time which was not measured with them.

use crate::{Comparison, Interval};

/// A time that is part of both costs of a ratio, and that is known only within a range.
///
/// Two costs `L` and `N` were measured without it. Their ratio with it is `(L + t) / (N + t)`, for a `t` between
/// `time - spread` and `time + spread`. It may not be below 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedTime {
    /// The time, in the unit of the costs, which contain it.
    pub time: f64,
    /// How far the true one may be from it, on either side.
    pub spread: f64,
}

impl SharedTime {
    /// The interval of a ratio for every time in the range: the smallest one that holds the interval at each of them.
    /// `native` is native's cost with the time. `None` if the smallest ratio is 0, or if native's cost may be 0.
    ///
    /// A larger time moves each ratio towards 1, and none of them beyond it. So an interval that does not contain 1
    /// does not contain it afterwards either, and a verdict that needs this holds for every time.
    pub fn widen(self, interval: Interval, native: f64) -> Option<Interval> {
        let Self { time, spread } = self;
        if ![time, spread, native].iter().all(|x| x.is_finite()) || time < 0.0 || spread < 0.0 {
            return None;
        }
        // Native's calls take some time at least.
        let less = spread.min(time);
        if native - less <= 0.0 {
            return None;
        }
        let at = |ratio: f64, more: f64| {
            // Nor can the calls in the layer take less than none.
            let layer = (ratio * native).max(time);
            (layer + more) / (native + more)
        };
        let ends = |ratio: f64| [at(ratio, -less), at(ratio, spread)];
        let ([a, b], [c, d]) = (ends(interval.low), ends(interval.high));
        let wide = Interval {
            low: a.min(b),
            high: c.max(d),
        }
        .hull(&interval);
        let usable = wide.low > 0.0 && wide.high.is_finite();
        usable.then_some(wide)
    }

    /// A comparison with the intervals of [`SharedTime::widen`]. The difference of the costs does not depend on the time, nor
    /// does whether there is one.
    #[must_use]
    pub fn widen_comparison(self, comparison: Comparison) -> Comparison {
        Comparison {
            ratio_interval: comparison
                .ratio_interval
                .and_then(|i| self.widen(i, comparison.cost)),
            ..comparison
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pair, Verdict, compare, judge};

    const fn added(time: f64, spread: f64) -> SharedTime {
        SharedTime { time, spread }
    }

    const fn between(low: f64, high: f64) -> Interval {
        Interval { low, high }
    }

    fn near(found: Interval, low: f64, high: f64) {
        let same = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(
            same(found.low, low) && same(found.high, high),
            "{found:?} instead of {low} to {high}"
        );
    }

    #[test]
    fn the_ratio_is_taken_at_both_ends_of_the_time() {
        // Calls take 20 natively and 120 in the layer, the rest is the time: (120 + 80) / (20 + 80) = 2.
        let exact = between(2.0, 2.0);
        near(added(80.0, 0.0).widen(exact, 100.0).unwrap(), 2.0, 2.0);
        near(
            added(80.0, 30.0).widen(exact, 100.0).unwrap(),
            230.0 / 130.0,
            170.0 / 70.0,
        );
        // The noise of the ratio comes to it: calls of 110 to 130 in the layer.
        near(
            added(80.0, 30.0).widen(between(1.9, 2.1), 100.0).unwrap(),
            220.0 / 130.0,
            180.0 / 70.0,
        );
        // A layer that is faster: calls of 20 and of 10.
        near(
            added(80.0, 30.0).widen(between(0.9, 0.9), 100.0).unwrap(),
            60.0 / 70.0,
            120.0 / 130.0,
        );
    }

    #[test]
    fn the_time_is_never_below_zero() {
        // Without any time the ratio is that of the calls: 120 / 20.
        near(
            added(80.0, 500.0).widen(between(2.0, 2.0), 100.0).unwrap(),
            700.0 / 600.0,
            6.0,
        );
        // The interval says that the calls may take less than nothing; then the ratio may be 0.
        assert_eq!(added(80.0, 80.0).widen(between(0.5, 2.0), 100.0), None);
        for bad in [
            added(f64::NAN, 1.0),
            added(1.0, f64::INFINITY),
            added(-1.0, 1.0),
            added(1.0, -1.0),
        ] {
            assert_eq!(bad.widen(between(1.0, 2.0), 100.0), None);
        }
        // All of native's cost is the time, which may be 0.
        assert_eq!(added(80.0, 80.0).widen(between(1.0, 1.0), 80.0), None);
    }

    #[test]
    fn no_time_makes_a_difference_or_takes_one_away() {
        for (low, high) in [(1.0001, 3.0), (0.3, 0.9999), (0.9, 1.1), (1.0, 1.0)] {
            for spread in [0.0, 1.0, 50.0, 1e9] {
                let wide = added(20.0, spread)
                    .widen(between(low, high), 100.0)
                    .unwrap();
                assert!(wide.low <= low && wide.high >= high);
                assert_eq!(
                    (wide.low > 1.0, wide.high < 1.0),
                    (low > 1.0, high < 1.0),
                    "{low} {high} {spread}"
                );
            }
        }
    }

    #[test]
    fn a_comparison_keeps_its_difference_and_may_lose_that_it_is_the_same() {
        let noise = [0.0, 0.002, -0.002, 0.001, -0.001, 0.0, 0.001, -0.001];
        let pairs = noise.iter().zip(0..);
        let pairs: Vec<Pair> = pairs
            .map(|(n, block)| Pair::new((0, block), 104.0 * (1.0 + n), 100.0))
            .collect();
        let found = compare(&pairs, 0.95, 1).unwrap();
        let wide = added(90.0, 60.0).widen_comparison(found.clone());
        assert_eq!(
            (wide.diff_interval, wide.p.to_bits()),
            (found.diff_interval, found.p.to_bits())
        );
        // 14 / 10 without the time, 64 / 60 of which is added: 4 % becomes up to 10 %.
        let interval = wide.ratio_interval.unwrap();
        assert!(
            (1.09..1.12).contains(&interval.high) && interval.low > 1.0,
            "{interval:?}"
        );
        let verdict = |c: Comparison| judge(&[Some(c)], 0.05)[0].verdict;
        assert_eq!(
            (verdict(found), verdict(wide)),
            (Verdict::Same, Verdict::Slower)
        );
    }
}
