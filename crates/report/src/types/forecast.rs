//! Forecasts of steps from the costs of their system calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Forecasts of steps, next to their measured times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// One for each step in each layer whose costs are known.
    pub rows: Vec<ForecastRow>,
    /// Why others have none, in sentences without a full stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

impl Forecast {
    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.lacks.is_empty()
    }
}

/// The time of a step in a layer as its system calls and their costs there predict it: the native
/// time, and for each call what it takes longer than natively.
// A forecast has no interval, so no verdict: `is_explained` compares it with the measured one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForecastRow {
    /// Id of the measured result.
    pub result: String,
    /// The step.
    pub label: String,
    /// The layer.
    pub layer: String,
    /// Native microseconds.
    pub native_us: f64,
    /// Forecast, microseconds.
    pub forecast_us: f64,
    /// Measured, microseconds.
    pub measured_us: f64,
    /// Interval of the measured time, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_interval_us: Option<[f64; 2]>,
    /// Forecast over measured time, less 1: below 0, the calls do not explain all of it.
    pub gap: f64,
    /// Calls with known costs, the most costly first.
    pub calls: Vec<ForecastCall>,
    /// From one execution of the step to the next in the layer, seconds. Caches may forget in between.
    #[serde(default)]
    pub every_s: f64,
    /// Share of the calls that a single task made, the largest. The calls of others may overlap
    /// with them, and the forecast adds up all.
    pub busiest_task: f64,
    /// The forecast in a sentence, without a full stop.
    pub text: String,
}

impl ForecastRow {
    /// A forecast this close to the measured time explains it.
    pub const CLOSE: f64 = 0.25;
    /// Kinds of calls that are named.
    pub const NAMED: usize = 3;

    /// The kinds of calls that cost most.
    pub fn costly(&self) -> Vec<&ForecastCall> {
        let costly = self.calls.iter().filter(|call| call.sum_us > 0.0);
        costly.take(Self::NAMED).collect()
    }

    /// Whether the calls explain the measured time: nearly, or within its interval.
    pub fn is_explained(&self) -> bool {
        let within = |[low, high]: [f64; 2]| (low..=high).contains(&self.forecast_us);
        self.gap.abs() <= Self::CLOSE || self.measured_interval_us.is_some_and(within)
    }
}

/// Calls of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForecastCall {
    /// Its kind, such as `stat`.
    pub kind: String,
    /// How many.
    pub calls: f64,
    /// What each takes longer than natively, microseconds.
    pub each_us: f64,
    /// All of them, microseconds.
    pub sum_us: f64,
    /// How long nothing had used the files of which this is the cost, milliseconds; absent: they were in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rested_ms: Option<u64>,
    /// Ids of the results with the cost.
    pub evidence: Vec<String>,
}
