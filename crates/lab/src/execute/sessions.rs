//! How many times the layers are set up, and when.

use std::time::Duration;

use crate::execute::progress::Progress;

/// Setting all layers up is quick if it takes less than this: then it is done at least
/// [`FEWEST_SESSIONS`] times.
const QUICK_SET_UP: Duration = Duration::from_secs(1);
/// The fewest sessions when setting up is quick.
const FEWEST_SESSIONS: u32 = 3;
/// In a longer run, layers are set up again while that takes less than this share of the time.
const SET_UP_SHARE: f64 = 0.1;
/// While one set-up would otherwise have most of the blocks of a budget, all set-ups may take this share of it.
const MOST_SET_UPS: f64 = 0.2;
/// With a budget no set-up but the first one may take more than this share of it, with the files that are
/// made anew.
const MOST_OF_BUDGET: f64 = 0.1;

impl Progress {
    /// How many times the layers are set up. If that is quick, it is done at least three times,
    /// whatever the profile. What one set-up happens to get (blocks on the disk, pages in memory)
    /// is not the layer.
    pub(crate) fn planned_sessions(&self) -> u32 {
        if let Some(sessions) = self.run.plan.sessions {
            return sessions;
        }
        let planned = self.run.plan.profile.sessions();
        if self.set_up_s() < QUICK_SET_UP.as_secs_f64() {
            planned.max(FEWEST_SESSIONS)
        } else {
            planned
        }
    }

    /// Duration of one set-up of all layers, s.
    fn set_up_s(&self) -> f64 {
        self.run.layers.iter().map(|l| l.setup_s).sum()
    }

    /// Blocks per session: the minimum number of blocks, divided by the number of sessions.
    fn session_length(&self) -> u32 {
        (self.stopping.fewest() as u32)
            .div_ceil(self.planned_sessions())
            .max(1)
    }

    /// How many times the layers should have been set up again by now. The minimum number of
    /// blocks, and the budget, are divided evenly over the sessions.
    pub(crate) fn set_ups_due(&self) -> u32 {
        let sessions = self.planned_sessions();
        if self.run.plan.sessions.is_none() && !self.may_afford_a_set_up() {
            return self.session;
        }
        let by_time = self.clock.budget().map_or(0, |budget| {
            (self.clock.spent().as_secs_f64() / budget.as_secs_f64() * f64::from(sessions)) as u32
        });
        let by_blocks = self.block / self.session_length();
        by_blocks.max(by_time).min(sessions - 1)
    }

    /// Whether a session that began with block `first` is as long as the others and one more set-up
    /// is cheap, or as long as a planned session of all blocks that the budget has time for. Otherwise the last planned
    /// session would have most of the blocks of a long run, and its chance conditions would count most.
    pub(crate) fn may_set_up_again(&self, first: u32) -> bool {
        let made = self.block - first;
        let spent = self.clock.spent().as_secs_f64();
        let all = self.change_s() * f64::from(self.session + 1);
        let is_long = self.clock.budget().is_some_and(|budget| {
            let budget = budget.as_secs_f64();
            let all_blocks = f64::from(self.block) * budget / spent;
            let length = (self.planned_sessions(), self.session_length());
            all <= budget * MOST_SET_UPS && has_its_part(made, self.block, all_blocks, length)
        });
        self.run.plan.sessions.is_none()
            && self.may_afford_a_set_up()
            && made >= self.session_length()
            && (all <= spent * SET_UP_SHARE || is_long)
    }

    /// Duration of setting all layers up again, s.
    fn change_s(&self) -> f64 {
        match self.changes {
            (0, _) => self.set_up_s(),
            (count, seconds) => seconds / f64::from(count),
        }
    }

    /// Whether setting all layers up again, with the files that the blocks use, takes a small part of a
    /// budget. Otherwise the rounds are worth more.
    fn may_afford_a_set_up(&self) -> bool {
        let all = self.change_s() + self.clock.afresh().as_secs_f64();
        let budget = self.clock.budget();
        budget.is_none_or(|budget| all <= budget.as_secs_f64() * most_of_budget(self.session + 1))
    }
}

/// The most that one more set-up may take of a budget after so many. Where two differ, an interval has one degree of
/// freedom and says nothing: so a third may cost more.
fn most_of_budget(made: u32) -> f64 {
    if made == 2 {
        2.0 * MOST_OF_BUDGET
    } else {
        MOST_OF_BUDGET
    }
}

/// Whether a session that `made` so many of `block` blocks has as many as each of the planned sessions would have of all
/// blocks of the budget, and the next one would not be shorter than the least length. `length`: how many sessions are
/// planned, and the least length of one, blocks.
fn has_its_part(made: u32, block: u32, all: f64, length: (u32, u32)) -> bool {
    let (planned, least) = length;
    f64::from(made) >= all / f64::from(planned) && all - f64::from(block) >= f64::from(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three sessions had 3, 3 and all other blocks.
    #[test]
    fn no_session_has_most_blocks_of_a_budget() {
        let sessions = |all: u32| {
            let mut sessions = vec![3, 3, 0];
            for made in 7..=all {
                *sessions.last_mut().unwrap() += 1;
                if has_its_part(sessions[sessions.len() - 1], made, f64::from(all), (3, 3)) {
                    sessions.push(0);
                }
            }
            sessions
        };
        assert_eq!(sessions(36), [3, 3, 12, 12, 6]);
        assert_eq!(sessions(21), [3, 3, 7, 8]);
        assert_eq!(sessions(9), [3, 3, 3]);
        assert_eq!(sessions(8), [3, 3, 2]);
    }
}
