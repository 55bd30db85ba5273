//! Points that are skipped in a layer of a plan, and why.

use std::collections::BTreeMap;

use layermark_layers::{OtherSide, Programs};
use layermark_model::{LayerRun, NearEnd, Point, Spec};

use crate::{Catalog, cpus};

/// What the points of a plan need from a layer.
pub(crate) struct Work {
    points: Vec<PointNeeds>,
}

struct PointNeeds {
    label: String,
    near: NearEnd,
    programs: bool,
    cpus: Option<u32>,
}

impl Work {
    pub(crate) fn of(points: &[Point]) -> Self {
        let needs = |point: &Point| PointNeeds {
            label: point.label.clone(),
            near: point.needs.near,
            programs: point.needs.programs,
            cpus: point.meaning.cpus(),
        };
        Self {
            points: points.iter().map(needs).collect(),
        }
    }

    /// Whether some points have two ends.
    pub(crate) fn have_two_ends(&self) -> bool {
        self.points.iter().any(|p| p.near.has_two())
    }

    /// Why a layer is for none of the points, if all are on both sides of a directory.
    pub(crate) fn not_on_both_sides(&self, spec: &Spec, catalog: Catalog) -> Option<String> {
        let all = !self.points.is_empty() && self.points.iter().all(|p| p.near.is_other_side());
        one_side(spec, catalog).filter(|_| all)
    }

    /// Whether some points have two ends, apart from those with these labels.
    pub(crate) fn has_two_ends_but_for(&self, skips: &BTreeMap<String, String>) -> bool {
        let mut left = self.points.iter();
        left.any(|p| p.near.has_two() && !skips.contains_key(&p.label))
    }

    /// Points that are skipped in a layer, by label, with the reason.
    pub(crate) fn skipped_in(&self, spec: &Spec, catalog: Catalog) -> BTreeMap<String, String> {
        let ends = self.skipped_ends(spec, catalog);
        let sides = one_side(spec, catalog);
        let cpus = cpus::fixed(spec);
        let programs = self.no_programs(spec, catalog);
        let why = |point: &PointNeeds| {
            if point.near.is_other_side() && sides.is_some() {
                return sides.clone();
            }
            if let Some((_, why)) = ends
                .as_ref()
                .filter(|(two, _)| *two == point.near.has_two() && !point.near.is_other_side())
            {
                return Some(why.clone());
            }
            if point.programs && programs.is_some() {
                return programs.clone();
            }
            let has = cpus.filter(|has| point.cpus.is_some_and(|asked| asked > *has))?;
            Some(format!(
                "it asks for more CPUs than `{spec}` has, {has}: leave cpus={has} out"
            ))
        };
        let skipped = self
            .points
            .iter()
            .filter_map(|p| Some((p.label.clone(), why(p)?)));
        skipped.collect()
    }

    /// Why a layer has no programs for the points that start some. Only in a plan that has other points.
    fn no_programs(&self, spec: &Spec, catalog: Catalog) -> Option<String> {
        let some = self.points.iter().any(|p| !p.programs);
        match catalog.describe(spec)?.programs {
            Programs::None(why) if some => Some(why.to_owned()),
            _ => None,
        }
    }

    /// Which kind of work a layer does not suit: with one end (`false`) or two (`true`), and why.
    /// Only in a plan that has both kinds: in another plan the layer was named for the only kind
    /// there is.
    fn skipped_ends(&self, spec: &Spec, catalog: Catalog) -> Option<(bool, String)> {
        let mixed = self.have_two_ends() && self.points.iter().any(|p| !p.near.has_two());
        if !mixed || spec.is_native() {
            return None;
        }
        if spec.near.is_some() {
            let (_, far) = spec.ends();
            let why =
                format!("it has one end, and this is a path: name `{far}` too, for its files");
            return Some((false, why));
        }
        no_network(spec, catalog).map(|why| (true, why))
    }
}

/// Why a layer is not for work on both sides of its directory.
fn one_side(spec: &Spec, catalog: Catalog) -> Option<String> {
    let layer = catalog.describe(spec)?;
    let side = match spec.near {
        None => layer.other_side,
        Some(_) => OtherSide::NONE,
    };
    if let OtherSide::No(why) = side {
        return Some(why.into());
    }
    layer.linked(spec, None).err().map(|e| e.to_string())
}

