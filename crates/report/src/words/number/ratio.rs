//! Formats ratios: digits that their intervals support, and the word where the inverse is written.

use super::{in_steps, last_place, sig3, step};
use crate::types::{Estimate, ResultRow, Verdict};

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

/// A ratio as a multiple, for an axis: `1.80x`.
pub fn multiple(value: f64) -> String {
    format!("{}x", ratio(value))
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
    pub(super) fn of(e: &Estimate) -> Self {
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
pub(super) fn exact(estimate: f64) -> Estimate {
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
