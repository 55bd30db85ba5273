//! Decides when the next I/O may start. Times are nanoseconds since all workers started.

/// The next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Start one; it was due at this moment.
    Begin(u64),
    /// Start nothing before this moment.
    At(u64),
    /// Start nothing before all I/Os in flight have completed.
    Drain,
}

/// The schedule of one worker.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// I/Os per second of all workers; 0: no rate.
    rate: u64,
    workers: u64,
    index: u64,
    /// Number of started I/Os.
    begun: u64,
    /// A delay that starts when no I/O is in flight any more.
    owed: u64,
    resume_at: u64,
}

impl Pace {
    /// Worker `index` of `workers`, which take the moments of a fixed rate in turn.
    pub fn new(rate: u64, index: u64, workers: u64) -> Self {
        Self {
            rate,
            workers,
            index,
            begun: 0,
            owed: 0,
            resume_at: 0,
        }
    }

    /// Restarts the schedule: moments count from the new start of all workers.
    pub fn restart(&mut self) {
        (self.begun, self.owed, self.resume_at) = (0, 0, 0);
    }

    /// The action at `now`.
    #[inline]
    pub fn next(&mut self, now: u64, in_flight: usize) -> Next {
        if self.rate > 0 {
            let turn = u128::from(self.begun) * u128::from(self.workers) + u128::from(self.index);
            let due = (turn * 1_000_000_000 / u128::from(self.rate)) as u64;
            return if due <= now {
                Next::Begin(due)
            } else {
                Next::At(due)
            };
        }
        if self.owed > 0 {
            if in_flight > 0 {
                return Next::Drain;
            }
            self.resume_at = now + self.owed;
            self.owed = 0;
        }
        if now < self.resume_at {
            return Next::At(self.resume_at);
        }
        Next::Begin(now)
    }

    /// Records that an I/O was started. This delay follows it.
    #[inline]
    pub fn begun(&mut self, delay_ns: u64) {
        self.begun += 1;
        self.owed = delay_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_a_rate_do_not_move_whatever_happens() {
        let mut two = [Pace::new(1000, 0, 2), Pace::new(1000, 1, 2)];
        assert_eq!(two[0].next(0, 0), Next::Begin(0));
        assert_eq!(two[1].next(0, 0), Next::At(1_000_000));
        two[0].begun(0);
        assert_eq!(two[0].next(0, 5), Next::At(2_000_000));
        // A layer that was stopped for a second: I/Os that were due start late and keep their due
        // time.
        for k in 1..500 {
            assert_eq!(two[0].next(1_000_000_000, 0), Next::Begin(k * 2_000_000));
            two[0].begun(0);
        }
        assert_eq!(two[0].next(u64::MAX, 0), Next::Begin(1_000_000_000));
    }

    #[test]
    fn a_delay_begins_when_the_burst_has_ended() {
        let mut pace = Pace::new(0, 0, 1);
        assert_eq!(pace.next(10, 0), Next::Begin(10));
        pace.begun(0);
        assert_eq!(pace.next(20, 1), Next::Begin(20));
        pace.begun(100);
        assert_eq!(pace.next(30, 2), Next::Drain);
        assert_eq!(pace.next(50, 0), Next::At(150));
        assert_eq!(pace.next(149, 0), Next::At(150));
        assert_eq!(pace.next(150, 0), Next::Begin(150));
    }
}
