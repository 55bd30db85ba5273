//! Whether two runs can be compared: machine, kernel, version, work, and changes of the machine
//! itself.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use layermark_model::{Machine, RunStatus};

use crate::{
    facts::sweep,
    number,
    statements::{
        self,
        alike::{Difference, Holes, NotInBoth, OneRun},
        caveats::BusyMachine,
        compare::Drifted,
    },
    types::{LeftOut, Report, ResultRow, TrustItem, TrustState},
    views::rows::status,
    words::{self, NO_NAMES, Names, Text, Words},
};

/// The checks of whether two runs are alike.
pub fn trust(
    old: &Report,
    new: &Report,
    rows: &[ResultRow],
    baseline: Option<&str>,
) -> Vec<TrustItem> {
    let (a, b) = (&old.machine, &new.machine);
    let names = Names {
        baseline: baseline.unwrap_or("the baseline"),
    };
    let version = differs("version", &old.run_version, &new.run_version);
    let kernel = differs("kernel", &a.kernel, &b.kernel);
    let all = [
        ("machine", "Same machine", machine(a, b)),
        ("kernel", "Same kernel", kernel),
        ("system", "Same system", system(a, b)),
        ("version", "Same layermark", version),
        ("work", "Same work", work(old, new)),
        ("set-ups", "Set up more than once", once(old, new)),
        ("runs", "Runs to be trusted", doubtful(old, new)),
    ];
    let all = all.map(|(id, title, found)| item(id, title, &found, &names));
    let drift = drift(rows, baseline, &names);
    all.into_iter().chain([drift]).collect()
}

fn item(id: &str, title: &str, differences: &[Difference], names: &Names) -> TrustItem {
    let ok = differences.is_empty();
    let words = differences.iter().map(|d| d.words(names));
    TrustItem {
        id: id.into(),
        title: title.into(),
        state: if ok { TrustState::Ok } else { TrustState::Warn },
        text: if ok {
            "yes".into()
        } else {
            Text::joined(words, "; ").into()
        },
    }
}

fn differs(what: &'static str, old: &str, new: &str) -> Vec<Difference<'static>> {
    let values = || Difference::Values {
        what,
        old: old.into(),
        new: new.into(),
    };
    (old != new).then(values).into_iter().collect()
}

fn machine(a: &Machine, b: &Machine) -> Vec<Difference<'static>> {
    let then = number::bytes(a.memory as f64);
    let now = if a.same_memory(b) {
        then.clone()
    } else {
        number::bytes(b.memory as f64)
    };
    let hypervisor = |m: &Machine| if m.hypervisor { "yes" } else { "no" };
    [
        differs("CPU", &a.cpu, &b.cpu),
        differs("CPUs:", &a.cpus.to_string(), &b.cpus.to_string()),
        differs("memory", &then, &now),
        differs("hypervisor:", hypervisor(a), hypervisor(b)),
    ]
    .concat()
}

fn system(a: &Machine, b: &Machine) -> Vec<Difference<'static>> {
    [
        differs("", &a.os, &b.os),
        differs("directory on", &a.base, &b.base),
        differs("clock source", &a.clocksource, &b.clocksource),
        differs("privilege:", &a.privilege, &b.privilege),
    ]
    .concat()
}

/// Names in one list only.
fn only<'a>(here: &BTreeSet<&'a str>, there: &BTreeSet<&'a str>) -> Vec<&'a str> {
    here.difference(there).copied().collect()
}

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

/// The older run with the labels of the newer one: versions may word the label of the same work differently.
pub fn renamed<'a>(old: &'a Report, new: &Report) -> Cow<'a, Report> {
    let (then, now) = (points(old), points(new));
    let mut was = by_work(old, &now);
    let is = by_work(new, &then).into_iter();
    let labels = is.filter_map(|(work, label)| Some((was.remove(&work)?, label)));
    let labels: BTreeMap<&str, &str> = labels.collect();
    if labels.is_empty() {
        return Cow::Borrowed(old);
    }
    let mut renamed = old.clone();
    for row in &mut renamed.results {
        if let Some(label) = labels.get(&*row.label) {
            row.label = String::from(*label);
        }
    }
    Cow::Owned(renamed)
}

/// Labels that the other run does not have, by their work.
fn by_work<'a>(report: &'a Report, others: &BTreeSet<&str>) -> BTreeMap<(String, String), &'a str> {
    let own = report.results.iter();
    let own = own.filter(|r| !others.contains(&*r.label));
    own.map(|r| (sweep::work_key(&r), r.label.as_str()))
        .collect()
}

fn work<'a>(old: &'a Report, new: &'a Report) -> Vec<Difference<'a>> {
    let only = |then: BTreeSet<&'a str>, now: BTreeSet<&'a str>| {
        let both = [
            (OneRun::Old, only(&then, &now)),
            (OneRun::New, only(&now, &then)),
        ];
        both.into_iter().filter(|(_, names)| !names.is_empty())
    };
    let layers = only(layers(old), layers(new)).map(|(run, names)| Difference::Layers(run, names));
    let points = only(points(old), points(new)).map(|(run, names)| Difference::Points(run, names));
    layers
        .chain(points)
        .chain(other_baseline(old, new))
        .chain(other_work(old, new))
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
        Some((label, then, now, sweep::other_work(then, now)?))
    });
    let both: Vec<_> = both.collect();
    let (_, then, now, keys) = both.first()?;
    let values = |key: &String| [then, now].map(|row| row.point[key].clone());
    let keys = keys.iter().map(|key| (key.clone(), values(key))).collect();
    let labels = both.iter().map(|(label, ..)| *label).collect();
    Some(Difference::OtherWork(labels, keys))
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
        let unfinished = unfinished.then(|| Difference::Unfinished(run, status(report)));
        let busy = BusyMachine::of_report(report);
        let busy = busy.map(|busy| Difference::Busy(run, busy));
        untrusted.into_iter().chain(unfinished).chain(busy)
    };
    let runs = [(OneRun::Old, old), (OneRun::New, new)].into_iter();
    runs.flat_map(doubts).collect()
}

/// How the machine itself changed.
fn drift(rows: &[ResultRow], baseline: Option<&str>, names: &Names) -> TrustItem {
    let (state, text) = match statements::compare::drift(rows, baseline) {
        None => (TrustState::None, words::compare::no_baseline()),
        Some(drift) => {
            // What is not known to have changed may have.
            let known = matches!(drift.how, Drifted::Same(same) if 2 * same >= drift.of);
            let state = if known {
                TrustState::Ok
            } else {
                TrustState::Warn
            };
            (state, drift.words(names))
        }
    };
    TrustItem {
        id: "drift".into(),
        title: "The machine itself".into(),
        state,
        text: text.into(),
    }
}

/// What only one of the runs has.
pub fn left_out(old: &Report, new: &Report) -> Vec<LeftOut> {
    let (then, now) = (layers(old), layers(new));
    let runs = [
        (OneRun::Old, only(&then, &now)),
        (OneRun::New, only(&now, &then)),
    ];
    let each = runs.into_iter().flat_map(|(run, names)| {
        let out = move |name: &str| LeftOut {
            layer: name.into(),
            point: None,
            reason: NotInBoth(run).words(&NO_NAMES).into(),
            hint: None,
        };
        names.into_iter().map(out).collect::<Vec<_>>()
    });
    each.collect()
}
