//! The loop that runs every operation of every workload.

use std::io;

use crate::{
    clock::{Clock, Monotonic, Source, Tsc, monotonic_ns},
    limits::HEARTBEAT_NS,
    run::{
        recorder::Recorder,
        waiting::{self, GOOD_NS, Waited},
    },
};

/// The work of single operations.
pub trait Step {
    /// Whether [`Step::prepare`] does anything. If not, the loop reads the clock once per
    /// operation; otherwise twice.
    const PREPARES: bool = false;
    /// Prepares operation `i`, outside the clock.
    fn prepare(&mut self, _i: u64) {}
    /// Does operation `i`, inside the clock.
    fn run(&mut self, i: u64) -> io::Result<()>;
}

/// Operations of one thread that were done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Their time. Progress lines and preparation are pauses.
    pub span: Span,
    /// Operations that count within that time.
    pub ops: u64,
    /// Number of the next operation.
    pub next: u64,
}

impl Done {
    /// Operations of `part` that ended just now.
    fn now(part: OpRange, next: u64, mut span: Span) -> Self {
        span.ends_now();
        Self {
            span,
            ops: next - part.from,
            next,
        }
    }
}

/// A range of operations, with a time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpRange {
    /// The first operation.
    pub from: u64,
    /// One past the last operation.
    pub to: u64,
    /// The loop ends with the operation that is in flight after this many nanoseconds; `u64::MAX`:
    /// after all of them.
    pub limit_ns: u64,
}

impl OpRange {
    /// Operations 0 to `ops`, without a time limit.
    pub fn whole(ops: u64) -> Self {
        Self {
            from: 0,
            to: ops,
            limit_ns: u64::MAX,
        }
    }
}

/// A thread's time: `CLOCK_MONOTONIC`, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// Before the first operation.
    pub start: u64,
    /// After the last operation and what belongs to it, such as a flush or a close.
    pub end: u64,
    /// Time in between that was not work.
    pub paused: u64,
    /// The time of the work in which the thread waited for a CPU.
    pub waited: Waited,
}

impl Span {
    /// Ends the span, also one that has ended before.
    pub fn ends_now(&mut self) {
        self.end = monotonic_ns();
        self.waited.end(self.end);
    }

    /// Time of the work, ns. At least 1, because the clock may not have moved.
    pub fn net_ns(&self) -> u64 {
        (self.end - self.start).saturating_sub(self.paused).max(1)
    }
}

/// An operation's error, which ended the loop.
#[derive(Debug)]
pub struct LoopError {
    /// The operation, from 0.
    pub at: u64,
    /// Its error.
    pub error: io::Error,
}

/// Runs the operations of `part` with the clock `source`, or without one. `beat` gets the number of
/// finished operations.
pub fn drive<S: Step>(
    source: Option<Source>,
    part: OpRange,
    recorder: &mut Recorder,
    beat: &mut dyn FnMut(u64),
    step: &mut S,
) -> Result<Done, LoopError> {
    match source {
        Some(Source::Tsc { mult }) => timed(Tsc { mult }, part, recorder, beat, step),
        Some(Source::Monotonic) => timed(Monotonic, part, recorder, beat, step),
        None => untimed(part, beat, step),
    }
}

/// Clock readings kept before they enter the histogram: 2 KiB, which stay in the level 1 cache.
const KEPT: usize = 256;

