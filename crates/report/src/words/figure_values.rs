//! Values of figures as text, in their units.

use std::collections::{BTreeMap, BTreeSet};

use layermark_model::{Figure, FigureUnit, FigureValue, format_size};

use crate::{
    code_span::code,
    number::{self, sig3},
    types::ResultRow,
};

/// Converts seconds, microseconds, bytes, bytes per second and shares to the figure's unit.
pub fn in_unit(unit: FigureUnit, value: f64) -> f64 {
    match unit {
        FigureUnit::Seconds | FigureUnit::Megabytes => value / 1e6,
        FigureUnit::Megabits => value * 8.0 / 1e6,
        FigureUnit::Mebibytes => value / f64::from(1 << 20),
        FigureUnit::Percent | FigureUnit::WholePercent => 100.0 * value,
        _ => value,
    }
}

/// A value as text; empty if absent.
pub fn value(unit: FigureUnit, value: Option<&FigureValue>) -> String {
    match value {
        None => String::new(),
        Some(FigureValue::Number(value)) => number(unit, *value),
        Some(FigureValue::Text(text)) if unit == FigureUnit::Name => code(text),
        Some(FigureValue::Text(text)) => text.clone(),
        Some(FigureValue::List(values)) if values.is_empty() && unit == FigureUnit::Cpus => {
            "free".into()
        }
        Some(FigureValue::Names(names)) => names.join(", "),
        Some(FigureValue::List(values)) => {
            let each: Vec<String> = values.iter().map(|v| number(unit, *v)).collect();
            each.join(",")
        }
    }
}

/// Whether a number of this unit is written without it, and the head of its column has it.
pub fn is_bare(unit: FigureUnit) -> bool {
    match unit {
        FigureUnit::Whole
        | FigureUnit::Megabits
        | FigureUnit::WholePercent
        | FigureUnit::Cpus
        | FigureUnit::Number
        | FigureUnit::Microseconds
        | FigureUnit::Megabytes
        | FigureUnit::Mebibytes
        | FigureUnit::Percent
        | FigureUnit::Text
        | FigureUnit::Name => true,
        // The number of a share is not in percent.
        FigureUnit::Time
        | FigureUnit::Seconds
        | FigureUnit::Size
        | FigureUnit::Kib
        | FigureUnit::Share => false,
    }
}

fn number(unit: FigureUnit, value: f64) -> String {
    match unit {
        FigureUnit::Whole | FigureUnit::Megabits | FigureUnit::WholePercent | FigureUnit::Cpus => {
            format!("{value:.0}")
        }
        FigureUnit::Time => number::time(value),
        FigureUnit::Seconds => number::time(value * 1e6),
        FigureUnit::Size => format_size(value as u64),
        FigureUnit::Kib => format!("{}K", (value as u64 + 512) / 1024),
        FigureUnit::Share => format!("{:.1}", (value * 1000.0).floor() / 10.0),
        FigureUnit::Number
        | FigureUnit::Microseconds
        | FigureUnit::Megabytes
        | FigureUnit::Mebibytes
        | FigureUnit::Percent
        | FigureUnit::Text
        | FigureUnit::Name => sig3(value),
    }
}

/// The texts of values that are shown alike only once, in their order.
pub fn different<'a>(
    unit: FigureUnit,
    values: impl Iterator<Item = &'a FigureValue>,
) -> Vec<String> {
    let texts: BTreeSet<String> = values.map(|v| value(unit, Some(v))).collect();
    texts.into_iter().collect()
}

/// A declared text with the values of figures in place of their names.
pub fn with_figures(
    text: &str,
    figures: &[Figure],
    values: &BTreeMap<String, FigureValue>,
) -> String {
    fill(text, |name| {
        let figure = figures.iter().find(|f| f.name == name)?;
        Some(value(figure.unit, values.get(name)))
    })
}

/// An average rate, with the relative width of the typical one's interval. `None` without one.
pub fn in_interval(value: f64, row: &ResultRow) -> Option<String> {
    let by = value / row.value?;
    let ends = row.interval?.map(|end| end * by);
    Some(number::ranged(value, Some(ends), sig3))
}

/// Replaces each `{name}` in a text. Unknown names stay as they are.
pub fn fill(text: &str, with: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let Some((name, end)) = after.split_once('}') else {
            filled.push('{');
            rest = after;
            continue;
        };
        filled.push_str(&with(name).unwrap_or_else(|| format!("{{{name}}}")));
        rest = end;
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_braces_are_replaced_and_others_stay() {
        let with = |name: &str| (name == "lost").then(|| "7 {sent}".to_owned());
        assert_eq!(fill("{lost} of {sent}", with), "7 {sent} of {sent}");
        assert_eq!(fill("no end: {lost", with), "no end: {lost");
    }

    #[test]
    fn values_are_written_in_their_unit() {
        let text = |unit, v: f64| value(unit, Some(&FigureValue::Number(in_unit(unit, v))));
        assert_eq!(text(FigureUnit::Megabits, 1e9), "8000");
        assert_eq!(text(FigureUnit::Percent, 0.25), "25.0");
        assert_eq!(text(FigureUnit::Share, 0.98799), "98.7");
        assert_eq!(text(FigureUnit::Kib, 65536.0), "64K");
        assert_eq!(text(FigureUnit::Seconds, 1_500_000.0), "1.50 s");
        let cpus = |cpus: &[f64]| value(FigureUnit::Cpus, Some(&FigureValue::List(cpus.into())));
        assert_eq!(
            (cpus(&[0.0, 2.0]), cpus(&[])),
            ("0,2".into(), "free".into())
        );
    }
}
