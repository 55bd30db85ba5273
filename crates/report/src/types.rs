//! The report as data: what `--json` prints. Fields are only ever added.

use std::collections::BTreeMap;

use layermark_model::{Facts, LayerStatus, Machine, Plan, RunStatus, SelfTest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{LaunchSeries, beside::Beside, cost::CostRow, recommend::BufferRow, section::Section};

/// Name and version of the JSON contract.
pub const SCHEMA: &str = "layermark.report/1";

/// Everything a report says, in the order it says it. Every exporter prints from this alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Program and version that made the report.
    pub generated_by: String,
    /// Program version that made the run.
    pub run_version: String,
    /// The run's id.
    pub run: String,
    /// The plan's name, such as `card`.
    pub label: String,
    /// What the plan is for, in a sentence; may be empty.
    pub about: String,
    /// How the run stands.
    pub status: RunStatus,
    /// When it began, RFC 3339 UTC.
    pub started: String,
    /// When it ended; absent while it goes on or after a crash.
    pub ended: Option<String>,
    /// Draws order, data and offsets.
    pub seed: u64,
    /// Directory it worked in.
    pub dir: String,
    /// The machine.
    pub machine: Machine,
    /// Differences smaller than this share do not matter.
    pub delta: f64,
    /// Level of every interval, such as 0.95.
    pub level: f64,
    /// The verdict of the whole run in one sentence.
    pub headline: String,
    /// The verdict in words, layer by layer.
    pub verdicts: Vec<Statement>,
    /// Why the numbers can, or cannot, be believed.
    pub trust: Vec<TrustItem>,
    /// The second `native`, set against the first. Absent when there was none.
    pub control: Option<Control>,
    /// Layers in the plan's order; the baseline first.
    pub layers: Vec<LayerReport>,
    /// One entry for each point in each layer that was measured.
    pub results: Vec<ResultRow>,
    /// Fixed cost of an operation and cost of a byte, where there are enough record sizes.
    #[serde(default)]
    pub cost: Vec<CostRow>,
    /// Which record size to use, where there are enough of them.
    #[serde(default)]
    pub buffer: Vec<BufferRow>,
    /// The study that the plan repeats.
    #[serde(default)]
    pub study: Option<Section>,
    /// Figures as Iometer gives them, of the results of the workload `iops`.
    #[serde(default)]
    pub iops: Vec<IopsRow>,
    /// How these change with the queue's depth.
    #[serde(default)]
    pub depth_curves: Vec<DepthCurve>,
    /// What to do about it.
    pub advice: Vec<Advice>,
    /// What was asked for and not measured.
    pub left_out: Vec<LeftOut>,
    /// Launches in the order of the run, a series for each point in each layer. Empty where nothing
    /// was launched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<LaunchSeries>,
    /// How to make the run again.
    pub reproduce: Reproduce,
    /// Where work that follows another tool's differs from it on purpose.
    #[serde(default)]
    pub fidelity: Vec<String>,
    /// Every trial in the order of the run.
    pub trials: Vec<TrialRow>,
    /// Results of other programs, set beside these on request.
    #[serde(default)]
    pub beside: Vec<Beside>,
}

/// A layer of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerReport {
    /// Its name in every table.
    pub name: String,
    /// As it is written on the command line.
    pub spec: String,
    /// Whether it could be set up.
    pub status: LayerStatus,
    /// Why not.
    pub reason: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Proof of where it ran.
    pub facts: Facts,
    /// Seconds to set it up.
    pub setup_s: f64,
    /// What measuring costs inside it, nanoseconds.
    pub self_test: SelfTest,
    /// Nothing can be written in it.
    pub read_only: bool,
    /// What the others are set against.
    pub baseline: bool,
    /// The baseline a second time.
    pub control: bool,
}

/// A point in a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResultRow {
    /// `r12`: what advice and words point at.
    pub id: String,
    /// The workload, such as `file`.
    pub workload: String,
    /// The point's name in every table.
    pub label: String,
    /// The point's parameters; sizes are bytes.
    pub point: Map<String, Value>,
    /// The layer's name.
    pub layer: String,
    /// `throughput` or `rate`.
    pub metric: String,
    /// `B/s` or `ops/s`.
    pub unit: String,
    /// Centre of the trials, in `unit`: exp of the Hodges-Lehmann estimate of their logarithms.
    /// Absent when no trial gave a number.
    pub value: Option<f64>,
    /// Interval of `value` at the report's level. Absent below six trials.
    pub interval: Option<[f64; 2]>,
    /// Microseconds an operation as one thread waits for it, the centre of the trials: with several
    /// threads the time that passed, times the threads, over the operations of all.
    pub op_us: Option<f64>,
    /// Interval of `op_us`. Absent below six trials.
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
    /// The same, less what dependence between them takes away.
    pub effective_n: Option<f64>,
    /// Time an operation here divided by natively: above 1 is slower.
    pub ratio: Option<Estimate>,
    /// Microseconds an operation more than natively, as one thread waits for it.
    pub extra_us: Option<Estimate>,
    /// Wilcoxon signed-rank, two-sided.
    pub p: Option<f64>,
    /// The same after Holm's correction over all points of all layers of the run that the plan asks
    /// a verdict on. Absent elsewhere.
    pub p_adjusted: Option<f64>,
    /// Blocks that would probably settle it, or that an interval needs at least.
    pub more_blocks: Option<usize>,
    /// What the numbers say.
    pub verdict: Verdict,
    /// Why the number is not trusted, when it is not.
    pub untrusted: Option<String>,
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
}

