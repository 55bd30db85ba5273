//! The trial: workers that start together, a window of time, and the debt after it.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

use layermark_model::{CpuUse, DeviceBytes, DirectIo, Pass, Trial, Turn};

use super::{
    engine::PreadEngine,
    params::IopsParams,
    prepare::IopsWork,
    worker::{PATIENCE_NS, StopWatch, Window, Worker},
};
use crate::{
    Beat, ProbeError, TurnRequest, Turned, Work,
    clock::{Clock, Monotonic, Source, Tsc, monotonic_ns},
    counters::Devices,
    engines::{Engine, find},
    error::panicked,
    files::{DIRECT_CACHED, DIRECT_SHARE, direct_refused},
    limits::HEARTBEAT_NS,
    queue::{FailedIo, Queue},
    resident,
    run::{self, Edge, Mark, Used, barrier::SpinBarrier, recorder::Recorder},
    selftest,
};

/// Results of a window.
struct Counted {
    pass: Pass,
    used: Used,
    /// CPU time spent waiting for due moments, ns.
    spun_ns: u64,
    /// Time of the uncounted I/Os, ns.
    uncounted_ns: u64,
}

/// State shared by the workers.
struct WorkerState {
    barrier: SpinBarrier,
    /// Set when one could not get ready, so that none starts.
    off: AtomicBool,
    /// Readings of the workers' clock and of `CLOCK_MONOTONIC` when all had arrived.
    start: Mutex<(u64, u64)>,
    /// I/Os so far, as last reported.
    told: AtomicU64,
}

impl Work for IopsWork {
    fn turn(
        &mut self,
        ask: &TurnRequest,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError> {
        if trial.passes.is_empty() && self.spec.reads() && !self.p.direct {
            trial.resident = resident::share_of(&self.file);
        }
        let mut window = self.window(ask);
        let counted = loop {
            let counted = match selftest::source() {
                Source::Tsc { mult } => self.go(Tsc { mult }, window, beat)?,
                Source::Monotonic => self.go(Monotonic, window, beat)?,
            };
            let length = window.until - window.from;
            if counted.pass.ops > 0 {
                break counted;
            }
            // In turns the wait is already done.
            if window.whole || length > PATIENCE_NS {
                let text = format!("no I/O ended within {} s", PATIENCE_NS / 1_000_000_000);
                return Err(ProbeError::new(text));
            }
            // At least one I/O, even if it takes longer or is due later.
            window.until += 3 * length;
        };
        let Counted {
            pass,
            used,
            spun_ns,
            uncounted_ns,
        } = counted;
        used.count(trial);
        trial.spun_ns += spun_ns;
        let turn = Turn {
            round: ask.round,
            elapsed_ns: pass.elapsed_ns,
            ops: pass.ops,
            bytes: pass.bytes,
        };
        if window.whole {
            run::enter(trial, turn);
        } else {
            trial.passes.push(pass);
        }
        Ok(Turned {
            turn,
            cpu: used.cpu,
            device: used.device,
            uncounted_ns,
            more: window.whole,
        })
    }

    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        if self.p.direct {
            trial.direct = Some(self.direct(trial));
        } else if self.spec.writes() {
            let devices = Devices::open(&self.context.devices);
            let mut since = self.stopped;
            if trial.turns.is_empty() {
                self.context.sync(&self.dir)?;
            } else {
                // Flushes its own file. A flush of the whole file system would also pay for other
                // layers.
                since = Some(Mark::read(&devices));
                let flushed = File::open(&self.path).and_then(|file| file.sync_all());
                flushed.map_err(|e| ProbeError::io("flush", &self.path, &e))?;
            }
            trial.debt = since.map(|since| since.debt(&devices));
        }
        Ok(())
    }

    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        let (mut response, mut service) = (Recorder::new(), Recorder::new());
        for (worker, _) in &self.workers {
            response.add(&worker.response);
            if let Some(own) = &worker.service {
                service.add(own);
            }
        }
        trial.latency = response.latency();
        trial.service = service.latency();
        // With pauses, the cost of an I/O is the time spent waiting for it.
        if self.p.rate > 0 || self.spec.pauses() {
            trial.response_ns = trial.latency.as_ref().map(|l| l.mean);
        }
        if find(&self.p.engine).is_some_and(Engine::queues) {
            let all = self.workers.iter().map(|(worker, _)| worker.kernel_workers);
            trial.kernel_workers = Some(all.sum());
        }
        self.tell_of_the_rate(trial);
        Ok(())
    }
}

