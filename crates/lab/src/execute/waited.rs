//! Time for which work waited for a CPU.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use layermark_model::Turn;
use layermark_sys::process::Schedstat;

/// How long work took, and the threads that did it waited for a CPU meanwhile.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waited {
    waited_ns: u64,
    elapsed_ns: u64,
}

impl Waited {
    pub(crate) fn of(turns: impl Iterator<Item = Turn>) -> Self {
        let each = turns.map(|turn| Self {
            waited_ns: turn.waited_ns.unwrap_or(0),
            elapsed_ns: turn.elapsed_ns,
        });
        each.fold(Self::default(), Self::and)
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            waited_ns: self.waited_ns + other.waited_ns,
            elapsed_ns: self.elapsed_ns + other.elapsed_ns,
        }
    }

    pub(crate) fn elapsed(self) -> Duration {
        Duration::from_nanos(self.elapsed_ns)
    }

    /// Whether more than one in this many nanoseconds was waited for.
    pub(crate) fn is_over(self, parts: u64) -> bool {
        self.waited_ns > self.elapsed_ns / parts
    }
}

/// Work of the calling thread that has begun.
pub(crate) struct OwnWork {
    begun: Instant,
    waited_ns: u64,
}

impl OwnWork {
    pub(crate) fn begin() -> Self {
        Self {
            begun: Instant::now(),
            waited_ns: own_waited_ns(),
        }
    }

    pub(crate) fn end(&self) -> Waited {
        Waited {
            waited_ns: own_waited_ns().saturating_sub(self.waited_ns),
            elapsed_ns: self.begun.elapsed().as_nanos() as u64,
        }
    }
}

/// How long the calling thread has waited since it began. Zero where the kernel does not count it.
fn own_waited_ns() -> u64 {
    Schedstat::of(Path::new("/proc/thread-self")).map_or(0, |own| own.wait_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_waited_for_is_a_part_of_what_they_took() {
        let turn = |elapsed_ns, waited_ns| Turn {
            elapsed_ns,
            waited_ns,
            ..Turn::default()
        };
        let round =
            |waited_ns| Waited::of([turn(1000, Some(waited_ns)), turn(1000, None)].into_iter());
        assert!(!round(200).is_over(10) && round(201).is_over(10));
        // Of all rounds together.
        let both = |waited_ns| round(0).and(round(waited_ns));
        assert!(!both(1332).is_over(3) && both(1334).is_over(3));
        assert!(!Waited::of([].into_iter()).is_over(10));
    }

    #[test]
    fn a_thread_waits_for_no_longer_than_its_work_takes() {
        let work = OwnWork::begin();
        let sum = std::thread::spawn(|| (0..100_000_u64).fold(0, u64::wrapping_add));
        assert_ne!(sum.join().unwrap(), 0);
        let took = work.end();
        assert!(took.elapsed_ns > 0 && took.waited_ns <= took.elapsed_ns);
    }
}
