//! Numbers as people read them: three significant digits and a unit that fits.

use crate::types::{Estimate, ResultRow};

/// Three significant digits, no exponent: `1.02`, `13.1`, `420`, `12300`, `0.00123`.
pub fn sig3(value: f64) -> String {
    significant(value, 3)
}

/// Two significant digits, for crowded tables: `1.0`, `0.034`.
pub fn sig2(value: f64) -> String {
    significant(value, 2)
}

fn significant(value: f64, digits: i32) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let step = 10f64.powi(magnitude + 1 - digits);
    let rounded = (value / step).round() * step;
    // Rounding 9.999 up makes it 10.0: one decimal less.
    let magnitude = rounded.abs().log10().floor() as i32;
    let decimals = (digits - 1 - magnitude).clamp(0, 12) as usize;
    format!("{rounded:.decimals$}")
}

/// A ratio: two decimals below 10, three digits above.
pub fn ratio(value: f64) -> String {
    if value.is_finite() && value.abs() < 9.995 && value.abs() >= 0.0995 {
        format!("{value:.2}")
    } else {
        sig3(value)
    }
}

/// A span of ratios: `0.99-1.02`.
pub fn ratio_span([low, high]: [f64; 2]) -> String {
    format!("{}-{}", ratio(low), ratio(high))
}

const TIMES: [(&str, f64); 4] = [("ns", 1e-3), ("us", 1.0), ("ms", 1e3), ("s", 1e6)];

/// The largest unit of time that leaves a number of at least 1; the scale is microseconds.
fn time_unit(us: f64) -> (&'static str, f64) {
    let rounded = us.abs() * 1.000_5;
    TIMES
        .into_iter()
        .rev()
        .find(|(_, scale)| rounded >= *scale)
        .unwrap_or(TIMES[0])
}

/// A time given in microseconds: `12 us`, `41.2 ms`.
pub fn time(us: f64) -> String {
    let (unit, scale) = time_unit(us);
    format!("{} {unit}", sig3(us / scale))
}

/// A difference of times given in microseconds, with its sign: `+12 us`.
pub fn extra(us: f64) -> String {
    if us > 0.0 {
        format!("+{}", time(us))
    } else {
        time(us)
    }
}

/// A span of times given in microseconds, in one unit: `40.1 to 42.3 ms`.
pub fn time_span([low, high]: [f64; 2]) -> String {
    let (unit, scale) = time_unit(low.abs().max(high.abs()));
    format!("{} to {} {unit}", sig3(low / scale), sig3(high / scale))
}

/// A time with its interval when there is one: `41.2 ms (40.1 to 42.3 ms)`.
pub fn time_with(estimate: &Estimate) -> String {
    let head = time(estimate.estimate);
    estimate
        .interval
        .map_or(head.clone(), |span| format!("{head} ({})", time_span(span)))
}

/// A ratio with its interval when there is one: `3.10x (3.02-3.18)`.
pub fn ratio_with(estimate: &Estimate) -> String {
    let head = format!("{}x", ratio(estimate.estimate));
    estimate.interval.map_or(head.clone(), |span| {
        format!("{head} ({})", ratio_span(span))
    })
}

/// A number with a decimal prefix: `1.9 G`, `420 k`.
fn scaled(value: f64) -> String {
    const SCALES: [(&str, f64); 4] = [("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)];
    let rounded = value.abs() * 1.000_5;
    let (prefix, scale) = SCALES
        .into_iter()
        .find(|(_, s)| rounded >= *s)
        .unwrap_or(("", 1.0));
    format!("{} {prefix}", sig3(value / scale))
}

/// A value in the unit of its metric: `1.9 GB/s`, `420 kops/s`.
pub fn value(value: f64, unit: &str) -> String {
    format!("{}{unit}", scaled(value))
}

/// Bytes with a decimal prefix: `16.8 MB`.
pub fn bytes(value: f64) -> String {
    format!("{}B", scaled(value))
}

/// A share as per cent: `4 %`, `0.5 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value.abs() >= 9.95 || value == 0.0 {
        format!("{value:.0} %")
    } else {
        format!("{value:.1} %").replace(".0 ", " ")
    }
}

/// `1 block`, `2 blocks`.
pub fn count(n: usize, one: &str) -> String {
    if n == 1 {
        format!("1 {one}")
    } else {
        format!("{n} {one}s")
    }
}

/// `a`, `a and b`, `a, b and c`.
pub fn list<S: AsRef<str>>(items: &[S]) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [head @ .., last] => {
            let head: Vec<&str> = head.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", head.join(", "), last.as_ref())
        }
    }
}

/// The value of a result, in its unit.
pub fn result_value(row: &ResultRow) -> String {
    row.value
        .map_or_else(|| "-".into(), |v| value(v, &row.unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_three_significant_digits() {
        let written: Vec<String> = [
            0.0,
            1.0,
            1.0204,
            13.14,
            420.4,
            12_345.0,
            0.001_234_5,
            9.999,
            -41.23,
            999.6,
        ]
        .into_iter()
        .map(sig3)
        .collect();
        assert_eq!(
            written,
            [
                "0", "1.00", "1.02", "13.1", "420", "12300", "0.00123", "10.0", "-41.2", "1000"
            ]
        );
        assert_eq!(sig3(f64::NAN), "-");
    }

    #[test]
    fn chooses_units_that_fit() {
        assert_eq!(time(0.512), "512 ns");
        assert_eq!(time(12.04), "12.0 us");
        assert_eq!(time(41_230.0), "41.2 ms");
        assert_eq!(time(999.9), "1.00 ms");
        assert_eq!(time(2_500_000.0), "2.50 s");
        assert_eq!(extra(12.0), "+12.0 us");
        assert_eq!(extra(-12.0), "-12.0 us");
        assert_eq!(time_span([900.0, 1_100.0]), "0.900 to 1.10 ms");
        assert_eq!(value(1.9e9, "B/s"), "1.90 GB/s");
        assert_eq!(value(420_400.0, "ops/s"), "420 kops/s");
    }

    #[test]
    fn writes_ratios_shares_and_lists() {
        assert_eq!(ratio_span([0.991, 1.018]), "0.99-1.02");
        assert_eq!(ratio(13.14), "13.1");
        assert_eq!(ratio(0.031), "0.0310");
        assert_eq!(percent(0.041), "4.1 %");
        assert_eq!(percent(0.04), "4 %");
        assert_eq!(percent(0.4), "40 %");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!(list::<&str>(&[]), "");
        assert_eq!(count(1, "block"), "1 block");
    }
}
