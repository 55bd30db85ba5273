//! How long the thread on the clock waits for a CPU: ready to run, while other threads have all CPUs that
//! it may use. The kernel counts it in nanoseconds (the second number of `schedstat`).

use std::{cell::Cell, fs::File};

use layermark_sys::process::Schedstat;

use crate::clock::monotonic_ns;

/// A reading that takes longer than this was interrupted, ns.
const INTERRUPTED_NS: u64 = 100_000;
/// How often a reading is repeated before the clock starts.
const TRIES: u32 = 3;
/// For how long a reading is good, ns: whoever has waited for longer than this comes back after it. A pass over a
/// short file takes 0.2 ms, and a reading at each of its edges would add a percent to the CPU time of its operations.
pub const GOOD_NS: u64 = 20_000;

/// The counter of one thread, and its last reading.
struct Counter {
    file: File,
    /// `CLOCK_MONOTONIC` after it, and what it said, ns.
    last: Cell<(u64, u64)>,
}

thread_local! {
    /// Of this thread, opened with its first reading, before its clock starts. `None` where the kernel does not
    /// count.
    static OWN: Option<Counter> = {
        let file = File::open("/proc/thread-self/schedstat").ok();
        let file = file.filter(|file| Schedstat::read(file).is_some_and(|s| s.is_counted()));
        file.map(|file| Counter { file, last: Cell::default() })
    };
}

/// Nanoseconds for which this thread has waited since it started. `None` where the kernel does not count.
pub fn delay_ns() -> Option<u64> {
    OWN.with(|own| {
        let own = own.as_ref()?;
        let wait_ns = Schedstat::read(&own.file)?.wait_ns;
        own.last.set((monotonic_ns(), wait_ns));
        Some(wait_ns)
    })
}

/// The same at `now_ns`, but for a wait of less than [`GOOD_NS`].
fn delay_at(now_ns: u64) -> Option<u64> {
    let last = OWN.with(|own| own.as_ref().map(|own| own.last.get()));
    match last {
        Some((at, wait_ns)) if now_ns < at + GOOD_NS => Some(wait_ns),
        _ => delay_ns(),
    }
}

/// Nobody has waited for [`GOOD_NS`] since the last reading, at whose end this thread's work began: it is as good as
/// one made now.
pub fn still_good() {
    OWN.with(|own| {
        if let Some(own) = own {
            own.last.set((monotonic_ns(), own.last.get().1));
        }
    });
}

/// The waiting of a thread within its [`Span`](super::drive::Span). By default it is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waited(Option<Readings>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Readings {
    first: u64,
    last: u64,
    /// Waited in pauses of the clock, ns.
    outside: u64,
}

impl Waited {
    /// The first reading, and `CLOCK_MONOTONIC` directly after it: the clock starts there, so that no waiting lies
    /// between the two.
    pub fn begin() -> (Self, u64) {
        let mut before = monotonic_ns();
        let mut tries = 0;
        loop {
            let first = delay_at(before);
            let now = monotonic_ns();
            tries += 1;
            if now - before < INTERRUPTED_NS || tries == TRIES {
                let readings = |first| Readings {
                    first,
                    last: first,
                    outside: 0,
                };
                return (Self(first.map(readings)), now);
            }
            before = now;
        }
    }

    /// The last reading, directly after the clock was read as `end_ns`. Waiting between the two is left out.
    pub fn end(&mut self, end_ns: u64) {
        let Some(readings) = &mut self.0 else { return };
        let last = delay_at(end_ns);
        let late_ns = monotonic_ns().saturating_sub(end_ns);
        let too_much = if late_ns < INTERRUPTED_NS { 0 } else { late_ns };
        let last = last.unwrap_or(readings.first).saturating_sub(too_much);
        readings.last = last.max(readings.last);
    }

    /// A reading for [`Self::leave_out`], where the clock pauses; `None` if it is of no use.
    pub fn now(&self) -> Option<u64> {
        self.0.and_then(|_| delay_at(monotonic_ns()))
    }

    /// Leaves out the waiting since a reading. Called where the clock continues.
    pub fn leave_out(&mut self, since: Option<u64>) {
        if let Some((readings, since)) = self.0.as_mut().zip(since) {
            readings.outside += delay_at(monotonic_ns()).map_or(0, |now| now - since);
        }
    }

    /// Continues with the next stretch of the same thread; waiting between the two is left out.
    pub fn join(&mut self, next: Self) {
        self.0 = self.0.zip(next.0).map(|(own, next)| Readings {
            first: own.first,
            last: next.last,
            outside: own.outside + next.outside + next.first.saturating_sub(own.last),
        });
    }

