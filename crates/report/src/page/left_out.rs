//! What was not measured.

use super::Item;
use crate::{LeftOut, group, words::left_out as words};

/// Points of a layer that are missing for the same reason are one item.
pub fn items<'a>(all: &'a [LeftOut]) -> Vec<Item<'a>> {
    let alike = group::by(all, |left| (&left.layer, &left.reason, &left.hint));
    let alike = alike.into_iter().map(|(_, alike)| {
        let points = alike.iter().filter_map(|left| left.point.as_deref());
        (alike[0], points.collect())
    });
    let item = |(left, points): (&'a LeftOut, Vec<&'a str>)| Item {
        layer: &left.layer,
        hint: left.hint.as_deref(),
        ..Item::new(String::from(words::of_layer(left, &points)))
    };
    alike.map(item).collect()
}

/// What was left out for each reason, the hint last: `a, b (2 points each): what is missing; hint:
/// COMMAND`.
pub fn by_reason(all: &[LeftOut]) -> Vec<String> {
    let reasons = group::by(all, |left| (&left.reason, &left.hint));
    let said = reasons.into_iter().map(|(_, alike)| {
        let layers = group::by(&alike, |left| left.layer.as_str());
        let points = |of: Vec<&&LeftOut>| of.iter().filter(|left| left.point.is_some()).count();
        let layers = layers.into_iter().map(|(layer, of)| (layer, points(of)));
        words::by_reason(alike[0], &layers.collect::<Vec<_>>()).into()
    });
    said.collect()
}
