use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::{FigureValues, Launch};

/// What the probe measured in one timed execution of one point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Trial {
    /// Every pass in order; one with the sums of all turns where there were turns. A trial's value is
    /// the median over passes of `elapsed_ns / ops`.
    pub passes: Vec<Pass>,
    /// Every turn in order, where the layers of a block took turns; empty where the trial was made in
    /// one stretch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    /// Latency of every operation; absent with `--no-latency`.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// The same from when an operation was handed over, where latency counts from when it was due.
    #[serde(default)]
    pub service: Option<Latency>,
    /// Mean response time, nanoseconds, where the pace was set from outside: the trial's value
    /// instead of the time that passed.
    #[serde(default)]
    pub response_ns: Option<f64>,
    /// CPU time of the probe while its clock ran.
    #[serde(default)]
    pub cpu: CpuUse,
    /// CPU time that the probe spent on waiting for a moment, nanoseconds; not in `cpu`.
    #[serde(default)]
    pub spun_ns: u64,
    /// Share of all CPUs of this machine (0..=1) that was busy, interrupts included, `spun_ns` not.
    /// Set by the lab.
    #[serde(default)]
    pub busy: Option<f64>,
    /// The same of its turns alone, lead-ins left out, nanoseconds of all CPUs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ns: Option<u64>,
    /// Page faults of the probe while its clock ran; absent in runs of before they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    /// Bytes that crossed the devices below while the clock ran; absent when none is known.
    #[serde(default)]
    pub device: Option<DeviceBytes>,
    /// What the devices wrote of others meanwhile; absent where there is none. Set by the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_writes: Option<ForeignWrites>,
    /// Bytes that crossed the guest's own disk, where the probe ran in one; then `device` was
    /// counted on the host, below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_device: Option<DeviceBytes>,
    /// What was left to write when a write point without flush had ended.
    #[serde(default)]
    pub debt: Option<Debt>,
    /// Share of the file in the page cache (0..=1) just before the clock started.
    #[serde(default)]
    pub resident: Option<f64>,
    /// Bytes of each write that made the file which was overwritten: its pages are as large. Absent
    /// where no file was made before the clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled_with: Option<u64>,
    /// Kernel threads (`iou-wrk`) that carried out requests of `io_uring`, because they could not be
    /// started without waiting. Absent with other engines, and in runs of before they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_workers: Option<u64>,
    /// What became of `O_DIRECT`; absent when it was not asked for.
    #[serde(default)]
    pub direct: Option<DirectIo>,
    /// Records checked with `verify`.
    #[serde(default)]
    pub verified: Option<Verified>,
    /// Calls that flush (fsync, fdatasync, sync writes) while the clock ran.
    #[serde(default)]
    pub syncs: u64,
    /// Flushes that the same devices counted while no layer was at work, in the block of the trial.
    /// Absent where the point flushes nothing. Set by the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundFlushes>,
    /// Stored instead of `background` by versions up to 0.1: flushes a second at the start of the
    /// session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_flushes: Option<f64>,
    /// What a launched program did. Of the workload `launch` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Box<Launch>>,
    /// What the workload measured beside its time, by the names of the figures that it declares. Trials of
    /// earlier versions have it under the other names.
    #[serde(
        default,
        skip_serializing_if = "FigureValues::is_empty",
        alias = "ftp",
        alias = "http",
        alias = "net",
        alias = "scripts"
    )]
    pub figures: FigureValues,
    /// CPUs that the layer had: fewer than were asked for where this machine has not so many. Absent where
    /// none were asked for. Set by the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// What each thread did, where there was more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadRates>,
    /// That the layer was set down and up again before it. Set by the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted: Option<Restarted>,
    /// Remarks that belong beside the number.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A layer that was set down and up again. The kernel gives every mount a number of its own.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Restarted {
    /// Nanoseconds from the first step down to the probe at the ready.
    pub ns: u64,
    /// Number of the mount before; absent in a guest, which was started anew as a whole.
    #[serde(default)]
    pub mount_before: Option<u64>,
    /// Number of the mount that the trial ran on.
    #[serde(default)]
    pub mount_after: Option<u64>,
}

