//! Which of several runs is the odd one.

use layermark_model::StoreOption;

use crate::{
    statements::caveats::BusyMachine,
    types::{Estimate, ResultAmong, RunAmong, Standing, Standings},
};

/// The answer about all runs.
#[derive(Debug, Clone, PartialEq)]
pub enum OddAnswer<'a> {
    /// These runs are odd, each with the result in which it is most so.
    Odd(Vec<OddAt<'a>>),
    /// None is shown to be odd, and at so many of all results the runs differ.
    Split(usize, usize),
    /// All runs are alike at all results, by this share.
    Alike {
        /// Runs.
        runs: usize,
        /// Results.
        results: usize,
        /// Differences smaller than this share do not matter.
        delta: f64,
    },
    /// None is known to be odd: all are alike at so many of all results.
    Unknown(usize, usize),
}

/// A run that is odd at a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OddAt<'a> {
    /// The run, as the user named it. Empty in a line about this run.
    pub run: &'a str,
    /// The layer.
    pub layer: &'a str,
    /// The point's label.
    pub point: &'a str,
    /// Its value over the others'.
    pub ratio: &'a Estimate,
}

/// How one run compares with the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunSays<'a> {
    /// Numbers of results.
    pub counts: Standings,
    /// Where it is most odd.
    pub most: Option<OddAt<'a>>,
}

/// Why a run is not compared at a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Apart<'a> {
    /// It has no such result.
    NotMeasured,
    /// Its result is not trusted: why.
    Untrusted(&'a str),
    /// A result of the same name, and other work.
    OtherWork,
    /// No single number describes it.
    Unsteady,
    /// Its flushes do not wait for the disk, and those of others do.
    SkipsFlush,
    /// It has no baseline there.
    NoBaseline,
    /// It, or the others, have too few blocks.
    TooFew,
}

/// Something that not all runs have in common, or a limit of one of them.
#[derive(Debug, Clone, PartialEq)]
pub enum Unlike<'a> {
    /// Values of one thing, and the runs that have each.
    Values(&'static str, Vec<(String, Vec<&'a str>)>),
    /// Not all runs have the same baseline.
    NoBaseline,
    /// A run that is not trustworthy: its name, its id and its store.
    Untrusted(&'a str, &'a str, &'a StoreOption),
    /// A run that is not complete: its state.
    Unfinished(&'a str, &'static str),
    /// Other programs ran beside a run.
    Busy(&'a str, BusyMachine),
    /// Layers of these runs were set up only once.
    SetUpOnce(Vec<&'a str>),
    /// Flushes of these runs do not wait for the disk, and those of other runs do.
    SkipsFlush(Vec<&'a str>),
}

impl<'a> OddAt<'a> {
    /// Where a run is most odd.
    fn most(results: &'a [ResultAmong], run: usize, name: &'a str) -> Option<Self> {
        let odd = results.iter().filter_map(|result| {
            let value = &result.runs[run];
            let is_odd = value.standing == Standing::Odd;
            Some(Self {
                run: name,
                layer: &result.layer,
                point: &result.point,
                ratio: value.ratio.as_ref().filter(|_| is_odd)?,
            })
        });
        odd.max_by(|a, b| a.ratio.distance().total_cmp(&b.ratio.distance()))
    }
}

impl<'a> RunSays<'a> {
    /// Of one of the runs.
    pub fn of(results: &'a [ResultAmong], run: usize, counts: Standings) -> Self {
        Self {
            counts,
            most: OddAt::most(results, run, ""),
        }
    }
}

impl<'a> OddAnswer<'a> {
    /// Of all runs and their results.
    pub fn of(runs: &'a [RunAmong], results: &'a [ResultAmong], delta: f64) -> Self {
        let each = runs.iter().enumerate();
        let odd = each.filter_map(|(at, run)| OddAt::most(results, at, &run.name));
        let odd: Vec<OddAt> = odd.collect();
        if !odd.is_empty() {
            return Self::Odd(odd);
        }
        let with = |is: fn(Standing) -> bool, all: bool| {
            let having = results.iter().filter(|result| {
                let mut runs = result.runs.iter().map(|value| value.standing);
                if all { runs.all(is) } else { runs.any(is) }
            });
            having.count()
        };
        let split = with(|s| s == Standing::Split, false);
        let alike = with(|s| s == Standing::Like, true);
        match (split, alike, results.len()) {
            (0, alike, of) if alike == of => Self::Alike {
                runs: runs.len(),
                results: of,
                delta,
            },
            (0, alike, of) => Self::Unknown(alike, of),
            (split, _, of) => Self::Split(split, of),
        }
    }
}
