use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    Defect, Facts, FleetOfRun, HostOfTrial, Machine, Plan, Point, SelfTest, Site, Spec,
    StoreOption, Throttled, Trial, Turn,
};

/// A run: one plan on one machine, under one id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Run {
    /// ULID: sorts by time.
    pub id: String,
    /// layermark's version.
    pub version: String,
    /// When it started, milliseconds since 1970 UTC.
    pub started_ms: i64,
    /// When it ended, milliseconds since 1970 UTC; absent while it is running or after a crash.
    pub ended_ms: Option<i64>,
    /// Its state.
    pub status: RunStatus,
    /// Seed of the order of trials, the data and the offsets.
    pub seed: u64,
    /// Its working directory, absolute.
    pub dir: String,
    /// The plan with every default filled in, so that it can be run again.
    pub plan: Plan,
    /// The machine.
    pub machine: Machine,
    /// Layers in the plan's order; the baseline first, the control (if any) last.
    pub layers: Vec<LayerRun>,
    /// Points in the plan's order.
    pub points: Vec<Point>,
    /// What was at work when the budget was spent, if anything had to be cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Work without pauses, measured at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sustained: Vec<Sustained>,
    /// The hosts, if several did it at once: a run of a fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Box<FleetOfRun>>,
    /// Whether it was made by somebody else, and came in a file: what it reaches is not the user's choice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sent: bool,
    /// How commands name its store.
    #[serde(skip)]
    pub store: StoreOption,
}

/// Long stretches of a point in a layer, each without the pauses that a layer has between turns: in these
/// pauses limits refill (control groups, credits of a cloud disk, caches of a device).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Sustained {
    /// Index of the layer.
    pub layer: usize,
    /// Index of the point.
    pub point: usize,
    /// Whether waiting for a CPU is no part of the layer's cost: [`crate::Waiting::apart`].
    #[serde(default)]
    pub apart: bool,
    /// Whether other programs used the CPUs meanwhile: [`crate::Waiting::disturbed`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
    /// How CPU quotas stopped the layer meanwhile. Absent without a quota that is seen from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<Throttled>,
    /// The stretches, numbered: all layers take turns at the first. A second one follows if a layer took much longer in it
    /// than in its turns.
    pub stretches: Vec<Turn>,
}

/// What was at work when the time of a run was over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cut {
    /// When, seconds after the start of the run.
    pub at_s: u64,
    /// The block, from 1; absent while the first layers were set up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// Label of the point; absent if none was at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<String>,
    /// Name of the layer; absent if none was at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// What was done, in words, such as `its files were made`.
    pub during: String,
    /// A budget that would be enough for the fewest blocks of all that was asked for, seconds.
    pub enough_s: u64,
}

impl Cut {
    /// Whether no layer was up yet: what is made smaller takes less time to set up.
    pub fn in_set_up(&self) -> bool {
        self.block.is_none()
    }
}

impl Run {
    /// Name of the layer that the others are compared with; empty if the run has no layers.
    pub fn baseline(&self) -> &str {
        self.layers.get(BASELINE).map_or("", |l| l.name.as_str())
    }

    /// The baseline a second time, whose turns count with the baseline's. `None` if the run has none, or if the budget
    /// left it out.
    pub fn control(&self) -> Option<usize> {
        let counts = |l: &LayerRun| l.control && l.status != LayerStatus::LeftOut;
        self.layers.iter().position(counts)
    }

    /// Whether another state of this run has the same directory, layers and work.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        let layers = |run: &Self| {
            run.layers
                .iter()
                .map(|l| l.spec.clone())
                .collect::<Vec<_>>()
        };
        let works = |a: &Point, b: &Point| a.workload == b.workload && a.params == b.params;
        let mut points = self.points.iter().zip(&other.points);
        self.dir == other.dir
            && self.plan == other.plan
            && layers(self) == layers(other)
            && self.points.len() == other.points.len()
            && points.all(|(a, b)| works(a, b))
    }

    /// Indexes of the layer of this name and of the point of this label.
    pub fn site(&self, layer: &str, label: &str) -> Option<Site> {
        let layer = self.layers.iter().position(|l| l.name == layer)?;
        let point = self.points.iter().position(|p| p.label == label)?;
        Some((layer, point))
    }
}

/// Index of the baseline, which the other layers are compared with. Plans are resolved so that it
/// comes first.
pub const BASELINE: usize = 0;

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// In progress.
    Running,
    /// Everything planned, or everything the budget allowed, was done.
    Done,
    /// Stopped by the user; can be resumed.
    Stopped,
    /// Ended by an error; can be resumed.
    Failed,
    /// Interrupted: its process was killed or the machine stopped; can be resumed.
    Interrupted,
}

/// One layer in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LayerRun {
    /// As the user wrote it. The A/A control has that of the baseline.
    pub spec: Spec,
    /// Its name in the report: the spec's text, or the baseline's with ` (control)`.
    pub name: String,
    /// Whether it is measured.
    pub status: LayerStatus,
    /// The reason if it is not measured.
    pub reason: Option<String>,
    /// A hint: what to do about it.
    pub hint: Option<String>,
    /// A budget that would be enough for it, seconds, if it was left out for want of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enough_s: Option<u64>,
    /// Where the probe ran, from the newest session.
    pub facts: Facts,
    /// Seconds to set it up.
    pub setup_s: f64,
    /// Cost of measuring inside it.
    pub self_test: SelfTest,
    /// Whether the layer is read-only.
    pub read_only: bool,
    /// Points that are skipped in it, by label, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skips: BTreeMap<String, String>,
    /// Whether this is the baseline a second time, whose ratio has to be 1.
    pub control: bool,
}

/// Whether a layer is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LayerStatus {
    /// Up and measured.
    Ready,
    /// Could not be set up, or was lost during the run.
    Failed,
    /// Not measured, so that the minimum number of blocks of the others fits into the budget.
    LeftOut,
}

/// One place in the schedule: a point in a layer, in a block of a session, as indexes into the run.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
pub struct Cell {
    /// Session, from 0.
    pub session: u32,
    /// Block within the run, from 0.
    pub block: u32,
    /// Index into [`Run::layers`].
    pub layer: usize,
    /// Index into [`Run::points`].
    pub point: usize,
}

/// A trial as stored. It is committed as soon as it ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TrialRecord {
    /// Position in the order of the run, from 0.
    pub seq: u64,
    /// Its place in the schedule.
    pub cell: Cell,
    /// Its host and its round, in a run of a fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostOfTrial>,
    /// When its clock started, milliseconds after the start of the run.
    pub at_ms: u64,
    /// What the probe measured; absent if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the error shows about the layer. Not known of trials that were stored without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defect: Option<Defect>,
    /// CPU time of the layer's helpers during the trial, nanoseconds.
    pub upkeep_ns: u64,
    /// Share of all CPUs (0..=1) used by other programs: neither ours nor the kernel's own threads.
    pub foreign_cpu: f64,
    /// Share of all CPUs that the hypervisor took (0..=1).
    pub steal: f64,
    /// Share of the backing files in the page cache before the clock started (0..=1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing_resident: Option<f64>,
    /// Remarks: `contaminated`, `cache not as asked`, `O_DIRECT ignored`, ...
    pub flags: Vec<String>,
}
