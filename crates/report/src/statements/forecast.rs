//! Forecasts of steps, and why some steps have none.

use layermark_model::Untraced;

use crate::types::{ForecastCall, ForecastRow};

/// The forecast of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepForecast<'a> {
    /// Its numbers.
    pub row: &'a ForecastRow,
    /// What else was measured, if the calls do not explain the time.
    pub besides: Option<Vec<Besides>>,
}

/// What was measured besides the calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Besides {
    /// Seconds from one execution to the next, and how long the names had rested whose costs are known. `None`: they
    /// were in use.
    Rested(f64, Option<f64>),
    /// Share of the calls that one of several tasks made.
    Tasks(f64),
    /// CPU time of the step and of the layer's own processes, microseconds.
    Cpu(f64, f64),
}

/// Why steps have no forecast.
#[derive(Debug, Clone, PartialEq)]
pub enum Lack<'a> {
    /// The plan does not measure the costs of these operations, without and with a flush.
    Costs([Vec<&'static str>; 2]),
    /// The cost of a kind of call has no trusted result in these layers.
    Untrusted(&'static str, Vec<&'a str>),
    /// The calls of these steps were not counted, and why.
    NotCounted(Vec<&'a str>, &'a Untraced),
}

/// The most costly call of a step, and what to do about it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallAdvice<'a> {
    /// The step, which its calls explain.
    pub row: &'a ForecastRow,
    /// The kind of the call.
    pub kind: &'static str,
}

/// A system call and its cost, as a sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms<'a>(pub &'a ForecastCall);
