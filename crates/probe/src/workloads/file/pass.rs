//! The passes of a trial: the only place where the clock runs.

use std::{
    fs, io,
    os::fd::AsFd,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use layermark_model::{Pass, Trial};

use super::{
    first_write::{FirstWrite, flush},
    params::{Cache, FileParams, Op, Sync},
    prepare::{FileWork, Slot, open, refused},
    touches,
};
use crate::{
    Beat, ProbeError, Work,
    clock::{Source, monotonic_ns},
    counters,
    drive::{self, Done, Stopped},
    engines::{Engine, Order, Task, Transfer},
    gate::Gate,
    limits::{BEAT_NS, PASSES},
    permutation::Permutation,
    recorder::Recorder,
    usage,
};

impl Work for FileWork {
    fn run(&mut self, beat: &mut Beat<'_>) -> Result<Trial, ProbeError> {
        let resident = self.open_all(&mut || beat(0, 0))?;
        let mut trial = Trial {
            resident,
            ..Trial::default()
        };
        if self.p.op == Op::Reread {
            self.pass(&mut Trial::default(), beat)?;
            self.slots.iter_mut().for_each(|s| s.recorder.clear());
        }
        let mut last_beat = monotonic_ns();
        while self.more(&trial) {
            self.pass(&mut trial, beat)?;
            if monotonic_ns() - last_beat >= BEAT_NS {
                beat(trial.ops(), trial.bytes());
                last_beat = monotonic_ns();
            }
        }
        Ok(trial)
    }

    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        self.settle_after(trial)
    }
}

/// A thread's way through one pass: `CLOCK_MONOTONIC`, nanoseconds.
struct Span {
    start: u64,
    end: u64,
    paused: u64,
}

impl FileWork {
    fn more(&self, trial: &Trial) -> bool {
        let done = trial.passes.len() as u64;
        if self.p.op == Op::FirstWrite || (self.p.cache == Cache::Cold && self.p.op.cacheable()) {
            return done == 0;
        }
        if self.p.passes > 0 {
            return done < self.p.passes;
        }
        let short = u128::from(trial.elapsed_ns()) < self.context.min.as_nanos();
        done == 0 || (done < PASSES && (short || trial.ops() < self.context.min_ops))
    }

    fn ops_per_thread(&self) -> u64 {
        if self.p.op == Op::FirstWrite {
            1
        } else {
            self.p.file_size / self.p.record
        }
    }

    /// One pass: the new file outside the clock, counters around it, the work inside it.
    fn pass(&mut self, trial: &mut Trial, beat: &mut Beat<'_>) -> Result<(), ProbeError> {
        self.renew()?;
        self.seen.passes += 1;
        let devices = counters::sum(&self.context.devices);
        let cpu = usage::now();
        let span = if self.slots.len() == 1 {
            self.alone(trial, beat)
        } else {
            self.together(trial, beat)
        }?;
        self.seen.stopped_ns = monotonic_ns();
        usage::add_since(&mut trial.cpu, cpu);
        self.seen.devices = counters::sum(&self.context.devices);
        if let (Some(before), Some(after)) = (devices, self.seen.devices) {
            let crossed = counters::between(before, after);
            let sum = trial.device.get_or_insert_default();
            sum.read += crossed.read;
            sum.written += crossed.written;
            sum.flushes += crossed.flushes;
        }
        let ops = self.ops_per_thread() * self.p.threads;
        let elapsed_ns = (span.end - span.start).saturating_sub(span.paused).max(1);
        trial.passes.push(Pass {
            elapsed_ns,
            ops,
            bytes: ops * self.p.record,
        });
        trial.syncs += syncs(&self.p, ops);
        Ok(())
    }

