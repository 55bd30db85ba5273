//! The meaning of invented points, from their workloads.

use layermark_model::{Meaning, Settings};
use layermark_probe::{Purpose, workloads};
use serde_json::{Map, Value};

/// The meaning of a point with these parameters; the others have the workload's defaults.
///
/// # Panics
///
/// If the workload or its `op` does not exist.
pub fn of(workload: &str, given: &Map<String, Value>) -> Meaning {
    let workload = workloads::find(workload).expect("a workload");
    let settings = Settings {
        workload: workload.id().into(),
        label: None,
        params: given
            .clone()
            .into_iter()
            .filter(|(k, _)| k == "op")
            .collect(),
    };
    let points = workload.points(&settings, 1.0).expect("an operation");
    let mut point = points.into_iter().next().expect("a point");
    for (key, value) in given {
        // Invented points of all workloads have some parameters in common.
        if let Some(own) = point.params.get_mut(key) {
            own.clone_from(value);
        }
    }
    let read = workload.read(&point, Purpose::Report);
    read.expect("a meaning").meaning
}
