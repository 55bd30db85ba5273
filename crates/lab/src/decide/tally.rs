//! Results of the trials so far: pairs of values by layer and point.

use std::collections::{BTreeMap, BTreeSet};

use layermark_model::{BASELINE, Ledger, TrialRecord};
use layermark_stats::Pair;

/// All results, in the form in which decisions use them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    ledger: Ledger,
    /// Failures since the last success, by layer and point.
    failures: BTreeMap<(usize, usize), u32>,
    /// Points that had a block of one round. The baseline has a turn in each.
    single: BTreeSet<usize>,
    /// Whether a trial went well.
    good: bool,
}

impl Tally {
    pub(crate) fn add(&mut self, record: &TrialRecord) {
        let good = self.ledger.add(record);
        let at = (record.cell.layer, record.cell.point);
        let failures = self.failures.entry(at).or_default();
        *failures = if good { 0 } else { *failures + 1 };
        self.good |= good;
        let turns = record.trial.as_ref().map_or(0, |trial| trial.turns.len());
        if record.cell.layer == BASELINE && turns == 1 {
            self.single.insert(record.cell.point);
        }
    }

    /// Whether a block of this point had one round.
    pub(crate) fn had_one_round(&self, point: usize) -> bool {
        self.single.contains(&point)
    }

    /// Whether there were trials, and none went well.
    pub(crate) fn all_failed(&self) -> bool {
        !self.failures.is_empty() && !self.good
    }

    /// Consecutive failures of a point in a layer.
    pub(crate) fn failures(&self, layer: usize, point: usize) -> u32 {
        self.failures.get(&(layer, point)).copied().unwrap_or(0)
    }

    /// Blocks in which both the layer and the baseline have a value at a point.
    pub(crate) fn pairs(&self, layer: usize, point: usize) -> Vec<Pair> {
        let native = (BASELINE, point);
        self.ledger.pairs((layer, point), native, Pair::of_rounds)
    }

    /// Layers that were tried at a point of a block, in its latest session.
    pub(crate) fn tried(&self, block: u32, point: usize) -> Vec<usize> {
        self.ledger.tried(block, point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layermark_model::{Cell, Pass, Trial};

    fn record(session: u32, block: u32, layer: usize, ns: Option<u64>) -> TrialRecord {
        TrialRecord {
            cell: Cell {
                session,
                block,
                layer,
                point: 0,
            },
            trial: ns.map(|ns| Trial {
                passes: vec![Pass {
                    elapsed_ns: ns,
                    ops: 1,
                    bytes: 0,
                    ..Pass::default()
                }],
                ..Trial::default()
            }),
            error: ns.is_none().then(|| "no".into()),
            ..TrialRecord::default()
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
        assert!(tally.all_failed() && !Tally::default().all_failed());
        assert_eq!(tally.tried(1, 0), [1]);
        tally.add(&record(0, 2, 1, Some(5)));
        assert_eq!(tally.failures(1, 0), 0);
        assert!(!tally.all_failed());
        assert!(tally.pairs(1, 0).is_empty());
    }
}
