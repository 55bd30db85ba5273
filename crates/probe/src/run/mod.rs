//! The loop for work that repeats operations: lead-in, end of turn, passes, counters, heartbeat.
//!
//! A workload implements [`Repeat`]: its operations, and the preparation between two passes over
//! them. It has no loop over turns and reads no counter.

use std::path::Path;

use layermark_model::{CpuUse, Debt, DeviceBytes, Faults, Pass, Trial, Turn};
use layermark_sys::kernel_threads::KernelThreads;

use crate::{
    Beat, Context, ProbeError, TurnRequest, Turned, Work,
    clock::monotonic_ns,
    counters::{self, Devices},
    limits::{HEARTBEAT_NS, PASSES},
    usage::{self, ProcessUsage},
};

pub mod barrier;
pub mod drive;
pub mod recorder;
pub mod team;
pub mod waiting;

use drive::Span;

/// Work that may not rest yet prolongs its turn to at most so many times its length.
const LONGEST: u64 = 10;

/// A moment, with the devices' counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    at_ns: u64,
    device: Option<DeviceBytes>,
}

impl Mark {
    pub fn read(devices: &Devices) -> Self {
        Self {
            at_ns: monotonic_ns(),
            device: devices.sum(),
        }
    }

    /// Bytes written, and time passed, since this mark.
    pub fn debt(&self, devices: &Devices) -> Debt {
        Debt {
            seconds: (monotonic_ns() - self.at_ns) as f64 / 1e9,
            bytes: counters::written(self.device, devices.sum()),
        }
    }
}

/// Flushes a layer, and adds what that took to a sum.
pub fn flush(context: &Context, dir: &Path, sum: &mut Option<Debt>) -> Result<(), ProbeError> {
    let devices = Devices::open(&context.devices);
    let since = Mark::read(&devices);
    context.sync(dir)?;
    let debt = since.debt(&devices);
    let sum = sum.get_or_insert_default();
    sum.seconds += debt.seconds;
    if let Some(bytes) = debt.bytes {
        *sum.bytes.get_or_insert_default() += bytes;
    }
    Ok(())
}

/// The share of one of so many executions in a sum of [`flush`].
pub fn each(sum: Debt, count: u64) -> Debt {
    let count = count.max(1);
    Debt {
        seconds: sum.seconds / count as f64,
        bytes: sum.bytes.map(|bytes| bytes / count),
    }
}

/// Counters at the start or end of a stretch. The files stay open, so reading takes some
/// microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Edge {
    pub mark: Mark,
    usage: ProcessUsage,
}

impl Edge {
    pub fn read(devices: &Devices) -> Self {
        Self {
            mark: Mark::read(devices),
            usage: usage::now(),
        }
    }

    /// CPU time of this process between two edges, ns.
    fn cpu_ns_until(&self, after: &Self) -> u64 {
        let sum = |edge: &Self| edge.usage.cpu.user_ns + edge.usage.cpu.sys_ns;
        sum(after).saturating_sub(sum(self))
    }
}

/// Resources used between two edges.
#[derive(Default)]
pub struct Used {
    pub cpu: CpuUse,
    pub faults: Faults,
    pub device: Option<DeviceBytes>,
}

impl Used {
    pub fn add(&mut self, before: &Edge, after: &Edge) {
        let (a, b) = (&before.usage, &after.usage);
        self.cpu.user_ns += b.cpu.user_ns.saturating_sub(a.cpu.user_ns);
        self.cpu.sys_ns += b.cpu.sys_ns.saturating_sub(a.cpu.sys_ns);
        self.faults.minor += b.faults.minor.saturating_sub(a.faults.minor);
        self.faults.major += b.faults.major.saturating_sub(a.faults.major);
        if let (Some(before), Some(after)) = (before.mark.device, after.mark.device) {
            *self.device.get_or_insert_default() += counters::between(before, after);
        }
    }

    /// Adds the resources to the trial.
    pub fn count(&self, trial: &mut Trial) {
        trial.cpu.user_ns += self.cpu.user_ns;
        trial.cpu.sys_ns += self.cpu.sys_ns;
        let faults = trial.faults.get_or_insert_default();
        faults.minor += self.faults.minor;
        faults.major += self.faults.major;
        if let Some(crossed) = self.device {
            *trial.device.get_or_insert_default() += crossed;
        }
    }
}

