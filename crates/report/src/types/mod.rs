//! The report as data: the output of `--json`. Fields are only ever added.

use layermark_model::{
    Defect, Facts, LayerStatus, Machine, Plan, Priority, RunStatus, SelfTest, StoreOption,
    witness::{ProgramCut, SequenceCut, WitnessTrial},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    group,
    words::{Names, SOME_BASELINE},
};

mod alternative;
mod buffer;
mod cause;
mod compared;
mod comparison;
mod cost;
mod durability;
mod estimate_check;
mod external;
mod figure;
mod fleet;
mod forecast;
mod iops;
mod latency;
mod launch;
mod lock;
mod odd;
mod result;
mod safe;
mod scaling;
mod section;
mod trusted;
mod waiting;
mod why;

pub use alternative::AlternativeRow;
pub use buffer::{BufferRow, Pick};
pub use cause::{Cause, Distrust, InTrials, MountPlace, Setting, Sides, Unproved, WrittenBytes};
pub use compared::{Compared, GateRow, GateState, Missing};
pub use comparison::{Average, Comparison, Estimate, Verdict};
pub use cost::CostRow;
pub use durability::{Durability, DurabilityVerdict, LateFlushes, SequenceSample};
pub use estimate_check::{EstimateCheck, EstimateVerdict};
pub use external::{ExternalResults, ExternalRow, ImportComparison, ImportPair, ImportSide};
pub use figure::{FigureGroup, FigureRow};
pub use fleet::{
    CheckedHost, FleetCheck, FleetFound, FleetHostRow, FleetKnee, FleetPoint, FleetReport,
    FleetStep, HostWord, SlowHost,
};
pub use forecast::{Forecast, ForecastCall, ForecastRow};
pub use iops::{DepthCurve, DepthPoint, IopsRow, Knee};
pub use latency::{LatencyUs, SlowOperations, Stalls, Tail, TwoKinds};
pub use launch::{ChangePoint, FirstApart, LaunchLevel, LaunchRun, LaunchSeries, LaunchTrace};
pub use lock::{LockReason, LockRow, LockVerdict};
pub use odd::{ManyRuns, ResultAmong, RunAmong, Standing, Standings, ValueAmong};
pub use result::{
    BlockRatio, CpuCost, DebtRow, FewerBytes, ResultRow, ServedBy, SustainedRatio, ThreadsRow,
};
pub use safe::{SafeAnswer, SafeQuestion, SafeTopic, SafeVerdict, Safety};
pub use scaling::ScalingRow;
pub use section::{
    Axis, Cell, Claims, Conclusion, DataTable, Holds, LineChart, Mark, Section, Sequence,
    SequenceLevel, SequenceOfLayer, Series, TextFile,
};
pub use trusted::{TrustWord, Trusted};
pub use waiting::{WaitedIn, WaitingRow, Withheld};
pub use why::{Why, WhyLayer};

/// Name and version of the JSON contract.
pub const SCHEMA: &str = "layermark.report/1";

