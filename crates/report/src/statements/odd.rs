//! Which of several runs is the odd one.

use layermark_model::{RunStatus, StoreOption};

use crate::{
    Report,
    facts::machine::{COMPARED, FactValue, MachineFact, RanOn},
    group,
    statements::caveats::BusyMachine,
    types::{Estimate, ResultAmong, RunAmong, Standing, Standings, ValueAmong},
};

/// The answer about all runs.
#[derive(Debug, Clone, PartialEq)]
pub enum OddAnswer<'a> {
    /// These runs, as the user named them, are odd, each with the result in which it is most so.
    Odd(Vec<(&'a str, OddAt<'a>)>),
    /// None is shown to be odd, and at so many results the runs differ.
    Split(usize, Coverage),
    /// All runs that are compared are alike at all results.
    Alike {
        /// Runs that are compared, at one result at least.
        runs: usize,
        /// All runs.
        of: usize,
        /// Differences smaller than this share do not matter.
        delta: f64,
        /// The results.
        coverage: Coverage,
    },
    /// None is known to be odd: all that are compared are alike at so many results.
    Unknown(usize, Coverage),
    /// No run is compared at any of so many results.
    Nowhere(usize),
}

/// Numbers of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// Results at which runs are compared.
    pub compared: usize,
    /// Of these, those at which at least one run is not.
    pub partly: usize,
    /// Results at which no run is compared.
    pub none: usize,
}

/// A result at which a run is odd.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OddAt<'a> {
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
    /// The most frequent reason why it is not compared, and at how many results.
    pub because: Option<(NotAmong<'a>, usize)>,
}

/// Why a run is not compared at a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAmong<'a> {
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
    /// It is without what threads of the kernel waited for a CPU, and others are not, or the reverse.
    OtherTimes,
    /// It has too few blocks, and other runs are compared.
    FewBlocks,
    /// Too few runs have what a comparison needs.
    FewRuns,
}

