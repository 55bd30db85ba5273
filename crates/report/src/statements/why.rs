//! Why a command is slow in a layer, from its measured time and the costs of its calls.

use std::borrow::Cow;

use crate::{
    Report,
    statements::in_short::Kept,
    types::{ForecastCall, ForecastRow, LeftOut, ResultRow, Verdict},
};

/// A command in a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowCommand<'a> {
    /// The result.
    pub row: &'a ResultRow,
    /// The forecast from its calls.
    pub forecast: Option<&'a ForecastRow>,
    /// Whether flushed data reaches the disk there.
    pub kept: Kept,
    /// Differences smaller than this share do not matter.
    pub delta: f64,
}

/// Calls of one kind and what all of them cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallCost<'a>(pub &'a ForecastCall);

/// A layer in which the command was not measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WithoutCommand<'a>(pub &'a LeftOut);

/// What to use, and what not.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<'a> {
    /// What to use.
    pub instead: UseInstead<'a>,
    /// Layers that are not offered because they lose what was flushed.
    pub aside: Vec<SlowCommand<'a>>,
}

/// What to use.
#[derive(Debug, Clone, PartialEq)]
pub enum UseInstead<'a> {
    /// The results are not trusted, for this reason.
    Untrusted(Cow<'a, str>),
    /// It was measured nowhere.
    Nothing,
    /// Every layer in which it was measured loses what was flushed.
    NoneKeeps,
    /// It takes no longer in these layers.
    Free(Vec<SlowCommand<'a>>),
    /// It is slower in each layer that was decided, and least so in this one.
    Least(&'a ResultRow),
    /// It is slower in each layer, and in these perhaps alike.
    NotApart(Vec<&'a str>),
    /// Whether they cost anything is not known of these layers.
    Unknown(Vec<&'a str>),
}

impl<'a> SlowCommand<'a> {
    /// A command in a layer of a report.
    pub fn of(report: &'a Report, row: &'a ResultRow) -> Self {
        let own = report.results.iter();
        let own: Vec<_> = own
            .filter(|r| r.layer == row.layer && r.trials > 0)
            .collect();
        let mut layers = report.layers.iter();
        let in_memory = layers.any(|l| l.name == row.layer && l.facts.in_memory());
        Self {
            row,
            forecast: report.forecast.rows.iter().find(|f| f.result == row.id),
            kept: Kept::of(&own, in_memory),
            delta: report.delta,
        }
    }

    /// Calls that make it slower there, the most costly first.
    pub fn costly(&self) -> Vec<&'a ForecastCall> {
        self.forecast.map(ForecastRow::costly).unwrap_or_default()
    }

    /// Microseconds that it takes longer.
    pub fn extra_us(&self) -> Option<f64> {
        Some(self.row.op_us? - self.row.native_us?)
    }

    /// Whether its verdict is the weaker one.
    pub fn is_probable(&self) -> bool {
        self.row.probably.is_some()
    }

    /// Whether it is known to take longer.
    fn is_slower(&self) -> bool {
        self.row.leaning() == Verdict::Slower
    }

    fn is_free(&self) -> bool {
        matches!(self.row.leaning(), Verdict::Same | Verdict::Faster)
    }

    /// The interval of its time over the baseline's.
    fn interval(&self) -> Option<[f64; 2]> {
        self.row.ratio?.interval
    }
}

impl<'a> Answer<'a> {
    /// From the results in the layers.
    pub fn of(commands: &[SlowCommand<'a>], distrust: Option<Cow<'a, str>>) -> Self {
        let told = commands.iter().copied().filter(|c| c.row.is_told());
        let (aside, told): (Vec<_>, Vec<_>) = told.partition(|c| c.kept.loses().is_some());
        let instead = match distrust {
            Some(why) => UseInstead::Untrusted(why),
            None if told.is_empty() && aside.len() == commands.len() => UseInstead::NoneKeeps,
            None => UseInstead::of(&told),
        };
        Self { instead, aside }
    }
}

impl<'a> UseInstead<'a> {
    fn of(told: &[SlowCommand<'a>]) -> Self {
        let those = |is: &dyn Fn(&SlowCommand<'a>) -> bool| -> Vec<SlowCommand<'a>> {
            told.iter().copied().filter(|c| is(c)).collect()
        };
        let names = |of: Vec<SlowCommand<'a>>| -> Vec<&'a str> {
            of.iter().map(|c| c.row.layer.as_str()).collect()
        };
        let free = those(&SlowCommand::is_free);
        if !free.is_empty() {
            return Self::Free(free);
        }
        let unknown = names(those(&|c| !c.is_slower()));
        if !unknown.is_empty() {
            return Self::Unknown(unknown);
        }
        let extra = |c: &&SlowCommand| c.extra_us().unwrap_or(f64::INFINITY);
        let least = told.iter().min_by(|a, b| extra(a).total_cmp(&extra(b)));
        let Some(least) = least else {
            return Self::Nothing;
        };
        // A number between two others is of the layer that has it only if their intervals do not meet.
        let apart = |other: &SlowCommand| {
            let both = least.interval().zip(other.interval());
            both.is_some_and(|([_, high], [low, _])| high < low)
        };
        let alike = those(&|c| c.row.id == least.row.id || !apart(c));
        match alike.len() {
            1 => Self::Least(least.row),
            _ => Self::NotApart(names(alike)),
        }
    }
}
