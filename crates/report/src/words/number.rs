//! Formats numbers for people: three significant digits and a unit that fits.

use layermark_model::format_size;

use crate::types::{Estimate, ResultRow, Verdict};

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

/// From this ratio on, the inverse is rounded to 1.00.
const AS_FAST: f64 = 0.995;

/// What is written of a ratio: itself, or its inverse and the word that says so. Without an interval,
/// or where it reaches 1, nothing is known to be faster.
pub fn written(e: &Estimate) -> (Estimate, &'static str) {
    let Written { shown, word } = Written::of(e);
    (shown, word)
}

/// A ratio as it is written: [`written`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Written {
    shown: Estimate,
    word: &'static str,
}

impl Written {
    fn of(e: &Estimate) -> Self {
        let below = |[low, high]: [f64; 2]| low > 0.0 && high < 1.0;
        if e.estimate >= AS_FAST || !e.interval.is_some_and(below) {
            return Self::itself(e);
        }
        Self {
            shown: inverse(e),
            word: " faster",
        }
    }

    fn itself(e: &Estimate) -> Self {
        Self {
            shown: *e,
            word: "",
        }
    }

    /// A ratio of a result. Beside a verdict that is not *faster*, the word is not written: after
    /// the correction for many comparisons, an interval that leaves out 1 may be undecided.
    pub fn beside(verdict: Verdict, e: &Estimate) -> Self {
        match verdict {
            Verdict::Faster | Verdict::Descriptive => Self::of(e),
            _ => Self::itself(e),
        }
    }

    /// The ratio of a result.
    pub fn in_row(row: &ResultRow) -> Option<Self> {
        let ratio = row.ratio.as_ref()?;
        Some(Self::beside(row.leaning(), ratio))
    }

    /// Whether the inverse is written.
    pub fn is_inverse(&self) -> bool {
        !self.word.is_empty()
    }

    /// The number with the digits that its interval supports, without a word.
    fn digits(&self) -> String {
        ratio_in(self.shown.estimate, step(&self.shown))
    }

    /// [`ratio_of`].
    pub fn ratio(&self) -> String {
        let number = self.digits();
        if self.word.is_empty() {
            number
        } else {
            format!("{number}x{}", self.word)
        }
    }

    /// Ends of the interval with the digits of the ratio, the lower one first.
    pub fn ends(&self) -> Option<[String; 2]> {
        let Self { shown, .. } = self;
        Some(shown.interval?.map(|end| ratio_in(end, step(shown))))
    }

    /// [`ratio_with`].
    pub fn with_ends(&self) -> String {
        let head = format!("{}x{}", self.digits(), self.word);
        self.ends()
            .map_or(head.clone(), |[low, high]| format!("{head} ({low}-{high})"))
    }

    /// [`times`].
    pub fn times(&self) -> String {
        format!("{}{}", self.multiple(), self.word)
    }

    /// [`times`] without its word: `3.0x`.
    pub fn multiple(&self) -> String {
        let e = self.shown;
        let least = match e.estimate {
            r if r >= 9.95 => 1.0,
            r if r >= 1.995 => 0.1,
            r if r >= 0.0995 => 0.01,
            r => last_place(r, 2),
        };
        format!("{}x", ratio_in(e.estimate, step(&e).max(least)))
    }

    /// The word that says that the inverse is written: `faster`, or empty.
    pub fn word(&self) -> &'static str {
        self.word.trim_start()
    }

    /// [`noisy`].
    pub fn noisy(&self) -> Option<String> {
        let noise = self.noise()?;
        Some(format!("{}{} \u{b1}{noise}", self.estimate(), self.word))
    }

    /// [`noisy`] without word and noise: `0.97`, `248x`.
    pub fn estimate(&self) -> String {
        let x = if self.is_inverse() { "x" } else { "" };
        format!("{}{x}", self.digits())
    }

    /// Whether the longer half of the interval is larger than the estimate.
    pub fn is_wild(&self) -> bool {
        let e = self.shown;
        let half = |[low, high]: [f64; 2]| (high - e.estimate).max(e.estimate - low);
        e.interval
            .is_some_and(|ends| half(ends) / e.estimate > WIDEST)
    }

    /// The longer half of the interval as a share of the estimate, rounded up: `5%`, `>100%`.
    pub fn noise(&self) -> Option<String> {
        let e = self.shown;
        let [low, high] = e.interval?;
        let half = (high - e.estimate).max(e.estimate - low) / e.estimate;
        Some(if half > WIDEST {
            ">100%".to_owned()
        } else {
            format!("{:.0}%", (half * 100.0 - 1e-9).ceil())
        })
    }
}

