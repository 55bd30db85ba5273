//! Whether an estimate says what a layer costs an operation.

use crate::{
    number,
    statements::estimate_checks::EstimateSaid,
    types::{Estimate, EstimateCheck},
    words::{Names, Text, Words, text},
};

impl Words for EstimateSaid<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Explained(row, difference) => text!(
                "{}: explained within {}: {}, {}",
                Text::code(&row.layer),
                number::percent(row.within),
                ratios(row),
                apart(difference)
            ),
            Self::NotExplained(row, difference) => text!(
                "{}: not explained, by {}: {}",
                Text::code(&row.layer),
                apart(difference),
                ratios(row)
            ),
            Self::Undecided(row, difference) => text!(
                "{}: not decided whether it is explained within {}: {}, {}",
                Text::code(&row.layer),
                number::percent(row.within),
                ratios(row),
                apart(difference)
            ),
            Self::NoRatio(row) => text!(
                "{}: not decided: {} no ratio that is trusted",
                Text::code(&row.layer),
                match (row.estimate_ratio, row.measured_ratio) {
                    (None, None) => "neither the program nor its estimate has",
                    (Some(_), None) => "the program has",
                    _ => "the estimate has",
                }
            ),
        }
    }
}

/// Both ratios.
fn ratios(row: &EstimateCheck) -> Text {
    let known =
        |ratio: &Option<Estimate>| ratio.as_ref().map(number::ratio_with).unwrap_or_default();
    let (estimate, measured) = (known(&row.estimate_ratio), known(&row.measured_ratio));
    text!("estimated {estimate}, measured {measured}")
}

/// A difference with its sign, and its interval if it has one: `+22 % (+18 to +26 %)`.
pub fn apart(difference: &Estimate) -> Text {
    let head = signed(difference.estimate);
    match difference.interval {
        Some([low, high]) => text!("{head} % ({} to {} %)", signed(low), signed(high)),
        None => text!("{head} % (no interval)"),
    }
}

/// A share in per cent with its sign, below 10 % with one decimal: `+22`, `-1.4`, `0`.
fn signed(share: f64) -> String {
    let percent = share * 100.0;
    let digits = usize::from(percent.abs() < 9.95);
    let text = format!("{percent:+.digits$}");
    match text.as_str() {
        "+0.0" | "-0.0" => "0".into(),
        _ => text,
    }
}
