//! The passes of a trial: the only place where the clock runs.

use std::{fs, io, thread};

use layermark_model::{CpuUse, DeviceBytes, Pass, Trial, Verified};

use super::{
    job::Job,
    params::{Cache, FileParams, Op, Sync},
    prepare::{FileWork, Seen, Slot, open, refused},
    rates,
    team::{Shared, Team},
    touches,
};
use crate::{
    Beat, Context, ProbeError, Work,
    clock::{Source, monotonic_ns},
    counters::{self, Devices},
    drive::{Span, Stopped},
    limits::{BEAT_NS, PASSES},
    usage,
};

/// Threads that work at the same time start within a microsecond or so of each other and do not
/// end together: a pass of theirs lasts about this long at least, nanoseconds.
const TOGETHER_NS: u64 = 5_000_000;

/// One thread's pass over a short file would take less than the counters read around it, and a trial
/// have a hundred thousand of them: it lasts about this long at least, nanoseconds.
const ALONE_NS: u64 = 1_000_000;
/// Bytes of a file that is short.
const SHORT: u64 = 1 << 20;
/// Times over a file that tell how long the quickest takes ...
const FEW: u64 = 3;
/// ... unless they take this many times as long as a pass has to ...
const LONG: u64 = 10;
/// ... and more, if this part of a pass has not gone by yet.
const PART: u64 = 10;

impl Work for FileWork {
    fn run(&mut self, beat: &mut Beat<'_>) -> Result<Trial, ProbeError> {
        let mut trial = Trial {
            resident: self.look()?,
            ..Trial::default()
        };
        if self.slots.len() == 1 {
            self.alone(&mut trial, beat)?;
        } else {
            self.together(&mut trial, beat)?;
        }
        Ok(trial)
    }

    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        self.settle_after(trial)
    }
}

/// What is read before and after a pass.
pub struct Counters {
    at_ns: u64,
    cpu: CpuUse,
    devices: Option<DeviceBytes>,
}

impl Counters {
    pub fn read(devices: &Devices) -> Self {
        Self {
            at_ns: monotonic_ns(),
            devices: devices.sum(),
            cpu: usage::now(),
        }
    }
}

/// A pass of all threads.
pub struct Lap {
    pub span: Span,
    /// Of each thread; empty where one works alone.
    pub threads: Vec<Span>,
    pub before: Counters,
    pub after: Counters,
}

impl FileWork {
    /// One thread works in the probe's own: with a second thread that has the file open too the
    /// kernel would count references on it at each call, which costs a small read 2 %.
    fn alone(&mut self, trial: &mut Trial, beat: &mut Beat<'_>) -> Result<(), ProbeError> {
        let devices = Devices::open(&self.context.devices);
        let (mut last_beat, mut so_far) = (monotonic_ns(), SoFar::default());
        while more(&self.p, &self.context, &so_far) {
            let job = self.plan.next();
            let slot = &mut self.slots[0];
            renew(&job.p, slot)?;
            let SoFar { ops, bytes, .. } = so_far;
            let before = Counters::read(&devices);
            let span = job
                .work(slot, &mut |n| beat(ops + n, bytes + n * job.p.unit()))
                .map_err(|s| failed(&job.p, slot, &s))?;
            let after = Counters::read(&devices);
            let lap = Lap {
                span,
                threads: Vec::new(),
                before,
                after,
            };
            so_far.add(count(trial, &job, lap, &mut self.seen));
            if monotonic_ns() - last_beat >= BEAT_NS {
                beat(so_far.ops, so_far.bytes);
                last_beat = monotonic_ns();
            }
        }
        Ok(())
    }

    fn together(&mut self, trial: &mut Trial, beat: &mut Beat<'_>) -> Result<(), ProbeError> {
        let Self {
            p,
            context,
            plan,
            slots,
            seen,
            ..
        } = self;
        let shared = Shared::new(slots.len(), Devices::open(&context.devices));
        thread::scope(|scope| {
            let team = Team::start(scope, &shared, slots)?;
            let (mut last_beat, mut so_far) = (monotonic_ns(), SoFar::default());
            while more(p, context, &so_far) {
                let job = plan.next();
                let SoFar { ops, bytes, .. } = so_far;
                let lap = team.pass(&job, &mut |n| beat(ops + n, bytes + n * job.p.unit()))?;
                so_far.add(count(trial, &job, lap, seen));
                if monotonic_ns() - last_beat >= BEAT_NS {
                    beat(so_far.ops, so_far.bytes);
                    last_beat = monotonic_ns();
                }
            }
            Ok(())
        })
    }

    /// Before `ready`: the untimed pass that a second reading follows, and how often threads go
    /// over their files in one pass to be long enough under way.
    pub fn rehearse(&mut self) -> Result<(), ProbeError> {
        let least = if self.p.threads > 1 {
            TOGETHER_NS
        } else {
            ALONE_NS
        };
        self.rehearse_for(least)
    }

    /// With a pass that takes at least so many nanoseconds.
    pub fn rehearse_for(&mut self, least: u64) -> Result<(), ProbeError> {
        let repeats = repeats(&self.p);
        let job = self.plan.rehearsal();
        for (i, slot) in self.slots.iter_mut().enumerate() {
            let (mut rounds, start) = (0, monotonic_ns());
            let counts = i == 0 && repeats;
            // Once at least: a busy machine may have taken all the time before the first look at
            // it. And a few times if need be: it may have taken it in the first round.
            let more = |rounds, now| match rounds {
                0 => counts || self.p.op == Op::Reread,
                1..FEW => counts && now - start < LONG * least,
                _ => counts && now - start < least / PART,
            };
            let mut quickest = u64::MAX;
            while more(rounds, monotonic_ns()) {
                let span = job
                    .work(slot, &mut |_| {})
                    .map_err(|s| failed(&job.p, slot, &s))?;
                quickest = quickest.min(span.net_ns());
                rounds += 1;
            }
            if counts {
                // A tenth more: what falls just short of it would be made twice.
                self.plan.rounds = (least + least / 10).div_ceil(quickest).max(1);
            }
            slot.recorder.clear();
            slot.checked = Verified::default();
        }
        Ok(())
    }