/// Everything in a report, in the order of presentation. Every exporter uses only this.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Program and version that built the report.
    pub generated_by: String,
    /// Program version of the run.
    pub run_version: String,
    /// The run's id.
    pub run: String,
    /// The plan's name, such as `card`.
    pub label: String,
    /// Purpose of the plan, in a sentence; may be empty.
    pub about: String,
    /// State of the run.
    pub status: RunStatus,
    /// When it started, RFC 3339 UTC.
    pub started: String,
    /// When it ended, RFC 3339 UTC; absent while it is running or after a crash.
    pub ended: Option<String>,
    /// Seed of order, data and offsets.
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
    /// Limits of every sentence and figure below, such as a busy machine. Printed next to the
    /// headline; empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<String>,
    /// A line for each layer, the slowest first: what everyday work costs there, or where most time is lost, and
    /// whether flushed data reaches the disk. Empty if the headline says as much, and in comparisons of two runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_short: Vec<Statement>,
    /// Key findings: at most five short sentences, most serious first.
    #[serde(default)]
    pub findings: Vec<Statement>,
    /// The verdict in words, layer by layer.
    pub verdicts: Vec<Statement>,
    /// Whether to believe the numbers: `no` is exit code 4. Absent where nothing was measured and no check failed, and in
    /// comparisons, where each of the two runs has its own answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<Trusted>,
    /// Why the numbers can, or cannot, be trusted.
    pub trust: Vec<TrustItem>,
    /// The second measurement of the baseline, compared with the first. Absent if there was none.
    pub control: Option<Control>,
    /// Layers in the plan's order; the baseline first.
    pub layers: Vec<LayerReport>,
    /// One entry for each point in each layer that was measured.
    pub results: Vec<ResultRow>,
    /// Fixed cost of an operation and cost of a byte, if there are enough record sizes.
    #[serde(default)]
    pub cost: Vec<CostRow>,
    /// Recommended record sizes, if there are enough of them.
    #[serde(default)]
    pub buffer: Vec<BufferRow>,
    /// The study that the plan repeats.
    #[serde(default)]
    pub study: Option<Section>,
    /// Iometer's figures for the results of the workload `iops`.
    #[serde(default)]
    pub iops: Vec<IopsRow>,
    /// The same figures over queue depth.
    #[serde(default)]
    pub depth_curves: Vec<DepthCurve>,
    /// Figures of workloads besides their time, with the meaning of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<FigureGroup>,
    /// Results with several numbers of CPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<ScalingRow>,
    /// Comparisons of results in the same layer that differ only in a choice of the user, such as
    /// the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<AlternativeRow>,
    /// Estimates of an operation's time that are compared with the operation itself, for each layer but the baseline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub estimate_checks: Vec<EstimateCheck>,
    /// Times of steps as the costs of their system calls predict them.
    #[serde(default, skip_serializing_if = "Forecast::is_empty")]
    pub forecast: Forecast,
    /// Whether locks exclude two clients, for each kind of lock in each layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<LockRow>,
    /// What power cuts did to the layers, a trial for each writer in each layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power_cuts: Vec<WitnessTrial>,
    /// What power cuts did to the user's programs, each program in each layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program_cuts: Vec<ProgramCut>,
    /// What power cuts did to sequences of operations, all sequences of each layer together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sequence_cuts: Vec<SequenceCut>,
    /// Which sequences these are. Absent where they were named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence_sample: Option<SequenceSample>,
    /// What a share gives to one, some and all hosts, in a run of a fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetFound>,
    /// What to do about it.
    pub advice: Vec<Advice>,
    /// Requested work that was not measured.
    pub left_out: Vec<LeftOut>,
    /// Launches in the order of the run, a series for each point in each layer. Empty without
    /// launches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<LaunchSeries>,
    /// How to repeat the run.
    pub reproduce: Reproduce,
    /// Where work that reproduces another tool's differs from it on purpose.
    #[serde(default)]
    pub fidelity: Vec<String>,
    /// Every trial in the order of the run.
    pub trials: Vec<TrialRow>,
    /// Results of other programs, added on request.
    #[serde(default)]
    pub beside: Vec<ExternalResults>,
    /// The older run that this one is compared with. Every `ratio` is then the new time over the
    /// old one, every difference is from the old run, and each verdict is about that change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
    /// Results of the gates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateRow>,
    /// How commands name the run's store.
    #[serde(skip)]
    pub store: StoreOption,
}

/// A layer of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerReport {
    /// Its name in every table.
    pub name: String,
    /// Its spec on the command line.
    pub spec: String,
    /// What it is, in one line; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The same in a few words; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub brief: String,
    /// Whether it could be set up.
    pub status: LayerStatus,
    /// The reason if it is not measured.
    pub reason: Option<String>,
    /// A hint: what to do about it.
    pub hint: Option<String>,
    /// Where the probe ran.
    pub facts: Facts,
    /// Seconds to set it up.
    pub setup_s: f64,
    /// Cost of measuring inside it, nanoseconds.
    pub self_test: SelfTest,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Whether the other layers are compared with it.
    pub baseline: bool,
    /// Whether it is the baseline measured a second time.
    pub control: bool,
}

/// A sentence and its evidence.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Statement {
    /// Its layer.
    pub layer: String,
    /// The text; names of layers are code spans of Markdown.
    pub text: String,
    /// The same in fewer words, of a line for a layer. Absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<String>,
    /// Ids of the results behind it.
    pub evidence: Vec<String>,
}

/// A piece of advice and its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// The text.
    pub text: String,
    /// Ids of the results behind it.
    pub evidence: Vec<String>,
}

