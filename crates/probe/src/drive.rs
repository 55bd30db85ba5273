//! The loop that every operation of every workload goes through.

use std::io;

use crate::{
    clock::{Clock, Monotonic, Source, Tsc, monotonic_ns},
    limits::BEAT_NS,
    recorder::Recorder,
};

/// One operation after the other.
pub trait Step {
    /// Whether [`Step::prepare`] does anything. When it does not, the loop reads the clock once
    /// an operation; when it does, twice.
    const PREPARES: bool = false;
    /// Makes operation `i` ready, outside the clock.
    fn prepare(&mut self, _i: u64) {}
    /// Does operation `i`, inside the clock.
    fn run(&mut self, i: u64) -> io::Result<()>;
}

/// A loop that came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// `CLOCK_MONOTONIC` before the first operation.
    pub start_ns: u64,
    /// Nanoseconds since then that were not the work's: progress lines and preparation.
    pub paused_ns: u64,
}

/// A thread's way through one pass: `CLOCK_MONOTONIC`, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Before the first operation.
    pub start: u64,
    /// After the last one and what belongs to it: a flush, a close.
    pub end: u64,
    /// What in between was not the work's.
    pub paused: u64,
}

impl Span {
    /// Nanoseconds of work, 1 at least: the clock may not have moved.
    pub fn net_ns(&self) -> u64 {
        (self.end - self.start).saturating_sub(self.paused).max(1)
    }
}

/// A loop that an operation's error ended.
#[derive(Debug)]
pub struct Stopped {
    /// The operation, from 0.
    pub at: u64,
    /// Its error.
    pub error: io::Error,
}

/// Does `ops` operations with the clock that `source` names, or without one.
pub fn drive<S: Step>(
    source: Option<Source>,
    ops: u64,
    recorder: &mut Recorder,
    beat: &mut dyn FnMut(u64),
    step: &mut S,
) -> Result<Done, Stopped> {
    match source {
        Some(Source::Tsc { mult }) => timed(Tsc { mult }, ops, recorder, beat, step),
        Some(Source::Monotonic) => timed(Monotonic, ops, recorder, beat, step),
        None => untimed(ops, beat, step),
    }
}

/// Clock readings kept before they are put into the histogram: 2 KiB, which stay in the first cache.
const KEPT: usize = 256;

/// The end of one operation is the start of the next: one clock read an operation.
///
/// In the loop a reading is only kept; conversion and histogram come for many at a time, where the
/// processor overlaps them. Right behind the counter each would wait for it.
#[inline(never)]
fn timed<C: Clock, S: Step>(
    clock: C,
    ops: u64,
    recorder: &mut Recorder,
    beat: &mut dyn FnMut(u64),
    step: &mut S,
) -> Result<Done, Stopped> {
    let start_ns = monotonic_ns();
    let mut paused_ns = 0;
    let mut kept = [0; KEPT];
    let mut count = 0;
    let mut last = clock.now();
    let mut beat_at = last;
    for i in 0..ops {
        if S::PREPARES {
            record(clock, recorder, &mut last, &kept[..count]);
            count = 0;
            step.prepare(i);
            let now = clock.now();
            paused_ns += clock.ns(now.saturating_sub(last));
            last = now;
        }
        if let Err(error) = step.run(i) {
            return Err(Stopped { at: i, error });
        }
        let now = clock.now();
        kept[count] = now;
        count += 1;
        let due = clock.ns(now.saturating_sub(beat_at)) >= BEAT_NS;
        if due || count == KEPT {
            record(clock, recorder, &mut last, &kept[..count]);
            count = 0;
        }
        if due {
            beat(i + 1);
            last = clock.now();
            beat_at = last;
            paused_ns += clock.ns(last.saturating_sub(now));
        }
    }
    record(clock, recorder, &mut last, &kept[..count]);
    Ok(Done {
        start_ns,
        paused_ns,
    })
}

/// Puts operations that ended at `ends`, one after the other since `last`, into the histogram.
fn record<C: Clock>(clock: C, recorder: &mut Recorder, last: &mut u64, ends: &[u64]) {
    for &end in ends {
        // A counter that is a little behind on another CPU must not become 500 years.
        recorder.record(clock.ns(end.saturating_sub(*last)));
        *last = end;
    }
}

