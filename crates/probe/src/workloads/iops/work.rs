//! The trial: workers that start together, a window of time, and the debt after it.

use std::{
    fs::{self, File},
    os::fd::AsFd,
    sync::Arc,
};

use layermark_model::{CpuUse, DeviceBytes, Direction, Pass, Trial, Turn};

use super::{
    engine::PreadEngine,
    prepare::{IopsJob, IopsWork},
    worker::{PATIENCE_NS, StopWatch, Window, Worker},
};
use crate::{
    Beat, ProbeError, TurnRequest, Turned, Work,
    buffer::Buffer,
    clock::{Clock, Monotonic, Source, Tsc, monotonic_ns},
    counters::Devices,
    engines::{Engine, find},
    files::direct_refused,
    queue::{FailedIo, Queue},
    resident,
    run::{
        self, Mark, Used,
        drive::Span,
        recorder::Recorder,
        team::{Begin, Member, as_if_equally_long},
    },
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

impl Work for IopsWork {
    fn turn(
        &mut self,
        ask: &TurnRequest,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError> {
        if trial.passes.is_empty() && self.spec.reads() && !self.job.p.direct {
            trial.resident = resident::share_of(&self.job.file);
        }
        let mut window = self.window(ask);
        let counted = loop {
            let counted = self.go(window, beat)?;
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
            waited_ns: pass.waited_ns,
            kernel_waited_ns: None,
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
            ..Turned::default()
        })
    }

    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        if self.job.p.direct {
            let cached = resident::share(&self.job.path);
            trial.direct = trial.direct_io(cached, Direction::Both);
        } else if self.spec.writes() {
            let devices = Devices::open(&self.context.devices);
            let mut since = self.stopped;
            if trial.turns.is_empty() {
                self.context.sync(&self.dir)?;
            } else {
                // Flushes its own file. A flush of the whole file system would also pay for other
                // layers.
                since = Some(Mark::read(&devices));
                let flushed = File::open(&self.job.path).and_then(|file| file.sync_all());
                flushed.map_err(|e| ProbeError::io("flush", &self.job.path, &e))?;
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
        if self.job.p.rate > 0 || self.spec.pauses() {
            trial.response_ns = trial.latency.as_ref().map(|l| l.mean);
        }
        if find(&self.job.p.engine).is_some_and(Engine::queues) {
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
            (ms(self.job.p.ramp), ms(self.job.p.stretch()))
        };
        Window {
            from,
            until: from + length,
            whole: ask.ns > 0,
        }
    }

    fn go(&mut self, window: Window, beat: &mut Beat<'_>) -> Result<Counted, ProbeError> {
        // After the window's end, only an I/O that hangs can take long.
        let until = monotonic_ns().saturating_add(window.until);
        let beat = &mut |ops| {
            if monotonic_ns() < until {
                beat(ops, 0);
            }
        };
        let together = self.team.work(&mut self.workers, window, beat)?;
        let [before, after] = together.edges;
        let mut used = Used::default();
        used.add(&before, &after);
        self.stopped = Some(after.mark);
        Ok(self.sum_up(window, &used))
    }

    /// Time of the counted I/Os, ns, as if all workers had been busy for the same time.
    fn elapsed_ns(&self, window: Window) -> u64 {
        if !window.whole {
            return window.until - window.from;
        }
        let worked = self.workers.iter().filter_map(|(worker, _)| {
            let (start, end) = worker.span.filter(|(first, last)| last > first)?;
            Some((
                worker.ops,
                Span {
                    start,
                    end,
                    ..Span::default()
                },
            ))
        });
        as_if_equally_long(worked)
    }

    /// How long the only worker waited for a CPU, ns.
    fn waited_ns(&self) -> Option<u64> {
        match &self.workers[..] {
            [(worker, _)] => worker.waited.ns(),
            _ => None,
        }
    }

    fn sum_up(&self, window: Window, used: &Used) -> Counted {
        let sum =
            |of: &dyn Fn(&Worker) -> u64| self.workers.iter().map(|(w, _)| of(w)).sum::<u64>();
        let pass = Pass {
            elapsed_ns: self.elapsed_ns(window),
            waited_ns: self.waited_ns(),
            kernel_waited_ns: None,
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

    /// Records a rate that was not reached, because I/Os still due are missing from the histogram.
    fn tell_of_the_rate(&self, trial: &mut Trial) {
        let reached = trial.ops() as f64 / (trial.elapsed_ns() as f64 / 1e9);
        if self.job.p.rate > 0 && reached < 0.95 * self.job.p.rate as f64 {
            trial.notes.push(format!(
                "the layer did {reached:.0} of the {} I/Os a second that were requested: those that waited longest are missing from the response times",
                self.job.p.rate
            ));
        }
    }
}

impl Member for Arc<IopsJob> {
    type Slot = (Worker, Buffer);
    type Order = Window;
    type Done = ();

    fn run(
        &mut self,
        slot: &mut (Worker, Buffer),
        window: Window,
        begin: Begin<'_>,
        beat: &mut dyn FnMut(u64),
    ) -> Result<(), ProbeError> {
        let ended = match selftest::source() {
            Source::Tsc { mult } => self.work(Tsc { mult }, slot, window, begin, beat),
            Source::Monotonic => self.work(Monotonic, slot, window, begin, beat),
        };
        ended.map_err(|failed| self.failed(&failed))
    }
}

impl IopsJob {
    /// Runs one worker in its thread.
    fn work<C: Clock>(
        &self,
        clock: C,
        (worker, buffer): &mut (Worker, Buffer),
        window: Window,
        begin: Begin<'_>,
        beat: &mut dyn FnMut(u64),
    ) -> Result<(), FailedIo> {
        // A sleep ends on time, and not up to 50 us late.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let (file, bytes) = (self.file.as_fd(), buffer.bytes_mut());
        let watch = |begin: Begin<'_>| {
            let start_ns = begin();
            let late = clock.ticks(monotonic_ns() - start_ns);
            let start = clock.now().saturating_sub(late);
            StopWatch { clock, start }
        };
        if !find(&self.p.engine).is_some_and(Engine::queues) {
            let mut one = PreadEngine::new(file, bytes, self.piece);
            return worker.run(watch(begin), window, &mut one, beat);
        }
        let queue = Queue::new(self.p.iodepth as usize, file, bytes, self.piece);
        let mut queue = queue.map_err(|error| FailedIo {
            op: crate::queue::QueuedIo::default(),
            error,
        })?;
        let ended = worker.run(watch(begin), window, &mut queue, beat);
        // They live as long as this thread, and their names have its number.
        worker.kernel_workers = worker.kernel_workers.max(kernel_workers());
        ended
    }

    fn failed(&self, failed: &FailedIo) -> ProbeError {
        let what = if failed.op.write { "write" } else { "read" };
        let refused = direct_refused(&self.path, what, &failed.error).filter(|_| self.p.direct);
        refused.unwrap_or_else(|| {
            let what = format!("{what} {} bytes at {} of", failed.op.len, failed.op.at);
            ProbeError::io(&what, &self.path, &failed.error)
        })
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
