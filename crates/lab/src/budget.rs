//! Where the time goes.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use layermark_model::TrialRecord;
use layermark_stats::FEWEST_BLOCKS;

use crate::trial::MIN_MS;

/// The fewest blocks may take so many times the budget: a result that decides nothing saves no time.
const SOFT: f64 = 1.5;

/// A trial lasts so long where nothing is known, beside making its files ...
const TRIAL: Duration = Duration::from_millis(MIN_MS);
/// ... of which so many bytes are made and written back a second.
const FILES: f64 = 500e6;

/// What a trial of a point takes that makes files of so many bytes, before any was timed.
pub(crate) fn guess(space: u64) -> Duration {
    TRIAL + Duration::from_secs_f64(space as f64 / FILES)
}

/// Wall-clock time spent: trials with the set-up of their files and caches, and the first set-up of
/// the layers, since a budget is how long somebody is willing to wait.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    budget: Option<Duration>,
    spent: Duration,
    set_up: Duration,
    /// Trials of a layer at a point.
    each: BTreeMap<(usize, usize), Each>,
    /// Sum over these of what one takes, and of what was guessed. Kept, because a matrix of a thousand
    /// points asks for them after each trial.
    took: Duration,
    guessed: Duration,
    /// What a trial of each point may take, as long as none has been timed.
    guesses: Vec<Duration>,
}

/// The trials of a layer at a point. The first one makes files that later ones find, so it counts
/// only as long as it is alone.
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

