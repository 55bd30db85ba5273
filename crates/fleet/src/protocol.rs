//! What coordinator and tasks say to each other: JSON, one order a line to the tasks, frames from them.

use layermark_model::{Cell, Facts, Machine, Point, SelfTest, Spec, TrialRecord};
use serde::{Deserialize, Serialize};

/// Version of this protocol. A task of another version is refused.
pub const VERSION: u32 = 4;

/// Longest order, bytes.
pub const LONGEST_ORDER: usize = 8 << 20;

/// A line to the tasks. A launcher may bring it to all of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToTasks {
    /// Its number, repeated in the answer.
    pub n: u64,
    /// Tasks that it is for. Empty: all.
    pub to: Vec<u32>,
    /// What to do.
    pub order: Order,
}

/// What a task is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Put packaged files for all hosts on the share.
    Package(Box<PackageOrder>),
    /// Look for the package that another host has made.
    Look(Box<LookOrder>),
    /// Set layers up afresh.
    Open(Box<OpenOrder>),
    /// Prepare a trial.
    Prepare(Box<PrepareOrder>),
    /// Begin the prepared trial's turn at once: the barrier has opened.
    Turn {
        /// Number of the turn in its trial.
        round: u32,
        /// Length, nanoseconds; 0: all of the work in one stretch.
        ns: u64,
        /// Uncounted work before it, nanoseconds.
        lead_in_ns: u64,
    },
    /// Flush, prove and report the trial.
    Finish,
    /// Tell the time.
    Clock,
    /// Take the layers down and end.
    Quit,
}

/// Packaged files for all hosts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PackageOrder {
    /// The host's own directory, with `{host}` for the host's name.
    pub dir: String,
    /// The shared directory, likewise.
    pub share: String,
    /// The points whose packaged files are put there.
    pub points: Vec<Point>,
    /// How long the host may be silent, milliseconds.
    pub silence_ms: u64,
}

/// A package to look for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LookOrder {
    /// The shared directory, with `{host}` for the host's name.
    pub share: String,
    /// Name of the work directory that has the packaged files.
    pub name: String,
}

/// A layer to set up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LayerOrder {
    /// The layer; its text may have `{host}`.
    pub spec: Spec,
    /// Indices of the points whose packaged files are made in it.
    pub points: Vec<usize>,
}

/// Layers to set up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenOrder {
    /// The host's own directory, with `{host}` for the host's name.
    pub dir: String,
    /// The layers.
    pub layers: Vec<LayerOrder>,
    /// The points.
    pub points: Vec<Point>,
    /// How many hosts share the directories that the layers name.
    pub sharing: u32,
    /// How long the host may be silent, milliseconds.
    pub silence_ms: u64,
}

/// A trial to prepare.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PrepareOrder {
    /// Number of the trial.
    pub seq: u64,
    /// Its place in the schedule.
    pub cell: Cell,
    /// What to do.
    pub point: Point,
    /// Seed of data and random offsets.
    pub seed: u64,
    /// Fewest milliseconds and operations of a trial in one stretch. Absent: the usual ones.
    pub least: Option<(u64, u64)>,
}

/// A message of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FromTask {
    /// Number of the order; 0 for the first message.
    pub n: u64,
    /// The answer.
    pub answer: Answer,
}

/// What a task answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is there. Comes first.
    Hello(Box<Hello>),
    /// The packaged files of all hosts are in the work directory with this name on the share.
    Packaged {
        /// The name.
        name: String,
    },
    /// The package was looked for.
    Looked {
        /// Whether it is seen on the share of this host.
        seen: bool,
    },
    /// The layers are set up, or could not be.
    Opened(Box<Opened>),
    /// The trial is prepared.
    Ready,
    /// The turn was made.
    Turned {
        /// When it began and ended, nanoseconds of the task's monotonic clock.
        span_ns: [u64; 2],
    },
    /// The trial.
    Finished(Box<TrialRecord>),
    /// The time.
    Clock {
        /// Nanoseconds of the monotonic clock.
        ns: u64,
        /// Milliseconds since 1970 UTC.
        wall_ms: i64,
    },
    /// It works on the order. Comes every second.
    Alive,
    /// The order could not be done; it waits for the next one.
    Failed {
        /// What failed.
        message: String,
        /// What to do about it.
        hint: Option<String>,
        /// Whether a disk was full, or a quota used up, during a trial.
        no_room: bool,
        /// Whether the layer of the trial was lost.
        lost: bool,
    },
}

/// Who a task is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub protocol: u32,
    /// layermark's version.
    pub version: String,
    /// SHA-256 of its binary, hexadecimal; empty if it cannot be read.
    pub binary: String,
    /// The host's name.
    pub host: String,
    /// The kernel's boot id: tasks with the same one are on one machine.
    pub boot: String,
}

/// What was set up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Opened {
    /// The machine.
    pub machine: Machine,
    /// The layers, in the order of the request.
    pub layers: Vec<OpenedLayer>,
}

/// A layer of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenedLayer {
    /// The layer as the host has it.
    pub spec: Spec,
    /// Why it is not up, and what to do about it.
    pub failed: Option<(String, Option<String>)>,
    /// Where its probe runs.
    pub facts: Facts,
    /// Cost of measuring inside it.
    pub self_test: SelfTest,
    /// Whether nothing can be written there.
    pub read_only: bool,
    /// Seconds to set it up.
    pub setup_s: f64,
}

/// A host's reason with what to do about it.
pub(crate) fn with_hint(why: String, hint: Option<String>) -> String {
    let hint = hint.map(|hint| format!("; hint: {hint}"));
    why + &hint.unwrap_or_default()
}

/// Puts the host's name into a text.
pub fn with_host(text: &str, host: &str) -> String {
    text.replace("{host}", host)
}

/// Puts the host's name into the options of a layer.
pub fn spec_with_host(spec: &Spec, host: &str) -> Spec {
    let options = spec.options.iter();
    Spec {
        variant: spec.variant.as_ref().map(|v| with_host(v, host)),
        options: options
            .map(|(key, value)| (key.clone(), with_host(value, host)))
            .collect(),
        ..spec.clone()
    }
}
