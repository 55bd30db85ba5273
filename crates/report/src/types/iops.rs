//! Figures of the workload `iops` besides its results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A result of the workload `iops`.
// Its values have intervals; the ratio and the verdict are those of the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IopsRow {
    /// The result's id.
    pub result: String,
    /// The layer's name.
    pub layer: String,
    /// The point's name.
    pub label: String,
    /// The point's description without its queue depth.
    pub what: String,
    /// Access specification.
    pub spec: String,
    /// I/O engine.
    pub engine: String,
    /// I/Os in flight at once in each worker.
    pub iodepth: u64,
    /// Workers.
    pub workers: u64,
    /// Requested I/Os per second. Absent: as many as possible.
    pub rate: Option<u64>,
    /// I/Os per second, the centre of the trials.
    pub iops: f64,
    /// Units of 1,048,576 bytes per second.
    pub mib_s: f64,
    /// Units of 1,000,000 bytes per second.
    pub mb_s: f64,
    /// Mean response time, milliseconds; at a fixed rate, from the time when an I/O was due.
    pub response_ms: f64,
    /// Interval of `response_ms` at the report's level. This and the other intervals are absent
    /// below six trials.
    #[serde(default)]
    pub response_interval_ms: Option<[f64; 2]>,
    /// Longest response time over all workers, milliseconds.
    pub response_max_ms: f64,
    /// Median response time, milliseconds.
    pub p50_ms: f64,
    /// Interval of `p50_ms`.
    #[serde(default)]
    pub p50_interval_ms: Option<[f64; 2]>,
    /// 99th percentile, milliseconds. Absent below 1,000 I/Os.
    pub p99_ms: Option<f64>,
    /// Interval of `p99_ms`.
    #[serde(default)]
    pub p99_interval_ms: Option<[f64; 2]>,
    /// 99.9th percentile, milliseconds. Absent below 10,000 I/Os.
    pub p999_ms: Option<f64>,
    /// Interval of `p999_ms`.
    #[serde(default)]
    pub p999_interval_ms: Option<[f64; 2]>,
    /// 99.99th percentile, milliseconds. Absent below 100,000 I/Os.
    pub p9999_ms: Option<f64>,
    /// Interval of `p9999_ms`.
    #[serde(default)]
    pub p9999_interval_ms: Option<[f64; 2]>,
    /// Mean time from the actual start of an I/O, milliseconds. Only at a fixed rate.
    pub service_ms: Option<f64>,
    /// The longest of these times, milliseconds.
    pub service_max_ms: Option<f64>,
    /// Busy share of all CPUs of this machine, percent, with all programs.
    pub cpu_percent: Option<f64>,
    /// `iops` divided by `cpu_percent`.
    pub iops_per_cpu: Option<f64>,
}

/// I/Os per second and response time over the queue depth, in one layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DepthCurve {
    /// The layer's name.
    pub layer: String,
    /// What the points have in common, in words.
    pub what: String,
    /// Points in order of depth.
    pub points: Vec<DepthPoint>,
    /// The depth beyond which throughput hardly grows. Absent below three depths.
    pub knee: Option<Knee>,
}

/// One depth of a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DepthPoint {
    /// I/Os in flight at once in each worker.
    pub iodepth: u64,
    /// I/Os per second.
    pub iops: f64,
    /// Mean response time, milliseconds.
    pub response_ms: f64,
    /// The result's id.
    pub result: String,
}

/// Where I/Os per second over response time are greatest (Kleinrock's power).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    /// The depth. Absent if it is the greatest measured one: the knee may then lie beyond it.
    pub iodepth: Option<u64>,
    /// Number of blocks whose own greatest power is at the same depth.
    pub agree: usize,
    /// Number of all blocks.
    pub blocks: usize,
    /// In words.
    pub text: String,
}
