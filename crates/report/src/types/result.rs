//! A point in a layer, in the report.

use std::collections::BTreeMap;

use layermark_model::{Limit, Meaning, Throttled, flags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Cause, Comparison, Distrust, Durability, Estimate, LatencyUs, Stalls, TwoKinds, Verdict,
    WaitingRow, WrittenBytes,
};

/// Time per operation over the baseline's in long stretches, without the pauses that a layer has between turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SustainedRatio {
    /// The ratio in each stretch.
    pub ratios: Vec<f64>,
    /// Length of a stretch of the layer, seconds.
    pub length_s: f64,
    /// The limit of transfers that the layer met in its stretches, or its CPU quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// A point in a layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResultRow {
    /// Its id, such as `r12`, to which advice and sentences refer.
    pub id: String,
    /// The workload, such as `file`.
    pub workload: String,
    /// The point's name in every table.
    pub label: String,
    /// The point's parameters; sizes are bytes.
    pub point: Map<String, Value>,
    /// The point's meaning, declared by its workload, so that its parameters need not be known.
    #[serde(default)]
    pub meaning: Meaning,
    /// The layer's name.
    pub layer: String,
    /// `throughput` or `rate`.
    pub metric: String,
    /// `B/s` or `ops/s`.
    pub unit: String,
    /// Typical result in `unit`, which follows from `op_us`. Absent if no trial has a number.
    pub value: Option<f64>,
    /// Interval of `value` at the report's level. Absent below three trials.
    pub interval: Option<[f64; 2]>,
    /// Typical microseconds per operation as seen by one thread: exp of the 20 % trimmed mean of the
    /// logarithms, of turns and then of trials. With several threads, the elapsed time times the
    /// threads, over the operations of all. Where there is a `ratio`, of the rounds that it is of, so
    /// that `op_us` / `native_us` is the ratio.
    pub op_us: Option<f64>,
    /// Interval of `op_us`. Absent below three trials.
    pub op_us_interval: Option<[f64; 2]>,
    /// Trials with a number.
    pub trials: usize,
    /// Positions of these trials in the order of the run: [`TrialRow::seq`].
    pub seqs: Vec<u64>,
    /// Trials that failed.
    pub failed_trials: usize,
    /// Error of the last one.
    pub error: Option<String>,
    /// Number of pairs with the baseline: blocks in which both have a number.
    pub blocks: usize,
    /// The ratio of each of these blocks, in the order of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block_ratios: Vec<BlockRatio>,
    /// Microseconds per operation in the older run of the comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_us: Option<f64>,
    /// Equivalent number of independent blocks: fewer than `blocks` if sessions differ.
    pub effective_n: Option<f64>,
    /// Time per operation here over the baseline's: above 1 is slower.
    pub ratio: Option<Estimate>,
    /// Additional microseconds per operation compared with the baseline, as seen by one thread: its
    /// time times (`ratio` - 1), where its time is that of a slower layer over the ratio. With the
    /// flag `stalls`, the difference of the averages.
    pub extra_us: Option<Estimate>,
    /// The baseline's typical microseconds per operation in the rounds that `ratio` is based on, with
    /// those of its control if that took turns there. The baseline's own result may also have rounds
    /// with other layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_us: Option<f64>,
    /// Work without pauses, measured at the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sustained: Option<SustainedRatio>,
    /// Average microseconds per operation: time over operations, of the turns that the average of
    /// `ratio` is of, or of all without a ratio. Rare long operations are in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_us: Option<f64>,
    /// The baseline's average microseconds per operation in the same rounds: `average_us` over it is
    /// the average of `ratio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_average_us: Option<f64>,
    /// The median of single operations over the baseline's in the same rounds. Absent unless it is slower, and
    /// without latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_ratio: Option<f64>,
    /// The operations that make the average differ from the typical time. Absent without the flag
    /// `stalls`, or if latencies do not show them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// Two-sided p of "it takes the baseline's time", from the same t as the interval of `ratio`.
    pub p: Option<f64>,
    /// `p` after Holm's correction over all points of all layers for which the plan requests a
    /// verdict. Absent elsewhere.
    pub p_adjusted: Option<f64>,
    /// Missing blocks for an interval. Absent if there is one.
    pub more_blocks: Option<usize>,
    /// The verdict.
    pub verdict: Verdict,
    /// `slower` or `faster` if the verdict is `undecided` and a weaker rule (Benjamini and
    /// Hochberg's) gives one of these. One such verdict in twenty may be wrong.
    #[serde(default)]
    pub probably: Option<Verdict>,
    /// The largest difference from the baseline, as a share, that the interval does not exclude: 0.07 is
    /// "no difference beyond 7 %". Absent without an interval, or if no verdict was requested.
    #[serde(default)]
    pub margin: Option<f64>,
    /// Why there is no verdict although the interval leaves out 1: too much of the time was spent waiting
    /// for a CPU. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// How long it waited for a CPU. Absent if nothing is known about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingRow>,
    /// Why the number is not trusted. Absent if it is.
    pub untrusted: Option<String>,
    /// The data behind `untrusted`. Not in the JSON.
    #[serde(skip)]
    pub distrust: Option<Distrust>,
    /// Whether the ratio did not change during the run. Absent without pairs.
    pub steady: Option<bool>,
    /// Blocks after which the ratio changed.
    pub change_points: Vec<usize>,
    /// Pairs far from the others by MAD; counted, never left out.
    pub outliers: usize,
    /// Latency of single operations, microseconds.
    pub latency_us: Option<LatencyUs>,
    /// CPU seconds per GiB moved. Absent if bytes are not the unit of work.
    pub cpu_s_per_gib: Option<CpuCost>,
    /// CPU microseconds per operation.
    pub cpu_us_per_op: Option<CpuCost>,
    /// Where the read data came from. Absent if nothing is read.
    pub served_by: Option<ServedBy>,
    /// Device bytes per application byte in the point's direction. Those of a layer's own device where it
    /// has one; absent for a write while other programs wrote to the device.
    pub device_share: Option<f64>,
    /// Share of the device bytes in the point's direction that other programs are expected to have
    /// moved, by what crossed the device while no layer worked. Absent without such pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_others: Option<f64>,
    /// Where fewer bytes crossed the device than the application moved, or the mount compresses: the
    /// result depends on the data. Absent elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fewer_bytes: Option<FewerBytes>,
    /// Bytes written per byte of the application that are proved to be the layer's and that its operations
    /// wait for. Not in the JSON.
    #[serde(skip)]
    pub written: Option<WrittenBytes>,
    /// Share of the file in the page cache before the clock started, median.
    pub resident: Option<f64>,
    /// Share of the image, or of the backing files, in this host's page cache before the clock
    /// started, median. Absent if the layer has no backing files.
    #[serde(default)]
    pub backing_resident: Option<f64>,
    /// The evidence for `served_by`.
    #[serde(default)]
    pub served_because: Option<String>,
    /// Two kinds of operations by latency: a read from a device may find its data read ahead.
    /// Absent if there is only one kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub two_kinds: Option<TwoKinds>,
    /// Bytes of each write that created the file to be overwritten. Its pages in the cache are as
    /// large, and large ones are faster to write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled_with: Option<u64>,
    /// Most kernel threads in a trial that carried out requests of `io_uring`. Absent with other
    /// engines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_workers: Option<u64>,
    /// How CPU quotas stopped the probe and the layer's programs in the turns of all trials. Absent
    /// without a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<Throttled>,
    /// Whether flushes reached the device.
    pub durability: Durability,
    /// Data left to write after a write without flush had ended, medians.
    pub write_back_debt: Option<DebtRow>,
    /// How evenly threads progressed. Absent with one thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadsRow>,
    /// Remarks of the trials, each once.
    pub flags: Vec<String>,
    /// How many trials carry each remark.
    pub flag_counts: BTreeMap<String, usize>,
    /// Why it is faster or slower than the baseline, as far as the data shows it.
    pub reasons: Vec<String>,
    /// The data behind `reasons`. Not in the JSON.
    #[serde(skip)]
    pub causes: Vec<Cause>,
}