impl Trial {
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

    /// The trial's value: nanoseconds an operation, the median over its passes, or over its turns
    /// where it has no passes; where the pace was set from outside, the mean response time.
    pub fn ns_per_op(&self) -> Option<f64> {
        if self.response_ns.is_some() {
            return self.response_ns;
        }
        let mut each: Vec<f64> = self
            .passes
            .iter()
            .filter(|p| p.ops > 0)
            .map(|p| p.elapsed_ns as f64 / p.ops as f64)
            .collect();
        if each.is_empty() {
            each.extend(self.turns.iter().filter_map(Turn::ns_per_op));
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
}

/// One uninterrupted stretch of work in one layer, without its lead-in.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Turn {
    /// Round of the block: turns of the same round in two layers make a pair.
    pub round: u32,
    /// Nanoseconds on the clock.
    pub elapsed_ns: u64,
    /// Operations done.
    pub ops: u64,
    /// Application bytes moved.
    pub bytes: u64,
}

impl Turn {
    /// Nanoseconds an operation; absent when nothing was done.
    pub fn ns_per_op(&self) -> Option<f64> {
        (self.ops > 0).then(|| self.elapsed_ns as f64 / self.ops as f64)
    }
}

/// How evenly threads got on: means over the passes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ThreadRates {
    /// Bytes a second of each thread in their order, by its own start and end.
    pub each: Vec<f64>,
    /// Bytes a second of all threads together until the first one was through. What the others
    /// had done by then is reckoned from their mean speed.
    pub stonewall: f64,
    /// Share of its work (0..=1) that the thread furthest behind had done by then. Times a thread's
    /// bytes it is iozone's minimum transfer.
    pub least_done: f64,
}

impl ThreadRates {
    /// Of the slowest thread, bytes a second.
    pub fn slowest(&self) -> f64 {
        self.each.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Of the fastest thread, bytes a second.
    pub fn fastest(&self) -> f64 {
        self.each.iter().copied().fold(0.0, f64::max)
    }

    /// Mean of all threads, bytes a second.
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
    /// For which a device or a server had to be asked.
    pub major: u64,
}

/// What devices wrote that the layer itself cannot have written: another layer's write-back, or
/// another program's.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct ForeignWrites {
    /// Turns in which they did; of a trial in one stretch that is 1.
    pub turns: u64,
    /// Bytes in those turns.
    pub bytes: u64,
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

/// Flushes that devices counted in the control windows of a block: pauses before and after its rounds,
/// in which no layer works. They belong to other programs.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct BackgroundFlushes {
    /// Flushes counted.
    pub flushes: u64,
    /// Length of all windows together, nanoseconds.
    pub ns: u64,
}

impl BackgroundFlushes {
    /// Flushes to be expected in so many nanoseconds at the same rate; none where no window was watched.
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

/// Write-back debt: work the layer still had to do after the application was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Debt {
    /// Bytes written to the devices after the clock had stopped; absent when no device is known.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Seconds until `syncfs` had returned.
    pub seconds: f64,
}

/// What became of `O_DIRECT`. A file system that refuses it makes no trial but an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DirectIo {
    /// Transfers went past the page cache.
    Honoured,
    /// The flag was accepted and the data came from a cache all the same.
    Ignored,
}

/// Records checked after a trial.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Verified {
    /// Records looked at.
    pub records: u64,
    /// Records that were not what was written.
    pub bad: u64,
}

/// What measuring costs here: nanoseconds each, medians.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SelfTest {
    /// One clock read.
    pub clock_ns: f64,
    /// One turn of the measuring loop, with clock and histogram, doing nothing.
    pub loop_ns: f64,
    /// One operation of the null engine through that loop.
    pub null_ns: f64,
}
