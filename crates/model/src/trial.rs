use std::ops::AddAssign;

use serde::{Deserialize, Serialize, Serializer};

use crate::{Direction, FigureValues};

/// What the probe measured in one timed execution of one point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Trial {
    /// All passes in order. With turns, one pass with the sums of all turns. A trial's value is the
    /// median of `elapsed_ns / ops` over its passes.
    pub passes: Vec<Pass>,
    /// All turns in order, if the layers of a block took turns. Empty if the trial was made in one
    /// stretch.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "as_arrays"
    )]
    pub turns: Vec<Turn>,
    /// Latency of every operation; absent with `--no-latency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Latency from the actual start of each operation, if `latency` counts from the time it was
    /// due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Latency>,
    /// Mean response time, nanoseconds, if the pace was set from outside. It is then the trial's
    /// value instead of the elapsed time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_ns: Option<f64>,
    /// Nothing that was waited for came in time, so the trial's time is the wait: the true one is longer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_seen: bool,
    /// CPU time of the probe while its clock ran.
    #[serde(default)]
    pub cpu: CpuUse,
    /// CPU time that the probe spent spinning until a set time, nanoseconds; not in `cpu`.
    #[serde(default)]
    pub spun_ns: u64,
    /// Share of all CPUs of this machine (0..=1) that was busy, with interrupts, without `spun_ns`.
    /// Set by the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Busy time of all CPUs together during the turns, without lead-ins, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ns: Option<u64>,
    /// Page faults of the probe while its clock ran; absent in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    /// Bytes that crossed the devices below while the clock ran; absent if no device is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceBytes>,
    /// The same of the layer's own devices ([`crate::Device::own`]), which no other program uses;
    /// absent without one. Lead-ins are left out by their share of the time. Set by the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_device: Option<DeviceBytes>,
    /// How CPU quotas stopped the probe and the layer's programs in its turns; absent without a
    /// quota. Set by the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<Throttled>,
    /// What the devices wrote for others during the trial; absent if nothing. Set by the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_writes: Option<ForeignWrites>,
    /// Bytes that crossed the guest's own disk, if the probe ran in a guest. `device` was then
    /// counted on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_device: Option<DeviceBytes>,
    /// What was left to write after a write point without flush had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debt: Option<Debt>,
    /// Share of the file in the page cache (0..=1) just before the clock started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<f64>,
    /// Bytes of each write that created the file to be overwritten. Its pages in the page cache are
    /// as large. Absent if no file was created before the clock started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled_with: Option<u64>,
    /// Kernel threads (`iou-wrk`) that carried out requests of `io_uring` which would have blocked.
    /// Absent with other engines, and in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_workers: Option<u64>,
    /// Whether `O_DIRECT` was honoured; absent if it was not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<DirectIo>,
    /// Records checked with `verify`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// What the work has left, in words that are the same in every layer if it has done the same.
    /// Absent if that is not checked. A trial whose outcome is not the baseline's is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Calls that flush (fsync, fdatasync, sync writes) while the clock ran.
    #[serde(default)]
    pub syncs: u64,
    /// What the same devices counted while no layer was working, in the block of the trial. Absent
    /// if no device is known. Set by the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<DeviceBackground>,
    /// A turn between two pauses, in a block in which devices flushed while no layer was working. Absent
    /// elsewhere. Set by the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rested: Option<RestedTurn>,
    /// Versions up to 0.1 stored this instead of `background`: flushes per second at the start of
    /// the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_flushes: Option<f64>,
    /// Values of the figures that the workload declares, by name. Trials of earlier versions have
    /// them under the other names.
    #[serde(
        default,
        skip_serializing_if = "FigureValues::is_empty",
        alias = "ftp",
        alias = "http",
        alias = "launch",
        alias = "net",
        alias = "scripts"
    )]
    pub figures: FigureValues,
    /// Number of CPUs of the layer, fewer than requested if the machine has fewer. Absent if no
    /// number was requested. Set by the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Rates of each thread, if there was more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadRates>,
    /// Whether the layer was torn down and set up again before the trial. Set by the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted: Option<Restarted>,
    /// How the trial waited for a CPU, besides [`Turn::waited_ns`]. Absent in older runs. Set by the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Remarks that belong next to the number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why its system calls were not traced, if they should have been. Set by the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untraced: Option<Untraced>,
}