/// A point that is due, and what it would take.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Due {
    pub point: usize,
    /// The layers that need it, and the baseline.
    pub layers: Vec<usize>,
    /// Half-width of its widest interval; infinite where there is none yet.
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

    /// Notes a trial.
    pub(crate) fn note(&mut self, layer: usize, point: usize, took: Duration) {
        self.spent += took;
        let guess = self.guess(point);
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

    /// Time that is no trial's and no set-up's.
    pub(crate) fn spend(&mut self, time: Duration) {
        self.spent += time;
    }

    /// Notes the first set-up of the layers.
    pub(crate) fn note_set_up(&mut self, took: Duration) {
        self.spent += took;
        self.set_up = took;
    }

    /// Budget for so many blocks of a cost.
    pub(crate) fn needed(&self, blocks: u32, cost: Duration) -> Duration {
        self.set_up + cost * blocks
    }

    /// Notes the trials of an earlier part of the run, in the order in which they were made. Those of
    /// a block at a point took turns: they lasted together from the first one's start to that of the
    /// next block or point, and each a part of it as its own clock says. The last ones of a session
    /// have only their own clocks to go by.
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

    /// The layers to leave out so that so many blocks fit into the budget and half as much again, of
    /// which some time is `spent` that was not noted: those that do not fit any more when they are
    /// taken in their order. The baseline stays, and one other at least; the control stays unless these
    /// two alone fill the time.
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
        let others = || {
            each.keys()
                .copied()
                .filter(|l| *l != 0 && Some(*l) != control)
        };
        let order = [0]
            .into_iter()
            .chain(others().take(1))
            .chain(control.filter(|c| each.contains_key(c)))
            .chain(others().skip(1));
        let mut sum = Duration::ZERO;
        let mut out = Vec::new();
        for (place, layer) in order.enumerate() {
            let cost = each.get(&layer).copied().unwrap_or_default();
            if place > 1 && sum + cost > left {
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

    /// What a trial of a layer at a point takes, by those that were made; else by the plan, which the
    /// others show to be too low or too high.
    pub(crate) fn estimate(&self, layer: usize, point: usize) -> Duration {
        if let Some(each) = self.each.get(&(layer, point)) {
            return each.mean();
        }
        let guess = self.guess(point);
        if self.guessed.is_zero() {
            return guess;
        }
        guess.mul_f64(self.took.as_secs_f64() / self.guessed.as_secs_f64())
    }

    fn guess(&self, point: usize) -> Duration {
        self.guesses.get(point).copied().unwrap_or(TRIAL)
    }

    fn cost(&self, due: &Due) -> Duration {
        due.layers
            .iter()
            .map(|layer| self.estimate(*layer, due.point))
            .sum()
    }

    /// What a block of these points takes.
    pub(crate) fn block_cost(&self, due: &[Due]) -> Duration {
        due.iter().map(|d| self.cost(d)).sum()
    }

    /// The points that a block is to have so that the budget holds, to the nearest: none when it is
    /// spent. The fewest blocks have all; then the points with the widest intervals come first.
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
            // Half of a point over the budget is as near as half of it under.
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
mod tests {
    use layermark_model::{Cell, Pass, Trial};

    use super::*;

    fn due(widths: &[f64]) -> Vec<Due> {
        let due = widths.iter().enumerate();
        due.map(|(point, width)| Due {
            point,
            layers: vec![0, 1],
            width: *width,
        })
        .collect()
    }

    /// Each trial takes a second, so each point two.
    fn clock(budget: u64, points: usize) -> Clock {
        let mut clock = Clock::new(Some(Duration::from_secs(budget)), Vec::new());
        for point in 0..points {
            for layer in 0..2 {
                clock.note(layer, point, Duration::from_secs(1));
            }
        }
        clock
    }

    fn points(due: &[Due]) -> Vec<usize> {
        due.iter().map(|d| d.point).collect()
    }

    #[test]
    fn without_a_budget_everything_is_due() {
        let clock = Clock::new(None, Vec::new());
        assert_eq!(clock.fit(99, due(&[1.0, 2.0])).len(), 2);
        assert_eq!(clock.left(), None);
    }

    #[test]
    fn the_fewest_blocks_are_made_whatever_the_budget_and_no_more() {
        let clock = clock(1, 3);
        assert_eq!(clock.left(), Some(Duration::ZERO));
        for block in 0..FEWEST_BLOCKS as u32 {
            assert_eq!(clock.fit(block, due(&[f64::INFINITY; 3])).len(), 3);
        }
        assert!(clock.fit(8, due(&[0.1; 3])).is_empty());
    }

    #[test]
    fn layers_that_do_not_fit_are_left_out_in_their_order() {
        // One point; native, two quick layers, a slow one between them and the control.
        let sites = [(0, 1), (1, 1), (2, 9), (3, 1), (4, 1)];
        let due = [Due {
            point: 0,
            layers: vec![3, 0, 4, 2, 1],
            width: f64::INFINITY,
        }];
        let left_out = |budget| {
            let mut clock = Clock::new(Some(Duration::from_secs(budget)), Vec::new());
            for (layer, seconds) in sites {
                clock.note(layer, 0, Duration::from_secs(seconds));
            }
            clock.left_out(7, Duration::ZERO, &due, Some(4))
        };
        // 13 s are spent and 7 blocks of 13 s to come: 104 s, two thirds of which are 70.
        assert_eq!(left_out(70), [0; 0]);
        assert_eq!(left_out(69), [3], "7 s more than there are");
        assert_eq!(
            left_out(64),
            [2],
            "without the slow one there is room for the next"
        );
        assert_eq!(left_out(28), [2]);
        assert_eq!(left_out(27), [2, 3]);
        assert_eq!(left_out(23), [2, 3], "the control stays as long as it can");
        assert_eq!(left_out(22), [2, 3, 4]);
        assert_eq!(
            left_out(1),
            [2, 3, 4],
            "one layer is left whatever it takes"
        );
        let unlimited = Clock::new(None, Vec::new());
        assert!(unlimited.left_out(7, Duration::ZERO, &due, None).is_empty());
    }

    #[test]
    fn before_anything_is_timed_the_plan_says_what_a_trial_takes() {
        let guesses = vec![guess(0), guess(500_000_000)];
        let clock = Clock::new(Some(Duration::from_secs(10)), guesses);
        let ms = |point| clock.estimate(3, point).as_millis();
        assert_eq!((ms(0), ms(1)), (50, 1050), "50 ms and making its file");
        let due: Vec<Due> = [0, 1]
            .map(|point| Due {
                point,
                layers: vec![0, 1, 2],
                width: f64::INFINITY,
            })
            .into();
        // Eight blocks of 1.1 s are 8.8 s a layer.
        assert_eq!(clock.left_out(8, Duration::ZERO, &due, Some(2)), [2]);
        let small = |spent| clock.left_out(8, Duration::from_secs(spent), &due[..1], Some(2));
        assert!(small(0).is_empty());
        assert_eq!(small(14), [2], "setting up took most of 15 s");
    }

    /// Three layers that took turns at two points, in two sessions: each began within a moment.
    #[test]
    fn stored_trials_that_took_turns_divide_their_time_by_their_own_clocks() {
        let record =
            |[session, block]: [u32; 2], [point, layer]: [usize; 2], at_ms, own_ms: u64| {
                let pass = Pass {
                    elapsed_ns: own_ms * 1_000_000,
                    ops: 1,
                    bytes: 0,
                };
                TrialRecord {
                    seq: 0,
                    cell: Cell {
                        session,
                        block,
                        layer,
                        point,
                    },
                    at_ms,
                    trial: (own_ms > 0).then(|| Trial {
                        passes: vec![pass],
                        ..Trial::default()
                    }),
                    error: None,
                    upkeep_ns: 0,
                    foreign_cpu: 0.0,
                    steal: 0.0,
                    backing_resident: None,
                    flags: Vec::new(),
                }
            };
        let stored = [
            record([0, 0], [1, 2], 1003, 100),
            record([0, 0], [1, 0], 1000, 50),
            record([0, 0], [1, 1], 1006, 50),
            // Both failed before their clocks ran.
            record([0, 0], [0, 0], 1400, 0),
            record([0, 0], [0, 1], 1401, 0),
            record([0, 1], [0, 0], 1600, 60),
            record([1, 1], [0, 0], 9000, 30),
        ];
        let mut clock = Clock::new(None, Vec::new());
        clock.note_stored(&stored);
        let ms = |layer, point| clock.estimate(layer, point).as_millis();
        let turns = [0, 1, 2].map(|layer| ms(layer, 1));
        assert_eq!(turns, [100, 100, 200], "400 ms, half of them one layer's");
        assert_eq!(ms(1, 0), 100, "half of 200 ms");
        assert_eq!(ms(0, 0), 45, "the last of each session by its own clock");
        assert_eq!(clock.spent(), Duration::from_millis(690));
    }

    #[test]
    fn afterwards_the_widest_come_first() {
        assert_eq!(points(&clock(9, 3).fit(8, due(&[0.1, 0.3, 0.2]))), [1, 2]);
        assert_eq!(points(&clock(7, 3).fit(8, due(&[0.1, 0.3, 0.2]))), [1]);
        assert_eq!(
            points(&clock(99, 3).fit(8, due(&[0.1, 0.3, 0.2]))),
            [0, 1, 2]
        );
    }

    #[test]
    fn an_unknown_trial_takes_longer_than_was_planned_as_others_do() {
        let mut clock = Clock::new(None, vec![guess(0), guess(0), 4 * guess(0)]);
        clock.note(0, 0, Duration::from_secs(1));
        clock.note(0, 1, Duration::from_secs(3));
        assert_eq!(clock.estimate(0, 0), Duration::from_secs(1));
        assert_eq!(clock.estimate(5, 1), Duration::from_secs(2));
        assert_eq!(clock.estimate(5, 2), Duration::from_secs(8));
        assert_eq!(clock.spent(), Duration::from_secs(4));
    }

    #[test]
    fn a_first_trial_says_little_about_later_ones() {
        let mut clock = Clock::new(None, Vec::new());
        for seconds in [9, 1, 3] {
            clock.note(0, 0, Duration::from_secs(seconds));
        }
        assert_eq!(clock.estimate(0, 0), Duration::from_secs(2));
        assert_eq!(clock.spent(), Duration::from_secs(13));
    }

    #[test]
    fn the_set_up_is_part_of_the_budget() {
        let mut clock = clock(20, 3);
        clock.note_set_up(Duration::from_secs(10));
        assert_eq!(clock.left(), Some(Duration::from_secs(4)));
        let block = Duration::from_secs(6);
        assert_eq!(clock.needed(11, block), Duration::from_secs(76));
    }
}
