//! One worker: starts I/Os, waits for them and counts them until the time is over.

use std::{hint, thread, time::Duration};

use super::{
    draw::Draw,
    engine::IoEngine,
    pace::{Next, Pace},
};
use crate::{
    clock::{Clock, monotonic_ns},
    limits::HEARTBEAT_NS,
    queue::FailedIo,
    run::{recorder::Recorder, waiting::Waited},
};

/// A sleeping thread wakes up some tens of microseconds late. A wait for a moment ends in a spin of
/// this length, whose CPU time is subtracted again.
const SPIN_NS: u64 = 60_000;

/// Nanoseconds since all workers started.
#[derive(Clone, Copy)]
pub struct StopWatch<C> {
    pub clock: C,
    /// The clock's reading at the start.
    pub start: u64,
}

impl<C: Clock> StopWatch<C> {
    #[inline]
    fn now(&self) -> u64 {
        self.clock.ns(self.clock.now().saturating_sub(self.start))
    }
}

/// The counted part, in the watch's time.
#[derive(Clone, Copy)]
pub struct Window {
    pub from: u64,
    pub until: u64,
    /// Counts from the first I/O that ends in the window to the first one that ends after it. A
    /// short window would cut off a part of an I/O at both ends. Without the I/O in flight at its
    /// end, every I/O longer than the window would be missing.
    pub whole: bool,
}

/// I/Os that end this long after a window are not waited for, and no window is extended beyond
/// this.
pub const PATIENCE_NS: u64 = 10_000_000_000;

/// State and results of a worker.
pub struct Worker {
    pub draw: Draw,
    /// Number of I/Os submitted per call.
    pub batch: u64,
    pub pace: Pace,
    /// Latency from the due moment to the end.
    pub response: Recorder,
    /// Latency from the start to the end, where it differs.
    pub service: Option<Recorder>,
    /// In the last run: number of I/Os that ended in the window, and their bytes.
    pub ops: u64,
    pub bytes: u64,
    /// The ends of the first and the last counted I/O of a window.
    pub span: Option<(u64, u64)>,
    /// Waiting for a CPU within this span, with one I/O at a time.
    pub waited: Waited,
    /// All I/Os that ended, in the window or not.
    pub all_ops: u64,
    pub all_bytes: u64,
    /// CPU time spent waiting for due moments, including the ramp, ns.
    pub spun: u64,
    /// Maximum number of kernel threads that any run needed for its requests.
    pub kernel_workers: u64,
}

impl Worker {
    /// Works until the window's end, then waits for I/Os in flight.
    pub fn run<C: Clock, W: IoEngine>(
        &mut self,
        watch: StopWatch<C>,
        window: Window,
        engine: &mut W,
        beat: &mut dyn FnMut(u64),
    ) -> Result<(), FailedIo> {
        (self.ops, self.bytes, self.all_ops, self.all_bytes) = (0, 0, 0, 0);
        (self.spun, self.span, self.waited) = (0, None, Waited::default());
        self.pace.restart();
        let mut now = watch.now();
        let mut tell_at = now + HEARTBEAT_NS;
        let late = window.until.saturating_add(PATIENCE_NS);
        while now < window.until
            || (window.whole && now < late && self.waits_for_an_end(window, engine.in_flight()))
        {
            let due = self.begin(watch, now, engine)?;
            if engine.in_flight() == 0 {
                if let Some(due) = due {
                    self.wait(watch, due.min(window.until.max(now)));
                }
                now = watch.now();
                continue;
            }
            now = watch.now();
            let most = due.map(|due| due.saturating_sub(now + SPIN_NS));
            engine
                .enter(now, 1, most.map(Duration::from_nanos))
                .map_err(failed)?;
            let entered = now;
            now = watch.now();
            let any = self.count(now, window, engine)?;
            if most == Some(0) && !any {
                self.spun += now - entered;
            }
            if now >= tell_at {
                beat(self.ops);
                tell_at = now + HEARTBEAT_NS;
            }
        }
        // The device counts their bytes, whenever they end.
        while engine.in_flight() > 0 {
            now = watch.now();
            engine.enter(now, 1, None).map_err(failed)?;
            now = watch.now();
            self.count(now.max(window.until), window, engine)?;
        }
        Ok(())
    }

