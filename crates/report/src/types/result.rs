//! A point in a layer, as the report has it.

use std::collections::BTreeMap;

use layermark_model::{Meaning, flags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Cause, Distrust};

/// A point in a layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResultRow {
    /// `r12`: what advice and words point at.
    pub id: String,
    /// The workload, such as `file`.
    pub workload: String,
    /// The point's name in every table.
    pub label: String,
    /// The point's parameters; sizes are bytes.
    pub point: Map<String, Value>,
    /// What the point means, said by its workload: nobody has to know its parameters.
    #[serde(default)]
    pub meaning: Meaning,
    /// The layer's name.
    pub layer: String,
    /// `throughput` or `rate`.
    pub metric: String,
    /// `B/s` or `ops/s`.
    pub unit: String,
    /// Centre of the trials, in `unit`: exp of the 20 % trimmed mean of their logarithms.
    /// Absent when no trial gave a number.
    pub value: Option<f64>,
    /// Interval of `value` at the report's level. Absent below three trials.
    pub interval: Option<[f64; 2]>,
    /// Microseconds an operation as one thread waits for it, the centre of the trials: with several
    /// threads the time that passed, times the threads, over the operations of all.
    pub op_us: Option<f64>,
    /// Interval of `op_us`. Absent below three trials.
    pub op_us_interval: Option<[f64; 2]>,
    /// Trials with a number.
    pub trials: usize,
    /// Where these stand in the order of the run: [`TrialRow::seq`].
    pub seqs: Vec<u64>,
    /// Trials that failed.
    pub failed_trials: usize,
    /// Why the last of them failed.
    pub error: Option<String>,
    /// Pairs with the baseline: blocks in which both have a number.
    pub blocks: usize,
    /// What each of them says, in the order of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block_ratios: Vec<BlockRatio>,
    /// Microseconds an operation in the older run that this one is set against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_us: Option<f64>,
    /// The same, less what differences between sessions take away.
    pub effective_n: Option<f64>,
    /// Time an operation here divided by natively: above 1 is slower.
    pub ratio: Option<Estimate>,
    /// Microseconds an operation more than natively, as one thread waits for it: native's time times
    /// (`ratio` - 1). With the flag `stalls` the difference of the averages.
    pub extra_us: Option<Estimate>,
    /// Microseconds an operation natively in the rounds that `ratio` is of, the centre of the blocks:
    /// the baseline's own result may have rounds with other layers in it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_us: Option<f64>,
    /// Which operations make the average differ from the typical time. Absent where it does not (there
    /// is no flag `stalls`), or where no latencies tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// Two-sided p of "it takes native's time", of the same t as the interval of `ratio`.
    pub p: Option<f64>,
    /// The same after Holm's correction over all points of all layers of the run that the plan asks
    /// a verdict on. Absent elsewhere.
    pub p_adjusted: Option<f64>,
    /// Blocks that an interval lacks. Absent where there is one.
    pub more_blocks: Option<usize>,
    /// What the numbers say.
    pub verdict: Verdict,
    /// `slower` or `faster` where the verdict is `undecided` and a weaker rule (Benjamini and
    /// Hochberg's) calls it so: one such word in twenty may be wrong.
    #[serde(default)]
    pub probably: Option<Verdict>,
    /// The largest difference from native, as a share, that the interval leaves possible: 0.07 is "no
    /// difference beyond 7 %". Absent without an interval, and where no verdict was asked for.
    #[serde(default)]
    pub margin: Option<f64>,
    /// Why the number is not trusted, when it is not.
    pub untrusted: Option<String>,
    /// What `untrusted` is the sentence of. Not in the JSON.
    #[serde(skip)]
    pub distrust: Option<Distrust>,
    /// No change along the run. Absent without pairs.
    pub steady: Option<bool>,
    /// Blocks after which the ratio changed.
    pub change_points: Vec<usize>,
    /// Pairs far from the others by MAD; counted, never left out.
    pub outliers: usize,
    /// Latency of single operations, microseconds.
    pub latency_us: Option<LatencyUs>,
    /// CPU seconds for each GiB moved. Absent where bytes are not what is done.
    pub cpu_s_per_gib: Option<CpuCost>,
    /// CPU microseconds an operation.
    pub cpu_us_per_op: Option<CpuCost>,
    /// Where the data read came from. Absent where nothing is read.
    pub served_by: Option<ServedBy>,
    /// Device bytes for each application byte in the point's direction.
    pub device_share: Option<f64>,
    /// Share of the file in the page cache before the clock started, median.
    pub resident: Option<f64>,
    /// Share of the image, or of the files that hold this one's data, in this host's page cache
    /// before the clock started, median. Absent where nothing lies behind the layer.
    #[serde(default)]
    pub backing_resident: Option<f64>,
    /// What `served_by` rests on.
    #[serde(default)]
    pub served_because: Option<String>,
    /// The two kinds of operations there were, by their latency: a read whose data came from a device
    /// may find it read ahead. Absent where there is one kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub two_kinds: Option<TwoKinds>,
    /// Bytes of each write that made the file which was overwritten: its pages in the cache are as
    /// large, and large ones are quicker to write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled_with: Option<u64>,
    /// Most kernel threads that carried out requests of `io_uring` in a trial. Absent with other engines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_workers: Option<u64>,
    /// What became of the flushes.
    pub durability: Durability,
    /// Left to write when a write without flush had ended, medians.
    pub write_back_debt: Option<DebtRow>,
    /// How evenly threads got on. Absent with one thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadsRow>,
    /// Remarks of the trials, each once.
    pub flags: Vec<String>,
    /// How many trials carry each remark.
    pub flag_counts: BTreeMap<String, usize>,
    /// Why it is faster than native, or slower, as far as the data tells.
    pub reasons: Vec<String>,
    /// What `reasons` are the sentences of. Not in the JSON.
    #[serde(skip)]
    pub causes: Vec<Cause>,
}