/// A result of the workload `iops`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IopsRow {
    /// The result's id.
    pub result: String,
    /// The layer's name.
    pub layer: String,
    /// The point's name.
    pub label: String,
    /// What the point does but for its queue depth, in words.
    pub what: String,
    /// Access specification.
    pub spec: String,
    /// How I/Os were made.
    pub engine: String,
    /// I/Os under way at once in each worker.
    pub iodepth: u64,
    /// Workers.
    pub workers: u64,
    /// I/Os a second that were asked for. Absent: as many as there can be.
    pub rate: Option<u64>,
    /// I/Os a second, the centre of the trials.
    pub iops: f64,
    /// 1,048,576 bytes a second.
    pub mib_s: f64,
    /// 1,000,000 bytes a second.
    pub mb_s: f64,
    /// Mean response time, milliseconds; with a rate, from when an I/O was due.
    pub response_ms: f64,
    /// Interval of `response_ms` at the report's level. Absent below six trials, as all of these.
    #[serde(default)]
    pub response_interval_ms: Option<[f64; 2]>,
    /// Longest response time over all workers, milliseconds.
    pub response_max_ms: f64,
    /// Median response time, milliseconds.
    pub p50_ms: f64,
    /// Its interval.
    #[serde(default)]
    pub p50_interval_ms: Option<[f64; 2]>,
    /// 99th percentile. Absent below 1,000 I/Os.
    pub p99_ms: Option<f64>,
    /// Its interval.
    #[serde(default)]
    pub p99_interval_ms: Option<[f64; 2]>,
    /// 99.9th percentile. Absent below 10,000 I/Os.
    pub p999_ms: Option<f64>,
    /// Its interval.
    #[serde(default)]
    pub p999_interval_ms: Option<[f64; 2]>,
    /// 99.99th percentile. Absent below 100,000 I/Os.
    pub p9999_ms: Option<f64>,
    /// Its interval.
    #[serde(default)]
    pub p9999_interval_ms: Option<[f64; 2]>,
    /// With a rate, the mean from when an I/O was handed over, milliseconds.
    pub service_ms: Option<f64>,
    /// The longest of these.
    pub service_max_ms: Option<f64>,
    /// Percent of all CPUs of this machine that were busy, whatever with.
    pub cpu_percent: Option<f64>,
    /// I/Os a second for each of these percent.
    pub iops_per_cpu: Option<f64>,
}

/// I/Os a second and response time over the queue's depth, in one layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DepthCurve {
    /// The layer's name.
    pub layer: String,
    /// What the points share, in words.
    pub what: String,
    /// By depth.
    pub points: Vec<DepthPoint>,
    /// Where a deeper queue stops paying. Absent below three depths.
    pub knee: Option<Knee>,
}

/// One depth of a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DepthPoint {
    /// I/Os under way at once in each worker.
    pub iodepth: u64,
    /// I/Os a second.
    pub iops: f64,
    /// Mean response time, milliseconds.
    pub response_ms: f64,
    /// The result's id.
    pub result: String,
}

/// Where I/Os a second over response time is greatest (Kleinrock's power).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    /// The depth. Absent when it is the greatest that was measured: then the knee may lie beyond.
    pub iodepth: Option<u64>,
    /// Blocks whose own greatest power lies at the same depth, ...
    pub agree: usize,
    /// ... of this many.
    pub blocks: usize,
    /// In words.
    pub text: String,
}

/// A number with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The number.
    pub estimate: f64,
    /// Where it lies at the report's level. Absent below six pairs.
    pub interval: Option<[f64; 2]>,
}

/// What a ratio says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within delta of native.
    Same,
    /// Costs more.
    Slower,
    /// Costs less, which needs a reason.
    Faster,
    /// Not enough is known.
    Undecided,
    /// It is what the others are set against.
    Baseline,
    /// Something else than the layer was measured.
    Untrusted,
    /// The plan asked for no verdict here: the interval says what is known.
    Descriptive,
}

impl Verdict {
    /// The word in tables; none where none was asked for.
    pub fn word(self) -> &'static str {
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Durability {
    /// The verdict.
    pub verdict: DurabilityVerdict,
    /// How far it was looked into: `L0` configuration, `L1` plausibility, `L2` flush accounting.
    pub level: Option<String>,
    /// Flushes the devices counted. Absent when they do not count.
    pub flushes: Option<u64>,
    /// Flushing calls the point made.
    pub syncs: u64,
    /// What it rests on.
    pub because: Option<String>,
    /// What looks wrong without being proof.
    pub suspicion: Option<String>,
}

/// Whether a flush reached the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    NotAsked,
}

