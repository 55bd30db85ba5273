//! A run's trials, indexed by layer, point and block.

use std::collections::BTreeMap;

use layermark_model::{
    ClockTime, Cost, LayerStatus, Ledger, Run, Site, TrialRecord, flags::LAYER_LOST,
};
use layermark_stats::{Pair, Round, trimmed_mean};

/// Trials by session and block.
type Blocks<'a> = BTreeMap<(u32, u32), &'a TrialRecord>;

/// A run's trials by layer and point, and within these by block.
///
/// An interrupted group (a point in a block) is repeated in a later session. Then only the newer
/// session counts, as in the [`Ledger`] that pairs them.
pub struct Index<'a> {
    cells: BTreeMap<(usize, usize), Blocks<'a>>,
    /// All trials, including several of one block: the baseline has one with each part of the
    /// layers.
    parts: BTreeMap<(usize, usize), Vec<&'a TrialRecord>>,
    failures: BTreeMap<(usize, usize), Vec<&'a TrialRecord>>,
    ledger: Ledger,
    control: Option<usize>,
}

impl<'a> Index<'a> {
    /// Sorts the trials of a run. Ignores trials with indexes outside the run, those of layers
    /// that the budget left out, and those by which layers are not compared.
    pub fn new(run: &Run, trials: &'a [TrialRecord]) -> Self {
        let mut index = Self {
            cells: BTreeMap::new(),
            parts: BTreeMap::new(),
            failures: BTreeMap::new(),
            ledger: Ledger::default(),
            control: run.control(),
        };
        index.ledger.set_control(index.control);
        let mut ordered: Vec<&TrialRecord> = trials.iter().collect();
        ordered.sort_by_key(|t| t.seq);
        for record in ordered {
            let cell = record.cell;
            let layer = run.layers.get(cell.layer);
            // A layer may turn out not to fit the budget after its first block.
            let counts = layer.is_some_and(|l| l.status != LayerStatus::LeftOut);
            if !counts || cell.point >= run.points.len() || !record.is_compared() {
                continue;
            }
            index.ledger.add(record);
            let key = (cell.layer, cell.point);
            if cost(record).is_none() {
                index.failures.entry(key).or_default().push(record);
                continue;
            }
            let parts = index.parts.entry(key).or_default();
            // A repeated trial counts once.
            parts.retain(|earlier| !share_rounds(earlier, record));
            parts.push(record);
            let blocks = index.cells.entry(key).or_default();
            blocks.insert((cell.session, cell.block), record);
        }
        let ledger = &index.ledger;
        for blocks in index.cells.values_mut() {
            blocks.retain(|_, record| ledger.counts(record.cell));
        }
        for parts in index.parts.values_mut() {
            parts.retain(|record| ledger.counts(record.cell));
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

    /// Trials with a number. A block may have several: the baseline's with each part of the layers.
    pub fn parts(&self, layer: usize, point: usize) -> &[&'a TrialRecord] {
        self.parts.get(&(layer, point)).map_or(&[], Vec::as_slice)
    }

    /// The trial of a layer at the same point, in the same rounds of the same block.
    pub fn in_same_rounds(&self, of: &TrialRecord, layer: usize) -> Option<&'a TrialRecord> {
        let trials = self.parts(layer, of.cell.point);
        trials.iter().find(|r| share_rounds(r, of)).copied()
    }

    /// Trials of the baseline in the rounds of a layer's trials, and those of the control that count in the comparison.
    pub fn beside(&self, layer: usize, baseline: usize, point: usize) -> Vec<&'a TrialRecord> {
        let sites = ((layer, point), (baseline, point));
        let own = self.trials(layer, point).into_iter();
        own.flat_map(|r| {
            let with_control = || {
                let block = r.cell.block;
                self.ledger.counts_control(sites.0, sites.1, block)
            };
            let control = self.control.filter(|_| with_control());
            let layers = [Some(baseline), control].into_iter().flatten();
            layers.filter_map(|other| self.in_same_rounds(r, other))
        })
        .collect()
    }