impl ResultRow {
    /// Its comparison with the baseline.
    pub fn comparison(&self) -> Comparison {
        Comparison {
            ratio: self.ratio,
            extra_us: self.extra_us,
            p: self.p,
            p_adjusted: self.p_adjusted,
            verdict: self.verdict,
            probably: self.probably,
            margin: self.margin,
            more_blocks: self.more_blocks,
        }
    }

    /// Takes over a comparison.
    pub fn compare(&mut self, with: Comparison) {
        (self.ratio, self.extra_us) = (with.ratio, with.extra_us);
        (self.p, self.p_adjusted) = (with.p, with.p_adjusted);
        (self.verdict, self.probably) = (with.verdict, with.probably);
        (self.margin, self.more_blocks) = (with.margin, with.more_blocks);
    }

    /// The verdict in a word or two, including the weaker ones.
    pub fn word(&self) -> &'static str {
        if self.withheld.is_some() {
            return "waits for a CPU";
        }
        self.comparison().word()
    }

    /// Microseconds per operation, with the interval.
    pub fn op_time(&self) -> Option<Estimate> {
        Some(Estimate::new(self.op_us?, self.op_us_interval))
    }

    /// The average result in `unit`: work over time, with rare long operations. Of a paced result,
    /// its value.
    pub fn average_value(&self) -> Option<f64> {
        let slower = self.average_us.zip(self.op_us).map_or(1.0, |(a, t)| a / t);
        let by = if self.meaning.paced { 1.0 } else { slower };
        self.value.map(|value| value / by)
    }

    /// Whether tables have its averages in a second line: they differ by more than 10 % from the
    /// typical numbers.
    pub fn has_two_lines(&self) -> bool {
        let apart = self.ratio.and_then(|r| r.average_apart());
        apart.is_some_and(|apart| apart > layermark_stats::STALLS_BEYOND.ln_1p())
    }

    /// The verdict, or the probable one.
    pub fn leaning(&self) -> Verdict {
        self.comparison().leaning()
    }

    /// Takes its verdict away because of waiting for a CPU.
    pub fn withhold(&mut self, why: String) {
        self.verdict = Verdict::Undecided;
        (self.probably, self.margin) = (None, None);
        self.withheld = Some(why);
    }

    /// Takes its verdict away because something other than the layer was measured.
    pub fn distrust(&mut self) {
        let mut comparison = self.comparison();
        comparison.distrust();
        self.compare(comparison);
        self.withheld = None;
    }

    /// Whether a few operations take so long that the average differs from the typical time.
    pub fn has_stalls(&self) -> bool {
        self.flag_counts.contains_key(flags::STALLS)
    }

    /// Whether what it waited for came in no trial: its time is at least the wait.
    pub fn not_seen(&self) -> bool {
        let unseen = self.flag_counts.get(flags::NOT_SEEN).copied();
        self.trials > 0 && unseen.unwrap_or(0) >= self.trials
    }

    /// Whether sentences may use its ratio.
    pub fn is_told(&self) -> bool {
        self.trials > 0 && self.verdict != Verdict::Untrusted
    }

    /// Whether every trial was disturbed by other programs.
    pub fn disturbed(&self) -> bool {
        let disturbed = self.flag_counts.get(flags::CONTAMINATED).copied();
        self.trials > 0 && disturbed.unwrap_or(0) >= self.trials
    }
}