/// Why system calls were not traced.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Untraced {
    /// The reason.
    pub why: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Waiting for a CPU in a trial, as far as the probe does not know it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Waiting {
    /// Only the kernel that counted the waiting serves the layer. So what the probe waited is no part
    /// of the layer's cost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
    /// Other programs used the CPUs during the block. What threads of the kernel waited beside them is no part of the
    /// layer's cost either; what they wait for each other is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
    /// How long threads of the processes that serve the layer were ready to run and had no CPU, ns,
    /// over all threads and the whole block. Absent if there are none, or the kernel does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helpers_ns: Option<u64>,
    /// The priority of the thread that worked, in each layer of the block, if it was higher than the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
}

crate::words! {
    /// How the priority of a thread is higher than the usual one (`sched(7)`).
    #[derive(Default, schemars::JsonSchema)]
    pub enum Priority {
        /// By a nice value. It counts only within a scheduler's group, and what the user runs in another terminal is in
        /// another one (the autogroup feature).
        #[default]
        Nice = "nice",
        /// Before all threads that have a nice value (`SCHED_FIFO`). Where one of these sleeps, the kernel wakes its own
        /// threads, such as those of a loop device, on another CPU, so this is for where the other one is too little.
        RealTime = "real-time",
    }
}

/// The restart of a layer. The kernel gives every mount a new number.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Restarted {
    /// Nanoseconds from the start of the teardown until the probe was ready.
    pub ns: u64,
    /// Number of the earlier mount; absent in a guest, which was rebooted as a whole.
    #[serde(default)]
    pub mount_before: Option<u64>,
    /// Number of the mount that the trial ran on.
    #[serde(default)]
    pub mount_after: Option<u64>,
}

impl Trial {
    /// Whether `O_DIRECT` was honoured: no more than a tail of the files is cached (a share of them; `None` if the
    /// kernel does not report it), and the application's bytes crossed the device. `None` if neither is known.
    pub fn direct_io(&self, cached: Option<f64>, direction: Direction) -> Option<DirectIo> {
        let moved = self.device.map(|device| match direction {
            Direction::Reads => device.read,
            Direction::Writes => device.written,
            Direction::Both | Direction::Neither => device.read + device.written,
        });
        if cached.is_none() && moved.is_none() {
            return None;
        }
        let cached = cached.is_some_and(|share| share > DIRECT_CACHED);
        let crossed = moved.is_none_or(|moved| moved as f64 >= DIRECT_SHARE * self.bytes() as f64);
        Some(if cached || !crossed {
            DirectIo::Ignored
        } else {
            DirectIo::Honoured
        })
    }

    /// Operations over all passes.
    pub fn ops(&self) -> u64 {
        self.passes.iter().map(|p| p.ops).sum()
    }

    /// Application bytes over all passes.
    pub fn bytes(&self) -> u64 {
        self.passes.iter().map(|p| p.bytes).sum()
    }

    /// Nanoseconds on the clock over all passes.
    pub fn elapsed_ns(&self) -> u64 {
        self.passes.iter().map(|p| p.elapsed_ns).sum()
    }

    /// The trial's value: nanoseconds per operation. This is the median over its passes, or over
    /// its turns if it has no passes. At a fixed pace it is the mean response time.
    pub fn ns_per_op(&self) -> Option<f64> {
        if self.response_ns.is_some() {
            return self.response_ns;
        }
        self.median_of(|time| Some(time.elapsed_ns))
    }

    /// [`Self::ns_per_op`] without the time that waited for a CPU. `None` if that is not known, or the
    /// pace was fixed.
    pub fn net_ns_per_op(&self) -> Option<f64> {
        if self.response_ns.is_some() {
            return None;
        }
        self.median_of(Turn::net_ns)
    }

