//! Where the time goes.

use std::{collections::BTreeMap, time::Duration};

use layermark_model::TrialRecord;
use layermark_stats::FEWEST_BLOCKS;

/// The fewest blocks may take so many times the budget: a result that decides nothing saves no time.
const SOFT: f64 = 1.5;

/// Wall-clock time spent: trials with the set-up of their files and caches, and the first set-up of
/// the layers, since a budget is how long somebody is willing to wait.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    budget: Option<Duration>,
    spent: Duration,
    set_up: Duration,
    /// Trials of a layer at a point.
    each: BTreeMap<(usize, usize), Each>,
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
    pub(crate) fn new(budget: Option<Duration>) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }

    /// Notes a trial.
    pub(crate) fn note(&mut self, layer: usize, point: usize, took: Duration) {
        self.spent += took;
        let first = Each {
            sum: took,
            count: 1,
            alone: true,
        };
        let each = self.each.entry((layer, point));
        each.and_modify(|e| e.note(took)).or_insert(first);
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
    pub(crate) fn needed(&self, blocks: usize, cost: Duration) -> Duration {
        self.set_up + cost * u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// Notes the trials of an earlier part of the run. A trial took from its own start to the next
    /// one's in its session; the last of a session has only its own clock to go by.
    pub(crate) fn note_stored(&mut self, trials: &[TrialRecord]) {
        for (index, record) in trials.iter().enumerate() {
            let next = trials
                .get(index + 1)
                .filter(|n| n.cell.session == record.cell.session);
            let took = next.map_or_else(
                || {
                    Duration::from_nanos(
                        record
                            .trial
                            .as_ref()
                            .map_or(0, layermark_model::Trial::elapsed_ns),
                    )
                },
                |n| Duration::from_millis(n.at_ms.saturating_sub(record.at_ms)),
            );
            self.note(record.cell.layer, record.cell.point, took);
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

    /// Whether no trial has been timed yet.
    pub(crate) fn knows_nothing(&self) -> bool {
        self.each.is_empty()
    }

    /// The layers to leave out so that the fewest blocks fit into the budget and half as much again:
    /// those that do not fit any more when they are taken in their order. The baseline stays, those in
    /// `kept` do, and one other at least.
    pub(crate) fn left_out(&self, block: u32, due: &[Due], kept: &[usize]) -> Vec<usize> {
        let Some(budget) = self.budget else {
            return Vec::new();
        };
        let blocks = (FEWEST_BLOCKS as u32).saturating_sub(block);
        let left = budget.mul_f64(SOFT).saturating_sub(self.spent);
        let mut each: BTreeMap<usize, Duration> = BTreeMap::new();
        for due in due {
            for layer in &due.layers {
                *each.entry(*layer).or_default() += self.estimate(*layer, due.point) * blocks;
            }
        }
        let stays = |layer: &usize| *layer == 0 || kept.contains(layer);
        let mut sum: Duration = each.iter().filter(|e| stays(e.0)).map(|e| *e.1).sum();
        let mut out = Vec::new();
        let mut measured = false;
        for (layer, cost) in each.into_iter().filter(|e| !stays(&e.0)) {
            if measured && sum + cost > left {
                out.push(layer);
            } else {
                (sum, measured) = (sum + cost, true);
            }
        }
        out
    }

    /// What a trial of a layer at a point takes, by those that were made; else by all.
    pub(crate) fn estimate(&self, layer: usize, point: usize) -> Duration {
        let known = self.each.get(&(layer, point)).map(|e| (e.sum, e.count));
        let (sum, count) = known.unwrap_or_else(|| {
            let all = self.each.values();
            all.fold((Duration::ZERO, 0), |a, e| (a.0 + e.sum, a.1 + e.count))
        });
        sum / count.max(1)
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
        let mut clock = Clock::new(Some(Duration::from_secs(budget)));
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
        let clock = Clock::new(None);
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
            let mut clock = Clock::new(Some(Duration::from_secs(budget)));
            for (layer, seconds) in sites {
                clock.note(layer, 0, Duration::from_secs(seconds));
            }
            clock.left_out(1, &due, &[4])
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
        assert_eq!(left_out(1), [2, 3], "one layer is left whatever it takes");
        assert!(Clock::new(None).left_out(1, &due, &[]).is_empty());
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
    fn an_unknown_trial_takes_what_others_take() {
        let mut clock = Clock::new(None);
        assert_eq!(clock.estimate(0, 0), Duration::ZERO);
        clock.note(0, 0, Duration::from_secs(1));
        clock.note(0, 1, Duration::from_secs(3));
        assert_eq!(clock.estimate(0, 0), Duration::from_secs(1));
        assert_eq!(clock.estimate(5, 5), Duration::from_secs(2));
        assert_eq!(clock.spent(), Duration::from_secs(4));
    }

    #[test]
    fn a_first_trial_says_little_about_later_ones() {
        let mut clock = Clock::new(None);
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
