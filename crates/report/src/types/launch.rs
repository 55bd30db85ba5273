//! Series of launches in the report.

use layermark_model::{Restarted, Stopped};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Estimate;

/// All launches of a point in a layer, in the order of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchSeries {
    /// Id of the result that these launches are.
    pub result: String,
    /// The point's label.
    pub label: String,
    /// The layer's name.
    pub layer: String,
    /// The command line, as it was in this layer.
    pub command: String,
    /// `NAME=VALUE` of each parameter that the command was scanned over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
    /// The program's name.
    pub program: String,
    /// What was waited for.
    pub ready: String,
    /// The event may have been seen so much later than it was, milliseconds.
    pub error_ms: f64,
    /// Why the first launch is not counted with the others. Absent when it is.
    #[serde(default)]
    pub first_apart: Option<String>,
    /// What has counted for each launch: `/proc`, `io.pressure`, `io.stat`, `process connector`.
    #[serde(default)]
    pub counted_by: Vec<String>,
    /// Every launch.
    pub runs: Vec<LaunchRun>,
    /// What lies between two steps; one level when there is no step.
    pub levels: Vec<LaunchLevel>,
    /// Where the level changes.
    pub change_points: Vec<ChangePoint>,
    /// What a launch waited for, by an extra one that was traced and not counted.
    #[serde(default)]
    pub trace: Option<LaunchTrace>,
    /// The same in sentences.
    #[serde(default)]
    pub says: Vec<String>,
}

/// One launch. Counts are of the whole tree of processes until it was ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchRun {
    /// Place in the series, from 1.
    pub run: usize,
    /// Place in the order of the whole run: `TrialRow::seq`.
    pub seq: u64,
    /// When it was started, RFC 3339 UTC.
    pub time: String,
    /// `CLOCK_MONOTONIC` of the probe's machine at the start, nanoseconds, to set it beside other logs.
    #[serde(default)]
    pub clock_ns: u64,
    /// Milliseconds after the whole run began: start ...
    pub start_ms: f64,
    /// ... and ready.
    pub finish_ms: f64,
    /// From start to ready, milliseconds.
    pub elapsed_ms: f64,
    /// Title of the window that was waited for.
    pub window: Option<String>,
    /// The program's name.
    pub program: String,
    /// `cold`, `warm` or `uncertain`, by major faults and input blocks.
    pub state: String,
    /// Faults that had to wait for a device or a file system.
    pub major_faults: u64,
    /// Blocks of 512 bytes read from block devices.
    pub input_blocks: u64,
    /// Bytes read by system calls.
    pub read_bytes: u64,
    /// Peak memory, bytes.
    pub peak_bytes: u64,
    /// Processes that were seen.
    pub processes: u64,
    /// Processes started in all, however short they lived. Absent where the kernel did not tell.
    #[serde(default)]
    pub started: Option<u64>,
    /// Time in which at least one of its processes waited for I/O, milliseconds. Absent where no
    /// control group could be made.
    #[serde(default)]
    pub io_wait_ms: Option<f64>,
    /// Bytes read from devices by all its processes. Absent where no control group counts them.
    #[serde(default)]
    pub device_bytes: Option<u64>,
    /// That the layer was set down and up again before it, with the proof. Absent when it was not.
    #[serde(default)]
    pub restarted: Option<Restarted>,
    /// CPU in user mode, milliseconds.
    pub user_ms: f64,
    /// CPU in the kernel, milliseconds.
    pub system_ms: f64,
    /// Exit code, when it ended by itself before it was stopped.
    pub exit: Option<i32>,
    /// How it was stopped.
    pub stopped: Stopped,
    /// Number of its level, from 1. Absent when it is set apart.
    pub level: Option<usize>,
}

/// Launches between two steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchLevel {
    /// First run, from 1.
    pub from: usize,
    /// Last run.
    pub to: usize,
    /// How many.
    pub runs: usize,
    /// Quickest, milliseconds.
    pub min_ms: f64,
    /// Slowest.
    pub max_ms: f64,
    /// Arithmetic mean.
    pub mean_ms: f64,
    /// Median.
    pub median_ms: f64,
    /// Where the centre lies, at the report's level. Absent below six launches.
    pub interval_ms: Option<[f64; 2]>,
    /// Time here over time natively in the same blocks.
    pub ratio: Option<Estimate>,
}

/// A step of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangePoint {
    /// The first run of the new level, from 1.
    pub at: usize,
    /// When that was started, RFC 3339 UTC.
    pub time: String,
    /// The level before.
    pub before: LaunchLevel,
    /// The level after.
    pub after: LaunchLevel,
    /// How far the level moves, milliseconds: Hodges-Lehmann.
    pub step_ms: f64,
    /// Where that lies at the report's level. Absent where too few launches are on a side.
    pub interval: Option<[f64; 2]>,
}

/// What a traced launch waited for. Tracing makes every call slower, of which the quickest call's
/// time has been taken off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchTrace {
    /// From start to ready while it was traced, milliseconds.
    pub elapsed_ms: f64,
    /// Processes and threads.
    pub processes: u64,
    /// Files opened.
    pub opened: u64,
    /// Calls that look a name up.
    pub lookups: u64,
    /// Those that found nothing.
    pub failed: u64,
    /// Milliseconds in them.
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
