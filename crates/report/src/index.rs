//! A run's trials by where they belong.

use std::collections::BTreeMap;

use layermark_model::{Run, TrialRecord, flags::LAYER_LOST};
use layermark_stats::Pair;

/// Trials by session and block.
type Blocks<'a> = BTreeMap<(u32, u32), &'a TrialRecord>;

/// A run's trials by layer and point, and within these by block.
///
/// A group (a point in a block) that was cut off is made again in a later session. Then only the
/// newer session counts, as in the lab's own tally: native of one set-up and a layer of another
/// are no pair, and two pairs of one block would weigh double.
pub struct Index<'a> {
    cells: BTreeMap<(usize, usize), Blocks<'a>>,
    failures: BTreeMap<(usize, usize), Vec<&'a TrialRecord>>,
}

impl<'a> Index<'a> {
    /// Sorts the trials of a run; those that point outside of it are ignored.
    pub fn new(run: &Run, trials: &'a [TrialRecord]) -> Self {
        let mut index = Self {
            cells: BTreeMap::new(),
            failures: BTreeMap::new(),
        };
        let mut newest: BTreeMap<(usize, u32), u32> = BTreeMap::new();
        for TrialRecord { cell, .. } in trials {
            let session = newest.entry((cell.point, cell.block)).or_default();
            *session = cell.session.max(*session);
        }
        let mut ordered: Vec<&TrialRecord> = trials.iter().collect();
        ordered.sort_by_key(|t| t.seq);
        for record in ordered {
            let cell = record.cell;
            if cell.layer >= run.layers.len() || cell.point >= run.points.len() {
                continue;
            }
            let key = (cell.layer, cell.point);
            if cost(record).is_none() {
                index.failures.entry(key).or_default().push(record);
                continue;
            }
            if newest.get(&(cell.point, cell.block)) == Some(&cell.session) {
                let blocks = index.cells.entry(key).or_default();
                blocks.insert((cell.session, cell.block), record);
            }
        }
        index
    }

    /// Trials with a number, in the order of blocks.
    pub fn trials(&self, layer: usize, point: usize) -> Vec<&'a TrialRecord> {
        self.cells
            .get(&(layer, point))
            .map(|c| c.values().copied().collect())
            .unwrap_or_default()
    }

    /// Trials without one, in the order of the run.
    pub fn failures(&self, layer: usize, point: usize) -> &[&'a TrialRecord] {
        self.failures
            .get(&(layer, point))
            .map_or(&[], Vec::as_slice)
    }

    /// Some trial found the layer gone when it looked for it afterwards.
    pub fn lost(&self, layer: usize) -> bool {
        let of_it = self.failures.range((layer, 0)..=(layer, usize::MAX));
        let mut flags = of_it.flat_map(|(_, trials)| trials).flat_map(|t| &t.flags);
        flags.any(|f| f == LAYER_LOST)
    }

    /// Blocks in which both layers have a number.
    pub fn pairs(&self, layer: usize, baseline: usize, point: usize) -> Vec<Pair> {
        let (Some(here), Some(native)) = (
            self.cells.get(&(layer, point)),
            self.cells.get(&(baseline, point)),
        ) else {
            return Vec::new();
        };
        let pair = |(at, record): (&(u32, u32), &&TrialRecord)| {
            let (layer, native) = (cost(record)?, cost(native.get(at)?)?);
            Some(Pair {
                session: at.0,
                block: at.1,
                layer,
                native,
            })
        };
        here.iter().filter_map(pair).collect()
    }
}

/// Nanoseconds an operation, when the trial has a usable number.
pub fn cost(record: &TrialRecord) -> Option<f64> {
    record
        .trial
        .as_ref()?
        .ns_per_op()
        .filter(|ns| ns.is_finite() && *ns > 0.0)
}
