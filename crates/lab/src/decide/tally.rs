//! Results of the trials so far: pairs of values by layer and point.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use layermark_model::{BASELINE, Cell, Ledger, Site, TrialRecord};
use layermark_stats::{self as stats, Pair, Trimmed, mean};

use crate::decide::share::{BlockNoise, Noise};

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
    /// By layer; `None` once a trial went well, or failed for another reason.
    only_failed: BTreeMap<usize, Option<OnlyFailed>>,
}

/// Trials of a layer in which nothing went well, for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OnlyFailed {
    pub count: usize,
    pub points: BTreeSet<usize>,
    /// That of the first one.
    pub reason: String,
}

/// An error without what changes from trial to trial: paths and numbers.
fn without_details(error: &str) -> String {
    let words = error.split_whitespace().filter(|word| !word.contains('/'));
    let words: Vec<&str> = words.collect();
    words.join(" ").replace(|c: char| c.is_ascii_digit(), "")
}

impl Tally {
    /// The control's turns count with the baseline's, or no longer.
    pub(crate) fn set_control(&mut self, control: Option<usize>) {
        self.ledger.set_control(control);
    }

    pub(crate) fn add(&mut self, record: &TrialRecord) {
        let good = self.ledger.add(record);
        let at = (record.cell.layer, record.cell.point);
        let failures = self.failures.entry(at).or_default();
        *failures = if good { 0 } else { *failures + 1 };
        self.good |= good;
        self.add_failure(record, good);
        let turns = record.trial.as_ref().map_or(0, |trial| trial.turns.len());
        if record.cell.layer == BASELINE && turns == 1 {
            self.single.insert(record.cell.point);
        }
    }

    fn add_failure(&mut self, record: &TrialRecord, good: bool) {
        let Cell { layer, point, .. } = record.cell;
        let reason = record.error.as_deref().filter(|_| !good);
        let entry = self.only_failed.entry(layer);
        match (entry, reason) {
            (Entry::Vacant(new), reason) => {
                new.insert(reason.map(|reason| OnlyFailed {
                    count: 1,
                    points: BTreeSet::from([point]),
                    reason: reason.to_owned(),
                }));
            }
            (Entry::Occupied(mut known), reason) => {
                let same = |failed: &mut OnlyFailed| {
                    let first = without_details(&failed.reason);
                    reason.is_some_and(|reason| without_details(reason) == first)
                };
                if let Some(failed) = known.get_mut().as_mut() {
                    if same(failed) {
                        failed.count += 1;
                        failed.points.insert(point);
                    } else {
                        *known.get_mut() = None;
                    }
                }
            }
        }
    }