/// Without the clock in the loop. Whether a progress line is due is looked at after a number of
/// operations that adapts itself to their speed.
#[inline(never)]
fn untimed<S: Step>(ops: u64, beat: &mut dyn FnMut(u64), step: &mut S) -> Result<Done, Stopped> {
    let start_ns = monotonic_ns();
    let (mut paused_ns, mut last_beat, mut last_look) = (0, start_ns, start_ns);
    let (mut stride, mut next_look) = (1, 1);
    for i in 0..ops {
        if S::PREPARES {
            let before = monotonic_ns();
            step.prepare(i);
            paused_ns += monotonic_ns() - before;
        }
        if let Err(error) = step.run(i) {
            return Err(Stopped { at: i, error });
        }
        if i + 1 == next_look {
            let now = monotonic_ns();
            stride = if now - last_look < BEAT_NS / 10 {
                (stride * 2).min(1 << 20)
            } else {
                (stride / 2).max(1)
            };
            last_look = now;
            if now - last_beat >= BEAT_NS {
                beat(i + 1);
                last_beat = monotonic_ns();
                last_look = last_beat;
                paused_ns += last_beat - now;
            }
            next_look = i + 1 + stride;
        }
    }
    Ok(Done {
        start_ns,
        paused_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{thread::sleep, time::Duration};

    struct Sleeper(u64);
    impl Step for Sleeper {
        fn run(&mut self, _: u64) -> io::Result<()> {
            sleep(Duration::from_millis(self.0));
            Ok(())
        }
    }

    struct Slow;
    impl Step for Slow {
        const PREPARES: bool = true;
        fn prepare(&mut self, _: u64) {
            sleep(Duration::from_millis(20));
        }
        fn run(&mut self, _: u64) -> io::Result<()> {
            sleep(Duration::from_millis(1));
            Ok(())
        }
    }

    struct Fails;
    impl Step for Fails {
        fn run(&mut self, i: u64) -> io::Result<()> {
            if i == 3 {
                Err(io::Error::from_raw_os_error(5))
            } else {
                Ok(())
            }
        }
    }

    fn sources() -> [Option<Source>; 3] {
        [Some(Source::detect()), Some(Source::Monotonic), None]
    }

    /// What was recorded and what was paused fit into the time that passed. Says nothing about
    /// how long a sleep really took, which on a busy machine is anything.
    fn adds_up(recorder: &Recorder, done: Done) {
        let elapsed = (monotonic_ns() - done.start_ns) as f64;
        let total = recorder.total_ns() + done.paused_ns as f64;
        assert!(total <= 1.01 * elapsed, "{total} of {elapsed} ns");
    }

    #[test]
    fn every_operation_is_recorded_with_its_time() {
        for source in [Source::detect(), Source::Monotonic] {
            let mut recorder = Recorder::new();
            let done = drive(
                Some(source),
                10,
                &mut recorder,
                &mut |_| {},
                &mut Sleeper(2),
            )
            .unwrap();
            adds_up(&recorder, done);
            assert_eq!(done.paused_ns, 0);
            assert!(recorder.latency().unwrap().min >= 1_990_000);
        }
    }

    #[test]
    fn preparation_is_taken_out_of_the_clock() {
        for source in sources() {
            let mut recorder = Recorder::new();
            let done = drive(source, 5, &mut recorder, &mut |_| {}, &mut Slow).unwrap();
            adds_up(&recorder, done);
            assert!(done.paused_ns >= 99_000_000, "{source:?} {done:?}");
        }
    }

    #[test]
    fn progress_comes_each_second_and_costs_the_work_nothing() {
        for source in sources() {
            let mut recorder = Recorder::new();
            let mut beats = Vec::new();
            let mut beat = |ops| {
                sleep(Duration::from_millis(50));
                beats.push(ops);
            };
            let done = drive(source, 30, &mut recorder, &mut beat, &mut Sleeper(40)).unwrap();
            adds_up(&recorder, done);
            let beats_ns = 49_500_000 * beats.len() as u64;
            assert!(
                !beats.is_empty() && done.paused_ns >= beats_ns,
                "{source:?} {beats:?} {done:?}"
            );
        }
    }

    #[test]
    fn an_error_ends_the_loop_and_says_where() {
        for source in sources() {
            let stopped =
                drive(source, 10, &mut Recorder::new(), &mut |_| {}, &mut Fails).unwrap_err();
            assert_eq!((stopped.at, stopped.error.raw_os_error()), (3, Some(5)));
        }
    }
}
