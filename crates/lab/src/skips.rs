//! Points that are not done in a layer of a plan, and why.

use std::collections::BTreeMap;

use layermark_model::{LayerRun, Point, Spec};

use crate::{Catalog, LabError};

/// The points of a plan by the number of their ends.
pub(crate) struct Work {
    /// Label of each point, and whether it has two ends.
    points: Vec<(String, bool)>,
}

impl Work {
    pub(crate) fn of(points: &[Point], catalog: Catalog) -> Result<Self, LabError> {
        let ends = |point: &Point| {
            let two = catalog.workload(&point.workload)?.has_two_ends(point);
            Ok((point.label.clone(), two))
        };
        let points = points.iter().map(ends);
        Ok(Self {
            points: points.collect::<Result<_, LabError>>()?,
        })
    }

    /// Whether some of it has two ends.
    pub(crate) fn have_two_ends(&self) -> bool {
        self.points.iter().any(|(_, two)| *two)
    }

    /// The same of what is left without the points of these labels.
    pub(crate) fn has_two_ends_but_for(&self, skips: &BTreeMap<String, String>) -> bool {
        let mut left = self.points.iter();
        left.any(|(label, two)| *two && !skips.contains_key(label))
    }

    /// What is not done in a layer other than the baseline, by its label, with the reason. Only a plan that
    /// has work of both kinds leaves any out: in another one a layer was named for the only kind there is.
    pub(crate) fn skipped_in(&self, spec: &Spec, catalog: Catalog) -> BTreeMap<String, String> {
        let mixed = self.have_two_ends() && self.points.iter().any(|(_, two)| !two);
        if !mixed || spec.is_native() {
            return BTreeMap::new();
        }
        let (skipped, why) = if spec.near.is_some() {
            let (_, far) = spec.ends();
            let why =
                format!("it has one end, and this is a path: name `{far}` too, for its files");
            (false, why)
        } else if let Some(why) = no_network(spec, catalog) {
            (true, why)
        } else {
            return BTreeMap::new();
        };
        let skipped = self.points.iter().filter(|(_, two)| *two == skipped);
        skipped
            .map(|(label, _)| (label.clone(), why.clone()))
            .collect()
    }
}

/// Why a layer that is named alone cannot be reached through a network of its own.
fn no_network(spec: &Spec, catalog: Catalog) -> Option<String> {
    let layer = catalog.layer(&spec.layer)?;
    if layer.linked(spec, Some("any")).is_err() {
        return Some(
            "it has no network of its own: both ends would meet on a loopback, as native's do"
                .into(),
        );
    }
    layer.linked(spec, None).err().map(|e| e.to_string())
}

/// For the user, before anything is measured.
pub(crate) fn notes(layers: &[LayerRun]) -> Vec<String> {
    let mut notes = Vec::new();
    for layer in layers {
        let mut by_reason = BTreeMap::<&String, Vec<&str>>::new();
        for (label, why) in &layer.skips {
            by_reason.entry(why).or_default().push(label);
        }
        for (why, labels) in by_reason {
            let labels = labels.join("`, `");
            notes.push(format!("`{labels}` is not done in {}: {why}", layer.name));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(labels: &[(&str, bool)], layer: &str) -> Vec<String> {
        let points = labels.iter().map(|(label, two)| ((*label).into(), *two));
        let work = Work {
            points: points.collect(),
        };
        let skips = work.skipped_in(&layer.parse().unwrap(), Catalog::default());
        assert!(skips.values().all(|why| why.len() > 20), "{skips:?}");
        skips.into_keys().collect()
    }

    #[test]
    fn a_plan_of_both_kinds_leaves_out_what_a_layer_is_not_for() {
        let mixed = [("rr", true), ("read", false)];
        for (layer, left_out) in [
            ("native", &[][..]),
            ("netns", &[]),
            ("vm:nic=e1000", &[]),
            ("vm", &[]),
            ("tmpfs", &["rr"]),
            ("dir:/tmp", &["rr"]),
            ("vm:backend=user", &["rr"]),
            ("native..netns", &["read"]),
            ("vm..vm", &["read"]),
            ("native..native", &[]),
        ] {
            assert_eq!(skipped(&mixed, layer), left_out, "{layer}");
        }
    }

    #[test]
    fn a_plan_of_one_kind_leaves_out_nothing() {
        for layer in ["tmpfs", "native..netns", "vm:backend=user"] {
            assert!(skipped(&[("rr", true)], layer).is_empty(), "{layer}");
        }
        assert!(skipped(&[("read", false)], "tmpfs").is_empty());
    }
}
