//! What differs between two runs, apart from their results.

use std::collections::BTreeSet;

use layermark_model::{RunStatus, StoreOption};
use serde_json::Value;

use crate::{
    Report, ResultRow,
    facts::{
        machine::{FactValue, HARDWARE, MachineFact, RanOn, SYSTEM},
        sweep,
    },
    statements::caveats::BusyMachine,
};

/// Which of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OneRun {
    /// The older one.
    Old,
    /// The newer one.
    New,
}

/// A difference.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference<'a> {
    /// Two values of one fact: in the older and in the newer run.
    Values(MachineFact, [FactValue<'a>; 2]),
    /// Layers of one run only.
    Layers(OneRun, Vec<&'a str>),
    /// Points of one run only.
    Points(OneRun, Vec<&'a str>),
    /// The baselines. Then times are compared, because ratios to two layers are not alike.
    Baselines([&'a str; 2]),
    /// Points of one name that are different work, and what differs in the first of them.
    OtherWork(Vec<&'a str>, Vec<(String, [Value; 2])>),
    /// Points of one name and one work whose times are not the same measure: an older version added the time between
    /// calls to the sum. The run in which it was added.
    OtherMeasure(Vec<&'a str>, OneRun),
    /// Results of one run only, although both runs have the layer and the point.
    Holes(Vec<Holes<'a>>),
    /// Layers were set up only once in these runs.
    SetUpOnce(Vec<OneRun>),
    /// A run that is not trustworthy.
    Untrusted(OneRun, &'a str, &'a StoreOption),
    /// A run that is not complete: its status.
    Unfinished(OneRun, RunStatus),
    /// Other programs ran beside a run: what its caveat says.
    Busy(OneRun, BusyMachine),
}

/// A layer of one run only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotInBoth(pub OneRun);

/// Why a result of two runs is not compared although both measured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotCompared<'a> {
    /// It is not trusted in this run: why.
    Untrusted(OneRun, &'a str),
    /// No baseline tells its change from one of the machine.
    Alone,
    /// Its flush reached the device in the older run only.
    FlushLost,
    /// Its flush reaches the device in the newer run only.
    FlushWon,
    /// One of them is without what threads of the kernel waited for a CPU.
    OtherTimes,
}

/// A caveat of one of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaveatOf<'a>(pub OneRun, pub &'a str);

/// Results of one run only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holes<'a> {
    /// The run that has them.
    pub run: OneRun,
    /// How many.
    pub results: usize,
    /// The point of the first one.
    pub point: &'a str,
    /// The layer of the first one.
    pub layer: &'a str,
}

/// What is checked of two runs before their results are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlikeCheck {
    /// The machine.
    Machine,
    /// Its kernel.
    Kernel,
    /// The rest of its system.
    System,
    /// The version that measured.
    Version,
    /// Layers, points and baseline.
    Work,
    /// Whether layers were set up more than once.
    SetUps,
    /// Whether both runs are complete and trusted.
    Runs,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked<'a> {
    /// The check.
    pub check: AlikeCheck,
    /// Empty if the runs are alike.
    pub differences: Vec<Difference<'a>>,
}

impl Checked<'_> {
    /// Whether it found no difference.
    pub fn is_alike(&self) -> bool {
        self.differences.is_empty()
    }
}

/// The checks of whether two runs are alike.
pub fn checks<'a>(old: &'a Report, new: &'a Report) -> Vec<Checked<'a>> {
    let values = |facts: &[MachineFact]| values(facts, RanOn::of(old), RanOn::of(new));
    let all = [
        (AlikeCheck::Machine, values(&HARDWARE)),
        (AlikeCheck::Kernel, values(&[MachineFact::Kernel])),
        (AlikeCheck::System, values(&SYSTEM)),
        (AlikeCheck::Version, values(&[MachineFact::Version])),
        (AlikeCheck::Work, work(old, new)),
        (AlikeCheck::SetUps, once(old, new)),
        (AlikeCheck::Runs, doubtful(old, new)),
    ];
    let checked = all.map(|(check, differences)| Checked { check, differences });
    checked.into()
}

/// Those of these facts that differ.
fn values<'a>(facts: &[MachineFact], old: RanOn<'a>, new: RanOn<'a>) -> Vec<Difference<'a>> {
    let differ = facts.iter().filter(|fact| !fact.is_same(old, new));
    let both = |fact: &MachineFact| Difference::Values(*fact, [fact.of(old), fact.of(new)]);
    differ.map(both).collect()
}

/// Names in one list only.
fn only<'a>(here: &BTreeSet<&'a str>, there: &BTreeSet<&'a str>) -> Vec<&'a str> {
    here.difference(there).copied().collect()
}

/// Measured layers but the control.
fn layers(report: &Report) -> BTreeSet<&str> {
    let measured = |name: &str| report.results.iter().any(|r| r.layer == name);
    let layers = report.layers.iter().filter(|l| !l.control);
    layers
        .map(|l| l.name.as_str())
        .filter(|name| measured(name))
        .collect()
}

fn points(report: &Report) -> BTreeSet<&str> {
    report.points().into_iter().collect()
}

/// Names that only one of two runs has, with the run; without a run that has none.
fn in_one<'a>(
    old: &BTreeSet<&'a str>,
    new: &BTreeSet<&'a str>,
) -> impl Iterator<Item = (OneRun, Vec<&'a str>)> + use<'a> {
    let both = [(OneRun::Old, only(old, new)), (OneRun::New, only(new, old))];
    both.into_iter().filter(|(_, names)| !names.is_empty())
}

/// Layers that only one of the runs has.
pub fn lone_layers<'a>(old: &'a Report, new: &'a Report) -> Vec<(&'a str, NotInBoth)> {
    let lone = in_one(&layers(old), &layers(new));
    let each = |(run, names): (OneRun, Vec<&'a str>)| {
        let names = names.into_iter();
        names.map(move |name| (name, NotInBoth(run)))
    };
    lone.flat_map(each).collect()
}

fn work<'a>(old: &'a Report, new: &'a Report) -> Vec<Difference<'a>> {
    let layers = in_one(&layers(old), &layers(new));
    let layers = layers.map(|(run, names)| Difference::Layers(run, names));
    let points = in_one(&points(old), &points(new));
    let points = points.map(|(run, names)| Difference::Points(run, names));
    layers
        .chain(points)
        .chain(other_baseline(old, new))
        .chain(other_work(old, new))
        .chain(other_measure(old, new))
        .chain(holes(old, new))
        .collect()
}

/// The baselines, if they differ.
fn other_baseline<'a>(old: &'a Report, new: &'a Report) -> Option<Difference<'a>> {
    let both = [old.baseline(), new.baseline()];
    (both[0] != both[1]).then_some(Difference::Baselines(both))
}

/// Results of one run only, although both runs have the layer and the point.
fn holes<'a>(old: &'a Report, new: &'a Report) -> Option<Difference<'a>> {
    let has = |report: &Report, row: &ResultRow| {
        let mut rows = report.results.iter();
        rows.any(|r| r.layer == row.layer && r.label == row.label && r.op_us.is_some())
    };
    let known = |report: &Report, row: &ResultRow| {
        layers(report).contains(&*row.layer) && points(report).contains(&*row.label)
    };
    let of = |run: OneRun, one: &'a Report, other: &'a Report| {
        let measured = one.results.iter().filter(|r| r.op_us.is_some());
        let mut holes = measured.filter(|r| known(other, r) && !has(other, r));
        let first = holes.next()?;
        Some(Holes {
            run,
            results: 1 + holes.count(),
            point: &first.label,
            layer: &first.layer,
        })
    };
    let both = [of(OneRun::Old, old, new), of(OneRun::New, new, old)];
    let both: Vec<Holes> = both.into_iter().flatten().collect();
    (!both.is_empty()).then_some(Difference::Holes(both))
}

fn first<'a>(report: &'a Report, label: &str) -> Option<&'a ResultRow> {
    report.results.iter().find(|r| r.label == label)
}

/// Points of one name that are different work, and the difference in the first of them.
fn other_work<'a>(old: &'a Report, new: &'a Report) -> Option<Difference<'a>> {
    let both = points(new).into_iter().filter_map(|label| {
        let (then, now) = (first(old, label)?, first(new, label)?);
        let keys = sweep::other_work(then, now)?;
        let is_measure = keys.is_empty() && then.workload == now.workload;
        (!is_measure).then_some((label, then, now, keys))
    });
    let both: Vec<_> = both.collect();
    let (_, then, now, keys) = both.first()?;
    let values = |key: &String| [then, now].map(|row| row.point[key].clone());
    let keys = keys.iter().map(|key| (key.clone(), values(key))).collect();
    let labels = both.iter().map(|(label, ..)| *label).collect();
    Some(Difference::OtherWork(labels, keys))
}

/// Points whose work differs in nothing but the measure, and the run in which the time between calls was added to the sum.
fn other_measure<'a>(old: &'a Report, new: &'a Report) -> Option<Difference<'a>> {
    let both = points(new).into_iter().filter_map(|label| {
        let (then, now) = (first(old, label)?, first(new, label)?);
        let summed = then.meaning.added.is_some_and(|added| !added.between);
        let run = if summed { OneRun::Old } else { OneRun::New };
        sweep::other_measure(then, now).then_some((label, run))
    });
    let both: Vec<_> = both.collect();
    let (_, run) = *both.first()?;
    let labels = both.into_iter().map(|(label, _)| label).collect();
    Some(Difference::OtherMeasure(labels, run))
}

/// Runs whose layers were set up only once: their intervals exclude differences between setups.
fn once(old: &Report, new: &Report) -> Vec<Difference<'static>> {
    let one = |report: &Report| report.trials.iter().all(|t| t.session == 0);
    let runs = [(OneRun::Old, one(old)), (OneRun::New, one(new))].into_iter();
    let runs: Vec<OneRun> = runs.filter_map(|(run, once)| once.then_some(run)).collect();
    let found = (!runs.is_empty()).then_some(Difference::SetUpOnce(runs));
    found.into_iter().collect()
}

fn doubtful<'a>(old: &'a Report, new: &'a Report) -> Vec<Difference<'a>> {
    let doubts = |(run, report): (OneRun, &'a Report)| {
        let untrusted = !report.trustworthy();
        let untrusted = untrusted.then_some(Difference::Untrusted(run, &report.run, &report.store));
        let unfinished = report.status != RunStatus::Done;
        let unfinished = unfinished.then_some(Difference::Unfinished(run, report.status));
        let busy = BusyMachine::of_report(report);
        let busy = busy.map(|busy| Difference::Busy(run, busy));
        untrusted.into_iter().chain(unfinished).chain(busy)
    };
    let runs = [(OneRun::Old, old), (OneRun::New, new)].into_iter();
    runs.flat_map(doubts).collect()
}
