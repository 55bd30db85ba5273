//! What a workload says of its points: this version says the same of stored ones.

use layermark_model::{CPUS, Meaning};
use layermark_probe::workloads;
use layermark_testkit::fixtures;

/// Without what is added when settings are expanded, and without words and figures, which later versions say
/// in another way.
fn own(said: &Meaning) -> Meaning {
    let mut said = said.clone();
    said.alternatives.clear();
    said.figures = None;
    for part in &mut said.parts {
        part.text.clear();
    }
    said.axes.retain(|axis| axis.key != CPUS);
    said.parts.retain(|part| part.key != CPUS);
    said
}

#[test]
fn stored_points_mean_what_they_meant() {
    let (mut points, mut kinds) = (0, std::collections::BTreeSet::new());
    for fixture in fixtures::ALL {
        for point in &fixture.read().run.points {
            let says = workloads::meaning(point);
            assert_eq!(
                own(&says),
                own(&point.meaning),
                "{}: {}",
                fixture.name,
                point.label
            );
            points += 1;
            kinds.insert(point.workload.clone());
        }
    }
    assert!(
        points > 100 && kinds.len() > 10,
        "{points} points of {kinds:?}"
    );
}
