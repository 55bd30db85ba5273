//! Series of launches in the report.

use layermark_model::{Restarted, Stopped, Untraced};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Estimate;

/// Why the first launch is not counted with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstApart {
    /// It was cold by its own counters, and the others were not.
    Cold,
    /// It took far longer.
    FarSlower,
}

/// All launches of a point in a layer, in the order of the run.
// Its levels have ratios; the verdict is that of the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchSeries {
    /// Id of the result of these launches.
    pub result: String,
    /// The point's label.
    pub label: String,
    /// The layer's name.
    pub layer: String,
    /// The command line in this layer.
    pub command: String,
    /// `NAME=VALUE` of each parameter of a command scan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
    /// The program's name.
    pub program: String,
    /// The ready event.
    pub ready: String,
    /// Upper bound of the delay between the event and its detection, milliseconds.
    pub error_ms: f64,
    /// Why the first launch is not counted with the others. Absent if it is.
    #[serde(default)]
    pub first_apart: Option<String>,
    /// Sources of the counts: `/proc`, `io.pressure`, `io.stat`, `process connector`.
    #[serde(default)]
    pub counted_by: Vec<String>,
    /// Every launch.
    pub runs: Vec<LaunchRun>,
    /// Levels between steps; a single one without steps.
    pub levels: Vec<LaunchLevel>,
    /// Where the level changes.
    pub change_points: Vec<ChangePoint>,
    /// What a launch waited for, from an extra launch that was traced and not counted.
    #[serde(default)]
    pub trace: Option<LaunchTrace>,
    /// Why no launch could be traced, although that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_traced: Option<Untraced>,
    /// The series in sentences.
    #[serde(default)]
    pub says: Vec<String>,
}

/// One launch. Counts cover the whole process tree until it was ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchRun {
    /// Position in the series, from 1.
    pub run: usize,
    /// Position in the order of the whole run: `TrialRow::seq`.
    pub seq: u64,
    /// When it was started, RFC 3339 UTC.
    pub time: String,
    /// `CLOCK_MONOTONIC` of the probe's machine at the start, nanoseconds, for comparison with
    /// other logs.
    #[serde(default)]
    pub clock_ns: u64,
    /// Start, milliseconds after the start of the whole run.
    pub start_ms: f64,
    /// Ready, milliseconds after the start of the whole run.
    pub finish_ms: f64,
    /// From start to ready, milliseconds.
    pub elapsed_ms: f64,
    /// Title of the window that appeared.
    pub window: Option<String>,
    /// The program's name.
    pub program: String,
    /// `cold`, `warm` or `uncertain`, by major faults and input blocks.
    pub state: String,
    /// Page faults that required I/O.
    pub major_faults: u64,
    /// Blocks of 512 bytes read from block devices.
    pub input_blocks: u64,
    /// Bytes read by system calls.
    pub read_bytes: u64,
    /// Peak memory, bytes.
    pub peak_bytes: u64,
    /// Processes found in the process tree.
    pub processes: u64,
    /// All processes started, including short-lived ones. Absent if the kernel did not report them.
    #[serde(default)]
    pub started: Option<u64>,
    /// Time in which at least one of its processes waited for I/O, milliseconds. Absent if no
    /// control group could be created.
    #[serde(default)]
    pub io_wait_ms: Option<f64>,
    /// Bytes read from devices by all its processes. Absent if no control group counts them.
    #[serde(default)]
    pub device_bytes: Option<u64>,
    /// The restart of the layer before the launch, with its proof. Absent if there was none.
    #[serde(default)]
    pub restarted: Option<Restarted>,
    /// CPU time in user mode, milliseconds.
    pub user_ms: f64,
    /// CPU time in the kernel, milliseconds.
    pub system_ms: f64,
    /// CPU time of the programs that serve the layer, such as squashfuse, milliseconds.
    #[serde(default)]
    pub layer_ms: f64,
    /// Exit code, if it ended before it was stopped.
    pub exit: Option<i32>,
    /// How it was stopped.
    pub stopped: Stopped,
    /// Number of its level, from 1. Absent if the launch is set apart.
    pub level: Option<usize>,
}

/// Launches between two steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchLevel {
    /// First run, from 1.
    pub from: usize,
    /// Last run.
    pub to: usize,
    /// Number of launches.
    pub runs: usize,
    /// Shortest, milliseconds.
    pub min_ms: f64,
    /// Longest, milliseconds.
    pub max_ms: f64,
    /// Arithmetic mean, milliseconds.
    pub mean_ms: f64,
    /// Median, milliseconds.
    pub median_ms: f64,
    /// Typical time, milliseconds: exp of the 20 % trimmed mean of the logarithms. Where there is a
    /// `ratio`, of the blocks that it is of. Of a single level it is the result's.
    #[serde(default)]
    pub typical_ms: f64,
    /// The baseline's typical time in the same blocks, milliseconds: `typical_ms` over it is the
    /// ratio. Absent without a ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_ms: Option<f64>,
    /// Interval of the centre at the report's level, milliseconds. Absent below six launches.
    pub interval_ms: Option<[f64; 2]>,
    /// Time here over the baseline's time in the same blocks.
    pub ratio: Option<Estimate>,
}

/// A step of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangePoint {
    /// The first run of the new level, from 1.
    pub at: usize,
    /// When that run was started, RFC 3339 UTC.
    pub time: String,
    /// The level before.
    pub before: LaunchLevel,
    /// The level after.
    pub after: LaunchLevel,
    /// Size of the step, milliseconds: Hodges-Lehmann.
    pub step_ms: f64,
    /// Interval of the step at the report's level. Absent if either side has too few launches.
    pub interval: Option<[f64; 2]>,
}

/// What a traced launch waited for. Tracing makes every call slower, so the time of the fastest
/// call has been subtracted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchTrace {
    /// From start to ready while traced, milliseconds.
    pub elapsed_ms: f64,
    /// Processes and threads.
    pub processes: u64,
    /// Files opened.
    pub opened: u64,
    /// Path lookups.
    pub lookups: u64,
    /// Lookups that found nothing.
    pub failed: u64,
    /// Milliseconds in failed lookups.
    pub failed_ms: f64,
    /// Milliseconds in the other lookups.
    pub lookup_ms: f64,
    /// Calls that read files.
    pub reads: u64,
    /// Bytes they returned.
    pub read_bytes: u64,
    /// Milliseconds in them.
    pub read_ms: f64,
}
