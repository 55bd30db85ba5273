//! What the workload `iops` has beside its results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
