//! Numbers of CPUs that points ask for.

use std::thread::available_parallelism;

use layermark_model::{LayerRun, Point, Spec};

use crate::Catalog;

/// A layer whose CPUs can be set has this option.
const OPTION: &str = "cpus";

/// As many of the CPUs asked for as this machine has.
pub(crate) fn at_hand(asked: u32) -> u32 {
    asked.min(available_parallelism().map_or(1, |n| n.get() as u32))
}

/// How many CPUs the user has given a layer; of a path, the end with fewer.
pub(crate) fn fixed(spec: &Spec) -> Option<u32> {
    let (near, far) = spec.ends();
    let of = |spec: &Spec| spec.options.get(OPTION)?.parse::<u32>().ok();
    [of(&near), of(&far)].into_iter().flatten().min()
}

/// What is built of a layer for these points: a guest is booted with as many CPUs as one of them asks for.
pub(crate) fn for_points(layer: &LayerRun, points: &[Point], catalog: Catalog) -> Spec {
    let done = points
        .iter()
        .filter(|p| !layer.skips.contains_key(&p.label));
    let most = done.filter_map(|p| p.meaning.cpus()).max();
    match most {
        Some(most) => with(&layer.spec, most, catalog),
        None => layer.spec.clone(),
    }
}

fn with(spec: &Spec, most: u32, catalog: Catalog) -> Spec {
    let mut spec = spec.clone();
    spec.near = spec.near.map(|near| Box::new(with(&near, most, catalog)));
    let layer = catalog.layer(&spec.layer);
    if layer.is_some_and(|l| l.options().iter().any(|o| o.name == OPTION)) {
        let given = spec.options.get(OPTION);
        if given.is_none_or(|given| given == "auto") {
            spec.options.insert(OPTION.into(), most.to_string());
        }
    }
    spec
}

/// For the user: what cannot show how anything scales here.
pub(crate) fn notes(points: &[Point]) -> Vec<String> {
    let more = points.iter().filter_map(|point| {
        let asked = point.meaning.cpus()?;
        let there = at_hand(asked);
        let text = format!(
            "`{}` asks for {asked} CPUs, and this machine has {there}: measured, and not shown as scaling",
            point.label
        );
        (there < asked).then_some(text)
    });
    more.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_has_as_many_as_the_points_want_unless_its_user_says_so() {
        let built = |text: &str| with(&text.parse().unwrap(), 4, Catalog::default()).to_string();
        for (text, expected) in [
            ("vm", "vm:cpus=4"),
            ("vm:cpus=auto", "vm:cpus=4"),
            ("vm:nic=e1000,cpus=1", "vm:cpus=1,nic=e1000"),
            ("vm..vm:cpus=2", "vm:cpus=4..vm:cpus=2"),
            ("netns..vm", "netns..vm:cpus=4"),
            ("tmpfs", "tmpfs"),
        ] {
            assert_eq!(built(text), expected);
        }
        let fixed = |text: &str| fixed(&text.parse().unwrap());
        assert_eq!(fixed("vm:cpus=4..vm:cpus=2"), Some(2));
        assert_eq!((fixed("vm"), fixed("tmpfs")), (None, None));
    }
}