/// Why a layer that is named alone cannot be reached through a network of its own.
fn no_network(spec: &Spec, catalog: Catalog) -> Option<String> {
    let layer = catalog.describe(spec)?;
    if !layer.path.has_network() {
        let why = "it is given no network of its own: both ends would meet on a loopback, as without a layer";
        let other = layer.path.given_network(spec);
        let other = other.map_or_else(String::new, |spec| format!("; {spec} has one"));
        return Some(format!("{why}{other}"));
    }
    layer.linked(spec, None).err().map(|e| e.to_string())
}

/// Notes for the user, shown before anything is measured.
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
        let needs = |(label, two_ends): &(&str, bool)| PointNeeds {
            label: (*label).into(),
            near: match (two_ends, label.starts_with("seen")) {
                (false, _) => NearEnd::None,
                (true, false) => NearEnd::Path,
                (true, true) => NearEnd::OtherSide,
            },
            programs: label.starts_with("git"),
            cpus: Some(2).filter(|_| label.ends_with("CPUs")),
        };
        let work = Work {
            points: labels.iter().map(needs).collect(),
        };
        let skips = work.skipped_in(&layer.parse().unwrap(), Catalog::default());
        assert!(skips.values().all(|why| why.len() > 20), "{skips:?}");
        skips.into_keys().collect()
    }

    #[test]
    fn a_guest_that_was_given_fewer_cpus_leaves_out_what_needs_more() {
        let points = [("read", false), ("read, 2 CPUs", false)];
        assert_eq!(skipped(&points, "vm:cpus=1"), ["read, 2 CPUs"]);
        for layer in ["vm:cpus=2", "vm", "tmpfs"] {
            assert!(skipped(&points, layer).is_empty(), "{layer}");
        }
    }

    #[test]
    fn a_guest_or_container_without_programs_leaves_out_what_starts_some() {
        let mixed = [("git status", false), ("read", false)];
        assert_eq!(skipped(&mixed, "vm:share=virtiofs"), ["git status"]);
        assert!(skipped(&mixed, "vm:share=virtiofs,root=host").is_empty());
        assert_eq!(
            skipped(&mixed, "container:podman,at=volume"),
            ["git status"]
        );
        assert!(skipped(&mixed, "container:crun,rootfs=/srv/root").is_empty());
        // A plan of nothing else names the layer for it.
        assert!(skipped(&mixed[..1], "vm:share=virtiofs").is_empty());
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
            ("container:podman", &["rr"]),
            ("container:podman,network=slirp4netns", &[]),
            ("container:podman,network=bridge", &[]),
            ("native..netns", &["read"]),
            ("vm..vm", &["read"]),
            ("native..native", &[]),
        ] {
            assert_eq!(skipped(&mixed, layer), left_out, "{layer}");
        }
    }

    #[test]
    fn work_on_both_sides_is_for_directories_that_have_two() {
        let (seen, mixed) = ([("seen", true)], [("seen", true), ("read", false)]);
        for (layer, left_out) in [
            ("native", &[][..]),
            ("bind", &[]),
            ("fuse:bindfs", &[]),
            ("sshfs", &[]),
            ("rclone", &[]),
            ("vm:share=9p", &[]),
            ("bind:ro", &["seen"]),
            ("fuse:gocryptfs", &["seen"]),
            ("tmpfs", &["seen"]),
            ("vm", &["seen"]),
            ("vm:share=9p,backend=user", &["seen"]),
            ("container:podman", &["seen"]),
        ] {
            assert_eq!(skipped(&seen, layer), left_out, "{layer}");
            assert_eq!(skipped(&mixed, layer), left_out, "{layer}");
        }
        assert_eq!(skipped(&mixed, "native..netns"), ["read", "seen"]);
    }

    #[test]
    fn a_plan_of_one_kind_leaves_out_nothing() {
        for layer in ["tmpfs", "native..netns", "vm:backend=user"] {
            assert!(skipped(&[("rr", true)], layer).is_empty(), "{layer}");
        }
        assert!(skipped(&[("read", false)], "tmpfs").is_empty());
    }
}
