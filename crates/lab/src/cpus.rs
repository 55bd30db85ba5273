//! The number of CPUs that points request.

use std::thread::available_parallelism;

use layermark_model::{LayerRun, Point, Spec};

use crate::Catalog;

/// The option of a layer that sets its number of CPUs.
const OPTION: &str = "cpus";

/// The requested number of CPUs, at most those of this machine.
pub(crate) fn at_hand(asked: u32) -> u32 {
    asked.min(available_parallelism().map_or(1, |n| n.get() as u32))
}

/// The number of CPUs that the user has given a layer; for a path, the smaller of its two ends.
pub(crate) fn fixed(spec: &Spec) -> Option<u32> {
    let (near, far) = spec.ends();
    let of = |spec: &Spec| spec.options.get(OPTION)?.parse::<u32>().ok();
    [of(&near), of(&far)].into_iter().flatten().min()
}

/// The layer to build for these points: a guest is booted with the largest number of CPUs that one
/// of them requests.
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

/// Notes for the user about points that cannot show scaling on this machine.
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
