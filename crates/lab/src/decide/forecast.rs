//! Expected trials and time left.

use std::{collections::BTreeMap, time::Duration};

use crate::decide::{budget::Clock, stop::Site};

/// Remaining trials and their time. The time left grows if trials take longer than expected, or more
/// turn out to be needed. The number of trials never falls.
#[derive(Debug, Default)]
pub(crate) struct Forecast {
    to_come: BTreeMap<Site, ToCome>,
    /// The number of blocks is not known yet.
    open: bool,
    /// The number of trials last reported.
    planned: u64,
}

/// Trials of a layer at a point.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct ToCome {
    /// Expected number by current knowledge.
    pub expected: usize,
    /// Minimum number, whatever the budget.
    pub least: usize,
}

impl Forecast {
    /// Forecasts at the start of a block; `open` when the number of blocks is unknown.
    pub(crate) fn renew(&mut self, to_come: BTreeMap<Site, ToCome>, open: bool) {
        self.to_come = to_come;
        self.open = open;
    }

    /// Removes the remaining trials of these layers.
    pub(crate) fn leave_out(&mut self, layers: &[usize]) {
        self.to_come.retain(|(layer, _), _| !layers.contains(layer));
    }

    /// Removes the remaining trials of these points.
    pub(crate) fn leave_points_out(&mut self, points: &[usize]) {
        self.to_come.retain(|(_, point), _| !points.contains(point));
    }

    /// Updates the forecast after a trial: the total number of trials, and the time left. Without a
    /// budget no time is known while the number of blocks is open, or some trial to come was never
    /// timed.
    pub(crate) fn after(
        &mut self,
        site: Site,
        done: u64,
        clock: &Clock,
    ) -> (u64, Option<Duration>) {
        if let Some(to_come) = self.to_come.get_mut(&site) {
            to_come.expected = to_come.expected.saturating_sub(1);
            to_come.least = to_come.least.saturating_sub(1);
        }
        let (more, left) = self.to_come(clock);
        self.planned = self.planned.max(done + more);
        (self.planned, left)
    }

    fn to_come(&self, clock: &Clock) -> (u64, Option<Duration>) {
        let trials = |of: fn(&ToCome) -> usize| self.to_come.values().map(of).sum::<usize>() as u64;
        let time = |of: fn(&ToCome) -> usize| -> Duration {
            let each = self.to_come.iter();
            each.map(|((layer, point), t)| clock.estimate(*layer, *point) * of(t) as u32)
                .sum()
        };
        let (more, takes) = (trials(|t| t.expected), time(|t| t.expected));
        let Some(left) = clock.left() else {
            let mut to_come = self.to_come.iter().filter(|(_, t)| t.expected > 0);
            let timed = to_come.all(|((layer, point), _)| clock.has_timed(*layer, *point));
            return (more, (timed && !self.open).then_some(takes));
        };
        // The minimum number of blocks is always run. Until the needed number is known, the
        // forecast assumes that the whole budget is spent.
        let left = left.max(time(|t| t.least));
        if takes.is_zero() || !self.open && takes <= left {
            return (more, Some(takes));
        }
        let share = left.as_secs_f64() / takes.as_secs_f64();
        let fit = (more as f64 * share) as u64;
        (fit.max(trials(|t| t.least)), Some(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::guess::Guess;

    /// One layer and the baseline at one point; a trial takes a second.
    fn clock(budget: Option<u64>) -> Clock {
        let second = Guess {
            work: Duration::from_secs(1),
            ..Guess::default()
        };
        Clock::new(budget.map(Duration::from_secs), vec![second])
    }

    fn both(expected: usize, least: usize) -> BTreeMap<Site, ToCome> {
        let to_come = ToCome { expected, least };
        BTreeMap::from([((0, 0), to_come), ((1, 0), to_come)])
    }

    /// Simulates a block with trials of this many seconds. Returns what is reported after each:
    /// trials and seconds left.
    fn block(
        forecast: &mut Forecast,
        clock: &mut Clock,
        done: &mut u64,
        seconds: u64,
    ) -> Vec<(u64, Option<u64>)> {
        let mut reported = Vec::new();
        for layer in 0..2 {
            clock.note(layer, 0, Duration::from_secs(seconds));
            clock.pass_to(clock.spent() + Duration::from_secs(seconds));
            *done += 1;
            let (planned, left) = forecast.after((layer, 0), *done, clock);
            reported.push((planned, left.map(|l| l.as_secs())));
        }
        reported
    }

    fn never_fewer(reported: &[(u64, Option<u64>)]) {
        for pair in reported.windows(2) {
            assert!(pair[0].0 <= pair[1].0, "trials: {reported:?}");
        }
    }

    #[test]
    fn the_first_forecast_is_the_budget_until_more_is_known() {
        let (mut forecast, mut clock, mut done) = (Forecast::default(), clock(Some(60)), 0);
        forecast.renew(both(8, 8), true);
        let mut reported = block(&mut forecast, &mut clock, &mut done, 1);
        assert_eq!(
            reported[1],
            (60, Some(58)),
            "not the 16 trials of the fewest blocks"
        );
        // Then it turns out that nine blocks will do.
        forecast.renew(both(8, 7), false);
        reported.extend(block(&mut forecast, &mut clock, &mut done, 1));
        assert_eq!(reported.last(), Some(&(60, Some(14))));
        never_fewer(&reported);
    }

    #[test]
    fn the_fewest_blocks_take_longer_than_a_small_budget() {
        let (mut forecast, mut clock, mut done) = (Forecast::default(), clock(Some(5)), 0);
        forecast.renew(both(8, 8), true);
        let reported = block(&mut forecast, &mut clock, &mut done, 1);
        assert_eq!(reported[1], (16, Some(14)));
    }

    /// The first block of a study took hours, below "53:12 left".
    #[test]
    fn nothing_is_known_before_each_trial_was_timed() {
        let (mut forecast, mut clock, mut done) = (Forecast::default(), clock(None), 0);
        forecast.renew(both(8, 8), false);
        let reported = block(&mut forecast, &mut clock, &mut done, 100);
        assert_eq!(reported, [(16, None), (16, Some(1400))]);
    }

    #[test]
    fn what_takes_longer_than_was_said_is_reported() {
        let (mut forecast, mut clock, mut done) = (Forecast::default(), clock(None), 0);
        let mut reported = Vec::new();
        for (expected, open, seconds) in [
            (8, true, 1),
            (8, false, 1),
            (7, false, 1),
            // Noise: twice as many blocks, each of which takes longer.
            (14, false, 3),
            (13, false, 3),
            (2, false, 3),
            (1, false, 3),
        ] {
            forecast.renew(both(expected, expected.min(8)), open);
            reported.extend(block(&mut forecast, &mut clock, &mut done, seconds));
        }
        assert_eq!(
            reported[1],
            (16, None),
            "nobody knows how many blocks it takes"
        );
        assert_eq!(reported[5], (18, Some(12)));
        assert_eq!(reported[9], (34, Some(48)), "it does not stand still");
        assert_eq!(reported.last(), Some(&(34, Some(0))));
        never_fewer(&reported);
    }
}
