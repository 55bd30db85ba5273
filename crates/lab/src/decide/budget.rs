//! How the time of a run is spent, and what fits into its budget.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    time::Duration,
};

use layermark_model::{BASELINE, TrialRecord};
use layermark_stats::{FEWEST_BLOCKS, MIN_BLOCKS};

use crate::decide::guess::{Guess, Slowdown};

/// Fewest blocks of what is measured at all: those that an interval needs.
pub(crate) const LEAST_BLOCKS: u32 = MIN_BLOCKS as u32;

/// [`FEWEST_BLOCKS`] may take this many times the usual budget of a command, since a result that decides
/// nothing saves no time. A budget that the user has named is a promise.
const SOFT: f64 = 1.5;

/// A forecast may be this many times too long, so a longer one refuses nothing.
const DOUBT: f64 = 1.25;

/// Wall-clock time spent, from the start of the run. A budget is how long the user is willing to wait.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    budget: Option<Duration>,
    /// The budget is the usual one of a command, and nobody has named it.
    usual: bool,
    spent: Duration,
    /// Spent by earlier parts of the run.
    earlier: Duration,
    /// Assumed duration of the first set-up of each layer; zero once it is up.
    set_ups: Vec<Duration>,
    /// Duration of the first set-up of all.
    set_up: Duration,
    /// Assumed duration of removing at the end what each layer has then; zero once it is left out.
    clean_ups: Vec<Duration>,
    /// Assumed duration of what is measured at the end.
    last: Duration,
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
    guesses: Vec<Guess>,
    /// ... times this in each layer; 1 where nothing is known.
    slowdowns: Vec<Slowdown>,
    /// Layers beside the baseline that are never left out, the most important first.
    keep: Vec<usize>,
}

/// The trials of a layer at a point. The first one makes files that later ones use, so it counts
/// only while it is the only one.
#[derive(Debug, Clone, Copy)]
struct Each {
    /// The first of all.
    first: Duration,
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

/// What is due, and how many blocks of it.
pub(crate) struct Ask<'a> {
    pub due: &'a [Due],
    /// Blocks for which layers stay that nobody has named.
    pub wanted: u32,
    /// Blocks for which the others stay, and points.
    pub least: u32,
    pub control: Option<usize>,
}

/// What does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Omitted {
    pub layers: Vec<usize>,
    pub points: Vec<usize>,
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

/// Time that these trials of an earlier part of a run have taken.
pub(crate) fn spent_by(trials: &[TrialRecord]) -> Duration {
    let mut clock = Clock::default();
    clock.note_stored(trials);
    clock.spent
}

impl Clock {
    pub(crate) fn new(budget: Option<Duration>, guesses: Vec<Guess>) -> Self {
        Self {
            budget,
            guesses,
            ..Self::default()
        }
    }

    /// How many times longer a trial is assumed to take in each layer.
    pub(crate) fn slowdowns(mut self, slowdowns: Vec<Slowdown>) -> Self {
        self.slowdowns = slowdowns;
        self
    }

    /// Layers beside the baseline that are never left out.
    pub(crate) fn keep(mut self, layers: Vec<usize>) -> Self {
        self.keep = layers;
        self
    }

    /// Assumed duration of the first set-up of each layer.
    pub(crate) fn set_ups(mut self, set_ups: Vec<Duration>) -> Self {
        self.set_ups = set_ups;
        self
    }

    /// Assumed duration of removing at the end what each layer has then.
    pub(crate) fn clean_ups(mut self, clean_ups: Vec<Duration>) -> Self {
        self.clean_ups = clean_ups;
        self
    }

    /// Keeps time for what is measured at the end, at most a quarter of the budget.
    pub(crate) fn reserve(&mut self, last: Duration) {
        self.last = last.min(self.budget.unwrap_or(Duration::MAX) / 4);
    }

    /// The time that was kept for what is measured at the end.
    pub(crate) fn kept_for_the_end(&self) -> Duration {
        self.last
    }

    /// What is left for it; unlimited without a budget that somebody has named.
    pub(crate) fn left_at_the_end(&self) -> Duration {
        let named = self.budget.filter(|_| !self.usual);
        let clean_up = self.clean_ups.iter().sum();
        named.map_or(Duration::MAX, |budget| {
            budget.saturating_sub(clean_up).saturating_sub(self.spent)
        })
    }

    /// Time for what comes after the last block.
    fn at_the_end(&self) -> Duration {
        self.clean_ups.iter().sum::<Duration>() + self.last
    }

    /// Records that layers are left out.
    pub(crate) fn leave_out(&mut self, layers: &[usize]) {
        for layer in layers {
            for guesses in [&mut self.set_ups, &mut self.clean_ups] {
                if let Some(guess) = guesses.get_mut(*layer) {
                    *guess = Duration::ZERO;
                }
            }
        }
    }

    /// Whether the budget is a command's usual one.
    pub(crate) fn usual(mut self, usual: bool) -> Self {
        self.usual = usual;
        self
    }

