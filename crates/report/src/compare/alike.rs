//! Whether two runs can be compared: machine, kernel, version, work, and changes of the machine
//! itself.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use layermark_model::{Machine, RunStatus};

use super::words;
use crate::{
    analysis::sweep,
    number::{self, list},
    statements::caveats::BusyMachine,
    types::{LeftOut, Report, ResultRow, TrustItem, TrustState, Verdict},
    views::rows::status,
    words::{Names, Words},
};

/// The checks of whether two runs are alike.
pub fn trust(
    old: &Report,
    new: &Report,
    rows: &[ResultRow],
    baseline: Option<&str>,
) -> Vec<TrustItem> {
    let (a, b) = (&old.machine, &new.machine);
    let version = differs("version", &old.run_version, &new.run_version);
    vec![
        item("machine", "Same machine", &machine(a, b)),
        item(
            "kernel",
            "Same kernel",
            &differs("kernel", &a.kernel, &b.kernel),
        ),
        item("system", "Same system", &system(a, b)),
        item("version", "Same layermark", &version),
        item("work", "Same work", &work(old, new)),
        item("set-ups", "Set up more than once", &once(old, new)),
        item("runs", "Runs to be trusted", &doubtful(old, new)),
        drift(rows, baseline),
    ]
}

fn item(id: &str, title: &str, differences: &[String]) -> TrustItem {
    let ok = differences.is_empty();
    TrustItem {
        id: id.into(),
        title: title.into(),
        state: if ok { TrustState::Ok } else { TrustState::Warn },
        text: if ok {
            "yes".into()
        } else {
            differences.join("; ")
        },
    }
}

fn differs(what: &str, old: &str, new: &str) -> Vec<String> {
    let text = || format!("{what} {} then, {} now", named(old), named(new));
    let text = (old != new).then(text).into_iter();
    text.map(|text| text.trim_start().to_owned()).collect()
}

fn named(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

fn machine(a: &Machine, b: &Machine) -> Vec<String> {
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

fn system(a: &Machine, b: &Machine) -> Vec<String> {
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
fn by_work<'a>(report: &'a Report, others: &BTreeSet<&str>) -> BTreeMap<String, &'a str> {
    let own = report.results.iter();
    let own = own.filter(|r| !others.contains(&*r.label));
    own.map(|r| (sweep::work_key(&r), r.label.as_str()))
        .collect()
}

/// Longer lists are only counted.
const LISTED: usize = 4;

fn names(all: &[&str]) -> String {
    let mut names: Vec<String> = all.iter().take(LISTED).map(|n| format!("`{n}`")).collect();
    if all.len() > LISTED {
        names.push(format!("{} more", all.len() - LISTED));
    }
    list(&names)
}

fn work(old: &Report, new: &Report) -> Vec<String> {
    let mut found = Vec::new();
    let kinds = [
        ("layer", layers(old), layers(new)),
        ("point", points(old), points(new)),
    ];
    for (what, then, now) in &kinds {
        for (run, one) in [("old", only(then, now)), ("new", only(now, then))] {
            if !one.is_empty() {
                let many = if one.len() > 1 { "s" } else { "" };
                found.push(format!(
                    "{what}{many} only in the {run} run: {}",
                    names(&one)
                ));
            }
        }
    }
    found.extend(other_baseline(old, new));
    found.extend(other_work(old, new));
    found.extend(holes(old, new));
    found
}

/// The baselines, if they differ. Then times are compared, because ratios to two layers are not alike.
fn other_baseline(old: &Report, new: &Report) -> Option<String> {
    let (then, now) = (old.baseline(), new.baseline());
    (then != now).then(|| {
        format!("baseline `{then}` then, `{now}` now, so times are compared, not ratios to it")
    })
}

/// Results of one run only, although both runs have the layer and the point.
fn holes(old: &Report, new: &Report) -> Option<String> {
    let has = |report: &Report, row: &ResultRow| {
        let mut rows = report.results.iter();
        rows.any(|r| r.layer == row.layer && r.label == row.label && r.op_us.is_some())
    };
    let known = |report: &Report, row: &ResultRow| {
        layers(report).contains(&*row.layer) && points(report).contains(&*row.label)
    };
    let of = |here: &'static str, one: &Report, other: &Report| {
        let measured = one.results.iter().filter(|r| r.op_us.is_some());
        let mut holes = measured.filter(|r| known(other, r) && !has(other, r));
        let first = holes.next()?;
        Some(format!(
            "{} only in the {here} run, first `{}` in `{}`",
            number::count(1 + holes.count(), "result"),
            first.label,
            first.layer
        ))
    };
    let both = [of("old", old, new), of("new", new, old)];
    let both: Vec<String> = both.into_iter().flatten().collect();
    (!both.is_empty()).then(|| both.join("; "))
}

