//! Scaling of throughput with the number of CPUs.

use crate::all_finite;

/// Throughput with a number of CPUs, and figures derived from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaled {
    /// CPUs.
    pub cpus: u32,
    /// X(n): work per second with n CPUs.
    pub rate: f64,
    /// X(n) / X(1).
    pub speed_up: f64,
    /// Speed-up over the number of CPUs: 1 is ideal.
    pub efficiency: f64,
    /// (X(n) - X(n-1)) / X(1): what the last CPU added, relative to the first one. `None` for the
    /// first, and if n - 1 CPUs were not measured.
    pub mp_factor: Option<f64>,
}

/// Scaling from rates at numbers of CPUs in any order; the result is sorted by CPUs.
///
/// `None` without a rate at 1 CPU, the reference. Also `None` if a rate is not above 0, or a number
/// of CPUs is 0 or occurs twice.
pub fn scaling(rates: &[(u32, f64)]) -> Option<Vec<Scaled>> {
    let mut rates = rates.to_vec();
    rates.sort_by_key(|(cpus, _)| *cpus);
    let values: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
    let twice = rates.windows(2).any(|w| w[0].0 == w[1].0);
    let (1, one) = *rates.first()? else {
        return None;
    };
    if twice || !all_finite(&values) || values.iter().any(|rate| *rate <= 0.0) {
        return None;
    }
    let scaled = rates.iter().enumerate().map(|(i, &(cpus, rate))| {
        let before = i.checked_sub(1).map(|before| rates[before]);
        let before = before.filter(|(fewer, _)| fewer + 1 == cpus);
        Scaled {
            cpus,
            rate,
            speed_up: rate / one,
            efficiency: rate / one / f64::from(cpus),
            mp_factor: before.map(|(_, fewer)| (rate - fewer) / one),
        }
    });
    Some(scaled.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_is_set_against_the_first() {
        let all = scaling(&[(4, 320.0), (1, 100.0), (2, 180.0), (3, 270.0)]).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert_eq!(all.iter().map(|s| s.cpus).collect::<Vec<_>>(), [1, 2, 3, 4]);
        for (s, up) in all.iter().zip([1.0, 1.8, 2.7, 3.2]) {
            assert!(near(s.speed_up, up), "{s:?}");
            assert!(near(s.efficiency, up / f64::from(s.cpus)), "{s:?}");
        }
        assert_eq!(all[0].mp_factor, None);
        for (s, factor) in all[1..].iter().zip([0.8, 0.9, 0.5]) {
            assert!(near(s.mp_factor.unwrap(), factor), "{s:?}");
        }
    }

    #[test]
    fn throughput_that_falls_has_a_negative_factor() {
        let all = scaling(&[(1, 100.0), (2, 90.0)]).unwrap();
        assert!(all[1].mp_factor.unwrap() < 0.0 && all[1].efficiency < 0.5);
    }

    #[test]
    fn a_factor_needs_the_number_below() {
        let all = scaling(&[(1, 100.0), (2, 200.0), (4, 300.0)]).unwrap();
        assert_eq!((all[1].mp_factor, all[2].mp_factor), (Some(1.0), None));
    }

    #[test]
    fn what_cannot_be_scaled_is_refused() {
        for rates in [
            &[][..],
            &[(2, 1.0), (4, 2.0)],
            &[(0, 1.0), (1, 2.0)],
            &[(1, 1.0), (1, 2.0)],
            &[(1, 0.0), (2, 1.0)],
            &[(1, 1.0), (2, f64::NAN)],
        ] {
            assert_eq!(scaling(rates), None, "{rates:?}");
        }
    }
}