    /// [`Self::net_ns_per_op`], also without what [`Self::kernel_waited_ns`] counts.
    pub fn clear_ns_per_op(&self) -> Option<f64> {
        if self.response_ns.is_some() {
            return None;
        }
        self.median_of(|time| self.clear_ns(time))
    }

    /// Nanoseconds of one of its turns without all waiting that is no part of the layer's cost: that of the thread,
    /// and beside other programs that of the kernel's threads. `None` if it is not known.
    pub fn clear_ns(&self, turn: &Turn) -> Option<u64> {
        let kernel_ns = turn.kernel_waited_ns?;
        let left_out = if self.is_disturbed() { kernel_ns } else { 0 };
        let ns = turn.net_ns()?.checked_sub(left_out)?;
        (ns > 0).then_some(ns)
    }

    /// How long threads of the kernel waited for a CPU while the thread on the clock waited for them, beside other
    /// programs: nanoseconds over all passes, 0 if no others used the CPUs. `None` if that is not known.
    pub fn kernel_waited_ns(&self) -> Option<u64> {
        let waited: Option<u64> = self
            .passes
            .iter()
            .map(|p| p.kernel_waited_ns.map(|ns| ns.min(p.elapsed_ns)))
            .sum();
        waited.map(|ns| if self.is_disturbed() { ns } else { 0 })
    }

    fn is_disturbed(&self) -> bool {
        self.waiting.is_some_and(|waiting| waiting.disturbed)
    }

    /// How long the thread on the clock waited for a CPU, nanoseconds over all passes. `None` if that
    /// is not known.
    pub fn waited_ns(&self) -> Option<u64> {
        let passes = self.passes.iter();
        passes
            .map(|p| p.waited_ns.map(|ns| ns.min(p.elapsed_ns)))
            .sum()
    }

    /// The median over passes or turns, of a time that is made from its nanoseconds.
    /// `None` if one of the times is.
    fn median_of(&self, time: impl Fn(&Turn) -> Option<u64>) -> Option<f64> {
        let per_op = |of: &Turn| Some(time(of)? as f64 / of.ops as f64);
        let passes = self.passes.iter().filter(|p| p.ops > 0);
        let mut each: Vec<f64> = passes
            .map(|p| per_op(&p.as_turn()))
            .collect::<Option<_>>()?;
        if each.is_empty() {
            let turns = self.turns.iter().filter(|t| t.ops > 0);
            each = turns.map(per_op).collect::<Option<_>>()?;
        }
        each.sort_by(f64::total_cmp);
        let middle = each.len() / 2;
        match each.len() {
            0 => None,
            n if n % 2 == 1 => Some(each[middle]),
            _ => Some(f64::midpoint(each[middle - 1], each[middle])),
        }
    }
}

/// Elapsed nanoseconds without those that waited for a CPU. `None` if that is not known, or nothing is
/// left: the two are read one after the other.
fn net(elapsed_ns: u64, waited_ns: Option<u64>) -> Option<u64> {
    elapsed_ns.checked_sub(waited_ns?).filter(|ns| *ns > 0)
}

/// One pass over the point's work.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Pass {
    /// Nanoseconds on the clock.
    pub elapsed_ns: u64,
    /// Operations done.
    pub ops: u64,
    /// Application bytes moved.
    pub bytes: u64,
    /// Nanoseconds of these in which the one thread that works was ready to run and had no CPU.
    /// Absent with several threads, operations or processes at once, for a launch whose `ready` is not `exit`, and if the kernel
    /// does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ns: Option<u64>,
    /// Nanoseconds of these in which threads of the kernel that work for file systems and devices were ready to run and
    /// had no CPU. It is the sum over all of them, at most as long as the one thread that works had nothing to do. Absent as
    /// `waited_ns` is, for programs, where the work waits for no device, and where the probe does not see these threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_waited_ns: Option<u64>,
}