    /// Records a trial's duration.
    pub(crate) fn note(&mut self, layer: usize, point: usize, took: Duration) {
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
                    first: took,
                    sum: took,
                    count: 1,
                    alone: true,
                });
                self.took += each.mean();
                self.guessed += guess;
            }
        }
    }

    /// Sets the time that has passed since this part of the run was started.
    pub(crate) fn pass_to(&mut self, since_start: Duration) {
        self.spent = self.earlier + since_start;
    }

    /// Records that a layer is up for the first time.
    pub(crate) fn is_up(&mut self, layer: usize) {
        if let Some(guess) = self.set_ups.get_mut(layer) {
            *guess = Duration::ZERO;
        }
    }

    /// Records the first set-up of all layers.
    pub(crate) fn note_set_up(&mut self, took: Duration) {
        self.set_ups.clear();
        self.set_up = took;
    }

    /// Budget needed for this many blocks of this cost in these layers.
    pub(crate) fn needed(
        &self,
        blocks: u32,
        cost: Duration,
        layers: impl Iterator<Item = usize>,
    ) -> Duration {
        self.set_up + self.once(layers) + self.firsts() + cost * blocks
    }

    /// How much longer the first trials took than later ones, as far as known: they made files.
    fn firsts(&self) -> Duration {
        let again = self.each.values().filter(|each| !each.alone);
        again.map(|e| e.first.saturating_sub(e.mean())).sum()
    }

    /// How much longer it takes with layers that are set up anew, as far as known: files are removed, and made
    /// again in the next block.
    pub(crate) fn afresh(&self) -> Duration {
        self.firsts() + self.clean_ups.iter().sum::<Duration>()
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
                self.earlier += took;
            }
        }
        self.spent = self.earlier;
    }

    /// Whether a trial of the layer at the point was timed.
    pub(crate) fn has_timed(&self, layer: usize, point: usize) -> bool {
        self.each.contains_key(&(layer, point))
    }

    pub(crate) fn budget(&self) -> Option<Duration> {
        self.budget
    }

    /// The budget without the time to clean up.
    pub(crate) fn for_work(&self) -> Option<Duration> {
        Some(self.budget?.saturating_sub(self.at_the_end()))
    }

    pub(crate) fn spent(&self) -> Duration {
        self.spent
    }

    /// What is left of the budget, if there is one.
    pub(crate) fn left(&self) -> Option<Duration> {
        Some(self.for_work()?.saturating_sub(self.spent))
    }

    /// Time within which everything must be over if there are few blocks.
    fn all(&self) -> Option<Duration> {
        let times = if self.usual { SOFT } else { 1.0 };
        Some(self.budget?.mul_f64(times))
    }

    /// Time within which the fewest blocks must be made.
    fn reach(&self) -> Option<Duration> {
        Some(self.all()?.saturating_sub(self.at_the_end()))
    }

    /// The baseline and the layers that are kept.
    pub(crate) fn stay(&self) -> impl Iterator<Item = usize> {
        [BASELINE].into_iter().chain(self.keep.iter().copied())
    }

    /// Assumed duration of what these layers need once: set-ups to come, and cleaning up.
    fn once(&self, layers: impl Iterator<Item = usize>) -> Duration {
        let guess = |all: &[Duration], layer: usize| all.get(layer).copied().unwrap_or_default();
        let both = |layer| guess(&self.set_ups, layer) + guess(&self.clean_ups, layer);
        layers.map(both).sum()
    }

    /// Duration of a block of each point in these layers.
    fn costs(&self, due: &[Due], is_in: impl Fn(usize) -> bool) -> BTreeMap<usize, Duration> {
        let cost = |due: &Due| {
            let layers = due.layers.iter().filter(|layer| is_in(**layer));
            let cost = layers.map(|layer| self.estimate(*layer, due.point)).sum();
            (due.point, cost)
        };
        due.iter().map(cost).collect()
    }

    /// The time that is needed, where a budget is too small by far for the least number of blocks of a single
    /// point: that of all points, in these layers. Of layers that nobody has named, one beside the baseline
    /// has to fit.
    pub(crate) fn too_small(&self, ask: &Ask<'_>) -> Option<(Duration, Vec<usize>)> {
        let budget = self.budget.filter(|_| !self.usual)?;
        let mut stay: Vec<usize> = self.stay().collect();
        let others = ask.due.iter().flat_map(|due| due.layers.iter().copied());
        let mut others = others.filter(|l| *l != BASELINE && Some(*l) != ask.control);
        if self.keep.is_empty() {
            stay.extend(others.next());
        }
        let once = self.once(stay.iter().copied());
        let costs = self.costs(ask.due, |layer| stay.contains(&layer));
        let cheapest = costs.values().min()?;
        let all: Duration = costs.values().sum();
        let beside = self.spent + once;
        let takes = beside + *cheapest * ask.least;
        (takes > budget.mul_f64(DOUBT)).then(|| (beside + all * ask.least, stay))
    }

    /// What to leave out so that the rest fits into the budget. Layers that nobody has named go first, the
    /// last one first: they stay where there is time for `wanted` blocks. Then the control goes, then
    /// points. The baseline stays, and the layers to keep, or else one other layer; and one point.
    pub(crate) fn left_out(&self, ask: &Ask<'_>) -> Omitted {
        let Some(all) = self.all() else {
            return Omitted::default();
        };
        let left = all.saturating_sub(self.spent);
        let layers = self.layers_left_out(ask, left);
        let points = if self.usual {
            Vec::new()
        } else {
            self.points_left_out(ask, &layers, left)
        };
        Omitted { layers, points }
    }

    fn layers_left_out(&self, ask: &Ask<'_>, left: Duration) -> Vec<usize> {
        let mut each: BTreeMap<usize, Duration> = BTreeMap::new();
        for due in ask.due {
            for layer in &due.layers {
                *each.entry(*layer).or_default() += self.estimate(*layer, due.point);
            }
        }
        let kept = self.keep.iter().copied().filter(|l| each.contains_key(l));
        let mut others: Vec<usize> = kept.collect();
        let stay = others.len().max(1);
        let not_kept =
            |l: &usize| *l != BASELINE && Some(*l) != ask.control && !self.keep.contains(l);
        others.extend(each.keys().copied().filter(not_kept));
        let (first, rest) = others.split_at(stay.min(others.len()));
        let order = [BASELINE]
            .into_iter()
            .chain(first.iter().copied())
            .chain(ask.control.filter(|c| each.contains_key(c)))
            .chain(rest.iter().copied());
        let (mut block, mut once) = (Duration::ZERO, Duration::ZERO);
        let mut out = Vec::new();
        for (place, layer) in order.enumerate() {
            let is_control_of_named = Some(layer) == ask.control && !self.keep.is_empty();
            let blocks = if is_control_of_named {
                ask.least
            } else {
                ask.wanted
            };
            let more = each.get(&layer).copied().unwrap_or_default();
            let own = self.once([layer].into_iter());
            if place > stay && once + own + (block + more) * blocks > left {
                out.push(layer);
            } else {
                (block, once) = (block + more, once + own);
            }
        }
        out.sort_unstable();
        out
    }

    /// Points that do not fit any more, in their order.
    fn points_left_out(&self, ask: &Ask<'_>, out: &[usize], left: Duration) -> Vec<usize> {
        let layers: BTreeSet<usize> = ask.due.iter().flat_map(|d| d.layers.clone()).collect();
        let is_in = |layer: usize| !out.contains(&layer);
        let left = left.saturating_sub(self.once(layers.into_iter().filter(|l| is_in(*l))));
        let costs = self.costs(ask.due, is_in);
        let cheapest = costs.iter().min_by_key(|(_, cost)| **cost);
        let cheapest = cheapest.map(|(point, _)| *point);
        let mut sum = cheapest.map_or(Duration::ZERO, |point| costs[&point] * ask.least);
        let mut points = Vec::new();
        for (point, cost) in costs.iter().filter(|(point, _)| Some(**point) != cheapest) {
            if sum + *cost * ask.least > left {
                points.push(*point);
            } else {
                sum += *cost * ask.least;
            }
        }
        points
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

    /// How many times longer trials take than was assumed. If they take longer, points that were not timed
    /// yet count as assumed, since the first one of many says little about them: a program takes longer
    /// than a read on any machine. If they take less, all are hoped to: the next ones will tell.
    fn correction(&self) -> f64 {
        if self.guessed.is_zero() {
            return 1.0;
        }
        let measured = self.took.as_secs_f64() / self.guessed.as_secs_f64();
        if measured < 1.0 {
            return measured;
        }
        1.0 + (measured - 1.0) * self.timed_part
    }

    /// The part of the assumed time of a block that these points take.
    fn part(&self, points: &BTreeSet<usize>) -> f64 {
        let native = |guess: &Guess| guess.at(Slowdown::default());
        let all: Duration = self.guesses.iter().map(native).sum();
        let theirs = points.iter().filter_map(|p| self.guesses.get(*p));
        let theirs: Duration = theirs.map(native).sum();
        if all.is_zero() {
            return 1.0;
        }
        theirs.as_secs_f64() / all.as_secs_f64()
    }

    fn guess(&self, layer: usize, point: usize) -> Duration {
        let slowdown = self.slowdowns.get(layer).copied().unwrap_or_default();
        let guess = self.guesses.get(point).copied().unwrap_or_default();
        guess.at(slowdown)
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
    /// spent. Those with the widest intervals come first. A usual budget is exceeded for the least number
    /// of blocks, and by a half for the fewest that decide.
    pub(crate) fn fit(&self, block: u32, due: Vec<Due>) -> Vec<Due> {
        let few = (block as usize) < FEWEST_BLOCKS;
        let limit = if few { self.reach() } else { self.for_work() };
        let Some(limit) = limit else { return due };
        let left = limit.saturating_sub(self.spent);
        if self.usual && block < LEAST_BLOCKS {
            return due;
        }
        if left.is_zero() {
            return Vec::new();
        }
        if self.block_cost(&due) <= left {
            return due;
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