    /// Adds up what the threads recorded. Encoding it takes a while, which is no debt.
    pub fn sum_up(&mut self, trial: &mut Trial) {
        trial.threads = rates::mean(&self.seen.threads);
        if !self.p.latency {
            return;
        }
        if let Some((Slot { recorder: all, .. }, others)) = self.slots.split_first_mut() {
            for other in others {
                all.add(&other.recorder);
            }
            trial.latency = all.latency();
        }
        self.compare_clocks(trial);
    }

    /// The counter's sum over all operations against `CLOCK_MONOTONIC`'s elapsed time.
    fn compare_clocks(&self, trial: &mut Trial) {
        let [Slot { recorder: all, .. }] = &self.slots[..] else {
            return;
        };
        let plain = matches!(
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

/// Whether a pass may go over the files several times: not where each needs a new file or an
/// opening, nor where the user has said how often.
fn repeats(p: &FileParams) -> bool {
    let short = p.threads > 1 || (p.file_size <= SHORT && p.sync == Sync::None);
    short && p.passes == 0 && !once(p) && !p.op.makes() && !p.sync.closes()
}

/// What a second pass would find changed.
fn once(p: &FileParams) -> bool {
    p.op == Op::FirstWrite || (p.cache == Cache::Cold && p.op.cacheable())
}

fn more(p: &FileParams, context: &Context, so_far: &SoFar) -> bool {
    let done = so_far.passes;
    if once(p) {
        return done == 0;
    }
    if p.passes > 0 {
        return done < p.passes;
    }
    if p.min_ms > 0 {
        return done == 0 || (done < PASSES && so_far.elapsed_ns < p.min_ms * 1_000_000);
    }
    let short = u128::from(so_far.elapsed_ns) < context.min.as_nanos();
    done == 0 || (done < PASSES && (short || so_far.ops < context.min_ops))
}

/// Outside the clock. A write goes to a file that was not there before; others go on with the
/// open one.
pub fn renew(p: &FileParams, slot: &mut Slot) -> Result<(), ProbeError> {
    let op = slot.op;
    if op.packaged() || !touches(p) {
        return Ok(());
    }
    if op.makes() {
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
        let file = open(p, op, &slot.path).map_err(|e| refused(p, &slot.path, "open", &e))?;
        slot.file = Some(file);
    }
    Ok(())
}

/// Sums over the passes of a trial, of which there may be very many.
#[derive(Clone, Copy, Default)]
struct SoFar {
    passes: u64,
    ops: u64,
    bytes: u64,
    elapsed_ns: u64,
}

impl SoFar {
    fn add(&mut self, pass: Pass) {
        self.passes += 1;
        self.ops += pass.ops;
        self.bytes += pass.bytes;
        self.elapsed_ns += pass.elapsed_ns;
    }
}

/// Adds a pass to the trial.
fn count(trial: &mut Trial, job: &Job, lap: Lap, seen: &mut Seen) -> Pass {
    let Lap {
        span,
        threads,
        before,
        after,
    } = lap;
    trial.cpu.user_ns += after.cpu.user_ns.saturating_sub(before.cpu.user_ns);
    trial.cpu.sys_ns += after.cpu.sys_ns.saturating_sub(before.cpu.sys_ns);
    if let (Some(before), Some(after)) = (before.devices, after.devices) {
        let crossed = counters::between(before, after);
        let sum = trial.device.get_or_insert_default();
        sum.read += crossed.read;
        sum.written += crossed.written;
        sum.flushes += crossed.flushes;
    }
    let ops = job.ops * job.rounds * job.p.threads;
    let pass = Pass {
        elapsed_ns: span.net_ns(),
        ops,
        bytes: ops * job.p.unit(),
    };
    trial.passes.push(pass);
    trial.syncs += syncs(&job.p, ops, job.rounds);
    let each = job.ops * job.rounds * job.p.unit();
    seen.threads.extend(rates::of_pass(&threads, each));
    seen.stopped_ns = after.at_ns;
    seen.devices = after.devices;
    seen.generation = job.first + job.rounds - 1;
    pass
}

/// Calls that flush in `ops` operations and this many times over each file.
fn syncs(p: &FileParams, ops: u64, rounds: u64) -> u64 {
    match p.sync {
        _ if !touches(p) => 0,
        Sync::None | Sync::Close => 0,
        Sync::Fsync | Sync::Fdatasync | Sync::FsyncClose => p.writers() * rounds,
        Sync::Each | Sync::Osync | Sync::Odsync => ops / p.threads * p.writers(),
    }
}

pub fn failed(p: &FileParams, slot: &Slot, stopped: &Stopped) -> ProbeError {
    let what = if slot.op.writes() { "write" } else { "read" };
    if stopped.at == 0 {
        return refused(p, &slot.path, what, &stopped.error);
    }
    ProbeError::io(
        &format!("{what} record {} of", stopped.at),
        &slot.path,
        &stopped.error,
    )
}
