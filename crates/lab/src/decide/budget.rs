//! How the time of a run is spent, and what fits into its budget.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    time::Duration,
};

use layermark_model::{BASELINE, TrialRecord};
use layermark_stats::FEWEST_BLOCKS;

/// Minimum duration of a trial in one stretch, ms.
pub(crate) const MIN_MS: u64 = 50;

/// The minimum number of blocks may take this many times the budget, since a result that decides
/// nothing saves no time.
const SOFT: f64 = 1.5;

/// Assumed duration of a trial before any was timed, without the time to make its files.
const TRIAL: Duration = Duration::from_millis(MIN_MS);
/// Assumed rate at which files are made and written back, bytes/s.
const FILES: f64 = 500e6;

/// Assumed duration of a trial of a point that makes files of this size, before any was timed.
pub(crate) fn guess(space: u64) -> Duration {
    TRIAL + Duration::from_secs_f64(space as f64 / FILES)
}

/// Wall-clock time spent: trials, including the set-up of their files and caches, and the first
/// set-up of the layers. A budget is how long the user is willing to wait.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    budget: Option<Duration>,
    spent: Duration,
    set_up: Duration,
    /// Trials of a layer at a point.
    each: BTreeMap<(usize, usize), Each>,
    /// Sums over `each` of the mean and of the guess. They are kept because a matrix of a thousand
    /// points needs them after each trial.
    took: Duration,
    guessed: Duration,
    /// Points at which a trial was timed, and the part of all guesses that is theirs.
    timed: BTreeSet<usize>,
    timed_part: f64,
    /// Assumed duration of a trial of each point, until one has been timed ...
    guesses: Vec<Duration>,
    /// ... times this in each layer; 1 where nothing is known.
    slowdowns: Vec<f64>,
    /// Layers beside the baseline that are never left out, the most important first.
    keep: Vec<usize>,
}

/// The trials of a layer at a point. The first one makes files that later ones use, so it counts
/// only while it is the only one.
#[derive(Debug, Clone, Copy)]
struct Each {
    sum: Duration,
    count: u32,
    alone: bool,
}

impl Each {
    fn mean(&self) -> Duration {
        self.sum / self.count
    }

    fn note(&mut self, took: Duration) {
        let again = if self.alone {
            (took, 1)
        } else {
            (self.sum + took, self.count + 1)
        };
        (self.sum, self.count) = again;
        self.alone = false;
    }
}

/// A point that is due, with its cost.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Due {
    pub point: usize,
    /// The layers that need it, the baseline included.
    pub layers: Vec<usize>,
    /// Half-width of its widest interval; infinite before there is one.
    pub width: f64,
}

impl Clock {
    pub(crate) fn new(budget: Option<Duration>, guesses: Vec<Duration>) -> Self {
        Self {
            budget,
            guesses,
            ..Self::default()
        }
    }

    /// How many times longer a trial is assumed to take in each layer.
    pub(crate) fn slowdowns(mut self, slowdowns: Vec<f64>) -> Self {
        self.slowdowns = slowdowns;
        self
    }

    /// Layers beside the baseline that are never left out.
    pub(crate) fn keep(mut self, layers: Vec<usize>) -> Self {
        self.keep = layers;
        self
    }

    /// Records a trial's duration.
    pub(crate) fn note(&mut self, layer: usize, point: usize, took: Duration) {
        self.spent += took;
        if self.timed.insert(point) {
            self.timed_part = self.part(&self.timed);
        }
        let guess = self.guess(layer, point);
        match self.each.entry((layer, point)) {
            Entry::Occupied(mut known) => {
                let each = known.get_mut();
                self.took = self.took.saturating_sub(each.mean());
                each.note(took);
                self.took += each.mean();
            }
            Entry::Vacant(new) => {
                let each = new.insert(Each {
                    sum: took,
                    count: 1,
                    alone: true,
                });
                self.took += each.mean();
                self.guessed += guess;
            }
        }
    }

    /// Adds time that belongs neither to a trial nor to a set-up.
    pub(crate) fn spend(&mut self, time: Duration) {
        self.spent += time;
    }

