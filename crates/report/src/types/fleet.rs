//! Fleets: the answers of `layermark fleet check` and `layermark fleet run`.

use layermark_model::{FleetPlace, FleetRun, Machine};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Estimate, ManyRuns};

/// Which hosts of a fleet are odd.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetCheck {
    /// [`FleetCheck::SCHEMA`].
    pub schema: String,
    /// Program and version.
    pub generated_by: String,
    /// Which hosts are odd, in a sentence without a full stop.
    pub answer: String,
    /// All hosts that were asked for.
    pub hosts: Vec<CheckedHost>,
    /// Where nothing could be measured on any host, and why, in sentences without a full stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nothing: Vec<String>,
    /// How the mounts of the share are unlike, in sentences without a full stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlike: Vec<String>,
    /// Their runs against each other. Absent if fewer than three could be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<ManyRuns>,
}

/// A host of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedHost {
    /// Its name.
    pub name: String,
    /// The word.
    pub word: HostWord,
    /// The word with its figures, without a full stop.
    pub text: String,
    /// Its run in the store. Absent if it made none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// How a host compares with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostWord {
    /// Like the others at every result.
    Like,
    /// Odd at one result at least.
    Odd,
    /// The data does not decide.
    CannotTell,
    /// It was lost, or never started.
    Lost,
}

/// How a shared store behaves under one, some and all hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetReport {
    /// [`FleetReport::SCHEMA`].
    pub schema: String,
    /// Program and version.
    pub generated_by: String,
    /// Level of every interval, such as 0.95.
    pub level: f64,
    /// What was found.
    #[serde(flatten)]
    pub found: FleetFound,
    /// What was measured.
    pub run: FleetRun,
}

/// What a fleet's run shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetFound {
    /// Where the knee is, in a sentence without a full stop.
    pub answer: String,
    /// The hosts.
    pub hosts: Vec<FleetHostRow>,
    /// The points.
    pub points: Vec<FleetPoint>,
    /// How the hosts are unlike, in sentences without a full stop.
    pub unlike: Vec<String>,
}

/// A host of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetHostRow {
    /// Its name.
    pub name: String,
    /// The machine. Absent if it never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// How it was lost, or that it was not, without a full stop.
    pub text: String,
    /// Whether it was lost.
    pub lost: bool,
    /// Turns in which it did not do its part.
    #[serde(default)]
    pub failed_turns: usize,
    /// The error of the first of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A point of a fleet's run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetPoint {
    /// Its label.
    pub label: String,
    /// Own directories first, then the share under more and more hosts.
    pub steps: Vec<FleetStep>,
    /// The knee of the share. Absent if there is no curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<FleetKnee>,
    /// What the curve shows, without a full stop.
    pub text: String,
    /// The slowest host, if one is shown to be slower than the others when all work at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest: Option<SlowHost>,
}

/// A number of hosts at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetStep {
    /// Whose directories.
    pub place: FleetPlace,
    /// Hosts at once. Of own directories, all: those of one machine took turns.
    pub hosts: usize,
    /// Rounds in which all of them did their part.
    pub rounds: usize,
    /// Rounds in which a host did not. They are in no number of this step.
    pub incomplete: usize,
    /// Operations per second of all together: the sum of the rates of each.
    pub rate: Option<Estimate>,
    /// Bytes per second likewise; 0 if the work moves none.
    pub bytes_per_s: f64,
    /// Time of an operation over that of the same host alone on the share.
    pub ratio: Option<Estimate>,
    /// When the first host was done, seconds after the barrier: the median of the rounds.
    pub first_done_s: f64,
    /// When the last one was done, likewise.
    pub last_done_s: f64,
    /// Between the first begin and the last one, seconds: the median of the rounds.
    pub start_spread_s: f64,
    /// The shortest work of a host, seconds: the median of the rounds.
    #[serde(default)]
    pub turn_s: f64,
    /// Whether the hosts worked at once: in most rounds they began within a third of the shortest work, the error of
    /// their clocks included. Absent for one host, and for own directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<bool>,
    /// Jain's index of the hosts' rates: 1 is fair.
    pub fairness: f64,
    /// Typical time of an operation of each host, microseconds, by its index. Absent if it took no part.
    pub each_us: Vec<Option<f64>>,
}

/// How many hosts, each alone, would get as much as all together get at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetKnee {
    /// Where the line through one host's rate meets the highest rate.
    pub hosts: Estimate,
    /// Whether the curve has bent beyond the noise.
    pub reached: bool,
    /// Whether it is straight up to the most hosts, beyond the noise. Neither: the data does not decide.
    pub straight: bool,
}

/// A host that is slower than the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowHost {
    /// Its name.
    pub name: String,
    /// Its time over the mean of the others.
    pub ratio: Estimate,
    /// What is different about it, without a full stop. Absent if nothing is known to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

impl FleetCheck {
    /// Name and version of the JSON contract.
    pub const SCHEMA: &'static str = "layermark.fleet-check/1";

    /// Whether a host is odd or lost.
    pub fn failed(&self) -> bool {
        let failed = |host: &CheckedHost| matches!(host.word, HostWord::Odd | HostWord::Lost);
        self.hosts.iter().any(failed)
    }
}

impl FleetReport {
    /// Name and version of the JSON contract.
    pub const SCHEMA: &'static str = "layermark.fleet/1";
}
