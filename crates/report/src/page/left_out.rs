//! What was not measured, in sentences.

use super::Item;
use crate::{
    LeftOut,
    code_span::code,
    number::{self, count},
};

/// Points of a layer that are missing for the same reason are one item.
pub fn items<'a>(all: &'a [LeftOut]) -> Vec<Item<'a>> {
    let mut alike: Vec<(&'a LeftOut, Vec<String>)> = Vec::new();
    for left in all {
        let same = alike.iter_mut().find(|(other, _)| {
            (&other.layer, &other.reason, &other.hint) == (&left.layer, &left.reason, &left.hint)
        });
        match same {
            Some((_, points)) => points.extend(left.point.as_deref().map(code)),
            None => alike.push((left, left.point.as_deref().map(code).into_iter().collect())),
        }
    }
    let item = |(left, points): (&'a LeftOut, Vec<String>)| {
        let points = match points.as_slice() {
            [] => String::new(),
            points => format!(" ({})", number::list(points)),
        };
        // The reason first: a cell may end before the last of many points.
        let text = format!("{}: {}{points}", code(&left.layer), left.reason);
        Item {
            layer: &left.layer,
            hint: left.hint.as_deref(),
            ..Item::new(text)
        }
    };
    alike.into_iter().map(item).collect()
}

/// What was left out for each reason, the hint last: `a, b (2 points each): what is missing; hint:
/// COMMAND`.
pub fn by_reason(all: &[LeftOut]) -> Vec<String> {
    type WithLayers<'a> = Vec<(&'a str, usize)>;
    let mut reasons: Vec<(&LeftOut, WithLayers)> = Vec::new();
    for left in all {
        let same = |(other, _): &(&LeftOut, WithLayers)| {
            (&other.reason, &other.hint) == (&left.reason, &left.hint)
        };
        let at = reasons.iter().position(same).unwrap_or_else(|| {
            reasons.push((left, Vec::new()));
            reasons.len() - 1
        });
        let layers = &mut reasons[at].1;
        let point = usize::from(left.point.is_some());
        match layers.iter_mut().find(|(name, _)| *name == left.layer) {
            Some((_, points)) => *points += point,
            None => layers.push((&left.layer, point)),
        }
    }
    let said = |(left, layers): &(&LeftOut, WithLayers)| {
        let first = layers.first().map_or(0, |(_, points)| *points);
        let is_equal = layers.len() > 1 && first > 0 && layers.iter().all(|(_, n)| *n == first);
        let named = layers.iter().map(|(name, points)| match points {
            n if is_equal || *n == 0 => (*name).to_owned(),
            n => format!("{name} ({})", count(*n, "operation")),
        });
        let mut named = named.collect::<Vec<_>>().join(", ");
        if is_equal {
            named = format!("{named} ({} each)", count(first, "operation"));
        }
        let hint = left.hint.as_ref().map(|hint| format!("; hint: {hint}"));
        let reason = layermark_model::brief(&left.reason);
        format!("{named}: {reason}{}", hint.unwrap_or_default())
    };
    reasons.iter().map(said).collect()
}
