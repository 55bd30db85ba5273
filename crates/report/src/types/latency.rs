//! Latency of single operations: percentiles, kinds of operations, and slow ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Latency of single operations over all trials, microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyUs {
    /// Number of operations.
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
    /// Interval of `p50`, computed like that of `mean`.
    #[serde(default)]
    pub p50_interval: Option<[f64; 2]>,
    /// 99th percentile. Absent below 1,000 operations.
    pub p99: Option<f64>,
    /// Interval of `p99`, computed like that of `mean`.
    #[serde(default)]
    pub p99_interval: Option<[f64; 2]>,
    /// The highest percentile that fewer operations allow, with ten of them beyond it. Absent if
    /// there is `p99`, and below 100 operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<Tail>,
    /// 99.9th percentile. Absent below 10,000 operations.
    pub p999: Option<f64>,
    /// Interval of `p999`, computed like that of `mean`.
    #[serde(default)]
    pub p999_interval: Option<[f64; 2]>,
    /// 99.99th percentile. Absent below 100,000 operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p9999: Option<f64>,
    /// Interval of `p9999`, computed like that of `mean`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p9999_interval: Option<[f64; 2]>,
    /// Largest.
    pub max: f64,
    /// What each share of operations in `facts::latency::SLOWER` exceeds, where ten or more
    /// operations do. For charts.
    #[serde(skip)]
    pub slower: [Option<f64>; 15],
}

/// A percentile below the 99th.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tail {
    /// The percentile: 90, 95 or 98.
    pub percentile: f64,
    /// Its value, microseconds.
    pub us: f64,
    /// Interval of `us`, computed like that of `mean`.
    pub interval: Option<[f64; 2]>,
}

/// Operations of two kinds, quick ones and slow ones, with almost none between them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TwoKinds {
    /// Number of all operations.
    pub operations: u64,
    /// Number of quick ones.
    pub quick: u64,
    /// Mean of the quick ones in the quarter of an octave around their median.
    pub quick_us: f64,
    /// The same of the slow ones.
    pub slow_us: f64,
}

/// Operations that take much longer than the others, in the layer and in the baseline: those above one gap
/// in the latencies of the side that has more of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stalls {
    /// In the layer.
    pub here: SlowOperations,
    /// The baseline, in the rounds of the same blocks.
    pub native: SlowOperations,
}

/// The slow operations of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowOperations {
    /// Number of all operations.
    pub operations: u64,
    /// Number of slow ones among them.
    pub slow: u64,
    /// Shortest, median and longest of the slow ones, microseconds. Absent if there are none.
    pub slow_us: Option<[f64; 3]>,
    /// Longest of the others, microseconds. Absent if there are none.
    pub longest_other_us: Option<f64>,
}