/// One uninterrupted stretch of work in one layer, without its lead-in.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Turn {
    /// Round of the block. Turns of the same round in two layers are a pair.
    pub round: u32,
    /// Nanoseconds on the clock.
    pub elapsed_ns: u64,
    /// Operations done.
    pub ops: u64,
    /// Application bytes moved.
    pub bytes: u64,
    /// Nanoseconds of these in which the one thread that works was ready to run and had no CPU.
    /// Absent with several threads, operations or processes at once, for a launch whose `ready` is not `exit`, and if the kernel
    /// does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ns: Option<u64>,
    /// Nanoseconds of these in which threads of the kernel that work for file systems and devices were ready to run and
    /// had no CPU. It is the sum over all of them, at most as long as the one thread that works had nothing to do. Absent as
    /// `waited_ns` is, for programs, where the work waits for no device, and where the probe does not see these threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_waited_ns: Option<u64>,
}

impl Pass {
    /// As a turn without a round.
    fn as_turn(&self) -> Turn {
        Turn {
            round: 0,
            elapsed_ns: self.elapsed_ns,
            ops: self.ops,
            bytes: self.bytes,
            waited_ns: self.waited_ns,
            kernel_waited_ns: self.kernel_waited_ns,
        }
    }
}

impl Turn {
    /// Nanoseconds on the clock without those that waited for a CPU; `None` if that is not known.
    pub fn net_ns(&self) -> Option<u64> {
        net(self.elapsed_ns, self.waited_ns)
    }
}

/// Turns as arrays, which take half the space of objects: a run stores thousands. Both can be read.
fn as_arrays<S: Serializer>(turns: &[Turn], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(turns.iter().map(TurnArray))
}

struct TurnArray<'a>(&'a Turn);

impl Serialize for TurnArray<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let t = self.0;
        let known = [u64::from(t.round), t.elapsed_ns, t.ops, t.bytes];
        let waited = t.waited_ns.into_iter();
        let kernel = t.kernel_waited_ns.filter(|_| t.waited_ns.is_some());
        to.collect_seq(known.into_iter().chain(waited).chain(kernel))
    }
}

/// How evenly threads progressed: means over the passes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ThreadRates {
    /// Bytes per second of each thread in order, by its own start and end.
    pub each: Vec<f64>,
    /// Bytes per second of all threads together until the first one finished. The work of the
    /// others until then is estimated from their mean speed.
    pub stonewall: f64,
    /// Share of its work (0..=1) that the slowest thread had done by then. Multiplied by a thread's
    /// bytes, it is iozone's minimum transfer.
    pub least_done: f64,
}

impl ThreadRates {
    /// The rate of the slowest thread, bytes per second.
    pub fn slowest(&self) -> f64 {
        self.each.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The rate of the fastest thread, bytes per second.
    pub fn fastest(&self) -> f64 {
        self.each.iter().copied().fold(0.0, f64::max)
    }

    /// Mean of all threads, bytes per second.
    pub fn mean(&self) -> f64 {
        self.each.iter().sum::<f64>() / self.each.len() as f64
    }
}

/// Latency of single operations, nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Latency {
    /// Smallest.
    pub min: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest.
    pub max: u64,
    /// The whole histogram: `HdrHistogram` V2 compressed-less encoding, base64.
    pub histogram: String,
}

/// CPU time, nanoseconds.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct CpuUse {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub sys_ns: u64,
}

/// Page faults.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Faults {
    /// Served from memory.
    pub minor: u64,
    /// Faults that required I/O from a device or a server.
    pub major: u64,
}

/// Writes of devices that did not come from the layer itself: another layer's write-back, or
/// another program.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct ForeignWrites {
    /// Turns with such writes; 1 for a trial in one stretch.
    pub turns: u64,
    /// Bytes in those turns.
    pub bytes: u64,
}

/// How CPU quotas of control groups stopped processes.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Throttled {
    /// Periods of a quota in which it was used up.
    pub times: u64,
    /// Time that tasks were kept from running, over all CPUs, nanoseconds.
    pub ns: u64,
}

/// Bytes that crossed block devices.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct DeviceBytes {
    /// Read from the devices.
    pub read: u64,
    /// Written to the devices.
    pub written: u64,
    /// Flush requests completed, where the kernel counts them (`/sys/dev/block/*/stat` field 16).
    pub flushes: u64,
}