/// Bytes of a result of which a layer stores fewer than it is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FewerBytes {
    /// Bytes at the device in the point's direction, less than half of the application's. Absent if
    /// the layer's own are not counted.
    pub device: Option<u64>,
    /// Bytes of the application.
    pub application: u64,
    /// The mount option that compresses.
    pub mounted: Option<String>,
}

/// A layer compared with the baseline in one block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockRatio {
    /// Session, from 0.
    pub session: u32,
    /// Block, from 0.
    pub block: u32,
    /// Time here over the baseline's: exp of the block's d. From rounds if there are any.
    pub ratio: f64,
    /// Time here over the baseline's own, and over its control's, where the control took turns too. `ratio` is their
    /// geometric mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub both: Option<[f64; 2]>,
}

/// CPU time of the probe, and of everything else the layer needs on the host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuCost {
    /// The probe: user and kernel mode.
    pub probe: f64,
    /// The layer's helpers.
    pub upkeep: f64,
}

/// Where read data came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServedBy {
    /// A guest's page cache.
    #[serde(rename = "guest memory")]
    GuestMemory,
    /// This machine's page cache.
    #[serde(rename = "host memory")]
    HostMemory,
    /// A server's memory.
    #[serde(rename = "server memory")]
    ServerMemory,
    /// The device.
    #[serde(rename = "device")]
    Device,
    /// Partly memory, partly device.
    #[serde(rename = "mixed")]
    Mixed,
    /// Nothing shows it.
    #[serde(rename = "unknown")]
    Unknown,
}

impl ServedBy {
    /// The label in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::GuestMemory => "guest memory",
            Self::HostMemory => "host memory",
            Self::ServerMemory => "server memory",
            Self::Device => "device",
            Self::Mixed => "mixed",
            Self::Unknown => "unknown",
        }
    }
}

/// Write-back debt of a point, medians over its trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DebtRow {
    /// Bytes written to the devices after the clock had stopped; absent if no device is known.
    pub bytes: Option<f64>,
    /// Seconds until everything was written.
    pub seconds: f64,
    /// The same in microseconds for each operation of the trial.
    #[serde(default)]
    pub us_per_op: f64,
}

/// How evenly the threads of a point progressed, medians over its trials; bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadsRow {
    /// Number of threads.
    pub count: usize,
    /// The slowest thread.
    pub slowest: f64,
    /// Mean of all threads.
    pub mean: f64,
    /// The fastest thread.
    pub fastest: f64,
    /// All threads together until the first one finished.
    pub stonewall: f64,
    /// Share of its work (0..=1) that the slowest thread had done by then.
    pub least_done: f64,
}