fn inverse(e: &Estimate) -> Estimate {
    Estimate {
        estimate: 1.0 / e.estimate,
        interval: e.interval.map(|[low, high]| [1.0 / high, 1.0 / low]),
        average: None,
    }
}

/// How many times faster a result below 1 is, with the digits that its interval supports: `29.9x`.
pub fn gain(e: &Estimate) -> String {
    format!("{}x", ratio_of(&inverse(e)))
}

/// A number that is not an estimate.
fn exact(estimate: f64) -> Estimate {
    Estimate {
        estimate,
        interval: Some([estimate; 2]),
        average: None,
    }
}

/// A ratio rounded to steps: two decimals below 10, three digits above, at least one digit.
fn ratio_in(value: f64, step: f64) -> String {
    if !value.is_finite() || value <= 0.0 {
        return ratio(value);
    }
    let place = |value: f64| {
        if (0.0995..9.995).contains(&value) {
            0.01
        } else {
            last_place(value, 3)
        }
    };
    // A number rounded up to 10 or 100 has one decimal less.
    let usual = place(value);
    let usual = place((value / usual).round() * usual);
    in_steps(value, usual.max(step.min(last_place(value, 1))))
}

/// A ratio with the digits that its interval supports: `1.02`, `740`, `248x faster`.
pub fn ratio_of(e: &Estimate) -> String {
    Written::of(e).ratio()
}

/// A time, with its interval if it has one: `41.2 ms (40.1 to 42.3 ms)`.
pub fn time_with(e: &Estimate) -> String {
    let head = time_of(e);
    ends_of(e).map_or(head.clone(), |ends| format!("{head} ({ends})"))
}

/// A ratio, with its interval if it has one: `3.10x (3.02-3.18)`, `248x faster (240-256)`.
pub fn ratio_with(e: &Estimate) -> String {
    Written::of(e).with_ends()
}