/// What devices counted in the control windows of a block: pauses before, between and after its
/// rounds, in which no layer works. It belongs to other programs, or is late work of a layer.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct DeviceBackground {
    /// Flushes counted.
    pub flushes: u64,
    /// Bytes read; absent in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<u64>,
    /// Bytes written; absent in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<u64>,
    /// Total length of all windows, nanoseconds.
    pub ns: u64,
}

/// A turn before which all layers rested, and the pause after it, in which they rest again: what devices
/// flush in the pause is late work of this layer, or of other programs.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct RestedTurn {
    /// Flushes in the turn.
    pub flushes: u64,
    /// Flushes in the pause after it.
    pub later: u64,
    /// Length of the pause, nanoseconds.
    pub ns: u64,
}

impl DeviceBackground {
    /// Expected flushes in this many nanoseconds at the same rate; 0 if there was no window.
    pub fn expected_in(self, ns: u64) -> f64 {
        if self.ns == 0 {
            return 0.0;
        }
        self.flushes as f64 * ns as f64 / self.ns as f64
    }
}

impl AddAssign for DeviceBytes {
    fn add_assign(&mut self, more: Self) {
        self.read += more.read;
        self.written += more.written;
        self.flushes += more.flushes;
    }
}

/// Write-back debt: work that the layer still had to do after the application had finished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Debt {
    /// Bytes written to the devices after the clock had stopped; absent if no device is known.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Seconds until `syncfs` had returned.
    pub seconds: f64,
}

/// Share of the application's bytes that must have crossed the device for `O_DIRECT` to be real.
const DIRECT_SHARE: f64 = 0.95;
/// Share of a file that may be cached after `O_DIRECT`, because of tails and readahead by others.
const DIRECT_CACHED: f64 = 0.05;

/// Whether `O_DIRECT` was honoured. If a file system refuses it, the trial fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DirectIo {
    /// Transfers bypassed the page cache.
    Honoured,
    /// The flag was accepted, but the data came from a cache.
    Ignored,
}

/// Records checked after a trial.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Verified {
    /// Records checked.
    pub records: u64,
    /// Records that differed from what was written.
    pub bad: u64,
}

