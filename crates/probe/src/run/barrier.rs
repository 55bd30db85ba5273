use std::{
    hint,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread,
};

/// Number of checks of the barrier before a thread yields its CPU: a few microseconds.
const SPINS: u32 = 2000;

/// The turn of a cancelled barrier.
const CANCELLED: u64 = u64::MAX;

/// A barrier at which threads wait for each other before the clock starts. They spin, because
/// waking up takes tens of microseconds, longer than a short pass. After a while they yield, so
/// that threads in excess of the CPUs can arrive.
pub struct SpinBarrier {
    pub count: usize,
    arrived: AtomicUsize,
    turn: AtomicU64,
}

impl SpinBarrier {
    /// A barrier for this many threads.
    pub fn new(count: usize) -> Self {
        Self {
            count,
            arrived: AtomicUsize::new(0),
            turn: AtomicU64::new(0),
        }
    }

    /// Waits until all have arrived. The last one calls `last` before the others continue. Returns
    /// `false` if the barrier is cancelled.
    pub fn wait(&self, last: impl FnOnce()) -> bool {
        // It cannot change before this thread has arrived.
        let turn = self.turn.load(Ordering::Acquire);
        if turn == CANCELLED {
            return false;
        }
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            self.arrived.store(0, Ordering::Relaxed);
            last();
            self.turn.store(turn + 1, Ordering::Release);
            return true;
        }
        let mut looks = 0;
        loop {
            let now = self.turn.load(Ordering::Acquire);
            if now != turn {
                return now != CANCELLED;
            }
            if looks < SPINS {
                looks += 1;
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }

    /// Makes every call of [`Self::wait`] return `false`. For when not all can arrive.
    pub fn cancel(&self) {
        self.turn.store(CANCELLED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_goes_on_before_all_are_there_however_many_they_are() {
        const TURNS: u64 = 50;
        for count in [2, 40] {
            let (barrier, inside) = (SpinBarrier::new(count), AtomicUsize::new(0));
            let lasts = AtomicUsize::new(0);
            thread::scope(|scope| {
                for _ in 0..count {
                    scope.spawn(|| {
                        for _ in 0..TURNS {
                            inside.fetch_add(1, Ordering::SeqCst);
                            let all = barrier.wait(|| {
                                assert_eq!(inside.swap(0, Ordering::SeqCst), count);
                                lasts.fetch_add(1, Ordering::SeqCst);
                            });
                            assert!(all);
                        }
                    });
                }
            });
            assert_eq!(lasts.into_inner(), TURNS as usize);
        }
    }

    #[test]
    fn a_cancelled_barrier_lets_all_go() {
        let barrier = SpinBarrier::new(3);
        thread::scope(|scope| {
            let waits = [(); 2].map(|()| scope.spawn(|| barrier.wait(|| ())));
            barrier.cancel();
            for wait in waits {
                assert!(!wait.join().unwrap());
            }
        });
    }
}
