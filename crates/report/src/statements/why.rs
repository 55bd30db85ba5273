//! Why a command is slow in a layer, from its measured time and the costs of its calls.

use crate::types::{ForecastCall, ForecastRow, LeftOut, ResultRow, Verdict};

/// A command in a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowCommand<'a> {
    /// The result.
    pub row: &'a ResultRow,
    /// The forecast from its calls.
    pub forecast: Option<&'a ForecastRow>,
}

/// Calls of one kind and what all of them cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallCost<'a>(pub &'a ForecastCall);

/// A layer in which the command was not measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WithoutCommand<'a>(pub &'a LeftOut);

/// What to use.
#[derive(Debug, Clone, PartialEq)]
pub enum UseInstead<'a> {
    /// It was measured nowhere.
    Nothing,
    /// These layers cost nothing.
    Free(Vec<&'a str>),
    /// No layer is known to cost nothing; this one costs least of those that are known to be slower.
    Least(&'a ResultRow),
    /// Whether they cost anything is not known of these layers.
    Unknown(Vec<&'a str>),
}

impl<'a> SlowCommand<'a> {
    /// Calls that make it slower there, the most costly first.
    pub fn costly(&self) -> Vec<&'a ForecastCall> {
        self.forecast.map(ForecastRow::costly).unwrap_or_default()
    }

    /// Microseconds that it takes longer.
    pub fn extra_us(&self) -> Option<f64> {
        Some(self.row.op_us? - self.row.native_us?)
    }

    /// Whether it is known to take longer.
    pub fn is_slower(&self) -> bool {
        self.row.leaning() == Verdict::Slower
    }
}

impl<'a> UseInstead<'a> {
    /// From the results in the layers.
    pub fn of(commands: &[SlowCommand<'a>]) -> Self {
        let told = commands.iter().filter(|c| c.row.is_told());
        let told: Vec<&SlowCommand> = told.collect();
        let names = |is: &dyn Fn(&SlowCommand) -> bool| -> Vec<&'a str> {
            let of = told.iter().filter(|c| is(c));
            of.map(|c| c.row.layer.as_str()).collect()
        };
        let free = names(&|c| matches!(c.row.leaning(), Verdict::Same | Verdict::Faster));
        if !free.is_empty() {
            return Self::Free(free);
        }
        let unknown = names(&|c| !c.is_slower());
        if !unknown.is_empty() {
            return Self::Unknown(unknown);
        }
        let extra = |c: &&&SlowCommand| c.extra_us().unwrap_or(f64::INFINITY);
        let least = told.iter().min_by(|a, b| extra(a).total_cmp(&extra(b)));
        least.map_or(Self::Nothing, |c| Self::Least(c.row))
    }
}
