//! When a run has to end: the user asks for it, or its time is over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// What is at work when the budget is spent may take this part of the budget more, and [`GRACE`], until it
/// is cut. What it takes to unwind the layers and to write the report comes on top.
const MORE: u32 = 10;
const GRACE: Duration = Duration::from_secs(2);

/// Requests a run to end early. It is shared with signal handlers.
///
/// After one request the run ends after the current round, after two it ends at once. In both cases
/// all layers are unwound. A run with a budget also ends by itself: see [`Stop::within`].
#[derive(Debug, Clone, Default)]
pub struct Stop {
    asked: Arc<AtomicU32>,
    clock: Clock,
    limit: Option<Limit>,
}

/// The clock of a run. Tests move it forward instead of waiting.
#[derive(Debug, Clone, Default)]
struct Clock {
    /// Nanoseconds.
    ahead: Arc<AtomicU64>,
}

/// When the time is over.
#[derive(Debug, Clone, Copy)]
struct Limit {
    /// From then on nothing is begun ...
    spent: Instant,
    /// ... and from then on what is at work is cut.
    over: Instant,
}

impl Stop {
    /// No request yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same requests, for a run that has this much time from now on.
    #[must_use]
    pub fn within(&self, budget: Duration) -> Self {
        let limit = self.now().checked_add(budget).and_then(|spent| {
            let over = spent.checked_add(budget / MORE + GRACE)?;
            Some(Limit { spent, over })
        });
        Self {
            limit,
            ..self.clone()
        }
    }

    /// Makes a request. Safe in a signal handler: it only increments an atomic number.
    pub fn ask(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether the user has asked to end after the current round.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst) > 0
    }

    /// Whether to end at once, because the user has asked twice or the time is over.
    pub fn at_once(&self) -> bool {
        self.asked.load(Ordering::SeqCst) > 1 || self.is_over()
    }

    /// Whether nothing more is to be begun, because the time is spent.
    pub fn is_spent(&self) -> bool {
        self.limit.is_some_and(|limit| self.now() >= limit.spent)
    }

    /// Whether to begin nothing more, for either reason.
    pub fn is_ending(&self) -> bool {
        self.asked() || self.is_spent()
    }

    /// Whether what is at work is cut, because the time is over.
    pub fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.now() >= limit.over)
    }

    /// How long until what is at work is cut; `None` without a limit.
    pub fn left(&self) -> Option<Duration> {
        let limit = self.limit?;
        Some(limit.over.saturating_duration_since(self.now()))
    }

    /// What the run's clock shows.
    pub fn now(&self) -> Instant {
        Instant::now() + Duration::from_nanos(self.clock.ahead.load(Ordering::SeqCst))
    }

    /// Moves the run's clock forward, for tests.
    pub fn pass(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.clock.ahead.fetch_add(ns, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_begun_after_the_budget_and_what_is_at_work_is_cut_a_little_later() {
        let user = Stop::new();
        let stop = user.within(Duration::from_hours(1));
        let state = || (stop.is_spent(), stop.is_over(), stop.at_once());
        assert_eq!(state(), (false, false, false));
        user.pass(Duration::from_mins(61));
        assert_eq!(state(), (true, false, false));
        assert!(stop.left().is_some_and(|l| l < Duration::from_mins(6)));
        stop.pass(Duration::from_mins(6));
        assert_eq!(state(), (true, true, true));
        assert_eq!(stop.left(), Some(Duration::ZERO));
        assert!(!stop.asked(), "it was not the user");
        assert!(!user.at_once() && user.left().is_none(), "no limit");
    }

    #[test]
    fn a_user_ends_a_run_that_has_time() {
        let user = Stop::new();
        let stop = user.within(Duration::MAX);
        user.ask();
        assert!(stop.asked() && !stop.at_once() && !stop.is_spent());
        user.ask();
        assert!(stop.at_once() && !stop.is_over());
    }
}