impl DurabilityVerdict {
    /// The label in tables.
    pub fn word(self) -> &'static str {
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

/// A sentence and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Statement {
    /// The layer it is about.
    pub layer: String,
    /// The words; names of layers stand between backquotes.
    pub text: String,
    /// Ids of the results it rests on.
    pub evidence: Vec<String>,
}

/// Something to do, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// The words.
    pub text: String,
    /// Ids of the results it rests on.
    pub evidence: Vec<String>,
}

/// One reason to believe the numbers, or not to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrustItem {
    /// What was looked at, such as `control`.
    pub id: String,
    /// The same for people, such as `A/A control`.
    pub title: String,
    /// How it came out.
    pub state: TrustState,
    /// What was found.
    pub text: String,
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrustState {
    /// As it should be.
    Ok,
    /// Not as it should be.
    Warn,
    /// Not looked at.
    None,
}

impl TrustState {
    /// The word beside the icon.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warning",
            Self::None => "not checked",
        }
    }
}

/// The baseline measured twice: what the machine and the method do on their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Control {
    /// Points with an interval.
    pub points: usize,
    /// Intervals that hold 1, as 95 of 100 should.
    pub cover: usize,
    /// Points with a verdict of slower or faster, which are false alarms.
    pub false_alarms: usize,
    /// What it says, in a sentence.
    pub text: String,
    /// The control's own results.
    pub results: Vec<ResultRow>,
}

/// A layer or point that was asked for and not measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// The layer.
    pub layer: String,
    /// The point; absent when it is the whole layer.
    pub point: Option<String>,
    /// Why.
    pub reason: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// How to make the run again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reproduce {
    /// The command, when the plan is saved as `plan.toml`.
    pub command: String,
    /// The same order of trials from the stored run.
    pub replay: String,
    /// The plan with every default filled in.
    pub plan: Plan,
    /// The plan as TOML.
    pub plan_toml: String,
}

/// A trial, as far as a report needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRow {
    /// Place in the order of the run, from 0.
    pub seq: u64,
    /// Session, from 0.
    pub session: u32,
    /// Block, from 0.
    pub block: u32,
    /// Milliseconds after the run began.
    pub at_ms: u64,
    /// The layer's name.
    pub layer: String,
    /// The point's label.
    pub point: String,
    /// Microseconds an operation as one thread waits for it. Absent when the trial failed.
    pub op_us: Option<f64>,
    /// Operations.
    pub ops: u64,
    /// Application bytes.
    pub bytes: u64,
    /// Bytes read from the devices meanwhile.
    pub device_read: Option<u64>,
    /// Bytes written to the devices meanwhile.
    pub device_written: Option<u64>,
    /// Share of all CPUs that others used (0..=1).
    pub foreign_cpu: f64,
    /// Remarks.
    pub flags: Vec<String>,
    /// Why it failed.
    pub error: Option<String>,
}

impl Report {
    /// The result with an id, the control's among them.
    pub fn result(&self, id: &str) -> Option<&ResultRow> {
        let control = self.control.iter().flat_map(|c| &c.results);
        self.results.iter().chain(control).find(|r| r.id == id)
    }

    /// Labels of the points that have results, in the plan's order.
    pub fn points(&self) -> Vec<&str> {
        let mut labels: Vec<&str> = Vec::new();
        for row in &self.results {
            if !labels.contains(&row.label.as_str()) {
                labels.push(&row.label);
            }
        }
        labels
    }

    /// Parts beside the results, in the order they are told; the study comes first.
    pub fn sections(&self) -> Vec<Section> {
        // Beside a study with few repeats, a model of its noise would only be in the way.
        self.sections_with(self.study.is_none())
    }

    /// The same with models that rest on little, for whoever takes the numbers elsewhere.
    pub fn all_sections(&self) -> Vec<Section> {
        self.sections_with(true)
    }

    fn sections_with(&self, uncertain: bool) -> Vec<Section> {
        let told = |known: bool| known || uncertain;
        let cost = self
            .cost
            .iter()
            .any(|c| c.fixed_us.is_some_and(|e| e.interval.is_some()));
        let buffer = self.buffer.iter().any(|b| b.wall.between.is_some());
        let others = [
            told(cost).then(|| crate::cost::section(&self.cost, &self.results, self.level)),
            told(buffer).then(|| crate::recommend::section(&self.buffer, self.level)),
            Some(crate::seek::section(&self.results)),
            Some(crate::iops::section(self)),
        ];
        let others = others.into_iter().flatten().flatten();
        let beside = self.beside.iter().map(crate::beside::section);
        let study = self.study.iter().cloned();
        study.chain(others).chain(beside).collect()
    }

    /// Whether a check of the trust strip came out badly.
    pub fn warned(&self) -> bool {
        self.trust.iter().any(|t| t.state == TrustState::Warn)
    }
}