    /// Records the first set-up of the layers.
    pub(crate) fn note_set_up(&mut self, took: Duration) {
        self.spent += took;
        self.set_up = took;
    }

    /// Budget needed for this many blocks of this cost.
    pub(crate) fn needed(&self, blocks: u32, cost: Duration) -> Duration {
        self.set_up + cost * blocks
    }

    /// Records the trials of an earlier part of the run, in order. Those of a block at a point took
    /// turns. Together they lasted from the first one's start to that of the next block or point;
    /// each is charged a part in proportion to its own clock. For the last ones of a session only
    /// their own clocks are known.
    pub(crate) fn note_stored(&mut self, trials: &[TrialRecord]) {
        let place = |t: &TrialRecord| (t.cell.session, t.cell.block, t.cell.point);
        let groups: Vec<&[TrialRecord]> = trials.chunk_by(|a, b| place(a) == place(b)).collect();
        let began = |group: &[TrialRecord]| group.iter().map(|t| t.at_ms).min();
        for (index, group) in groups.iter().enumerate() {
            let next = groups.get(index + 1);
            let next = next.filter(|n| n[0].cell.session == group[0].cell.session);
            let ended = next.and_then(|n| began(n));
            let own = |t: &TrialRecord| {
                let elapsed = t
                    .trial
                    .as_ref()
                    .map_or(0, layermark_model::Trial::elapsed_ns);
                Duration::from_nanos(elapsed)
            };
            let sum: Duration = group.iter().map(own).sum();
            let all = match began(group).zip(ended) {
                Some((began, ended)) => Duration::from_millis(ended.saturating_sub(began)),
                None => sum,
            };
            for record in *group {
                let took = if sum.is_zero() {
                    all / group.len() as u32
                } else {
                    all.mul_f64(own(record).as_secs_f64() / sum.as_secs_f64())
                };
                self.note(record.cell.layer, record.cell.point, took);
            }
        }
    }

    /// Whether a trial of the layer at the point was timed.
    pub(crate) fn has_timed(&self, layer: usize, point: usize) -> bool {
        self.each.contains_key(&(layer, point))
    }

    pub(crate) fn budget(&self) -> Option<Duration> {
        self.budget
    }

    pub(crate) fn spent(&self) -> Duration {
        self.spent
    }

    /// What is left of the budget, if there is one.
    pub(crate) fn left(&self) -> Option<Duration> {
        Some(self.budget?.saturating_sub(self.spent))
    }

    /// The baseline and the layers that are kept.
    pub(crate) fn stay(&self) -> impl Iterator<Item = usize> {
        [BASELINE].into_iter().chain(self.keep.iter().copied())
    }

    /// Time for this many blocks of the baseline and the layers that are kept, where that is more
    /// than one and a half times the budget. `does` tells whether a layer has a trial at a point.
    pub(crate) fn too_long(
        &self,
        blocks: u32,
        does: impl Fn(usize, usize) -> bool,
    ) -> Option<Duration> {
        let points = 0..self.guesses.len();
        let cells = self
            .stay()
            .flat_map(|layer| points.clone().map(move |point| (layer, point)));
        let cells = cells.filter(|(layer, point)| does(*layer, *point));
        let block: Duration = cells
            .map(|(layer, point)| self.estimate(layer, point))
            .sum();
        let takes = block * blocks;
        (takes > self.budget?.mul_f64(SOFT) && !self.keep.is_empty()).then_some(takes)
    }