    /// The trials of a layer, if all have failed for one reason.
    pub(crate) fn only_failed(&self, layer: usize) -> Option<&OnlyFailed> {
        self.only_failed.get(&layer)?.as_ref()
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

    /// Blocks in which both the layer and the baseline have a value at a point. For the baseline, which is
    /// compared with nothing, its own values.
    pub(crate) fn pairs(&self, layer: usize, point: usize) -> Vec<Pair> {
        let native = (BASELINE, point);
        if layer == BASELINE {
            let own = |at, rounds: &[[f64; 2]], _: &[[f64; 2]]| {
                Pair::new(at, Pair::of_rounds(at, rounds, &[]).layer, 1.0)
            };
            return self.ledger.pairs(native, native, own);
        }
        self.ledger.pairs((layer, point), native, Pair::of_rounds)
    }

    /// The same as a cell of the report.
    pub(crate) fn cell(&self, (layer, point): Site) -> stats::Cell<Pair> {
        stats::Cell {
            operation: point,
            blocks: self.pairs(layer, point),
        }
    }

    /// Blocks in which a layer has a value at both points.
    pub(crate) fn alternatives(&self, layer: usize, point: usize, first: usize) -> Vec<Pair> {
        self.ledger
            .pairs((layer, point), (layer, first), Pair::of_rounds)
    }

    /// Mean duration of a turn of these layers at a point, ns. `None` if none has one.
    pub(crate) fn turn_ns(&self, layers: &[usize], point: usize) -> Option<f64> {
        let of_layer = |layer: &usize| {
            let own = (*layer, point);
            let blocks = self.ledger.totals(own, own).into_iter();
            let turns = blocks.flat_map(|(_, rounds)| rounds.into_iter().map(|[[ns, _], _]| ns));
            mean(&turns.collect::<Vec<f64>>())
        };
        let each: Vec<f64> = layers.iter().filter_map(of_layer).collect();
        mean(&each)
    }

    /// What varies in the ratio of a layer at a point, where a turn of all layers takes `turn_ns` on average.
    pub(crate) fn noise(&self, layer: usize, point: usize, turn_ns: f64) -> Option<Noise> {
        let sites = ((layer, point), (BASELINE, point));
        let block = |(session, _): (u32, u32), rounds: &[[f64; 2]], _: &[[f64; 2]]| {
            let logs = rounds.iter().map(|[layer, native]| (layer / native).ln());
            let of = Trimmed::of(&logs.collect::<Vec<f64>>())?;
            Some(BlockNoise {
                session,
                d: of.mean,
                variance: of.variance / of.kept as f64,
                rounds: rounds.len(),
            })
        };
        let blocks = self.ledger.pairs(sites.0, sites.1, block).into_iter();
        Noise::of(&blocks.flatten().collect::<Vec<BlockNoise>>(), turn_ns)
    }

    /// Number of blocks in which both a layer and the baseline have a value at a point.
    pub(crate) fn blocks(&self, layer: usize, point: usize) -> usize {
        let sites = ((layer, point), (BASELINE, point));
        self.ledger.pairs(sites.0, sites.1, |_, _, _| ()).len()
    }

    /// Layers that were tried at a point of a block, in its latest session.
    pub(crate) fn tried(&self, block: u32, point: usize) -> Vec<usize> {
        self.ledger.tried(block, point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layermark_model::{Pass, Trial};

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
            (pairs.len(), pairs[1].session, pairs[1].native.round()),
            (2, 1, 30.0)
        );
    }

    /// The number of rounds in a first block was that of the layer's own turns, so that a slow layer had as few as if all
    /// were slow, and its rounds as much noise.
    #[test]
    fn layers_of_one_block_have_the_same_rounds_whatever_their_own_turns_take() {
        use layermark_model::Turn;
        let mut tally = Tally::default();
        let turn_ns = [2_000_000, 2_000_000, 11_000_000];
        for (block, layer) in (0..12).flat_map(|block| [0, 1, 2].map(|layer| (block, layer))) {
            let of = turn_ns[layer];
            // Every layer varies as the others do.
            let swing = |round: u32| [0, of / 10, of / 20][(round + layer as u32) as usize % 3];
            let turns = (0..25).map(|round| Turn {
                round,
                elapsed_ns: of + swing(round),
                ops: 1,
                ..Turn::default()
            });
            let turns: Vec<Turn> = turns.collect();
            let all = turns.iter().map(|t| t.elapsed_ns).sum();
            let mut made = record(0, block, layer, Some(all));
            if let Some(trial) = &mut made.trial {
                trial.turns = turns;
            }
            tally.add(&made);
        }
        let mean_ns = tally.turn_ns(&[0, 1, 2], 0).unwrap();
        let each = [0, 1, 2].map(|layer| tally.turn_ns(&[layer], 0).unwrap());
        assert!((mean_ns - each.iter().sum::<f64>() / 3.0).abs() < 1.0);
        assert_eq!(
            (tally.turn_ns(&[3], 0), tally.turn_ns(&[], 0)),
            (None, None)
        );
        // 26 ms of turns of 5 ms each, and at least eight: not the 13 of the fast layer.
        let noise = [1, 2].map(|layer| tally.noise(layer, 0, mean_ns).unwrap().rounds);
        let alone = [1, 2].map(|layer| tally.noise(layer, 0, each[layer]).unwrap().rounds);
        let part = |[a, b]: [f64; 2]| a / b;
        // Both have as many rounds of 10 % noise.
        assert!((part(noise) - 1.0).abs() < 0.5, "{noise:?}");
        assert!(part(alone) < 0.8 * part(noise), "{alone:?} {noise:?}");
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

    #[test]
    fn failures_for_one_reason_are_told_from_others() {
        let failed = |layer, point, error: &str| {
            let mut record = record(0, 0, layer, None);
            record.cell.point = point;
            record.error = Some(error.into());
            record
        };
        let mut tally = Tally::default();
        tally.add(&failed(
            1,
            0,
            "open /a/f1: Too many open files (os error 24)",
        ));
        tally.add(&failed(
            1,
            3,
            "open /b/f22: Too many open files (os error 24)",
        ));
        let known = tally.only_failed(1).unwrap();
        assert_eq!((known.count, known.points.len()), (2, 2));
        assert!(known.reason.contains("/a/f1"));
        tally.add(&failed(1, 3, "open /b/f22: No such file or directory"));
        assert_eq!(tally.only_failed(1), None, "another reason");
        tally.add(&failed(2, 0, "no"));
        tally.add(&record(0, 1, 2, Some(5)));
        tally.add(&failed(2, 0, "no"));
        assert_eq!(tally.only_failed(2), None, "one went well");
        assert_eq!(tally.only_failed(3), None, "it has no trial");
    }
}