/// The end of one operation is the start of the next: one clock read per operation.
///
/// The loop only keeps a reading. Conversion and histogram come for many readings at once, where
/// the processor overlaps them. Directly after the counter each would wait for it.
#[inline(never)]
fn timed<C: Clock, S: Step>(
    clock: C,
    part: OpRange,
    recorder: &mut Recorder,
    beat: &mut dyn FnMut(u64),
    step: &mut S,
) -> Result<Done, LoopError> {
    let (mut waited, start_ns) = Waited::begin();
    let mut paused = 0;
    let mut readings = [0; KEPT];
    let mut count = 0;
    let mut last = clock.now();
    let beat_ticks = clock.ticks(HEARTBEAT_NS);
    let mut beat_at = last.saturating_add(beat_ticks);
    let mut stop_at = last.saturating_add(clock.ticks(part.limit_ns));
    let (first, mut longest) = (last, 0);
    let mut next = part.from;
    while next < part.to {
        if S::PREPARES {
            longest = record(clock, recorder, &mut last, &readings[..count]).max(longest);
            count = 0;
            let before = waited.now();
            step.prepare(next);
            waited.leave_out(before);
            let now = clock.now();
            paused += now.saturating_sub(last);
            stop_at = stop_at.saturating_add(now.saturating_sub(last));
            last = now;
        }
        if let Err(error) = step.run(next) {
            return Err(LoopError { at: next, error });
        }
        next += 1;
        let now = clock.now();
        readings[count] = now;
        count += 1;
        let due = now >= stop_at.min(beat_at);
        if due || count == KEPT {
            longest = record(clock, recorder, &mut last, &readings[..count]).max(longest);
            count = 0;
        }
        if due {
            if now >= stop_at {
                break;
            }
            let before = waited.now();
            beat(next - part.from);
            waited.leave_out(before);
            last = clock.now();
            beat_at = last.saturating_add(beat_ticks);
            paused += last.saturating_sub(now);
            stop_at = stop_at.saturating_add(last.saturating_sub(now));
        }
    }
    longest = record(clock, recorder, &mut last, &readings[..count]).max(longest);
    // Passes over a short file would otherwise be read at each end. What waited in a pause was read there. Before the
    // first operation and after the last one it may have waited, too.
    let beside_ns =
        (monotonic_ns() - start_ns).saturating_sub(clock.ns(last.saturating_sub(first)));
    if longest.max(clock.ticks(beside_ns)) < clock.ticks(GOOD_NS) {
        waiting::still_good();
    }
    let span = Span {
        start: start_ns,
        end: start_ns,
        paused: clock.ns(paused),
        waited,
    };
    Ok(Done::now(part, next, span))
}

/// Records operations that ended at `ends`, one after the other since `last`, in the histogram. The longest, in ticks.
fn record<C: Clock>(clock: C, recorder: &mut Recorder, last: &mut u64, ends: &[u64]) -> u64 {
    let mut longest = 0;
    for &end in ends {
        // A counter that is slightly behind on another CPU must not become 500 years.
        let ticks = end.saturating_sub(*last);
        recorder.record(clock.ns(ticks));
        longest = ticks.max(longest);
        *last = end;
    }
    longest
}