    /// Nanoseconds; `None` if it is not known.
    pub fn ns(&self) -> Option<u64> {
        let of = |r: Readings| (r.last - r.first).saturating_sub(r.outside);
        self.0.map(of)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        hint::black_box,
        io,
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use rustix::{
        thread::{CpuSet, sched_getcpu, sched_setaffinity},
        time::{ClockId, clock_gettime},
    };

    use super::*;
    use crate::{
        clock::Source,
        run::{
            drive::{OpRange, Step, drive},
            recorder::Recorder,
        },
    };

    struct Works<const PREPARES: bool>;

    impl<const PREPARES: bool> Step for Works<PREPARES> {
        const PREPARES: bool = PREPARES;
        fn prepare(&mut self, _: u64) {
            works();
        }
        fn run(&mut self, _: u64) -> io::Result<()> {
            works();
            Ok(())
        }
    }

    fn works() {
        black_box((0..2_000u64).fold(1, |x, i| black_box(x ^ i)));
    }

    fn cpu_ns() -> u64 {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// A thread that never sleeps has a CPU or waits for one.
    #[test]
    fn what_busy_loops_take_on_the_same_cpu_was_waited() {
        // About half of the CPU time goes into preparation, outside the clock.
        busy_loops_beside::<true>(0.5);
        busy_loops_beside::<false>(1.0);
    }

    /// `inside`: the share of the CPU time that is used within the clock.
    fn busy_loops_beside<const PREPARES: bool>(inside: f64) {
        if delay_ns().is_none() {
            return eprintln!("skipped: this kernel does not count run-queue delays");
        }
        // In a thread of its own, whose CPU is then its own matter.
        let work = || {
            let over = AtomicBool::new(false);
            let mut one = CpuSet::new();
            one.set(sched_getcpu());
            sched_setaffinity(None, &one).unwrap();
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        while !over.load(Ordering::Relaxed) {
                            works();
                        }
                    });
                }
                let before = cpu_ns();
                let part = OpRange {
                    from: 0,
                    to: u64::MAX,
                    // Many slices of the scheduler, beside other programs too: each is in one half of the work.
                    limit_ns: 1_000_000_000,
                };
                let done = drive(
                    Some(Source::detect()),
                    part,
                    &mut Recorder::new(),
                    &mut |_| {},
                    &mut Works::<PREPARES>,
                );
                let used_ns = cpu_ns() - before;
                over.store(true, Ordering::Relaxed);
                (done.unwrap().span, used_ns)
            })
        };
        let (span, used_ns) = thread::spawn(work).join().unwrap();
        let (all_ns, waited_ns) = (span.net_ns(), span.waited.ns().unwrap());
        let lost = 1.0 - inside * used_ns as f64 / all_ns as f64;
        let waited = waited_ns as f64 / all_ns as f64;
        assert!(
            (lost - waited).abs() < 0.3 && waited > 0.3,
            "{lost} {waited}"
        );
    }

    #[test]
    fn a_reading_is_good_for_as_long_as_nobody_can_have_waited() {
        let Some(first) = delay_ns() else {
            return eprintln!("skipped: this kernel does not count run-queue delays");
        };
        // As if something else had been read just now.
        let set = |at| OWN.with(|own| own.as_ref().unwrap().last.set((at, first + 7)));
        set(monotonic_ns());
        let at = OWN.with(|own| own.as_ref().unwrap().last.get().0);
        assert_eq!(delay_at(at + GOOD_NS - 1), Some(first + 7));
        still_good();
        assert_eq!(delay_at(at + GOOD_NS), Some(first + 7));
        let at = OWN.with(|own| own.as_ref().unwrap().last.get().0);
        assert_ne!(delay_at(at + GOOD_NS), Some(first + 7));
    }

    #[test]
    fn pauses_and_gaps_between_stretches_are_left_out() {
        let of = |first, last, outside| {
            Waited(Some(Readings {
                first,
                last,
                outside,
            }))
        };
        let mut waited = of(100, 150, 10);
        assert_eq!(waited.ns(), Some(40));
        waited.join(of(170, 180, 3));
        assert_eq!(waited.ns(), Some(80 - 10 - 3 - 20));
        waited.join(Waited::default());
        assert_eq!((waited.ns(), waited.now()), (None, None));
    }

    #[test]
    fn an_end_that_is_read_late_counts_nothing_twice() {
        let (mut waited, start) = Waited::begin();
        let Some(readings) = waited.0 else {
            return eprintln!("skipped: this kernel does not count run-queue delays");
        };
        // As if the thread had been interrupted for a second between the clock and the reading.
        let first = readings.first.saturating_sub(500_000_000);
        let begun = Readings {
            first,
            last: first,
            outside: 0,
        };
        waited.0 = Some(begun);
        waited.end(start.saturating_sub(1_000_000_000));
        assert_eq!(waited.ns(), Some(0));
    }
}
