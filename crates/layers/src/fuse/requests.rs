//! Options of our FUSE file system, with helpers for its requests.

use std::{
    cell::RefCell,
    thread,
    time::{Duration, Instant, SystemTime},
};

use fuser::TimeOrNow;
use rustix::fs::Timespec;
use serde::{Deserialize, Serialize};

use crate::options::option_words;

option_words! {
    /// What the kernel may cache.
    pub(crate) enum FuseCache {
        /// Names and attributes for a second; data until the file is seen to have changed.
        Auto = "auto",
        /// Everything, without a time limit.
        Always = "always",
        /// Nothing.
        None = "none",
    }
}

option_words! {
    /// What becomes of fsync(2).
    pub(crate) enum FuseFsync {
        /// The file below is flushed.
        Pass = "pass",
        /// It succeeds, and nothing is flushed.
        Drop = "drop",
        /// It succeeds at once, and the file below is flushed later.
        Late = "late",
        /// Every second one succeeds, and nothing is flushed.
        Second = "second",
        /// Data is flushed, and the size and what else leads to it is not.
        Data = "data",
        /// Files are flushed, and directories are not: names may be lost.
        Files = "files",
        /// It fails with `EINVAL`, as where fsync is not supported.
        Invalid = "einval",
        /// The first one fails with `EIO`, and later ones are passed on.
        FailOnce = "eio",
    }
}

/// How requests are served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServeOptions {
    pub(crate) cache: FuseCache,
    /// The kernel gathers writes.
    pub(crate) writeback: bool,
    /// The kernel reads and writes the file below itself.
    pub(crate) passthrough: bool,
    /// The file below is opened with `O_DIRECT` too.
    pub(crate) direct: bool,
    pub(crate) fsync: FuseFsync,
    /// Delay added to every request.
    pub(crate) delay: Duration,
    pub(crate) stalls: StallPlan,
}

/// Which requests stall, as those of a journal's commit do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StallPlan {
    /// Duration of a stall; zero: no stalls.
    pub(crate) length: Duration,
    /// One request of this many stalls; at least 1.
    pub(crate) every: u64,
    pub(crate) order: StallOrder,
}

option_words! {
    /// Order of the stalls.
    pub(crate) enum StallOrder {
        /// Each `every`th request.
        Periodic = "periodic",
        /// One of `every` at random, in the same order each time.
        Random = "random",
        /// The first flush of each open file.
        First = "first",
    }
}

impl StallPlan {
    /// Stall of the `n`th request, counted from 1.
    pub(crate) fn of(&self, n: u64) -> Duration {
        let hit = match self.order {
            StallOrder::Periodic => n.is_multiple_of(self.every),
            StallOrder::Random => mixed(n).is_multiple_of(self.every),
            StallOrder::First => false,
        };
        if hit { self.length } else { Duration::ZERO }
    }

    /// Stall of a flush. `first`: it is the first flush of its file.
    pub(crate) fn of_flush(&self, first: bool) -> Duration {
        if first && self.order == StallOrder::First {
            self.length
        } else {
            Duration::ZERO
        }
    }
}

/// `SplitMix64` (Steele, Lea, Flood 2014) of a counter.
pub(crate) fn mixed(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Features negotiated with the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Agreed {
    pub(crate) abi: String,
    pub(crate) passthrough: bool,
    pub(crate) writeback: bool,
}

/// Alignment of `O_DIRECT` buffers that every file system accepts.
const ALIGN: usize = 4096;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `what` with this thread's buffer, which is aligned for `O_DIRECT`.
pub(crate) fn with_buffer<T>(size: usize, what: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < size + ALIGN {
            *buffer = vec![0; size + ALIGN];
        }
        let start = buffer.as_ptr().align_offset(ALIGN);
        what(&mut buffer[start..start + size])
    })
}

/// Waits from `since` until `delay` has passed: sleeps most of it, then spins, since a sleep ends
/// some 50 us late.
pub(crate) fn wait(since: Instant, delay: Duration) {
    const SPIN: Duration = Duration::from_micros(150);
    if let Some(nap) = delay.checked_sub(since.elapsed() + SPIN) {
        thread::sleep(nap);
    }
    while since.elapsed() < delay {
        std::hint::spin_loop();
    }
}

/// A time in the form of utimensat(2).
pub(crate) fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        None => special(rustix::fs::UTIME_OMIT),
        Some(TimeOrNow::Now) => special(rustix::fs::UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => {
            let since = time
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default();
            Timespec {
                tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(since.subsec_nanos()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_come_as_often_as_asked() {
        let length = Duration::from_millis(20);
        let count = |order| {
            let plan = StallPlan {
                length,
                every: 50,
                order,
            };
            (1..=10_000).filter(|n| plan.of(*n) == length).count()
        };
        assert_eq!(count(StallOrder::Periodic), 200);
        assert!((150..250).contains(&count(StallOrder::Random)));
        assert_eq!(count(StallOrder::First), 0);
    }

    #[test]
    fn buffers_are_aligned_and_delays_are_not_shorter_than_asked() {
        for size in [1, 4096, 1 << 20] {
            with_buffer(size, |b| {
                assert_eq!((b.as_ptr() as usize % ALIGN, b.len()), (0, size));
            });
        }
        for delay in [20, 300, 2000].map(Duration::from_micros) {
            let start = Instant::now();
            wait(start, delay);
            assert!(start.elapsed() >= delay);
        }
    }
}
