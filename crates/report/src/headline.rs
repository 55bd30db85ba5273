//! One sentence for the whole run.

use layermark_model::LayerStatus;

use crate::{
    number::{self, count, list},
    types::{DurabilityVerdict, ResultRow, Verdict},
    words::{Findings, LISTED},
};

/// An interval that misses 1 by less than this share says nothing that matters to anybody.
const ALL_BUT: f64 = 0.01;

/// One sentence for the whole run.
pub fn headline(f: &Findings, control_failed: bool) -> String {
    let text = match nothing(f) {
        Some(text) => text,
        None => gist(f),
    };
    let mut chars = text.chars();
    let text: String = chars
        .next()
        .map(|c| c.to_uppercase().chain(chars).collect())
        .unwrap_or_default();
    if control_failed {
        format!("{text}; but native differed from itself, so trust no figure here")
    } else {
        text
    }
}

/// What to say when there is no verdict at all.
fn nothing(f: &Findings) -> Option<String> {
    let ready = f
        .run
        .layers
        .iter()
        .filter(|l| l.status == LayerStatus::Ready && !l.control)
        .count();
    if !f.run.layers.is_empty() && ready == 0 {
        return Some("no layer could be set up, so nothing was measured".into());
    }
    if f.results.iter().all(|r| r.trials == 0) {
        return Some("nothing was measured yet".into());
    }
    let compared: Vec<&ResultRow> = f
        .results
        .iter()
        .filter(|r| !f.is_baseline(&r.layer))
        .collect();
    if compared.is_empty() {
        return Some("only native was measured, so there is nothing to compare".into());
    }
    if compared.iter().all(|r| r.verdict == Verdict::Descriptive) {
        return Some("nothing that a verdict was asked on was measured".into());
    }
    let measured = || compared.iter().filter(|r| r.trials > 0);
    if measured().count() > 0 && measured().all(|r| r.disturbed()) {
        return Some(
            "other programs used the CPUs during every trial, so no figure here is certain".into(),
        );
    }
    let asked = |r: &&&ResultRow| r.verdict != Verdict::Descriptive;
    if compared.iter().filter(asked).all(|r| {
        r.ratio.is_none_or(|e| e.interval.is_none())
            && r.steady != Some(false)
            && r.verdict == Verdict::Undecided
    }) {
        let blocks = compared.iter().map(|r| r.blocks).max().unwrap_or(0);
        let need = layermark_stats::MIN_BLOCKS;
        return Some(format!(
            "too little was measured for a verdict: {} of at least {need}",
            count(blocks, "block")
        ));
    }
    None
}

/// Where a layer stands, for the headline.
enum Standing<'a> {
    /// Its data lies in memory: its speed is not a disk's.
    Memory,
    /// Slower somewhere: the dearest result.
    Dear(f64, &'a ResultRow),
    /// The same, by its interval only.
    SeemsDear(f64, &'a ResultRow),
    /// Nothing tells it from native anywhere.
    Free,
    /// Within delta of native at so many of so many points, and nowhere slower or faster.
    Near(usize, usize),
    /// Faster somewhere and slower nowhere.
    Faster,
    /// None of these.
    Open,
}

fn standing<'a>(f: &Findings, layer: &str, rows: &[&'a ResultRow]) -> Standing<'a> {
    if f.in_memory(layer) {
        return Standing::Memory;
    }
    let has = |v: Verdict| rows.iter().filter(|r| r.verdict == v).count();
    let worst = |keep: &dyn Fn(&ResultRow) -> bool| {
        let costs = rows.iter().filter(|r| keep(r));
        let costs = costs.filter_map(|r| Some((r.ratio?.estimate, *r)));
        costs.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    if let Some((ratio, row)) = worst(&|r| r.verdict == Verdict::Slower) {
        Standing::Dear(ratio, row)
    } else if let Some((ratio, row)) = worst(&|r| r.probably == Some(Verdict::Slower)) {
        Standing::SeemsDear(ratio, row)
    } else if has(Verdict::Faster) > 0 {
        Standing::Faster
    } else if has(Verdict::Slower) > 0 {
        // By how much changed during the run: no number for a headline.
        Standing::Open
    } else if rows
        .iter()
        .all(|r| r.verdict == Verdict::Same && holds_one(r))
    {
        Standing::Free
    } else if has(Verdict::Same) * 2 > rows.len() {
        Standing::Near(has(Verdict::Same), rows.len())
    } else {
        Standing::Open
    }
}

