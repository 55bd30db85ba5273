//! What the trials so far come to: pairs of values, layer by point.

use std::collections::BTreeMap;

use layermark_model::TrialRecord;
use layermark_stats::{Pair, median};

/// Trials of one point in one block.
#[derive(Debug, Default, Clone)]
struct Group {
    session: u32,
    /// Values by layer; empty for a layer whose trial failed.
    values: BTreeMap<usize, Vec<f64>>,
}

/// Everything that was measured, in the form in which decisions are made from it.
///
/// A group (one point in one block) that was cut off is made again in a later session. Then only
/// the newer session counts, because native of one set-up and a layer of another are no pair.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// By point, then block.
    groups: BTreeMap<usize, BTreeMap<u32, Group>>,
    /// Failures since the last success, by layer and point.
    failures: BTreeMap<(usize, usize), u32>,
}

impl Tally {
    pub(crate) fn add(&mut self, record: &TrialRecord) {
        let cell = record.cell;
        let group = self
            .groups
            .entry(cell.point)
            .or_default()
            .entry(cell.block)
            .or_default();
        if cell.session > group.session {
            *group = Group {
                session: cell.session,
                values: BTreeMap::new(),
            };
        }
        let value = record
            .trial
            .as_ref()
            .and_then(layermark_model::Trial::ns_per_op);
        let good = value.filter(|v| v.is_finite() && *v > 0.0);
        group.values.entry(cell.layer).or_default().extend(good);
        let failures = self.failures.entry((cell.layer, cell.point)).or_default();
        *failures = if good.is_some() { 0 } else { *failures + 1 };
    }

    /// Failures of a point in a layer since it last went well.
    pub(crate) fn failures(&self, layer: usize, point: usize) -> u32 {
        self.failures.get(&(layer, point)).copied().unwrap_or(0)
    }

    /// Blocks in which both the layer and the baseline (layer 0) have a value at a point.
    pub(crate) fn pairs(&self, layer: usize, point: usize) -> Vec<Pair> {
        let value = |g: &Group, l: usize| g.values.get(&l).and_then(|v| median(v));
        let Some(blocks) = self.groups.get(&point) else {
            return Vec::new();
        };
        blocks
            .iter()
            .filter_map(|(block, g)| {
                Some(Pair {
                    session: g.session,
                    block: *block,
                    layer: value(g, layer)?,
                    native: value(g, 0)?,
                })
            })
            .collect()
    }

    /// Which layers were tried at a point of a block, in its newest session.
    pub(crate) fn tried(&self, block: u32, point: usize) -> Vec<usize> {
        self.groups
            .get(&point)
            .and_then(|g| g.get(&block))
            .map(|g| g.values.keys().copied().collect())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layermark_model::{Cell, Pass, Trial};

    fn record(session: u32, block: u32, layer: usize, ns: Option<u64>) -> TrialRecord {
        TrialRecord {
            seq: 0,
            cell: Cell {
                session,
                block,
                layer,
                point: 0,
            },
            at_ms: 0,
            trial: ns.map(|ns| Trial {
                passes: vec![Pass {
                    elapsed_ns: ns,
                    ops: 1,
                    bytes: 0,
                }],
                ..Trial::default()
            }),
            error: ns.is_none().then(|| "no".into()),
            upkeep_ns: 0,
            foreign_cpu: 0.0,
            steal: 0.0,
            backing_resident: None,
            flags: Vec::new(),
        }
    }

    #[test]
    fn pairs_need_both_and_a_group_made_again_counts_once() {
        let mut tally = Tally::default();
        tally.add(&record(0, 0, 0, Some(10)));
        tally.add(&record(0, 0, 1, Some(20)));
        tally.add(&record(0, 1, 0, Some(10)));
        tally.add(&record(1, 1, 1, Some(90)));
        assert_eq!(tally.pairs(1, 0).len(), 1, "a pair of two sessions is none");
        assert_eq!(tally.tried(1, 0), [1]);
        tally.add(&record(1, 1, 0, Some(30)));
        let pairs = tally.pairs(1, 0);
        assert_eq!(
            (pairs.len(), pairs[1].session, pairs[1].native),
            (2, 1, 30.0)
        );
    }

    #[test]
    fn failures_are_counted_until_one_goes_well() {
        let mut tally = Tally::default();
        tally.add(&record(0, 0, 1, None));
        tally.add(&record(0, 1, 1, Some(0)));
        assert_eq!(tally.failures(1, 0), 2);
        assert_eq!(tally.tried(1, 0), [1]);
        tally.add(&record(0, 2, 1, Some(5)));
        assert_eq!(tally.failures(1, 0), 0);
        assert!(tally.pairs(1, 0).is_empty());
    }
}
