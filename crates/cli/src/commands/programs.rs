//! Guards against programs in a plan or store that another user could have written.

use std::collections::BTreeSet;

use layermark_model::{Plan, Point, Spec};
use layermark_probe::workloads;

use crate::failure::Failure;

/// How many programs a message names.
const NAMED: usize = 8;

/// Refuses points and layers that run programs, and names the programs. `what` is their source, which
/// other users can change.
pub fn refuse<'a>(
    what: &str,
    points: &[Point],
    layers: impl Iterator<Item = &'a Spec>,
) -> Result<(), Failure> {
    let all = points.iter().flat_map(|point| {
        let workload = workloads::find(&point.workload);
        workload.map(|w| w.programs(point)).unwrap_or_default()
    });
    let commands = layers.flat_map(|spec| {
        let (near, far) = spec.ends();
        [near, far].into_iter().filter_map(|spec| {
            let layer = layermark_layers::find(&spec.layer)?;
            layer.command(&spec)
        })
    });
    let all: BTreeSet<String> = all
        .chain(commands)
        .map(|text| format!("`{text}`"))
        .collect();
    if all.is_empty() {
        return Ok(());
    }
    let named: Vec<&str> = all.iter().take(NAMED).map(String::as_str).collect();
    let more = match all.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!(
        "{what} can be changed by other users, and runs programs: {}{more}",
        named.join(", ")
    );
    Err(Failure::usage(text).hint("read them; if you trust them, say: --allow-programs"))
}

/// The points of a plan; none if it cannot be expanded, which is reported later with the reason.
pub fn points(plan: &Plan) -> Vec<Point> {
    let points = plan.work.iter().map(|settings| {
        let workload = workloads::find(&settings.workload)?;
        workloads::points(workload, settings, plan.scale).ok()
    });
    points.flatten().flatten().collect()
}