    /// A write goes to a file that was not there before; others go on with the open one.
    fn renew(&mut self) -> Result<(), ProbeError> {
        if self.p.op.packaged() || !touches(&self.p) {
            return Ok(());
        }
        for slot in &mut self.slots {
            if self.p.op == Op::Write {
                drop(slot.file.take());
                match fs::remove_file(&slot.path) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => {
                        return Err(ProbeError::io("remove", &slot.path, &e));
                    }
                    _ => {}
                }
            }
            // A point that closes inside the clock comes here without an open file.
            if slot.file.is_none() {
                let file = open(&self.p, &slot.path)
                    .map_err(|e| refused(&self.p, &slot.path, "open", &e))?;
                slot.file = Some(file);
            }
        }
        Ok(())
    }

    /// One thread works in the probe's own: with a second thread in the process the kernel would
    /// count references on the file at each call, which costs a small read 2 %.
    fn alone(&mut self, trial: &Trial, beat: &mut Beat<'_>) -> Result<Span, ProbeError> {
        let (ops, bytes, record) = (trial.ops(), trial.bytes(), self.p.record);
        let job = Job::new(self);
        let slot = &mut self.slots[0];
        job.work(slot, &mut |done| beat(ops + done, bytes + done * record))
            .map_err(|s| failed(&job.p, slot, &s))
    }

    /// Threads start together at a gate; the clock runs from the first one's start to the last
    /// one's end.
    fn together(&mut self, trial: &Trial, beat: &mut Beat<'_>) -> Result<Span, ProbeError> {
        let (ops, bytes, record) = (trial.ops(), trial.bytes(), self.p.record);
        let job = Job::new(self);
        let count = self.slots.len();
        let (gate, done) = (Gate::default(), AtomicU64::new(0));
        let (send, ended) = mpsc::channel();
        let mut spans = Vec::with_capacity(count);
        thread::scope(|scope| {
            for slot in &mut self.slots {
                let (job, gate, done, send) = (&job, &gate, &done, send.clone());
                let worker = move || {
                    let mut before = 0;
                    if !gate.wait() {
                        return;
                    }
                    let span = job.work(slot, &mut |now| {
                        done.fetch_add(now - before, Ordering::Relaxed);
                        before = now;
                    });
                    // The receiver lives until every thread has ended.
                    let _ = send.send(span.map_err(|s| failed(&job.p, slot, &s)));
                };
                if let Err(e) = thread::Builder::new().spawn_scoped(scope, worker) {
                    gate.give_up();
                    return Err(no_thread(&e));
                }
            }
            drop(send);
            gate.open(count);
            while spans.len() < count {
                match ended.recv_timeout(Duration::from_nanos(BEAT_NS)) {
                    Ok(span) => spans.push(span),
                    Err(mpsc::RecvTimeoutError::Timeout) => {
                        let n = done.load(Ordering::Relaxed);
                        beat(ops + n, bytes + n * record);
                    }
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                }
            }
            Ok(())
        })?;
        let spans: Vec<Span> = spans.into_iter().collect::<Result<_, _>>()?;
        let start = spans.iter().map(|s| s.start).min().unwrap_or(0);
        let end = spans.iter().map(|s| s.end).max().unwrap_or(0);
        // Only preparation pauses a thread here; the mean is what the whole lost by it.
        let paused = spans.iter().map(|s| s.paused).sum::<u64>() / spans.len().max(1) as u64;
        Ok(Span { start, end, paused })
    }

    /// Adds up what the threads recorded. Encoding it takes a while, which is no debt.
    pub fn sum_up(&self, trial: &mut Trial) {
        let mut all = Recorder::new();
        for slot in &self.slots {
            all.add(&slot.recorder);
        }
        trial.latency = all.latency();
        self.compare_clocks(trial, &all);
    }

    /// The counter's sum over all operations against `CLOCK_MONOTONIC`'s elapsed time.
    fn compare_clocks(&self, trial: &mut Trial, all: &Recorder) {
        let plain = self.slots.len() == 1
            && matches!(
                self.p.sync,
                Sync::None | Sync::Each | Sync::Osync | Sync::Odsync
            );
        let elapsed = trial.elapsed_ns() as f64;
        if !plain || !matches!(self.clock, Some(Source::Tsc { .. })) || elapsed < 10e6 {
            return;
        }
        let off = all.total_ns() / elapsed - 1.0;
        if off.abs() > 0.02 {
            let source = self.clock.map_or("", Source::name);
            trial.notes.push(format!(
                "clocks disagree: {source} is off by {:.1} % of CLOCK_MONOTONIC",
                off * 100.0
            ));
        }
    }
}