impl IopsWork {
    /// The counted part of a turn, or of the one stretch.
    fn window(&self, ask: &TurnRequest) -> Window {
        let ms = |n: u64| n * 1_000_000;
        let (from, length) = if ask.ns > 0 {
            (ask.lead_in_ns, ask.ns)
        } else {
            (ms(self.p.ramp), ms(self.p.stretch()))
        };
        Window {
            from,
            until: from + length,
            whole: ask.ns > 0,
        }
    }

    fn go<C: Clock>(
        &mut self,
        clock: C,
        window: Window,
        beat: &mut Beat<'_>,
    ) -> Result<Counted, ProbeError> {
        let shared = WorkerState {
            barrier: SpinBarrier::new(self.workers.len() + 1),
            off: AtomicBool::new(false),
            start: Mutex::new((0, 0)),
            told: AtomicU64::new(0),
        };
        let (file, p) = ((self.file.as_fd(), self.piece), &self.p);
        let devices = Devices::open(&self.context.devices);
        let mut used = Used::default();
        let (ended, stopped) = thread::scope(|scope| {
            let mut handles = Vec::with_capacity(self.workers.len());
            let mut orders = Vec::with_capacity(self.workers.len());
            for (worker, buffer) in &mut self.workers {
                let shared = &shared;
                let (order, ordered) = mpsc::channel::<()>();
                let body = move || {
                    // Closed when another thread could not be started.
                    ordered.recv().ok()?;
                    work(clock, shared, window, p, worker, buffer.bytes_mut(), file)
                };
                let handle = thread::Builder::new().spawn_scoped(scope, body);
                handles.push(handle.map_err(|e| no_thread(&e))?);
                orders.push(order);
            }
            for order in &orders {
                let _ = order.send(());
            }
            shared.barrier.wait(|| shared.begin(clock));
            let before = Edge::read(&devices);
            let (_, start) = *lock(&shared.start);
            if !shared.off.load(Ordering::Relaxed) {
                let beat = &mut || beat(shared.told.load(Ordering::Relaxed), 0);
                pause(start + window.until, beat);
            }
            let ended = joined(handles);
            let after = Edge::read(&devices);
            used.add(&before, &after);
            Ok::<_, ProbeError>((ended, after.mark))
        })?;
        self.stopped = Some(stopped);
        ended?.map_or(Ok(()), |failed| Err(self.failed(&failed)))?;
        Ok(self.sum_up(window, &used))
    }

    /// Time of the counted I/Os, ns, as if all workers had been busy for the same time.
    fn elapsed_ns(&self, window: Window) -> u64 {
        if !window.whole {
            return window.until - window.from;
        }
        let (mut ops, mut per_ns) = (0, 0.0);
        for (worker, _) in &self.workers {
            if let Some((first, last)) = worker.span.filter(|(first, last)| last > first) {
                ops += worker.ops;
                per_ns += worker.ops as f64 / (last - first) as f64;
            }
        }
        if per_ns > 0.0 {
            (ops as f64 / per_ns) as u64
        } else {
            0
        }
    }

    fn sum_up(&self, window: Window, used: &Used) -> Counted {
        let sum =
            |of: &dyn Fn(&Worker) -> u64| self.workers.iter().map(|(w, _)| of(w)).sum::<u64>();
        let pass = Pass {
            elapsed_ns: self.elapsed_ns(window),
            ops: sum(&|w| w.ops),
            bytes: sum(&|w| w.bytes),
        };
        // Counters cannot be read at the exact ends of the window. They are divided evenly over all
        // I/Os, including those of the ramp.
        let share =
            |part: u64, of: u64, all: u64| (part as f64 * of as f64 / (all as f64).max(1.0)) as u64;
        let all_ops = sum(&|w| w.all_ops);
        let ours = |n| share(n, pass.ops, all_ops);
        let moved = |n| share(n, pass.bytes, sum(&|w| w.all_bytes));
        // Spinning until an I/O is due is a cost of the tool.
        let spun_ns = sum(&|w| w.spun);
        let cpu = CpuUse {
            user_ns: ours(used.cpu.user_ns.saturating_sub(spun_ns)),
            sys_ns: ours(used.cpu.sys_ns),
        };
        let device = used.device.map(|crossed| DeviceBytes {
            read: moved(crossed.read),
            written: moved(crossed.written),
            flushes: ours(crossed.flushes),
        });
        Counted {
            pass,
            used: Used {
                cpu,
                faults: used.faults,
                device,
            },
            spun_ns,
            uncounted_ns: share(pass.elapsed_ns, all_ops - pass.ops, pass.ops),
        }
    }

