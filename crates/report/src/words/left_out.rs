//! Why work was not measured.

use layermark_model::brief;

use crate::{
    number::{count, list},
    statements::left_out::{Hint, Reason},
    types::LeftOut,
    words::{Names, Text, Words, text},
};

impl Words for Reason<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::Reported(why) => (*why).into(),
            Self::NotSetUp => "it could not be set up".into(),
            Self::Failed => "it failed".into(),
            Self::ReadOnly => "the layer is read-only".into(),
            Self::NeverCold => "what lies in memory cannot be cold".into(),
            Self::OfBaseline(why) => {
                let (name, why) = (names.baseline(), why.words(names));
                text!("{name}, the baseline, does not do it: {why}")
            }
            Self::NobodyElse => "no other layer does it, so there is nothing to compare".into(),
            Self::Budget => "the budget was spent before it was measured".into(),
            Self::Ended => "the run ended before it was measured".into(),
        }
    }
}

/// What was left out in a layer: some points, or all of it.
pub fn of_layer(left: &LeftOut, points: &[&str]) -> Text {
    let points: Vec<Text> = points.iter().map(|point| Text::code(point)).collect();
    let points = (!points.is_empty()).then(|| text!(" ({})", list(&points)));
    let points = points.unwrap_or_default();
    // The reason first: a cell may end before the last of many points.
    text!("{}: {}{points}", Text::code(&left.layer), left.reason)
}

/// The reason, and what to do about it.
pub fn with_hint(left: &LeftOut) -> Text {
    match &left.hint {
        Some(hint) => text!("{}; hint: {hint}", left.reason),
        None => left.reason.as_str().into(),
    }
}

/// What was left out for a reason, with the number of points in each layer, and the hint last: `a, b (2 operations each):
/// what is missing; hint: COMMAND`.
pub fn by_reason(left: &LeftOut, layers: &[(&str, usize)]) -> Text {
    let first = layers.first().map_or(0, |(_, points)| *points);
    let is_equal = layers.len() > 1 && first > 0 && layers.iter().all(|(_, n)| *n == first);
    let named = layers.iter().map(|(name, points)| match points {
        n if is_equal || *n == 0 => Text::from(*name),
        n => text!("{name} ({})", count(*n, "operation")),
    });
    let named = Text::joined(named, ", ");
    let each = is_equal.then(|| text!(" ({} each)", count(first, "operation")));
    let hint = left.hint.as_ref().map(|hint| text!("; hint: {hint}"));
    text!(
        "{named}{}: {}{}",
        each.unwrap_or_default(),
        brief(&left.reason),
        hint.unwrap_or_default()
    )
}

impl Words for Hint<'_> {
    fn words(&self, _: &Names) -> Text {
        let Some(seconds) = self.enough_s else {
            return self.own.unwrap_or_default().into();
        };
        let run = self.store.find(self.run);
        let command = text!("layermark run --replay {run} --budget {seconds}s");
        match self.own {
            None => command,
            Some(own) => text!("{own}, or give it more time: {command}"),
        }
    }
}