    /// Trials without a number, in the order of the run.
    pub fn failures(&self, layer: usize, point: usize) -> &[&'a TrialRecord] {
        self.failures
            .get(&(layer, point))
            .map_or(&[], Vec::as_slice)
    }

    /// Whether a trial found the layer gone afterwards.
    pub fn lost(&self, layer: usize) -> bool {
        let of_it = self.failures.range((layer, 0)..=(layer, usize::MAX));
        let mut flags = of_it.flat_map(|(_, trials)| trials).flat_map(|t| &t.flags);
        flags.any(|f| f == LAYER_LOST)
    }

    /// The time by which a layer is compared with the baseline at a point, or its own without a
    /// comparison.
    pub fn time(&self, layer: usize, baseline: usize, point: usize) -> ClockTime {
        let own = (layer, point);
        let is_compared = !self.pairs(layer, baseline, point).is_empty();
        let other = if is_compared { (baseline, point) } else { own };
        self.ledger.time(own, other)
    }

    /// [`Index::pairs`] by this time.
    pub fn pairs_by(
        &self,
        time: ClockTime,
        layer: usize,
        baseline: usize,
        point: usize,
    ) -> Vec<Pair> {
        let (here, there) = ((layer, point), (baseline, point));
        self.ledger.pairs_by(time, here, there, Pair::of_rounds)
    }

    /// Blocks in which both layers have a number at a point.
    pub fn pairs(&self, layer: usize, baseline: usize, point: usize) -> Vec<Pair> {
        self.pairs_of((layer, point), (baseline, point))
    }

    /// The rounds of the blocks of [`Index::pairs`], each block with its session.
    pub fn rounds(&self, layer: usize, baseline: usize, point: usize) -> Vec<(u32, Vec<Round>)> {
        let totals = self.ledger.totals((layer, point), (baseline, point));
        let round = |[layer, native]: [[f64; 2]; 2]| Round { layer, native };
        totals
            .into_iter()
            .map(|(session, rounds)| (session, rounds.into_iter().map(round).collect()))
            .collect()
    }

    /// Blocks in which two sites have a number; the second is the baseline.
    pub fn pairs_of(&self, here: Site, there: Site) -> Vec<Pair> {
        self.ledger.pairs(here, there, Pair::of_rounds)
    }
}

/// Whether two trials share rounds of the same block. A trial in one stretch has no rounds.
fn share_rounds(one: &TrialRecord, other: &TrialRecord) -> bool {
    let block = |r: &TrialRecord| (r.cell.session, r.cell.block);
    let turns = |r: &TrialRecord| r.trial.as_ref().map_or(0, |t| t.turns.len());
    let rounds = |r: &TrialRecord| -> Vec<u32> {
        let turns = r.trial.iter().flat_map(|t| &t.turns);
        turns.map(|turn| turn.round).collect()
    };
    if block(one) != block(other) || turns(one).min(turns(other)) == 0 {
        return block(one) == block(other) && turns(one) == turns(other);
    }
    let (own, its) = (rounds(one), rounds(other));
    its.iter().any(|round| own.contains(round))
}

/// Nanoseconds per operation, if the trial has a usable number, by the time that is its layer's cost.
pub fn cost(record: &TrialRecord) -> Option<f64> {
    let cost = Cost::of(record.trial.as_ref()?)?;
    cost.ns_per_op(cost.time())
}

/// Nanoseconds per operation by this time, the centre of the trial's turns.
pub fn typical_by(time: ClockTime, record: &TrialRecord) -> Option<f64> {
    let turns = Cost::of(record.trial.as_ref()?)?.turns(time)?;
    let logs: Vec<f64> = turns.iter().map(|ns| ns.ln()).collect();
    Some(trimmed_mean(&logs)?.exp())
}
