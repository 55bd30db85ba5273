//! One sentence for the whole run.

use layermark_model::LayerStatus;

use crate::{
    analysis::summary::{Findings, LISTED},
    code_span::code,
    number::{self, count, list, times},
    types::{AlternativeRow, DurabilityVerdict, ResultRow, Verdict},
};

/// An interval that misses 1 by less than this share says nothing that matters to anybody.
const ALL_BUT: f64 = 0.01;
/// Longer sentences are not taken in at a glance.
const WORDS: usize = 20;

/// One sentence for the whole run, of at most 20 words.
pub fn headline(f: &Findings, control_failed: bool) -> String {
    let mut parts = choices(f)
        .or_else(|| nothing(f).map(|text| vec![text]))
        .unwrap_or_else(|| gist(f));
    if f.baseline_skips().next().is_some() {
        parts.insert(0, "native skips fsync: trust no ratio of a flush".into());
    }
    if control_failed {
        parts.insert(0, "native differed from itself: trust no figure".into());
    }
    let text = fitted(parts);
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars).collect()
}

/// The most important parts that have room together, most important first.
fn fitted(parts: Vec<String>) -> String {
    let mut room = WORDS;
    let mut kept: Vec<String> = Vec::new();
    for part in parts {
        let part = if words(&part) > room {
            // Without the label, which may be long.
            part.split(" (").next().unwrap_or_default().to_owned()
        } else {
            part
        };
        if words(&part) <= room {
            room -= words(&part);
            kept.push(part);
        }
    }
    kept.join("; ")
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// How alternatives stand to the first of them, where no layer is set against native.
fn choices(f: &Findings) -> Option<Vec<String>> {
    let one_layer = f.results.iter().all(|r| f.is_baseline(&r.layer));
    if !one_layer || f.alternatives.is_empty() {
        return None;
    }
    let label = |id: &str| {
        let row = f.results.iter().find(|r| r.id == id);
        row.map(|r| code(&r.label)).unwrap_or_default()
    };
    let sentence = |a: &AlternativeRow| {
        let (here, there) = (label(&a.result), label(&a.reference));
        let probably = if a.probably.is_some() {
            "probably "
        } else {
            ""
        };
        let ratio = a.ratio.as_ref().map(times);
        match (a.probably.unwrap_or(a.verdict), ratio) {
            (Verdict::Slower | Verdict::Faster, Some(ratio)) => {
                Some(format!("{here} {probably}takes {ratio} as long as {there}"))
            }
            (Verdict::Same, _) => Some(format!("{here} takes as long as {there}")),
            _ => None,
        }
    };
    let mut parts: Vec<String> = f.alternatives.iter().filter_map(sentence).collect();
    parts.retain(|part| words(part) <= WORDS);
    if parts.is_empty() {
        let mut kinds: Vec<(&str, usize)> = Vec::new();
        for word in f.alternatives.iter().map(AlternativeRow::word) {
            match kinds.iter_mut().find(|(known, _)| *known == word) {
                Some((_, n)) => *n += 1,
                None => kinds.push((word, 1)),
            }
        }
        let kinds: Vec<String> = kinds
            .iter()
            .map(|(word, n)| format!("{n} {word}"))
            .collect();
        parts.push(format!("compared with the first one: {}", list(&kinds)));
    }
    Some(parts)
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
        return Some("other programs used the CPUs in every trial: no figure is certain".into());
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
    /// Slower somewhere: the largest ratio.
    Slower(f64, &'a ResultRow),
    /// Probably slower somewhere, and nowhere certainly.
    ProbablySlower(f64, &'a ResultRow),
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
        Standing::Slower(ratio, row)
    } else if let Some((ratio, row)) = worst(&|r| r.probably == Some(Verdict::Slower)) {
        Standing::ProbablySlower(ratio, row)
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

fn gist(f: &Findings) -> Vec<String> {
    let mut near = Near::new();
    let (mut free, mut skips, mut memory, mut faster) = (vec![], vec![], vec![], vec![]);
    let (mut slower, mut probably, mut open) = (vec![], vec![], vec![]);
    for layer in f.compared() {
        // What rests on disturbed trials alone is told below, never here.
        let rows = f.rows(layer).into_iter().filter(|r| !r.disturbed());
        let rows: Vec<&ResultRow> = rows.collect();
        let name = code(layer);
        let absorbed = |r: &&ResultRow| r.durability.verdict == DurabilityVerdict::Absorbed;
        if rows.iter().any(absorbed) {
            skips.push(name.clone());
        }
        if rows.is_empty() {
            continue;
        }
        match standing(f, layer, &rows) {
            Standing::Memory => memory.push(name),
            Standing::Slower(ratio, row) => slower.push((ratio, row)),
            Standing::ProbablySlower(ratio, row) => probably.push((ratio, row)),
            Standing::Free => free.push(name),
            Standing::Near(same, all) => near.push((name, same, all)),
            Standing::Faster => faster.push(name),
            Standing::Open => open.push(name),
        }
    }
    let known = [
        slowest(slower),
        said(&skips, "skips fsync", "skip fsync"),
        said(&free, "costs nothing measurable", "cost nothing measurable"),
        within(&near, f.run.plan.delta),
        said(&memory, "is memory, not a disk", "are memory, not disks"),
    ];
    let known: Vec<String> = known.into_iter().flatten().collect();
    if !known.is_empty() {
        // Of costs that are only probable nothing is told beside what is certain.
        return known;
    }
    let reasons = "faster than native, for the reasons below";
    let or = probable(probably)
        .or_else(|| said(&faster, &format!("is {reasons}"), &format!("are {reasons}")))
        .or_else(|| said(&open, "is too noisy to tell", "are too noisy to tell"));
    or.into_iter().collect()
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

/// The layer with the largest ratio, and where.
fn slowest(mut slower: Vec<(f64, &ResultRow)>) -> Option<String> {
    slower.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (_, row) = slower.first()?;
    let verb = if slower.len() > 1 {
        "is slowest, taking"
    } else {
        "takes"
    };
    Some(format!("{} {verb} {}", code(&row.layer), up_to(row)))
}

/// The same where no cost is certain.
fn probable(mut slower: Vec<(f64, &ResultRow)>) -> Option<String> {
    slower.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (_, row) = slower.first()?;
    let most = up_to(row);
    Some(format!(
        "no cost is certain; {} is probably slowest, taking {most}",
        code(&row.layer)
    ))
}

fn up_to(row: &ResultRow) -> String {
    let times = row.ratio.as_ref().map(times).unwrap_or_default();
    format!("up to {times} native's time ({})", row.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headline_keeps_what_has_room_and_drops_a_long_label() {
        let parts = |all: &[&str]| all.iter().map(|p| (*p).to_owned()).collect();
        let long = "`a` is slowest, taking up to 12x native's time (a label that has far more words than anybody wants to read in one line)";
        let told = fitted(parts(&[
            long,
            "`b` skips fsync",
            "`c` costs nothing measurable",
        ]));
        assert_eq!(
            told,
            "`a` is slowest, taking up to 12x native's time; `b` skips fsync; `c` costs nothing measurable"
        );
        assert!(words(&told) <= WORDS);
        let last = fitted(parts(&["one two three", &"x ".repeat(18), "four"]));
        assert_eq!(last, "one two three; four");
    }
}
