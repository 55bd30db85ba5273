//! Formats numbers for people: three significant digits and a unit that fits.

use layermark_model::format_size;

use crate::types::{Estimate, ResultRow};

mod ratio;

pub use ratio::*;

/// Three significant digits, no exponent: `1.02`, `13.1`, `420`, `12300`, `0.00123`.
pub fn sig3(value: f64) -> String {
    const DIGITS: i32 = 3;
    if !value.is_finite() {
        return "-".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let step = 10f64.powi(magnitude + 1 - DIGITS);
    let rounded = (value / step).round() * step;
    // Rounding 9.999 up makes it 10.0: one decimal less.
    let magnitude = rounded.abs().log10().floor() as i32;
    let decimals = (DIGITS - 1 - magnitude).clamp(0, 12) as usize;
    format!("{rounded:.decimals$}")
}

/// At most two decimals: `0.6`, `0.05`.
pub fn hundredths(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// The label of a tick, which is a round number: `0.5`, `1`, `20`.
pub fn tick(value: f64) -> String {
    let text = sig3(value);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

const TIMES: [(&str, f64); 4] = [("ns", 1e-3), ("us", 1.0), ("ms", 1e3), ("s", 1e6)];

/// The largest unit of time in which the number is at least 1, and its scale in microseconds.
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

/// The smallest step that an interval supports. It is one digit of its shorter half, or two if that
/// begins with less than 3.55 (the rule of the Particle Data Group). 0 without an interval.
fn step(e: &Estimate) -> f64 {
    let half = |[low, high]: [f64; 2]| (e.estimate - low).min(high - e.estimate);
    let Some(half) = e.interval.map(half).filter(|h| *h > 0.0) else {
        return 0.0;
    };
    let decade = 10f64.powf(half.log10().floor());
    if half / decade < 3.55 {
        decade / 10.0
    } else {
        decade
    }
}

/// Value of the last of this many significant digits.
pub fn last_place(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    10f64.powi(value.abs().log10().floor() as i32 + 1 - digits)
}

fn in_steps(value: f64, step: f64) -> String {
    let decimals = (-(step.log10() + 1e-9).floor()).clamp(0.0, 12.0) as usize;
    // Avoids `-0.0`.
    let rounded = (value / step).round() * step + 0.0;
    format!("{rounded:.decimals$}")
}

/// A time rounded to steps, all in microseconds, with at most three digits.
fn time_in(us: f64, step: f64) -> String {
    let step = step.max(last_place(us, 3));
    if step == 0.0 {
        return time(us);
    }
    let rounded = (us / step).round() * step;
    let (unit, scale) = time_unit(if rounded == 0.0 { step } else { rounded });
    let step = step.max(last_place(rounded, 3)) / scale;
    format!("{} {unit}", in_steps(us / scale, step))
}

/// A time in microseconds with two digits: `20 ms`.
pub fn time_about(us: f64) -> String {
    time_in(us, last_place(us, 2))
}

/// Two times in microseconds with this many digits, in one unit if they have the same: `2.1 -> 6.4 ms`.
pub fn from_to(from: f64, to: f64, digits: i32) -> String {
    let [first, second] = [from, to].map(|us| time_in(us, last_place(us, digits)));
    match (first.split_once(' '), second.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} -> {second}"),
        _ => format!("{first} -> {second}"),
    }
}

/// A time in microseconds with the digits that its interval supports: `41.2 ms`, `0.0 ns`.
pub fn time_of(e: &Estimate) -> String {
    time_in(e.estimate, step(e))
}

/// A difference of times with the digits that its interval supports, and its sign: `+12 us`.
pub fn extra_of(e: &Estimate) -> String {
    let text = time_of(e);
    let zero = !text.contains(|c: char| ('1'..='9').contains(&c));
    if e.estimate > 0.0 && !zero {
        format!("+{text}")
    } else {
        text
    }
}

/// [`extra_of`] beside the time that it is a part of, in microseconds. A difference below what its
/// interval supports is written as far as the time shows it: not `0 ns` beside 1.31 and 1.34 us.
pub fn extra_beside(e: &Estimate, us: f64) -> String {
    let text = extra_of(e);
    if text.contains(|c: char| ('1'..='9').contains(&c)) {
        return text;
    }
    let text = time_in(e.estimate, last_place(us, 3));
    let zero = !text.contains(|c: char| ('1'..='9').contains(&c));
    if e.estimate > 0.0 && !zero {
        format!("+{text}")
    } else {
        text
    }
}

/// Ends of an interval with the digits that it supports, in one unit: `40.1 to 42.3 ms`.
pub fn ends_of(e: &Estimate) -> Option<String> {
    let [low, high] = e.interval?;
    let most = low.abs().max(high.abs());
    let step = step(e).max(last_place(most, 3));
    if step == 0.0 {
        return Some(time_span([low, high]));
    }
    let (unit, scale) = time_unit(most);
    let [low, high] = [low, high].map(|v| in_steps(v / scale, step / scale));
    Some(format!("{low} to {high} {unit}"))
}

/// A time, with its interval if it has one: `41.2 ms (40.1 to 42.3 ms)`.
pub fn time_with(e: &Estimate) -> String {
    let head = time_of(e);
    ends_of(e).map_or(head.clone(), |ends| format!("{head} ({ends})"))
}

/// The decimal prefix of a number, and its scale.
fn scale_of(value: f64) -> (&'static str, f64) {
    const SCALES: [(&str, f64); 4] = [("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)];
    let rounded = value.abs() * 1.000_5;
    let fits = SCALES.into_iter().find(|(_, s)| rounded >= *s);
    fits.unwrap_or(("", 1.0))
}

/// A number with a decimal prefix: `1.9 G`, `420 k`.
fn scaled(value: f64) -> String {
    let (prefix, scale) = scale_of(value);
    format!("{} {prefix}", sig3(value / scale))
}

/// A value in the unit of its metric: `1.9 GB/s`, `420 kops/s`, `1520 scripts/h`.
pub fn value(value: f64, unit: &str) -> String {
    if unit == "scripts/h" {
        // Scripts are not counted in thousands.
        return format!("{} {unit}", sig3(value));
    }
    format!("{}{unit}", scaled(value))
}

/// Bytes with a decimal prefix: `16.8 MB`.
pub fn bytes(value: f64) -> String {
    format!("{}B", scaled(value))
}

/// A part of some bytes, in one unit and two digits: `2.3 of 67 MB`.
pub fn bytes_of(some: u64, all: u64) -> String {
    let (prefix, scale) = scale_of(all as f64);
    let two = |n: u64| {
        let value = n as f64 / scale;
        match last_place(value, 2) {
            0.0 => "0".to_owned(),
            step => in_steps(value, step.min(1.0)),
        }
    };
    format!("{} of {} {prefix}B", two(some), two(all))
}

/// A share in per cent: `4 %`, `0.5 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value.abs() >= 9.95 || value == 0.0 {
        format!("{value:.0} %")
    } else {
        format!("{value:.1} %").replace(".0 ", " ")
    }
}

/// A value and its range, each shown so: `1.90 GB/s [1.80 GB/s to 2.00 GB/s]`.
pub fn ranged(value: f64, range: Option<[f64; 2]>, show: impl Fn(f64) -> String) -> String {
    match range.map(|ends| ends.map(&show)) {
        Some([low, high]) => format!("{} [{low} to {high}]", show(value)),
        None => show(value),
    }
}

/// A whole number from a hundred on, and three digits below.
pub fn whole(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        sig3(value)
    }
}

/// A text of a difference, with a sign before it if it is more.
pub fn signed(difference: f64, text: &str) -> String {
    let sign = if difference > 0.0 { "+" } else { "" };
    format!("{sign}{text}")
}

/// A part of a whole: `3 of 5`.
pub fn some_of(some: u64, all: u64) -> String {
    format!("{some} of {all}")
}

/// A value in the unit of an axis.
pub fn on_axis(v: f64, unit: &str) -> String {
    match unit {
        // A plain number, such as a queue depth.
        "" if (v - v.round()).abs() < 1e-6 => format!("{v:.0}"),
        "B" => format_size(v.round() as u64),
        "us" => time(v),
        "s" => time(v * 1e6),
        "share" => format!("{} %", tick(v * 100.0)),
        other => value(v, other),
    }
}

/// A share in whole per cent, for an axis: `120 %`.
pub fn whole_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A share of operations, which is above 0 even if it is small: `2 %`, `0.031 %`.
pub fn percent_of(some: u64, all: u64) -> String {
    let value = 100.0 * some as f64 / all.max(1) as f64;
    let step = last_place(value, 2);
    if step == 0.0 {
        return "0 %".into();
    }
    let text = in_steps(value, step.min(1.0));
    let text = match text.split_once('.') {
        Some((whole, rest)) if rest.chars().all(|c| c == '0') => whole.to_owned(),
        _ => text,
    };
    format!("{text} %")
}

/// `1 block`, `2 blocks`.
pub fn count(n: usize, one: &str) -> String {
    if n == 1 {
        format!("1 {one}")
    } else {
        format!("{n} {one}s")
    }
}

/// The verb for `n` things: `fails` for one, `fail` for more.
pub fn verb(n: usize, one: &'static str, more: &'static str) -> &'static str {
    if n == 1 { one } else { more }
}

/// A whole number in groups of three digits: `1,204`.
pub fn thousands(n: f64) -> String {
    let digits = format!("{n:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `a`, `a and b`, `a, b and c`.
pub fn list<S: ToString>(items: &[S]) -> String {
    match items {
        [] => String::new(),
        [one] => one.to_string(),
        [head @ .., last] => {
            let head: Vec<String> = head.iter().map(ToString::to_string).collect();
            format!("{} and {}", head.join(", "), last.to_string())
        }
    }
}

/// The value of a result, in its unit.
pub fn result_value(row: &ResultRow) -> String {
    let most = if row.not_seen() { "<" } else { "" };
    row.value
        .map_or_else(|| "-".into(), |v| format!("{most}{}", value(v, &row.unit)))
}

#[cfg(test)]
mod tests;