    /// Layers to leave out so that this many blocks fit into one and a half times the budget, of
    /// which `spent` was not recorded. In their order, layers that do not fit any more are left
    /// out. The baseline stays, and the layers to keep, or else one other layer. The control stays
    /// unless these alone fill the time.
    pub(crate) fn left_out(
        &self,
        blocks: u32,
        spent: Duration,
        due: &[Due],
        control: Option<usize>,
    ) -> Vec<usize> {
        let Some(budget) = self.budget else {
            return Vec::new();
        };
        let left = budget.mul_f64(SOFT).saturating_sub(self.spent + spent);
        let mut each: BTreeMap<usize, Duration> = BTreeMap::new();
        for due in due {
            for layer in &due.layers {
                *each.entry(*layer).or_default() += self.estimate(*layer, due.point) * blocks;
            }
        }
        let kept = self.keep.iter().copied().filter(|l| each.contains_key(l));
        let mut others: Vec<usize> = kept.collect();
        let stay = others.len().max(1);
        let not_kept = |l: &usize| *l != BASELINE && Some(*l) != control && !self.keep.contains(l);
        others.extend(each.keys().copied().filter(not_kept));
        let (first, rest) = others.split_at(stay.min(others.len()));
        let order = [BASELINE]
            .into_iter()
            .chain(first.iter().copied())
            .chain(control.filter(|c| each.contains_key(c)))
            .chain(rest.iter().copied());
        let mut sum = Duration::ZERO;
        let mut out = Vec::new();
        for (place, layer) in order.enumerate() {
            let cost = each.get(&layer).copied().unwrap_or_default();
            if place > stay && sum + cost > left {
                out.push(layer);
            } else {
                sum += cost;
            }
        }
        out.sort_unstable();
        out
    }

    /// Whether no trial has been timed yet.
    pub(crate) fn knows_nothing(&self) -> bool {
        self.each.is_empty()
    }

    /// Duration of a trial of a layer at a point: measured, or else the assumed one, corrected by
    /// what is known of the others.
    pub(crate) fn estimate(&self, layer: usize, point: usize) -> Duration {
        match self.each.get(&(layer, point)) {
            Some(each) => each.mean(),
            None => self.guess(layer, point).mul_f64(self.correction()),
        }
    }

    /// How many times longer trials take than was assumed. Points that were not timed yet count as
    /// assumed, since the first one of many says little about them. A program takes longer than a
    /// read on any machine.
    fn correction(&self) -> f64 {
        if self.guessed.is_zero() {
            return 1.0;
        }
        let measured = self.took.as_secs_f64() / self.guessed.as_secs_f64();
        1.0 + (measured - 1.0) * self.timed_part
    }

    /// The part of the assumed time of a block that these points take.
    fn part(&self, points: &BTreeSet<usize>) -> f64 {
        let all: Duration = self.guesses.iter().sum();
        let theirs: Duration = points.iter().filter_map(|p| self.guesses.get(*p)).sum();
        if all.is_zero() {
            return 1.0;
        }
        theirs.as_secs_f64() / all.as_secs_f64()
    }

    fn guess(&self, layer: usize, point: usize) -> Duration {
        let slowdown = self.slowdowns.get(layer).copied().unwrap_or(1.0);
        let guess = self.guesses.get(point).copied().unwrap_or(TRIAL);
        guess.mul_f64(slowdown)
    }

    fn cost(&self, due: &Due) -> Duration {
        due.layers
            .iter()
            .map(|layer| self.estimate(*layer, due.point))
            .sum()
    }

    /// Duration of a block of these points.
    pub(crate) fn block_cost(&self, due: &[Due]) -> Duration {
        due.iter().map(|d| self.cost(d)).sum()
    }

    /// Points of a block that keep within the budget, rounded to the nearest point: none when it is
    /// spent. The minimum number of blocks have all points; after that the points with the widest
    /// intervals come first.
    pub(crate) fn fit(&self, block: u32, due: Vec<Due>) -> Vec<Due> {
        let Some(left) = self.left() else { return due };
        if (block as usize) < FEWEST_BLOCKS || (self.block_cost(&due) <= left && !left.is_zero()) {
            return due;
        }
        if left.is_zero() {
            return Vec::new();
        }
        let mut by_width: Vec<&Due> = due.iter().collect();
        by_width.sort_by(|a, b| b.width.total_cmp(&a.width));
        let mut sum = Duration::ZERO;
        let mut chosen: Vec<usize> = Vec::new();
        for candidate in by_width {
            let cost = self.cost(candidate);
            // A point counts as fitting if at least half of it fits.
            if sum + cost / 2 <= left {
                sum += cost;
                chosen.push(candidate.point);
            }
        }
        due.into_iter()
            .filter(|d| chosen.contains(&d.point))
            .collect()
    }
}

#[cfg(test)]
mod tests;