/// How much to do: until one of the limits is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of passes; `u64::MAX`: the time is the limit.
    pub passes: u64,
    /// Until this many nanoseconds of work have passed, or until the end of a pass after which
    /// [`Repeat::renew`] is needed; `u64::MAX`: the passes are the limit. Work that cannot be divided
    /// is done as a whole.
    pub ns: u64,
    /// Whether operations enter the histogram; `false` in a lead-in.
    pub counted: bool,
}

impl Extent {
    /// To the end of a pass.
    pub const PASS: Self = Self {
        passes: 1,
        ns: u64::MAX,
        counted: true,
    };

    /// For this many nanoseconds.
    pub fn time(ns: u64, counted: bool) -> Self {
        Self {
            passes: u64::MAX,
            ns,
            counted,
        }
    }

    /// Whether it is limited by passes.
    pub fn is_pass(self) -> bool {
        self.ns == u64::MAX
    }

    /// Maximum number of operations where a pass has `pass` of them.
    pub fn ops(self, pass: u64) -> u64 {
        self.passes.saturating_mul(pass)
    }

    /// What is left of a time after `late_ns`: at least one operation.
    pub fn late(self, late_ns: u64) -> Self {
        Self {
            ns: if self.is_pass() {
                self.ns
            } else {
                self.ns.saturating_sub(late_ns).max(1)
            },
            ..self
        }
    }
}

/// Result of [`Repeat::go`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stretch {
    /// Time on the clock, ns.
    pub elapsed_ns: u64,
    pub ops: u64,
    pub bytes: u64,
    /// Time of it in which the one thread that works waited for a CPU, ns: [`Turn::waited_ns`].
    pub waited_ns: Option<u64>,
    /// [`Turn::kernel_waited_ns`]. Set by [`Repeated`].
    pub kernel_waited_ns: Option<u64>,
    /// Number of calls that flush.
    pub syncs: u64,
    /// Whether the pass is over: [`Repeat::renew`] must come before another one.
    pub over: bool,
    /// Present if the work reads the counters itself. Teams of threads do, between being ready and
    /// working.
    pub edges: Option<[Edge; 2]>,
}

/// Rules for the number of passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passes {
    /// Exactly this many; 0: the lab decides.
    pub fixed: u64,
    /// At most this many, each in its own turn unless it is longer, because another pass would find
    /// another state. 0: no limit.
    pub most: u64,
    /// Minimum time that the point requests, ms; 0: the lab decides.
    pub min_ms: u64,
    /// Whether a pass is done as a whole, because its end belongs to all of it.
    pub whole: bool,
}

/// Work that repeats operations.
pub trait Repeat: Send {
    fn context(&self) -> &Context;
    fn passes(&self) -> Passes;
    /// Called before the first turn, when the caches are in the required state: opens the files of
    /// a cold point. Returns the share of the files in the cache.
    fn look(&mut self) -> Result<Option<f64>, ProbeError> {
        Ok(None)
    }
    /// Whether a lead-in is needed even if an operation takes long: it restores more than caches.
    fn always_leads_in(&self) -> bool {
        false
    }
    /// Called outside the clock, before each pass that needs it. Calls `beat` while it waits.
    fn renew(&mut self, _beat: &mut dyn FnMut(u64)) -> Result<(), ProbeError> {
        Ok(())
    }
    /// Runs operations. `beat` gets the number of them so far in this call.
    fn go(&mut self, extent: Extent, beat: &mut dyn FnMut(u64)) -> Result<Stretch, ProbeError>;
    /// Whether a turn may end here. It is asked where it would, and goes on for at most [`LONGEST`] times its length.
    fn may_rest(&self) -> bool {
        true
    }
    /// Called outside the clock, after each pass that has ended.
    fn passed(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }
    /// See [`Work::settle`]. Debt counts from `since`.
    fn settle(&mut self, trial: &mut Trial, since: Mark) -> Result<(), ProbeError>;
    /// See [`Work::end`].
    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError>;
}