impl ResultRow {
    /// The verdict in a word or two, the weaker ones among them.
    pub fn word(&self) -> &'static str {
        word(self.verdict, self.probably, self.more_blocks)
    }

    /// Microseconds an operation, with the interval.
    pub fn op_time(&self) -> Option<Estimate> {
        Some(Estimate {
            estimate: self.op_us?,
            interval: self.op_us_interval,
            average: None,
        })
    }

    /// The verdict, or what it probably is.
    pub fn leaning(&self) -> Verdict {
        self.probably.unwrap_or(self.verdict)
    }

    /// Whether a few operations take so long that the average is not the typical time.
    pub fn has_stalls(&self) -> bool {
        self.flag_counts.contains_key(flags::STALLS)
    }

    /// Whether sentences may rest on its ratio.
    pub fn is_told(&self) -> bool {
        self.trials > 0 && self.verdict != Verdict::Untrusted
    }

    /// Whether every trial was made while others used the CPUs.
    pub fn disturbed(&self) -> bool {
        let disturbed = self.flag_counts.get(flags::CONTAMINATED).copied();
        self.trials > 0 && disturbed.unwrap_or(0) >= self.trials
    }
}

/// A verdict in a word or two, the weaker ones among them.
pub fn word(
    verdict: Verdict,
    probably: Option<Verdict>,
    more_blocks: Option<usize>,
) -> &'static str {
    match probably {
        Some(Verdict::Slower) => "probably slower",
        Some(Verdict::Faster) => "probably faster",
        _ if verdict == Verdict::Undecided && more_blocks.is_some() => "too few blocks",
        _ => verdict.word(),
    }
}

/// A layer against the baseline in one block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockRatio {
    /// Session, from 0.
    pub session: u32,
    /// Block, from 0.
    pub block: u32,
    /// Time here over natively, by rounds where there were some: exp of the block's d.
    pub ratio: f64,
}

