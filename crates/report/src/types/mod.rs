//! The report as data: what `--json` prints. Fields are only ever added.

use layermark_model::{Facts, LayerStatus, Machine, Plan, RunStatus, SelfTest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod alternative;
mod buffer;
mod cause;
mod compared;
mod cost;
mod external;
mod figure;
mod iops;
mod launch;
mod result;
mod scaling;
mod section;

pub use alternative::AlternativeRow;
pub use buffer::{BufferRow, Pick};
pub use cause::{Cause, Distrust, InTrials, Sides};
pub use compared::{Compared, GateRow, GateState, Missing};
pub use cost::CostRow;
pub use external::{ExternalResults, ExternalRow};
pub use figure::{FigureGroup, FigureRow};
pub use iops::{DepthCurve, DepthPoint, IopsRow, Knee};
pub use launch::{ChangePoint, LaunchLevel, LaunchRun, LaunchSeries, LaunchTrace};
pub use result::{
    Average, BlockRatio, CpuCost, DebtRow, Durability, DurabilityVerdict, Estimate, LatencyUs,
    ResultRow, ServedBy, SlowOperations, Stalls, Tail, ThreadsRow, TwoKinds, Verdict,
};
pub use scaling::ScalingRow;
pub use section::{
    Axis, Cell, Claims, Conclusion, DataTable, Holds, LineChart, Mark, Section, Series, TextFile,
};

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
    /// What limits every sentence and figure below, such as a busy machine. Printed beside the headline;
    /// empty where nothing does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<String>,
    /// What to know first: at most five short sentences, the gravest first.
    #[serde(default)]
    pub findings: Vec<Statement>,
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
    /// Figures that workloads have beside their time, with what each of them is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<FigureGroup>,
    /// Results with several numbers of CPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<ScalingRow>,
    /// Results beside those of the same layer that do the same otherwise, such as with another command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<AlternativeRow>,
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
    pub beside: Vec<ExternalResults>,
    /// The older run that this one is set against. With it every `ratio` is time now over time then,
    /// every difference is from then, and each verdict is on that change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
    /// What the results were held to, and how that came out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateRow>,
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

/// A sentence and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Statement {
    /// The layer it is about.
    pub layer: String,
    /// The words; names of layers are code spans of Markdown.
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
    /// Points that differ from 1 by more than 1 % at a level of 1 % over all of them: false alarms.
    pub false_alarms: usize,
    /// Points whose interval reaches so far from 1 that a difference of twice the report's delta could
    /// not be seen there.
    #[serde(default)]
    pub wide: usize,
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
}
