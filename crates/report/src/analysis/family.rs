//! Points that differ in one size only, such as the record's: what a line is drawn through.

use std::collections::BTreeMap;

use layermark_model::{Point, Run};
use serde_json::{Map, Value};

use crate::analysis::points;

/// Points that are equal but for one parameter, in the order of that parameter.
pub struct Family {
    /// Of all of them: without label and without the parameter.
    pub common: Point,
    /// The parameter's value and the point's index in the run, going up.
    pub steps: Vec<(u64, usize)>,
}

impl Family {
    /// What the points share, in words: `read, 64M file, warm`.
    pub fn describe(&self) -> String {
        points::describe(&self.common)
    }
}

/// Families over the parameter `key` (above 0), in the plan's order.
pub fn families(run: &Run, key: &str) -> Vec<Family> {
    let mut found: Vec<Family> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (at, point) in run.points.iter().enumerate() {
        let size = point.number(key);
        if size == 0 {
            continue;
        }
        let mut common = point.clone();
        common.label.clear();
        common.params.remove(key);
        // How it was written back afterwards changes nothing of what the clock saw.
        common.params.remove("no_debt");
        let number = *known.entry(common.key()).or_insert_with(|| {
            found.push(Family {
                common,
                steps: Vec::new(),
            });
            found.len() - 1
        });
        found[number].steps.push((size, at));
    }
    for family in &mut found {
        family.steps.sort_unstable();
    }
    found
}

/// A point's parameters as a result has them, without `key`.
pub fn params(family: &Family) -> Map<String, Value> {
    family.common.params.clone()
}