/// A check: a reason to trust the numbers, or not to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrustItem {
    /// Id of the check, such as `control`.
    pub id: String,
    /// Its name for people, such as `A/A control`.
    pub title: String,
    /// Its result.
    pub state: TrustState,
    /// The result in words.
    pub text: String,
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrustState {
    /// As it should be.
    Ok,
    /// Not as it should be.
    Warn,
    /// Not checked.
    None,
}

impl TrustState {
    /// The word next to the icon.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warning",
            Self::None => "not checked",
        }
    }
}

/// The baseline measured twice: how much machine and method vary by themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Control {
    /// Points with an interval.
    pub points: usize,
    /// Intervals that contain 1, which 95 of 100 should.
    pub cover: usize,
    /// Points that differ from 1 by more than 1 %, at a level of 1 % over all of them: false
    /// alarms.
    pub false_alarms: usize,
    /// Points whose interval is so wide that it would hide a difference of twice the report's
    /// delta.
    #[serde(default)]
    pub wide: usize,
    /// The result in a sentence.
    pub text: String,
    /// The control's own results.
    pub results: Vec<ResultRow>,
}

/// A requested layer or point that was not measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// The layer.
    pub layer: String,
    /// The point; absent for the whole layer.
    pub point: Option<String>,
    /// The reason.
    pub reason: String,
    /// A hint: what to do about it.
    pub hint: Option<String>,
}

/// How to repeat the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reproduce {
    /// The command, if the plan is saved as `plan.toml`.
    pub command: String,
    /// The command to repeat the stored run with the same order of trials.
    pub replay: String,
    /// The plan with every default filled in.
    pub plan: Plan,
    /// The plan as TOML.
    pub plan_toml: String,
}

/// A trial, with the data for a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRow {
    /// Position in the order of the run, from 0.
    pub seq: u64,
    /// Session, from 0.
    pub session: u32,
    /// Block, from 0.
    pub block: u32,
    /// Milliseconds after the start of the run.
    pub at_ms: u64,
    /// The layer's name.
    pub layer: String,
    /// The point's label.
    pub point: String,
    /// The host, in a run of a fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Microseconds per operation as seen by one thread. Absent if the trial failed.
    pub op_us: Option<f64>,
    /// The same without its slowest and fastest turns: the trimmed mean of their logarithms. Absent if the trial
    /// failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical_us: Option<f64>,
    /// Operations.
    pub ops: u64,
    /// Application bytes.
    pub bytes: u64,
    /// Bytes read from the devices during the trial.
    pub device_read: Option<u64>,
    /// Bytes written to the devices during the trial.
    pub device_written: Option<u64>,
    /// Microseconds per operation for which the one thread that works waited for a CPU, with `kernel_waited_us`. Absent if
    /// that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_us: Option<f64>,
    /// The part of it that is [`WaitingRow::kernel_us`] of this trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_waited_us: Option<f64>,
    /// Whether `op_us` is without it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting_left_out: bool,
    /// The same of the threads of the processes that serve the layer, over all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helpers_waited_us: Option<f64>,
    /// The priority of that one thread, if it was higher than the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Share of all CPUs used by other programs (0..=1).
    pub foreign_cpu: f64,
    /// Remarks.
    pub flags: Vec<String>,
    /// The error, if it failed.
    pub error: Option<String>,
    /// What the error shows about the layer, where it shows more than that the trial failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defect: Option<Defect>,
}

impl Report {
    /// The result with this id, including those of the control.
    pub fn result(&self, id: &str) -> Option<&ResultRow> {
        let control = self.control.iter().flat_map(|c| &c.results);
        self.results.iter().chain(control).find(|r| r.id == id)
    }

    /// Name of the layer that the others are compared with.
    pub fn baseline(&self) -> &str {
        let own = self.layers.iter().find(|l| l.baseline);
        own.map_or(SOME_BASELINE, |l| l.name.as_str())
    }

    /// Names that sentences use.
    pub(crate) fn names(&self) -> Names<'_> {
        Names {
            baseline: self.baseline(),
        }
    }

    /// Labels of the points that have results, in the plan's order.
    pub fn points(&self) -> Vec<&str> {
        group::distinct(self.results.iter().map(|row| row.label.as_str()))
    }
}

/// Id of the n-th row of a kind, from 1: `r1`.
pub(crate) fn numbered(kind: char, n: usize) -> String {
    format!("{kind}{n}")
}