/// The loop around a workload's operations.
pub struct Repeated<W> {
    pub work: W,
    devices: Devices,
    /// Those that the work may wait for.
    kernel: KernelThreads,
    begun: bool,
    /// Whether a new pass begins next.
    fresh: bool,
    /// Number of completed passes.
    done: u64,
    /// Mean duration of an operation in the last turn, ns.
    op_ns: u64,
    /// The end of the last stretch.
    stopped: Option<Mark>,
}

impl<W: Repeat> Repeated<W> {
    pub fn new(work: W) -> Self {
        Self {
            devices: Devices::open(&work.context().devices),
            kernel: if work.context().waits_for_devices {
                KernelThreads::open()
            } else {
                KernelThreads::default()
            },
            work,
            begun: false,
            fresh: true,
            done: 0,
            op_ns: 0,
            stopped: None,
        }
    }

    fn stretch(
        &mut self,
        extent: Extent,
        used: &mut Used,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Stretch, ProbeError> {
        if self.fresh {
            self.work.renew(beat)?;
        }
        let waited_before = self.kernel.waited_ns();
        let before = Edge::read(&self.devices);
        let mut stretch = self.work.go(extent, beat)?;
        let around = || [before, Edge::read(&self.devices)];
        let [before, after] = stretch.edges.unwrap_or_else(around);
        used.add(&before, &after);
        let waited = waited_before.zip(self.kernel.waited_ns());
        // Only what it waited for can have delayed the thread.
        let idle_ns = stretch.waited_ns.map(|waited_ns| {
            let busy_ns = waited_ns + before.cpu_ns_until(&after);
            stretch.elapsed_ns.saturating_sub(busy_ns)
        });
        stretch.kernel_waited_ns = idle_ns
            .zip(waited)
            .map(|(idle_ns, (first, last))| last.saturating_sub(first).min(idle_ns));
        self.stopped = Some(after.mark);
        self.fresh = stretch.over;
        self.done += u64::from(stretch.over);
        if stretch.over {
            self.work.passed()?;
        }
        Ok(stretch)
    }

    /// Whether no work is left.
    fn through(&self) -> bool {
        let most = self.work.passes().most;
        most > 0 && self.done >= most
    }

    /// Uncounted work, until caches, a daemon and an idle CPU are in their working state. A long
    /// operation restores them itself. Returns its duration, ns.
    fn lead_in(&mut self, ns: u64, beat: &mut Beat<'_>) -> Result<u64, ProbeError> {
        let awake = self.op_ns >= ns && !self.work.always_leads_in();
        if ns == 0 || awake || self.work.passes().whole || self.through() {
            return Ok(0);
        }
        let extent = Extent::time(ns, false);
        let worked = self.stretch(extent, &mut Used::default(), &mut |_| beat(0, 0))?;
        Ok(worked.elapsed_ns)
    }

    fn timed(
        &mut self,
        ask: &TurnRequest,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError> {
        self.kernel.renew();
        let uncounted_ns = self.lead_in(ask.lead_in_ns, beat)?;
        let mut used = Used::default();
        let mut turn = Turn {
            round: ask.round,
            waited_ns: Some(0),
            kernel_waited_ns: Some(0),
            ..Turn::default()
        };
        // A new pass is not started for the last tenth of a turn.
        let enough_ns = ask.ns - ask.ns / 10;
        let most_ns = ask.ns.saturating_mul(LONGEST);
        let goes_on = |sofar: &Turn, work: &W| {
            sofar.elapsed_ns < enough_ns || sofar.elapsed_ns < most_ns && !work.may_rest()
        };
        while goes_on(&turn, &self.work) && !self.through() {
            let left_ns = ask.ns.saturating_sub(turn.elapsed_ns);
            let extent = Extent::time(left_ns.max(ask.ns / 10).max(1), true);
            let sofar = turn.ops;
            let done = self.stretch(extent, &mut used, &mut |n| beat(sofar + n, 0))?;
            turn.elapsed_ns += done.elapsed_ns;
            turn.ops += done.ops;
            turn.bytes += done.bytes;
            turn.waited_ns = both(turn.waited_ns, done.waited_ns);
            turn.kernel_waited_ns = both(turn.kernel_waited_ns, done.kernel_waited_ns);
            trial.syncs += done.syncs;
            if done.over && self.work.passes().most > 0 {
                break;
            }
        }
        used.count(trial);
        if let Some(op_ns) = turn.elapsed_ns.checked_div(turn.ops) {
            self.op_ns = op_ns;
            enter(trial, turn);
        }
        Ok(Turned {
            turn,
            cpu: used.cpu,
            device: used.device,
            uncounted_ns,
            more: !self.through(),
            ..Turned::default()
        })
    }

    fn whole(
        &mut self,
        ask: &TurnRequest,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError> {
        let (mut used, mut last_beat) = (Used::default(), monotonic_ns());
        let mut sum = Turn {
            round: ask.round,
            waited_ns: Some(0),
            kernel_waited_ns: Some(0),
            ..Turn::default()
        };
        let rules = self.work.passes();
        while more(rules, self.work.context(), trial.passes.len() as u64, &sum) {
            let Turn { ops, bytes, .. } = sum;
            self.kernel.renew();
            let done = self.stretch(Extent::PASS, &mut used, &mut |n| beat(ops + n, bytes))?;
            trial.syncs += done.syncs;
            trial.passes.push(Pass {
                elapsed_ns: done.elapsed_ns,
                ops: done.ops,
                bytes: done.bytes,
                waited_ns: done.waited_ns,
                kernel_waited_ns: done.kernel_waited_ns,
            });
            sum.elapsed_ns += done.elapsed_ns;
            sum.ops += done.ops;
            sum.bytes += done.bytes;
            sum.waited_ns = both(sum.waited_ns, done.waited_ns);
            sum.kernel_waited_ns = both(sum.kernel_waited_ns, done.kernel_waited_ns);
            if monotonic_ns() - last_beat >= HEARTBEAT_NS {
                beat(sum.ops, sum.bytes);
                last_beat = monotonic_ns();
            }
        }
        used.count(trial);
        Ok(Turned {
            turn: sum,
            cpu: used.cpu,
            device: used.device,
            ..Turned::default()
        })
    }
}

/// Records a turn: the turn itself, and its contribution to the one pass that sums up all turns.
pub fn enter(trial: &mut Trial, turn: Turn) {
    trial.turns.push(turn);
    if trial.passes.is_empty() {
        trial.passes.push(Pass {
            waited_ns: Some(0),
            kernel_waited_ns: Some(0),
            ..Pass::default()
        });
    }
    let sum = &mut trial.passes[0];
    sum.elapsed_ns += turn.elapsed_ns;
    sum.ops += turn.ops;
    sum.bytes += turn.bytes;
    sum.waited_ns = both(sum.waited_ns, turn.waited_ns);
    sum.kernel_waited_ns = both(sum.kernel_waited_ns, turn.kernel_waited_ns);
}

/// The sum of two times, if both are known.
fn both(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.zip(b).map(|(a, b)| a + b)
}

/// Whether a stretch has another pass.
pub fn more(rules: Passes, context: &Context, done: u64, sum: &Turn) -> bool {
    let short = |least: u128| u128::from(sum.elapsed_ns) < least;
    match rules {
        Passes { most: 1.., .. } => done < rules.most,
        Passes { fixed: 1.., .. } => done < rules.fixed,
        _ if done == 0 => true,
        _ if done >= PASSES => false,
        Passes { min_ms: 1.., .. } => short(u128::from(rules.min_ms) * 1_000_000),
        _ => short(context.min.as_nanos()) || sum.ops < context.min_ops,
    }
}

impl<W: Repeat> Work for Repeated<W> {
    fn turn(
        &mut self,
        ask: &TurnRequest,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError> {
        if !std::mem::replace(&mut self.begun, true) {
            trial.resident = self.work.look()?;
        }
        if ask.ns == 0 {
            self.whole(ask, trial, beat)
        } else {
            self.timed(ask, trial, beat)
        }
    }

    /// In one stretch, no other layer runs between its end and this. After the last of several
    /// turns, other layers have run.
    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        let stopped = self.stopped.filter(|_| trial.turns.is_empty());
        let since = stopped.unwrap_or_else(|| Mark::read(&self.devices));
        self.work.settle(trial, since)
    }

    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        self.work.end(trial)
    }
}

impl Span {
    /// Continues with the next stretch; the time between the two is not work.
    pub fn join(&mut self, next: Self) {
        self.paused += next.paused + next.start.saturating_sub(self.end);
        self.waited.join(next.waited);
        self.end = next.end;
    }
}

#[cfg(test)]
mod tests;