/// The loop without a clock. The time limit and progress lines are checked after a number of
/// operations that adapts to their speed.
#[inline(never)]
fn untimed<S: Step>(
    part: OpRange,
    beat: &mut dyn FnMut(u64),
    step: &mut S,
) -> Result<Done, LoopError> {
    let (mut waited, start_ns) = Waited::begin();
    let (mut paused_ns, mut last_beat, mut last_look) = (0, start_ns, start_ns);
    let often = (HEARTBEAT_NS / 10).min(part.limit_ns / 16);
    let (mut stride, mut next_look) = (1, part.from + 1);
    let mut next = part.from;
    while next < part.to {
        if S::PREPARES {
            let (before_ns, before) = (monotonic_ns(), waited.now());
            step.prepare(next);
            waited.leave_out(before);
            paused_ns += monotonic_ns() - before_ns;
        }
        if let Err(error) = step.run(next) {
            return Err(LoopError { at: next, error });
        }
        next += 1;
        if next == next_look {
            let now = monotonic_ns();
            if now - start_ns - paused_ns >= part.limit_ns {
                break;
            }
            stride = if now - last_look < often {
                (stride * 2).min(1 << 20)
            } else {
                (stride / 2).max(1)
            };
            last_look = now;
            if now - last_beat >= HEARTBEAT_NS {
                let before = waited.now();
                beat(next - part.from);
                waited.leave_out(before);
                last_beat = monotonic_ns();
                last_look = last_beat;
                paused_ns += last_beat - now;
            }
            next_look = next + stride;
        }
    }
    let span = Span {
        start: start_ns,
        end: start_ns,
        paused: paused_ns,
        waited,
    };
    Ok(Done::now(part, next, span))
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

    /// Recorded and paused time add up to at most the time that passed. The real duration of a
    /// sleep is not checked: on a busy machine it can be anything.
    fn adds_up(recorder: &Recorder, done: Done) {
        let elapsed = (done.span.end - done.span.start) as f64;
        let total = recorder.total_ns() + done.span.paused as f64;
        assert!(total <= 1.01 * elapsed, "{total} of {elapsed} ns");
    }

    #[test]
    fn every_operation_is_recorded_with_its_time() {
        for source in [Source::detect(), Source::Monotonic] {
            let mut recorder = Recorder::new();
            let done = drive(
                Some(source),
                OpRange::whole(10),
                &mut recorder,
                &mut |_| {},
                &mut Sleeper(2),
            )
            .unwrap();
            adds_up(&recorder, done);
            assert_eq!(done.span.paused, 0);
            assert!(recorder.latency().unwrap().min >= 1_990_000);
        }
    }

    #[test]
    fn preparation_is_taken_out_of_the_clock() {
        for source in sources() {
            let mut recorder = Recorder::new();
            let done = drive(
                source,
                OpRange::whole(5),
                &mut recorder,
                &mut |_| {},
                &mut Slow,
            )
            .unwrap();
            adds_up(&recorder, done);
            assert!(done.span.paused >= 99_000_000, "{source:?} {done:?}");
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
            let done = drive(
                source,
                OpRange::whole(30),
                &mut recorder,
                &mut beat,
                &mut Sleeper(40),
            )
            .unwrap();
            adds_up(&recorder, done);
            let beats_ns = 49_500_000 * beats.len() as u64;
            assert!(
                !beats.is_empty() && done.span.paused >= beats_ns,
                "{source:?} {beats:?} {done:?}"
            );
        }
    }

    #[test]
    fn an_error_ends_the_loop_and_says_where() {
        for source in sources() {
            let stopped = drive(
                source,
                OpRange::whole(10),
                &mut Recorder::new(),
                &mut |_| {},
                &mut Fails,
            )
            .unwrap_err();
            assert_eq!((stopped.at, stopped.error.raw_os_error()), (3, Some(5)));
        }
    }

    /// Operations of at least this long: a few microseconds, enough for a stride of the untimed loop.
    const SPIN_NS: u64 = 5_000;
    struct Spins;
    impl Step for Spins {
        fn run(&mut self, _: u64) -> io::Result<()> {
            let until = monotonic_ns() + SPIN_NS;
            while monotonic_ns() < until {}
            Ok(())
        }
    }

    #[test]
    fn the_operation_under_way_when_the_time_is_over_is_the_last() {
        for source in sources() {
            let part = OpRange {
                from: 7,
                to: u64::MAX,
                limit_ns: 2_000_000,
            };
            let done = drive(source, part, &mut Recorder::new(), &mut |_| {}, &mut Spins).unwrap();
            assert!(done.span.net_ns() >= part.limit_ns, "{source:?} {done:?}");
            // How long they take depends on the machine, but not how many fit at most. Without a clock the
            // last stride ends after the limit; two clocks differ a little.
            let fit = part.limit_ns / SPIN_NS;
            let more = if source.is_some() { fit / 50 } else { fit / 4 };
            let ops = done.next - part.from;
            assert!((1..=fit + 1 + more).contains(&ops), "{source:?} {done:?}");
        }
    }

    #[test]
    fn time_for_preparation_does_not_count_towards_the_end() {
        for source in sources() {
            let part = OpRange {
                from: 0,
                to: 100,
                limit_ns: 3_000_000,
            };
            let done = drive(source, part, &mut Recorder::new(), &mut |_| {}, &mut Slow).unwrap();
            // Each takes 1 ms and is prepared for 20.
            assert!((1..=3).contains(&done.next), "{source:?} {done:?}");
            assert!(done.span.paused >= done.next * 19_000_000, "{done:?}");
        }
    }
}