fn first<'a>(report: &'a Report, label: &str) -> Option<&'a ResultRow> {
    report.results.iter().find(|r| r.label == label)
}

/// Points of one name that are different work, and the difference in the first of them.
fn other_work(old: &Report, new: &Report) -> Option<String> {
    let both = points(new).into_iter().filter_map(|label| {
        let (then, now) = (first(old, label)?, first(new, label)?);
        Some((label, then, now, sweep::other_work(then, now)?))
    });
    let both: Vec<_> = both.collect();
    let (_, then, now, keys) = both.first()?;
    let value = |row: &ResultRow, key: &str| row.point[key].to_string();
    let other = |key: &String| format!("{key} {} then, {} now", value(then, key), value(now, key));
    let why: Vec<String> = keys.iter().map(other).collect();
    let why = if why.is_empty() {
        "another workload".into()
    } else {
        list(&why)
    };
    let labels: Vec<&str> = both.iter().map(|(label, ..)| *label).collect();
    Some(format!(
        "of one name and other work: {} ({why})",
        names(&labels)
    ))
}

/// Runs whose layers were set up only once: their intervals exclude differences between setups.
fn once(old: &Report, new: &Report) -> Vec<String> {
    let one = |report: &Report| report.trials.iter().all(|t| t.session == 0);
    let runs: Vec<&str> = [("the old run", one(old)), ("the new run", one(new))]
        .into_iter()
        .filter_map(|(run, once)| once.then_some(run))
        .collect();
    let text = || {
        format!(
            "layers were set up once in {}: what differs between set-ups is not in the intervals; \
             --sessions 3 tells it",
            list(&runs)
        )
    };
    (!runs.is_empty()).then(text).into_iter().collect()
}

fn doubtful(old: &Report, new: &Report) -> Vec<String> {
    let doubts = |(run, report): (&str, &Report)| {
        let untrusted = (!report.trustworthy()).then(|| {
            let (id, store) = (&report.run, &report.store);
            format!("the {run} run is not trustworthy: layermark report {id}{store}")
        });
        let unfinished = (report.status != RunStatus::Done)
            .then(|| format!("the {run} run is not complete ({})", status(report)));
        let names = Names {
            baseline: report.baseline(),
        };
        let busy = BusyMachine::of_report(report).map(|busy| busy.words(&names));
        let busy = busy.map(|why| format!("the {run} run had other programs beside it: {why}"));
        untrusted.into_iter().chain(unfinished).chain(busy)
    };
    let runs = [("old", old), ("new", new)].into_iter();
    runs.flat_map(doubts).collect()
}

/// How the machine itself changed.
fn drift(rows: &[ResultRow], baseline: Option<&str>) -> TrustItem {
    let own: Vec<&ResultRow> = rows
        .iter()
        .filter(|r| baseline == Some(&*r.layer))
        .collect();
    let changed = own
        .iter()
        .any(|r| matches!(r.leaning(), Verdict::Slower | Verdict::Faster));
    let same = own.iter().filter(|r| r.verdict == Verdict::Same).count();
    let (state, text) = match words::drift(rows, baseline) {
        _ if own.is_empty() => (
            TrustState::None,
            "no baseline is in both runs: a change of the machine is in every ratio".into(),
        ),
        // What is not known to have changed may have.
        Some(text) if changed || 2 * same < own.len() => (TrustState::Warn, text),
        Some(text) => (TrustState::Ok, text),
        None => (TrustState::Ok, "the machine itself did not change".into()),
    };
    TrustItem {
        id: "drift".into(),
        title: "The machine itself".into(),
        state,
        text,
    }
}

/// What only one of the runs has.
pub fn left_out(old: &Report, new: &Report) -> Vec<LeftOut> {
    let (then, now) = (layers(old), layers(new));
    let runs = [("old", only(&then, &now)), ("new", only(&now, &then))];
    let each = runs.into_iter().flat_map(|(run, names)| {
        let out = move |name: &str| LeftOut {
            layer: name.into(),
            point: None,
            reason: format!("only in the {run} run"),
            hint: None,
        };
        names.into_iter().map(out).collect::<Vec<_>>()
    });
    each.collect()
}