fn no_thread(error: &io::Error) -> ProbeError {
    ProbeError {
        message: format!("cannot start a thread: {error}"),
        hint: None,
        errno: error.raw_os_error(),
    }
    .hint("use fewer `threads`, or raise the limit: `ulimit -u` shows it")
}

/// Calls that flush in `ops` operations and one pass.
fn syncs(p: &FileParams, ops: u64) -> u64 {
    match p.sync {
        _ if !touches(p) => 0,
        Sync::None | Sync::Close => 0,
        Sync::Fsync | Sync::Fdatasync => p.threads,
        Sync::Each | Sync::Osync | Sync::Odsync => ops,
    }
}

fn failed(p: &FileParams, slot: &Slot, stopped: &Stopped) -> ProbeError {
    let what = if p.op.writes() { "write" } else { "read" };
    if stopped.at == 0 {
        return refused(p, &slot.path, what, &stopped.error);
    }
    ProbeError::io(
        &format!("{what} record {} of", stopped.at),
        &slot.path,
        &stopped.error,
    )
}

/// What a thread needs to know of the point.
struct Job {
    p: FileParams,
    engine: &'static dyn Engine,
    clock: Option<Source>,
    ops: u64,
    pass: u64,
}

impl Job {
    fn new(work: &FileWork) -> Self {
        Self {
            p: work.p.clone(),
            engine: work.engine,
            clock: work.clock,
            ops: work.ops_per_thread(),
            pass: work.seen.passes,
        }
    }

    /// One thread's part of a pass; its clock starts and stops in here.
    fn work(&self, slot: &mut Slot, beat: &mut dyn FnMut(u64)) -> Result<Span, Stopped> {
        let Slot {
            path,
            seed,
            buffer,
            recorder,
            file,
        } = slot;
        let at_end = |error: io::Error| Stopped {
            at: self.ops,
            error,
        };
        let done: Done = if self.p.op == Op::FirstWrite {
            let mut first = FirstWrite {
                p: &self.p,
                path,
                seed: *seed,
                data: buffer.bytes_mut(),
                file,
            };
            first.mark();
            drive::drive(self.clock, 1, recorder, beat, &mut first)?
        } else {
            let task = Task {
                file: file.as_ref().map_or(rustix::fs::CWD, AsFd::as_fd),
                record: self.p.record as usize,
                ops: self.ops,
                order: self.order(*seed),
                transfer: if self.p.op.writes() {
                    Transfer::Write(buffer.bytes_mut())
                } else {
                    Transfer::Read(buffer.bytes_mut())
                },
                sync_each: self.p.sync == Sync::Each && touches(&self.p),
                mark: (self.p.verify && self.p.op.writes()).then_some((*seed, self.pass)),
                clock: self.clock,
                recorder,
                beat,
            };
            let done = self.engine.pass(task)?;
            if let Some(open) = file.as_ref() {
                flush(self.p.sync, open).map_err(at_end)?;
            }
            done
        };
        if self.p.sync == Sync::Close {
            drop(file.take());
        }
        Ok(Span {
            start: done.start_ns,
            end: monotonic_ns(),
            paused: done.paused_ns,
        })
    }

    /// Each pass in an order of its own.
    fn order(&self, seed: u64) -> Order {
        if self.p.op.random() {
            Order::Random(Permutation::new(self.ops, seed.wrapping_add(self.pass)))
        } else {
            Order::Sequential
        }
    }
}