/// Whether the interval leaves nothing that is worth telling: it holds 1, or all but.
fn holds_one(row: &ResultRow) -> bool {
    let interval = row.ratio.and_then(|e| e.interval);
    interval.is_some_and(|[low, high]| low <= 1.0 + ALL_BUT && high >= 1.0 - ALL_BUT)
}

/// Layers that are near native: at how many of how many points each.
type Near = Vec<(String, usize, usize)>;

fn within(near: &Near, delta: f64) -> Option<String> {
    let (_, same, all) = near.first()?;
    let names: Vec<String> = near.iter().map(|(name, ..)| name.clone()).collect();
    let points = if near.iter().all(|(_, s, a)| (s, a) == (same, all)) {
        format!("{same} of {}", count(*all, "point"))
    } else {
        "most points".into()
    };
    let within = format!("within {} of native at {points}", number::percent(delta));
    said(&names, &format!("is {within}"), &format!("are {within}"))
}

fn gist(f: &Findings) -> String {
    let mut near = Near::new();
    let (mut free, mut skips, mut memory, mut faster) = (vec![], vec![], vec![], vec![]);
    let (mut dear, mut seems, mut open) = (vec![], vec![], vec![]);
    for layer in f.compared() {
        // What rests on disturbed trials alone is told below, never here.
        let rows = f.rows(layer).into_iter().filter(|r| !r.disturbed());
        let rows: Vec<&ResultRow> = rows.collect();
        let name = format!("`{layer}`");
        let absorbed = |r: &&ResultRow| r.durability.verdict == DurabilityVerdict::Absorbed;
        if rows.iter().any(absorbed) {
            skips.push(name.clone());
        }
        if rows.is_empty() {
            continue;
        }
        match standing(f, layer, &rows) {
            Standing::Memory => memory.push(name),
            Standing::Dear(ratio, row) => dear.push((ratio, row)),
            Standing::SeemsDear(ratio, row) => seems.push((ratio, row)),
            Standing::Free => free.push(name),
            Standing::Near(same, all) => near.push((name, same, all)),
            Standing::Faster => faster.push(name),
            Standing::Open => open.push(name),
        }
    }
    let mut parts = Vec::new();
    parts.extend(said(
        &free,
        "costs nothing that could be measured",
        "cost nothing that could be measured",
    ));
    parts.extend(within(&near, f.run.plan.delta));
    parts.extend(dearest(&mut dear));
    if parts.is_empty() {
        parts.extend(seemingly(&mut seems));
    }
    parts.extend(said(&skips, "skips the flush", "skip the flush"));
    parts.extend(said(
        &memory,
        "is memory, not a disk",
        "are memory, not disks",
    ));
    if parts.is_empty() {
        parts.extend(said(
            &faster,
            "is faster than native, for the reasons below",
            "are faster than native, for the reasons below",
        ));
    }
    if parts.is_empty() {
        parts.extend(said(&open, "is not decided yet", "are not decided yet"));
    }
    parts.join("; ")
}

fn said(names: &[String], one: &str, many: &str) -> Option<String> {
    let verb = if names.len() == 1 { one } else { many };
    (!names.is_empty()).then(|| format!("{} {verb}", some_of(names)))
}

fn some_of(names: &[String]) -> String {
    if names.len() > LISTED {
        format!("{} layers", names.len())
    } else {
        list(names)
    }
}

/// The dearest layer and where.
fn dearest(dear: &mut [(f64, &ResultRow)]) -> Option<String> {
    dear.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (ratio, row) = dear.first()?;
    let most = format!(
        "up to {} times as long as native ({})",
        number::sig3(*ratio),
        row.label
    );
    Some(match dear.len() {
        1 => format!("`{}` takes {most}", row.layer),
        n => format!(
            "of {n} layers that cost time `{}` is the dearest, taking {most}",
            row.layer
        ),
    })
}

/// The same where no cost is certain.
fn seemingly(seems: &mut [(f64, &ResultRow)]) -> Option<String> {
    seems.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (ratio, row) = seems.first()?;
    let most = format!(
        "{} times as long as native ({})",
        number::sig3(*ratio),
        row.label
    );
    Some(format!(
        "no cost is certain, but `{}` is probably slowest, taking up to {most}",
        row.layer
    ))
}