    fn failed(&self, failed: &FailedIo) -> ProbeError {
        let what = if failed.op.write { "write" } else { "read" };
        let refused = direct_refused(&self.path, what, &failed.error).filter(|_| self.p.direct);
        refused.unwrap_or_else(|| {
            let what = format!("{what} {} bytes at {} of", failed.op.len, failed.op.at);
            ProbeError::io(&what, &self.path, &failed.error)
        })
    }

    /// As in `file`: nothing of it is cached, and the bytes crossed the device.
    fn direct(&self, trial: &Trial) -> DirectIo {
        let cached = resident::share(&self.path).is_some_and(|share| share > DIRECT_CACHED);
        let crossed = trial
            .device
            .is_none_or(|d| (d.read + d.written) as f64 >= DIRECT_SHARE * trial.bytes() as f64);
        if cached || !crossed {
            DirectIo::Ignored
        } else {
            DirectIo::Honoured
        }
    }

    /// Records a rate that was not reached, because I/Os still due are missing from the histogram.
    fn tell_of_the_rate(&self, trial: &mut Trial) {
        let reached = trial.ops() as f64 / (trial.elapsed_ns() as f64 / 1e9);
        if self.p.rate > 0 && reached < 0.95 * self.p.rate as f64 {
            trial.notes.push(format!(
                "the layer did {reached:.0} of the {} I/Os a second that were requested: those that waited longest are missing from the response times",
                self.p.rate
            ));
        }
    }
}

impl WorkerState {
    fn begin<C: Clock>(&self, clock: C) {
        *lock(&self.start) = (clock.now(), monotonic_ns());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one worker's thread. Returns `None` when nothing failed.
fn work<C: Clock>(
    clock: C,
    shared: &WorkerState,
    window: Window,
    p: &IopsParams,
    worker: &mut Worker,
    bytes: &mut [u8],
    (file, piece): (BorrowedFd<'_>, usize),
) -> Option<FailedIo> {
    let begin = || {
        shared.barrier.wait(|| shared.begin(clock));
        let (start, _) = *lock(&shared.start);
        (!shared.off.load(Ordering::Relaxed)).then_some(StopWatch { clock, start })
    };
    // A sleep ends on time, and not up to 50 us late.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    if !find(&p.engine).is_some_and(Engine::queues) {
        let mut one = PreadEngine::new(file, bytes, piece);
        return worker.run(begin()?, window, &mut one, &shared.told).err();
    }
    match Queue::new(p.iodepth as usize, file, bytes, piece) {
        Ok(mut queue) => {
            let failed = worker.run(begin()?, window, &mut queue, &shared.told).err();
            // They live as long as this thread, and their names have its number.
            worker.kernel_workers = worker.kernel_workers.max(kernel_workers());
            failed
        }
        Err(error) => {
            shared.off.store(true, Ordering::Relaxed);
            let op = crate::queue::QueuedIo::default();
            begin();
            Some(FailedIo { op, error })
        }
    }
}

/// Number of kernel threads that do work which this thread's `io_uring` could not start without
/// waiting.
fn kernel_workers() -> u64 {
    let name = format!("iou-wrk-{}", rustix::thread::gettid().as_raw_nonzero());
    let tasks = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let is_one = |task: &fs::DirEntry| {
        let comm = fs::read_to_string(task.path().join("comm"));
        comm.is_ok_and(|comm| comm.trim_end() == name)
    };
    tasks.filter(is_one).count() as u64
}

/// Waits for all threads. Returns the first failure.
fn joined(
    handles: Vec<ScopedJoinHandle<'_, Option<FailedIo>>>,
) -> Result<Option<FailedIo>, ProbeError> {
    let mut first = None;
    for handle in handles {
        let failed = handle.join().map_err(|panic| panicked(panic.as_ref()))?;
        first = first.or(failed);
    }
    Ok(first)
}

/// Sleeps until a moment of `CLOCK_MONOTONIC`, with a progress line from time to time.
fn pause(until: u64, beat: &mut dyn FnMut()) {
    loop {
        let left = until.saturating_sub(monotonic_ns());
        if left == 0 {
            return;
        }
        thread::sleep(Duration::from_nanos(left.min(HEARTBEAT_NS)));
        if left > HEARTBEAT_NS {
            beat();
        }
    }
}

fn no_thread(error: &io::Error) -> ProbeError {
    ProbeError {
        message: format!("cannot start a thread: {error}"),
        hint: None,
        errno: error.raw_os_error(),
    }
    .hint("use fewer `workers`, or raise the limit: `ulimit -u` shows it")
}