/// A number with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The number.
    pub estimate: f64,
    /// Where it lies at the report's level. Absent below three pairs.
    pub interval: Option<[f64; 2]>,
    /// Of a ratio to the baseline: that of the averages, stalls included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<Average>,
}

/// Time of all paired turns over all their operations, here over natively.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Average {
    /// The ratio.
    pub estimate: f64,
    /// Where it lies at the report's level: `BCa` bootstrap of sessions, then of their blocks. Absent
    /// below six blocks.
    pub interval: Option<[f64; 2]>,
}

impl From<Average> for Estimate {
    fn from(Average { estimate, interval }: Average) -> Self {
        Self {
            estimate,
            interval,
            average: None,
        }
    }
}

/// Operations that take much longer than the others, in the layer and natively: those behind one gap in
/// the latencies of the side that has more of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stalls {
    /// In the layer.
    pub here: SlowOperations,
    /// Natively, in the rounds of the same blocks.
    pub native: SlowOperations,
}

/// The slow operations of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowOperations {
    /// All operations.
    pub operations: u64,
    /// The slow ones among them.
    pub slow: u64,
    /// Shortest, median and longest of the slow ones, microseconds. Absent where there are none.
    pub slow_us: Option<[f64; 3]>,
    /// Longest of the others, microseconds. Absent where there are none.
    pub longest_other_us: Option<f64>,
}

/// What a ratio says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within delta of native.
    Same,
    /// Costs more.
    Slower,
    /// Costs less, which needs a reason.
    Faster,
    /// Not enough is known.
    #[default]
    Undecided,
    /// It is what the others are set against.
    Baseline,
    /// Something else than the layer was measured.
    Untrusted,
    /// The plan asked for no verdict here: the interval says what is known.
    Descriptive,
}

impl Verdict {
    /// Whether it says how the layer compares, for certain.
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Same | Self::Slower | Self::Faster)
    }

    /// The word in tables; none where none was asked for.
    pub fn word(self) -> &'static str {
        match self {
            Self::Undecided => "too noisy",
            Self::Untrusted => "not trusted",
            other => other.id(),
        }
    }

    /// What programs know it by; none where none was asked for.
    pub fn id(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Undecided => "undecided",
            Self::Baseline => "baseline",
            Self::Untrusted => "untrusted",
            Self::Descriptive => "",
        }
    }
}

/// Latency of single operations over all trials, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyUs {
    /// Operations it rests on.
    pub operations: u64,
    /// Smallest.
    pub min: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Interval of `mean` at the report's level: `BCa` bootstrap of sessions, then of their trials,
    /// never of single operations. Absent below six trials.
    #[serde(default)]
    pub mean_interval: Option<[f64; 2]>,
    /// Median.
    pub p50: f64,
    /// Interval of `p50`, made as that of `mean`.
    #[serde(default)]
    pub p50_interval: Option<[f64; 2]>,
    /// 99th percentile. Absent below 1,000 operations.
    pub p99: Option<f64>,
    /// Interval of `p99`, made as that of `mean`.
    #[serde(default)]
    pub p99_interval: Option<[f64; 2]>,
    /// The highest percentile that fewer operations tell, ten of which lie beyond it. Absent where there
    /// is `p99`, and below 100 operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<Tail>,
    /// 99.9th percentile. Absent below 10,000 operations.
    pub p999: Option<f64>,
    /// Interval of `p999`, made as that of `mean`.
    #[serde(default)]
    pub p999_interval: Option<[f64; 2]>,
    /// 99.99th percentile. Absent below 100,000 operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p9999: Option<f64>,
    /// Interval of `p9999`, made as that of `mean`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p9999_interval: Option<[f64; 2]>,
    /// Largest.
    pub max: f64,
}