    /// Whether a window of whole I/Os continues after its time: no I/O has ended yet, or the last
    /// one is in flight.
    fn waits_for_an_end(&self, window: Window, in_flight: usize) -> bool {
        self.ops == 0 || (in_flight > 0 && !self.has_ended(window))
    }

    /// Whether an I/O that ended after the window's time was counted.
    fn has_ended(&self, window: Window) -> bool {
        self.ops > 0 && self.span.is_some_and(|(_, last)| last >= window.until)
    }

    /// Starts the I/Os that are due. Returns the moment at which the next one is due, if known.
    ///
    /// A full batch is submitted at once, so that the device works while the next one is prepared.
    #[inline]
    fn begin<C: Clock, W: IoEngine>(
        &mut self,
        watch: StopWatch<C>,
        now: u64,
        engine: &mut W,
    ) -> Result<Option<u64>, FailedIo> {
        let mut fresh = 0;
        while engine.has_room() {
            if fresh == self.batch {
                engine.enter(watch.now(), 0, None).map_err(failed)?;
                fresh = 0;
            }
            match self.pace.next(now, engine.in_flight()) {
                Next::Begin(due) => {
                    let mut drawn = self.draw.next();
                    drawn.op.number = due;
                    engine.push(drawn.op).map_err(|error| FailedIo {
                        op: drawn.op,
                        error,
                    })?;
                    self.pace.begun(drawn.delay_ns);
                    fresh += 1;
                }
                Next::At(due) => return Ok(Some(due)),
                Next::Drain => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Reaps I/Os completed by `now`. Returns whether there were any.
    #[inline]
    fn count<W: IoEngine>(
        &mut self,
        now: u64,
        window: Window,
        engine: &mut W,
    ) -> Result<bool, FailedIo> {
        let ends_it = now >= window.until && (!window.whole || self.has_ended(window));
        let counts = now >= window.from && !ends_it && (!window.whole || self.span.is_some());
        let Self {
            response,
            service,
            ops,
            bytes,
            span,
            all_ops,
            all_bytes,
            ..
        } = self;
        let mut any = false;
        engine.reap(|slot| {
            any = true;
            *all_ops += 1;
            *all_bytes += u64::from(slot.op.len);
            if !counts {
                return;
            }
            *ops += 1;
            *bytes += u64::from(slot.op.len);
            let served = now.saturating_sub(slot.begun);
            match service {
                Some(service) => {
                    service.record(served);
                    response.record(now.saturating_sub(slot.op.number));
                }
                None => response.record(served),
            }
        })?;
        if any && now >= window.from && !ends_it {
            *span = Some((span.map_or(now, |(first, _)| first), now));
            self.look(now, window, engine.in_flight());
        }
        Ok(any)
    }

    /// Reads what was waited at the first I/O of a window of whole I/Os, and at the last. These are the ends of its
    /// span. Without other I/Os in flight nothing goes on meanwhile.
    fn look(&mut self, now: u64, window: Window, in_flight: usize) {
        if !window.whole || in_flight > 0 {
            self.waited = Waited::default();
        } else if self.span == Some((now, now)) {
            self.waited = Waited::begin().0;
        } else if now >= window.until {
            self.waited.end(monotonic_ns());
        }
    }

    /// Sleeps as long as that is safe, then spins.
    fn wait<C: Clock>(&mut self, watch: StopWatch<C>, due: u64) {
        let start = watch.now();
        let sleep = due.saturating_sub(start + SPIN_NS);
        if sleep > 0 {
            thread::sleep(Duration::from_nanos(sleep));
        }
        let spin = watch.now();
        let mut now = spin;
        while now < due {
            hint::spin_loop();
            now = watch.now();
        }
        self.spun += now - spin;
    }
}

/// The failure of a whole call.
fn failed(error: std::io::Error) -> FailedIo {
    FailedIo {
        op: crate::queue::QueuedIo::default(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock::Monotonic,
        queue::{QueuedIo, Slot},
        workloads::iops::spec::AccessSpec,
    };

    fn worker() -> Worker {
        Worker {
            draw: Draw::new(
                &AccessSpec::parse("4K 100% read 0% random").unwrap(),
                1 << 20,
                1,
                0,
                1,
            ),
            batch: 1,
            pace: Pace::new(0, 0, 1),
            response: Recorder::new(),
            service: None,
            ops: 0,
            bytes: 0,
            span: None,
            waited: Waited::default(),
            all_ops: 0,
            all_bytes: 0,
            spun: 0,
            kernel_workers: 0,
        }
    }

    /// One I/O after the other, each of 3 ms.
    #[derive(Default)]
    struct Slow(Option<Slot>);

    impl IoEngine for Slow {
        fn has_room(&self) -> bool {
            self.0.is_none()
        }
        fn in_flight(&self) -> usize {
            usize::from(self.0.is_some())
        }
        fn push(&mut self, op: QueuedIo) -> std::io::Result<()> {
            self.0 = Some(Slot::new(op, 0));
            Ok(())
        }
        fn enter(&mut self, now: u64, _: usize, _: Option<Duration>) -> std::io::Result<()> {
            self.0 = self.0.as_ref().map(|slot| Slot::new(slot.op, now));
            thread::sleep(Duration::from_millis(3));
            Ok(())
        }
        fn reap(&mut self, mut ended: impl FnMut(&Slot)) -> Result<(), FailedIo> {
            if let Some(slot) = self.0.take() {
                ended(&slot);
            }
            Ok(())
        }
    }

    /// Every tenth I/O takes 30 ms, the others 1 ms.
    #[derive(Default)]
    struct Stalling {
        slot: Option<Slot>,
        n: u64,
    }

    impl IoEngine for Stalling {
        fn has_room(&self) -> bool {
            self.slot.is_none()
        }
        fn in_flight(&self) -> usize {
            usize::from(self.slot.is_some())
        }
        fn push(&mut self, op: QueuedIo) -> std::io::Result<()> {
            self.slot = Some(Slot::new(op, 0));
            Ok(())
        }
        fn enter(&mut self, now: u64, _: usize, _: Option<Duration>) -> std::io::Result<()> {
            self.slot = self.slot.as_ref().map(|slot| Slot::new(slot.op, now));
            self.n += 1;
            let ms = if self.n.is_multiple_of(10) { 30 } else { 1 };
            thread::sleep(Duration::from_millis(ms));
            Ok(())
        }
        fn reap(&mut self, mut ended: impl FnMut(&Slot)) -> Result<(), FailedIo> {
            if let Some(slot) = self.slot.take() {
                ended(&slot);
            }
            Ok(())
        }
    }

    /// In windows of 2 ms, none of which an I/O of 30 ms could end in.
    #[test]
    fn an_io_longer_than_the_window_is_counted() {
        let mut worker = worker();
        let mut engine = Stalling::default();
        let (mut ops, mut took) = (0, 0);
        for _ in 0..40 {
            let watch = StopWatch {
                clock: Monotonic,
                start: Monotonic.now(),
            };
            let window = Window {
                from: 0,
                until: 2_000_000,
                whole: true,
            };
            worker.run(watch, window, &mut engine, &mut |_| {}).unwrap();
            let (first, last) = worker.span.unwrap();
            (ops, took) = (ops + worker.ops, took + last - first);
        }
        let mean_ms = took as f64 / ops as f64 / 1e6;
        // 3.9 ms, plus the delay that a busy machine adds to each sleep; without the long ones it
        // is 1 ms.
        assert!(
            worker
                .response
                .latency()
                .is_some_and(|l| l.max >= 30_000_000)
                && mean_ms > 2.0,
            "{mean_ms}"
        );
    }

    /// In a window of 10 ms three of them end, which does not mean that each took 3.33 ms. In one
    /// of 1 ms none ends.
    #[test]
    fn whole_ios_count_with_the_time_that_they_took() {
        for ms in [10, 1] {
            let mut worker = worker();
            let watch = StopWatch {
                clock: Monotonic,
                start: Monotonic.now(),
            };
            let window = Window {
                from: 1_000_000,
                until: 1_000_000 + ms * 1_000_000,
                whole: true,
            };
            worker
                .run(watch, window, &mut Slow::default(), &mut |_| {})
                .unwrap();
            let (first, last) = worker.span.unwrap();
            let took = (last - first) as f64;
            assert!(
                worker.ops > 0 && worker.all_ops > worker.ops,
                "{}",
                worker.ops
            );
            assert_eq!(worker.bytes, worker.ops * 4096);
            // The loop's time between two of them is counted as theirs. A histogram of three digits rounds each time up.
            let sum = worker.response.total_ns();
            assert!(
                (0.5..=1.001).contains(&(sum / took)),
                "{ms}: {sum} of {took}"
            );
        }
    }
}