/// Cost of measuring in this place: medians, nanoseconds each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SelfTest {
    /// One clock read.
    pub clock_ns: f64,
    /// One iteration of the measuring loop, with clock and histogram, without an operation.
    pub loop_ns: f64,
    /// One operation of the null engine through that loop.
    pub null_ns: f64,
    /// Reading how long the thread has waited for a CPU. Absent where the kernel does not count it, and
    /// in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ns: Option<f64>,
    /// CPUs that the probe may use, by the lowest quota of its control groups. Absent without one, and in older
    /// runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o_direct_is_judged_by_what_is_known() {
        let trial = |device| Trial {
            passes: vec![Pass {
                bytes: 100,
                ..Pass::default()
            }],
            device,
            ..Trial::default()
        };
        let (read, written) = (100, 3);
        let device = Some(DeviceBytes {
            read,
            written,
            flushes: 0,
        });
        let (honoured, ignored) = (Some(DirectIo::Honoured), Some(DirectIo::Ignored));
        for (device, cached, direction, expected) in [
            (None, None, Direction::Reads, None),
            (None, Some(0.05), Direction::Reads, honoured),
            (None, Some(0.06), Direction::Reads, ignored),
            (device, None, Direction::Reads, honoured),
            (device, None, Direction::Writes, ignored),
            (device, Some(0.0), Direction::Both, honoured),
            (device, Some(1.0), Direction::Both, ignored),
        ] {
            let said = trial(device).direct_io(cached, direction);
            assert_eq!(said, expected, "{device:?} {cached:?} {direction:?}");
        }
    }

    #[test]
    fn turns_are_stored_as_arrays_and_read_as_objects_too() {
        let with = |waited_ns, kernel_waited_ns| Trial {
            turns: vec![Turn {
                round: 1,
                elapsed_ns: 20,
                ops: 3,
                bytes: 4096,
                waited_ns,
                kernel_waited_ns,
            }],
            ..Trial::default()
        };
        let stored = |trial: &Trial| serde_json::to_string(trial).unwrap();
        let kernel = stored(&with(Some(7), Some(2)));
        assert!(kernel.contains("\"turns\":[[1,20,3,4096,7,2]]"), "{kernel}");
        let waited = stored(&with(Some(7), None));
        assert!(waited.contains("\"turns\":[[1,20,3,4096,7]]"), "{waited}");
        let unknown = stored(&with(None, None));
        assert!(unknown.contains("\"turns\":[[1,20,3,4096]]"), "{unknown}");
        let earlier = unknown.replace(
            "[1,20,3,4096]",
            "{\"round\":1,\"elapsed_ns\":20,\"ops\":3,\"bytes\":4096}",
        );
        for (text, waited, kernel) in [
            (kernel, Some(7), Some(2)),
            (waited, Some(7), None),
            (unknown, None, None),
            (earlier, None, None),
        ] {
            let read = serde_json::from_str::<Trial>(&text).unwrap();
            assert_eq!(read, with(waited, kernel));
        }
    }

    #[test]
    fn the_value_without_waiting_needs_to_know_all_of_it() {
        let pass = |elapsed_ns, waited_ns| Pass {
            elapsed_ns,
            ops: 2,
            bytes: 0,
            waited_ns,
            kernel_waited_ns: None,
        };
        let of = |passes: &[Pass]| Trial {
            passes: passes.to_vec(),
            ..Trial::default()
        };
        let known = of(&[pass(100, Some(40)), pass(90, Some(0)), pass(500, Some(300))]);
        assert_eq!(
            (known.ns_per_op(), known.net_ns_per_op()),
            (Some(50.0), Some(45.0))
        );
        assert_eq!(known.waited_ns(), Some(340));
        let partly = of(&[pass(100, Some(40)), pass(90, None)]);
        assert_eq!((partly.net_ns_per_op(), partly.waited_ns()), (None, None));
        assert_eq!(
            of(&[pass(100, Some(100))]).net_ns_per_op(),
            None,
            "nothing is left"
        );
        let paced = Trial {
            response_ns: Some(9.0),
            ..of(&[pass(100, Some(40))])
        };
        assert_eq!(
            (paced.ns_per_op(), paced.net_ns_per_op()),
            (Some(9.0), None)
        );
    }

    /// On a quiet machine they wait for each other, which is the layer's cost.
    #[test]
    fn what_the_kernels_threads_wait_is_left_out_beside_other_programs_only() {
        let turn = |kernel_waited_ns| Turn {
            elapsed_ns: 100,
            ops: 1,
            waited_ns: Some(10),
            kernel_waited_ns,
            ..Turn::default()
        };
        let with = |disturbed, kernel_waited_ns| {
            let turn = turn(kernel_waited_ns);
            let pass = Pass {
                elapsed_ns: 100,
                ops: 1,
                waited_ns: Some(10),
                kernel_waited_ns,
                ..Pass::default()
            };
            let trial = Trial {
                passes: vec![pass],
                turns: vec![turn],
                waiting: Some(Waiting {
                    disturbed,
                    ..Waiting::default()
                }),
                ..Trial::default()
            };
            let of_turn = trial.clear_ns(&turn);
            (of_turn, trial.clear_ns_per_op(), trial.kernel_waited_ns())
        };
        assert_eq!(with(true, Some(60)), (Some(30), Some(30.0), Some(60)));
        assert_eq!(with(false, Some(60)), (Some(90), Some(90.0), Some(0)));
        assert_eq!(with(true, None), (None, None, None));
        // A run of others may claim anything.
        assert_eq!(with(true, Some(u64::MAX)), (None, None, Some(100)));
    }

    #[test]
    fn what_a_trial_does_not_have_takes_no_space() {
        let stored = serde_json::to_string(&Trial::default()).unwrap();
        assert!(!stored.contains("null"), "{stored}");
        assert_eq!(
            serde_json::from_str::<Trial>(&stored).unwrap(),
            Trial::default()
        );
    }
}