/// A percentile below the 99th.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tail {
    /// Which: 90, 95 or 98.
    pub percentile: f64,
    /// Its value, microseconds.
    pub us: f64,
    /// Interval of `us`, made as that of `mean`.
    pub interval: Option<[f64; 2]>,
}

/// Operations of two kinds, quick ones and slow ones with next to none between them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TwoKinds {
    /// All of both kinds.
    pub operations: u64,
    /// The quick ones.
    pub quick: u64,
    /// Median of the quick ones.
    pub quick_us: f64,
    /// Median of the slow ones.
    pub slow_us: f64,
}

/// CPU time of the probe, and of all else the layer needs on the host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuCost {
    /// The probe: user and kernel mode.
    pub probe: f64,
    /// The layer's helpers.
    pub upkeep: f64,
}

/// Where data read came from.
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
    /// Nothing tells.
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

/// What became of the flushes of a point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Durability {
    /// The verdict.
    pub verdict: DurabilityVerdict,
    /// How far it was looked into: `L0` configuration, `L1` plausibility, `L2` flush accounting.
    pub level: Option<String>,
    /// Flushes the devices counted, in the trials that the verdict rests on. Absent when they do not
    /// count.
    pub flushes: Option<u64>,
    /// Flushing calls the point made in these trials; 0 for a program, whose own are not counted.
    pub syncs: u64,
    /// What it rests on.
    pub because: Option<String>,
    /// What looks wrong without being proof.
    pub suspicion: Option<String>,
    /// The setting by which the layer passes no flush on, such as ``it is mounted `volatile` ``. Absent
    /// where its configuration says nothing of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured: Option<String>,
    /// The device counted a flush for each call although `configured` says that none is passed on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contradicted: bool,
    /// Of `flushes`, how many other programs made, to go by the pauses between the rounds. Absent where
    /// these were silent, or nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<f64>,
    /// Of a program: flushes that the device counted natively in the same blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_flushes: Option<u64>,
}

impl Durability {
    /// Flushes do not reach the device: it counted none, or the configuration says so and no count
    /// contradicts it.
    pub fn skips(&self) -> bool {
        let as_configured = self.configured.is_some() && !self.contradicted;
        self.verdict == DurabilityVerdict::Absorbed
            || self.verdict == DurabilityVerdict::CannotTell && as_configured
    }
}

/// Whether a flush reached the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DurabilityVerdict {
    /// The device was told to flush.
    #[serde(rename = "honoured")]
    Honoured,
    /// The device has a volatile cache and was not told.
    #[serde(rename = "absorbed")]
    Absorbed,
    /// Nothing at this level can tell.
    #[serde(rename = "cannot tell")]
    CannotTell,
    /// The point does not flush.
    #[serde(rename = "not asked")]
    #[default]
    NotAsked,
}

impl DurabilityVerdict {
    /// The label in tables; none where nothing is flushed.
    pub fn words(self) -> &'static str {
        match self {
            Self::Honoured => "fsync reached the disk",
            Self::Absorbed => "fsync skipped",
            Self::CannotTell => "fsync unknown",
            Self::NotAsked => "",
        }
    }

    /// What programs know it by.
    pub fn id(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::Absorbed => "absorbed",
            Self::CannotTell => "cannot tell",
            Self::NotAsked => "not asked",
        }
    }
}

/// Write-back debt of a point, medians over its trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DebtRow {
    /// Bytes written to the devices after the clock had stopped; absent when no device is known.
    pub bytes: Option<f64>,
    /// Seconds until all was written.
    pub seconds: f64,
}

/// How evenly the threads of a point got on, medians over its trials; bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadsRow {
    /// How many there were.
    pub count: usize,
    /// Of the slowest one.
    pub slowest: f64,
    /// Mean of all.
    pub mean: f64,
    /// Of the fastest one.
    pub fastest: f64,
    /// Of all together until the first one was through.
    pub stonewall: f64,
    /// Share of its work (0..=1) that the last one had done by then.
    pub least_done: f64,
}