/// Something that not all runs have in common, or a limit of one of them.
#[derive(Debug, Clone, PartialEq)]
pub enum Unlike<'a> {
    /// Values of one fact, and the runs that have each.
    Values(MachineFact, Vec<(FactValue<'a>, Vec<&'a str>)>),
    /// Not all runs have the same baseline.
    NoBaseline,
    /// A run that is not trustworthy: its name, its id and its store.
    Untrusted(&'a str, &'a str, &'a StoreOption),
    /// A run that is not complete: its state.
    Unfinished(&'a str, RunStatus),
    /// Other programs ran beside a run.
    Busy(&'a str, BusyMachine),
    /// Layers of these runs were set up only once.
    SetUpOnce(Vec<&'a str>),
    /// Flushes of these runs do not wait for the disk, and those of other runs do.
    SkipsFlush(Vec<&'a str>),
}

impl<'a> OddAt<'a> {
    /// Where a run is most odd.
    pub fn most(results: &'a [ResultAmong], run: usize) -> Option<Self> {
        let odd = results.iter().filter_map(|result| {
            let value = &result.runs[run];
            let is_odd = value.standing == Standing::Odd;
            Some(Self {
                layer: &result.layer,
                point: &result.point,
                ratio: value.ratio.as_ref().filter(|_| is_odd)?,
            })
        });
        odd.max_by(|a, b| a.ratio.distance().total_cmp(&b.ratio.distance()))
    }
}

impl<'a> RunSays<'a> {
    /// Of one of the runs, and why it is not compared, for each result where it is not.
    pub fn of(
        results: &'a [ResultAmong],
        run: usize,
        counts: Standings,
        reasons: impl Iterator<Item = NotAmong<'a>>,
    ) -> Self {
        Self {
            counts,
            most: OddAt::most(results, run),
            because: most_frequent(reasons),
        }
    }
}

/// The most frequent of these, the first of several, and how often it occurs.
fn most_frequent<'a>(reasons: impl Iterator<Item = NotAmong<'a>>) -> Option<(NotAmong<'a>, usize)> {
    let groups = group::grouped(reasons.map(|why| (why, ())));
    let counts = groups.into_iter().map(|(why, each)| (why, each.len()));
    counts.rev().max_by_key(|(_, n)| *n)
}

impl Coverage {
    fn of(results: &[ResultAmong]) -> Self {
        let is_left = |value: &ValueAmong| value.standing == Standing::NotCompared;
        let none = results.iter().filter(|r| r.runs.iter().all(is_left));
        let some = results.iter().filter(|r| r.runs.iter().any(is_left));
        let (none, some) = (none.count(), some.count());
        Self {
            compared: results.len() - none,
            partly: some - none,
            none,
        }
    }
}

impl<'a> OddAnswer<'a> {
    /// Of all runs and their results.
    pub fn of(runs: &'a [RunAmong], results: &'a [ResultAmong], delta: f64) -> Self {
        let each = runs.iter().enumerate();
        let odd = each.filter_map(|(at, run)| Some((&*run.name, OddAt::most(results, at)?)));
        let odd: Vec<(&str, OddAt)> = odd.collect();
        if !odd.is_empty() {
            return Self::Odd(odd);
        }
        let coverage = Coverage::of(results);
        let compared = |result: &ResultAmong| {
            let words = result.runs.iter().map(|value| value.standing);
            let words = words.filter(|word| *word != Standing::NotCompared);
            words.collect::<Vec<_>>()
        };
        let words: Vec<Vec<Standing>> = results.iter().map(compared).collect();
        let split = words.iter().filter(|w| w.contains(&Standing::Split));
        let is_alike =
            |w: &&Vec<Standing>| !w.is_empty() && w.iter().all(|word| *word == Standing::Like);
        let (split, alike) = (split.count(), words.iter().filter(is_alike).count());
        if coverage.compared == 0 {
            Self::Nowhere(results.len())
        } else if split > 0 {
            Self::Split(split, coverage)
        } else if alike < coverage.compared {
            Self::Unknown(alike, coverage)
        } else {
            let somewhere = runs.iter().filter(|run| run.standings.compared() > 0);
            Self::Alike {
                runs: somewhere.count(),
                of: runs.len(),
                delta,
                coverage,
            }
        }
    }
}

impl<'a> Unlike<'a> {
    /// What the runs, with their names, do not have in common, and the limits of each.
    pub fn all(runs: &[(&'a str, &'a Report)], baseline: Option<&str>) -> Vec<Self> {
        let none = baseline.is_none().then_some(Self::NoBaseline);
        let values = COMPARED
            .into_iter()
            .filter_map(|fact| Self::values(runs, fact));
        let limits = runs.iter().flat_map(|(name, run)| {
            let untrusted = Self::Untrusted(name, &run.run, &run.store);
            let untrusted = (!run.trustworthy()).then_some(untrusted);
            let unfinished = Self::Unfinished(name, run.status);
            let unfinished = (run.status != RunStatus::Done).then_some(unfinished);
            let busy = BusyMachine::of_report(run).map(|busy| Self::Busy(name, busy));
            untrusted.into_iter().chain(unfinished).chain(busy)
        });
        let once = runs.iter();
        let once = once.filter(|(_, run)| run.trials.iter().all(|t| t.session == 0));
        let once: Vec<&str> = once.map(|(name, _)| *name).collect();
        let once = (!once.is_empty()).then_some(Self::SetUpOnce(once));
        none.into_iter()
            .chain(values)
            .chain(limits)
            .chain(once)
            .collect()
    }

    /// The values of a fact in the order of the runs. `None` if it is the same in all.
    fn values(runs: &[(&'a str, &'a Report)], fact: MachineFact) -> Option<Self> {
        // Each run has the value of the first one that has the same.
        let first = |run: &Report| {
            let mut all = runs.iter().map(|(_, other)| RanOn::of(other));
            all.position(|other| fact.is_same(other, RanOn::of(run)))
        };
        let keyed = runs.iter().map(|(name, run)| (first(run), *name));
        let groups = group::grouped(keyed).into_iter();
        let groups = groups.filter_map(|(at, names)| {
            let (_, run) = runs.get(at?)?;
            Some((fact.of(RanOn::of(run)), names))
        });
        let groups: Vec<_> = groups.collect();
        (groups.len() > 1).then_some(Self::Values(fact, groups))
    }
}
