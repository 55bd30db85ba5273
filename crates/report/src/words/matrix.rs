//! What the numbers of the matrix mean.

use crate::{
    code_span::in_baseline,
    number::percent,
    words::{Text, text},
};

/// Two such numbers may be of different rounds, and of the baseline on other CPUs. Their quotient can be
/// far from the ratio.
pub const CENTRES: &str = "the typical one. Do not divide them: ratios compare neighbouring turns";

/// The meaning of a ratio to the baseline.
pub fn in_layer_over(baseline: &str) -> Text {
    text!("time in the layer / {}", in_baseline(baseline))
}

/// The meaning of a ratio of two runs, and of whose own change the other layers are without.
pub fn now_over_then(without: Option<&str>) -> Text {
    let then = "time now / in the old run";
    match without {
        Some(baseline) => {
            text!("{then}, {baseline}'s own change taken out of the other layers")
        }
        None => then.into(),
    }
}

/// How to read ratios that mean this, with intervals of this level.
pub fn about_ratios(ratio: &str, level: f64) -> Text {
    text!(
        "Ratio: {ratio}, with its {} interval. Above 1 is slower, whatever the unit.",
        percent(level)
    )
}

/// What the heads of columns leave out, behind a legend.
fn left_out(common: &[String]) -> Text {
    Text::joined(common.iter().map(|common| text!("; {common}")), "")
}

/// The legend of times, and what the heads of columns leave out.
pub fn of_times(common: &[String]) -> Text {
    text!(
        "time of an operation: {CENTRES}; - none{}",
        left_out(common)
    )
}

/// The legend of results.
pub fn of_results(common: &[String]) -> Text {
    text!(
        "the result in its unit: {CENTRES}; - none{}",
        left_out(common)
    )
}

/// The legend of ratios: what one means, and the signs, each with its meaning.
pub fn of_ratios(ratio: &str, signs: &[[&str; 2]], common: &[String]) -> Text {
    let signs = signs
        .iter()
        .map(|[sign, meaning]| text!("; {sign} {meaning}"));
    let signs = Text::joined(signs, "");
    text!("1.80x: {ratio}{signs}{}", left_out(common))
}

/// The lightest shade: ratios below this one.
pub fn shade_below(ratio: f64) -> Text {
    text!("<{ratio}x")
}

/// A shade of ratios from this one on, and whether it is the darkest.
pub fn shade_from(ratio: f64, is_last: bool) -> Text {
    if is_last {
        text!("{ratio}x+")
    } else {
        text!("{ratio}x")
    }
}

/// The heads of columns, and what these layers are.
pub fn explained(heads: &str, brief: &str) -> Text {
    text!("{heads} ({brief})")
}

/// Options that all layers of a kind have, and the heads of columns leave out.
pub fn every_has(kind: &str, options: &str) -> Text {
    text!("every {kind} has {options}")
}