/// A ratio of what is better if larger, such as a throughput, with its interval if it has one:
/// `0.20x (0.19-0.21)`.
pub fn share_with(e: &Estimate) -> String {
    let in_steps = |value| ratio_in(value, step(e));
    let head = format!("{}x", in_steps(e.estimate));
    e.interval.map_or(head.clone(), |[low, high]| {
        format!("{head} ({}-{})", in_steps(low), in_steps(high))
    })
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

/// A ratio as a multiple, for an axis: `1.80x`.
pub fn multiple(value: f64) -> String {
    format!("{}x", ratio(value))
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

/// `1.06x`, `2.4x`, `640x`, `29x faster`: at most three digits, and no more than the interval
/// supports.
pub fn times(e: &Estimate) -> String {
    Written::of(e).times()
}

/// From this ratio on, a multiple is easier to read than a share.
pub const MULTIPLE: f64 = 1.5;

/// A ratio in few words: `+12 %`, `3.0x`, `2.3x faster`.
pub fn amount(e: &Estimate) -> String {
    let share = 100.0 * (e.estimate - 1.0);
    if share <= 0.0 || e.estimate >= MULTIPLE {
        return times(e);
    }
    let decimals = usize::from(share < 0.95);
    format!("+{share:.decimals$} %")
}

/// [`times`] of a number without an interval.
pub fn times_about(ratio: f64) -> String {
    times(&exact(ratio))
}

/// A ratio to the baseline's time: `1.80x native's time`, `29x faster than native`.
pub fn of_baseline(ratio: f64, baseline: &str) -> String {
    let (e, word) = written(&exact(ratio));
    match word {
        "" => format!("{}x {baseline}'s time", self::ratio(ratio)),
        word => format!("{}x{word} than {baseline}", self::ratio(e.estimate)),
    }
}

/// From this share on, the half-width of an interval is not written: its two sides are unlike.
const WIDEST: f64 = 1.0;

/// An estimate with its noise: `0.97 ±5%`, `248x faster ±5%`. The share is that of the longer side of
/// its interval, rounded up. None without an interval.
pub fn noisy(e: &Estimate) -> Option<String> {
    Written::of(e).noisy()
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
    fn two_times_share_a_unit() {
        assert_eq!(from_to(2_100.0, 6_400.0, 2), "2.1 -> 6.4 ms");
        assert_eq!(from_to(0.881, 23.7, 2), "880 ns -> 24 us");
        assert_eq!(from_to(2_103.0, 2_354.0, 3), "2.10 -> 2.35 ms");
    }

    #[test]
    fn chooses_units_that_fit() {
        assert_eq!(time(0.512), "512 ns");
        assert_eq!(time(12.04), "12.0 us");
        assert_eq!(time(41_230.0), "41.2 ms");
        assert_eq!(time(999.9), "1.00 ms");
        assert_eq!(time(2_500_000.0), "2.50 s");
        assert_eq!(extra(12.0), "+12.0 us");
        assert_eq!(time_span([900.0, 1_100.0]), "0.900 to 1.10 ms");
        assert_eq!(value(1.9e9, "B/s"), "1.90 GB/s");
        assert_eq!(value(420_400.0, "ops/s"), "420 kops/s");
        assert_eq!(value(1523.4, "scripts/h"), "1520 scripts/h");
    }

    #[test]
    fn no_figure_has_more_digits_than_its_interval_supports() {
        let e = |estimate, low, high| Estimate {
            estimate,
            interval: Some([low, high]),
            average: None,
        };
        // Microseconds: 0.00671 ns, with an interval of about half a nanosecond either way.
        assert_eq!(extra_of(&e(6.71e-6, -5e-4, 6e-4)), "0.0 ns");
        assert_eq!(extra_of(&e(-6.71e-6, -5e-4, 6e-4)), "0.0 ns");
        assert_eq!(extra_of(&e(12.04, 10.0, 14.0)), "+12.0 us");
        assert_eq!(extra_of(&e(12.04, 4.0, 20.0)), "+12 us");
        assert_eq!(extra_of(&e(-0.986, -2.05, 0.08)), "-1.0 us");
        assert_eq!(
            time_with(&e(41_230.0, 40_100.0, 42_300.0)),
            "41.2 ms (40.1 to 42.3 ms)"
        );
        assert_eq!(
            time_with(&e(41_230.0, 20_000.0, 63_000.0)),
            "41 ms (20 to 63 ms)"
        );
        assert_eq!(time_of(&e(999.96, 999.0, 1_001.0)), "1.00 ms");
        assert_eq!(
            time_of(&Estimate {
                estimate: 12.04,
                interval: None,
                average: None,
            }),
            "12.0 us"
        );
        assert_eq!(ratio_with(&e(735.0, 619.0, 922.0)), "740x (620-920)");
        assert_eq!(ratio_with(&e(1.064, 1.05, 1.08)), "1.06x (1.05-1.08)");
        assert_eq!(ratio_with(&e(1.8, 0.9, 2.9)), "1.8x (0.9-2.9)");
        assert_eq!(
            ratio_with(&e(0.0333, 0.0328, 0.0338)),
            "30.0x faster (29.6-30.5)"
        );
        assert_eq!(ratio_with(&e(0.5, 0.01, 25.0)), "0.5x (0.01-25.0)");
        assert_eq!(ratio_of(&e(1.0, 1.0, 1.0)), "1.00");
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

    #[test]
    fn a_rare_share_is_not_rounded_to_none() {
        let of = [(18, 892), (1, 50), (1, 3_000), (20, 21), (0, 5), (1, 1)];
        let texts = of.map(|(some, all)| percent_of(some, all));
        assert_eq!(texts, ["2 %", "2 %", "0.033 %", "95 %", "0 %", "100 %"]);
    }

    #[test]
    fn ratios_have_as_many_digits_as_they_need() {
        let shown = [1.064, 1.996, 9.96, 642.4, 0.5, 0.0342, 0.0996].map(times_about);
        let expected = [
            "1.06x",
            "2.0x",
            "10x",
            "642x",
            "2.0x faster",
            "29x faster",
            "10x faster",
        ];
        assert_eq!(shown, expected);
        let wide = Estimate {
            estimate: 735.0,
            interval: Some([619.0, 922.0]),
            average: None,
        };
        assert_eq!(times(&wide), "740x");
    }

    #[test]
    fn a_small_share_of_a_throughput_is_not_faster() {
        let share = Estimate {
            estimate: 0.2,
            interval: Some([0.19, 0.21]),
            average: None,
        };
        assert_eq!(share_with(&share), "0.20x (0.19-0.21)");
    }

    #[test]
    fn a_small_ratio_is_written_as_how_much_faster() {
        let e = |estimate, low, high| Estimate {
            estimate,
            interval: Some([low, high]),
            average: None,
        };
        let fast = e(0.004_03, 0.003_9, 0.004_17);
        assert_eq!(times(&fast), "248x faster");
        assert_eq!(ratio_of(&fast), "248x faster");
        assert_eq!(gain(&fast), "248x");
        assert_eq!(ratio_with(&fast), "248x faster (240-256)");
        assert_eq!(
            Written::of(&fast).ends(),
            Some(["240".to_owned(), "256".to_owned()])
        );
        assert_eq!(times(&e(0.5, 0.49, 0.51)), "2.0x faster");
        assert_eq!(times(&e(0.51, 0.5, 0.52)), "1.96x faster");
        assert_eq!(ratio_with(&e(0.95, 0.94, 0.96)), "1.05x faster (1.04-1.06)");
        // Its interval reaches 1, there is none, or it is rounded to 1.
        assert_eq!(times(&e(0.92, 0.69, 1.21)), "0.92x");
        let interval = None;
        assert_eq!(
            times(&Estimate {
                interval,
                ..exact(0.4)
            }),
            "0.40x"
        );
        assert_eq!(times(&e(0.996, 0.994, 0.998)), "1.00x");
        assert_eq!(of_baseline(0.8, "native"), "1.25x faster than native");
        assert_eq!(of_baseline(0.004_03, "native"), "248x faster than native");
        assert_eq!(of_baseline(1.8, "`a`"), "1.80x `a`'s time");
    }

    #[test]
    fn a_noisy_estimate_has_its_half_width() {
        let e = |estimate, low, high| Estimate {
            estimate,
            interval: Some([low, high]),
            average: None,
        };
        let shown = |e: Estimate| noisy(&e).expect("an interval");
        assert_eq!(shown(e(0.97, 0.925, 1.016)), "0.97 \u{b1}5%");
        assert_eq!(shown(e(1.8, 0.9, 2.9)), "1.8 \u{b1}62%");
        assert_eq!(shown(e(0.5, 0.01, 25.0)), "0.5 \u{b1}>100%");
        assert_eq!(
            shown(e(0.004_03, 0.003_9, 0.004_17)),
            "248x faster \u{b1}4%"
        );
        let interval = None;
        assert_eq!(
            noisy(&Estimate {
                interval,
                ..exact(1.0)
            }),
            None
        );
    }

    #[test]
    fn whole_numbers_are_grouped() {
        let texts = [0.0, 7.0, 999.0, 1000.4, 9412.0, 1_234_567.0].map(thousands);
        assert_eq!(texts, ["0", "7", "999", "1,000", "9,412", "1,234,567"]);
    }
}
