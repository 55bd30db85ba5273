//! The verdict in words, made by rules from measured data.

use std::collections::BTreeMap;

use layermark_model::{LayerStatus, Run};

use crate::{
    facts,
    number::{self, count, list},
    points::{self, Kind},
    reasons::stem,
    types::{DurabilityVerdict, Estimate, ResultRow, Statement, Verdict},
};

/// From this difference on an operation is told alone; below, they are told together. Microseconds.
const TOLD_ALONE: f64 = 1_000.0;
/// More than this many of a kind are counted, not listed.
const LISTED: usize = 3;

/// What words are made from.
pub struct Findings<'a> {
    /// The run.
    pub run: &'a Run,
    /// Results of all layers but the control.
    pub results: &'a [ResultRow],
}

impl<'a> Findings<'a> {
    /// Names of the layers set against native that have results.
    pub fn compared(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for row in self.results.iter().filter(|r| !self.is_baseline(&r.layer)) {
            if !names.contains(&row.layer.as_str()) {
                names.push(&row.layer);
            }
        }
        names
    }

    /// The baseline is the first layer of a run.
    pub fn is_baseline(&self, layer: &str) -> bool {
        self.run.layers.first().is_some_and(|l| l.name == layer)
    }

    /// A layer's results.
    pub fn rows(&self, layer: &str) -> Vec<&'a ResultRow> {
        self.results.iter().filter(|r| r.layer == layer).collect()
    }

    /// Kind of work of a result.
    pub fn kind(&self, row: &ResultRow) -> Kind {
        self.run
            .points
            .iter()
            .find(|p| p.label == row.label)
            .map_or(Kind::Names, points::kind)
    }

    /// The layer's data lies in memory.
    pub fn in_memory(&self, layer: &str) -> bool {
        self.run
            .layers
            .iter()
            .any(|l| l.name == layer && facts::in_memory(&l.facts))
    }

    /// Rows by what they do where all of that kind are among them, else by label.
    fn name_all(&self, all: &[&ResultRow], some: &[&ResultRow]) -> String {
        if some.len() == all.len() && some.len() > 1 {
            return format!("all {} operations", some.len());
        }
        let tally = |rows: &[&ResultRow]| {
            rows.iter()
                .fold(BTreeMap::<Kind, usize>::new(), |mut n, r| {
                    *n.entry(self.kind(r)).or_default() += 1;
                    n
                })
        };
        let (whole, part) = (tally(all), tally(some));
        let mut names: Vec<String> = Vec::new();
        for (kind, n) in &part {
            if whole.get(kind) == Some(n) && *n > 1 {
                names.push(kind.words().into());
            } else {
                names.extend(
                    some.iter()
                        .filter(|r| self.kind(r) == *kind)
                        .map(|r| quoted(r)),
                );
            }
        }
        list(&names)
    }
}

/// Labels hold commas and spaces: they stand in curly quotes within a sentence.
fn quoted(row: &ResultRow) -> String {
    format!("\u{201c}{}\u{201d}", row.label)
}

fn labels(rows: &[&ResultRow]) -> String {
    let mut names: Vec<String> = rows.iter().take(LISTED).map(|r| quoted(r)).collect();
    if rows.len() > LISTED {
        names.push(format!("{} more", rows.len() - LISTED));
    }
    list(&names)
}

/// A sentence for each layer.
pub fn verdicts(f: &Findings) -> Vec<Statement> {
    f.compared()
        .into_iter()
        .map(|layer| sentence(f, layer))
        .collect()
}

fn sentence(f: &Findings, layer: &str) -> Statement {
    let all = f.rows(layer);
    let having = |v: Verdict| -> Vec<&ResultRow> {
        all.iter()
            .copied()
            .filter(|r| r.verdict == v && r.trials > 0)
            .collect()
    };
    let mut clauses = Vec::new();
    clauses.extend(same(f, &all, &having(Verdict::Same)));
    clauses.extend(slower(f, &all, &having(Verdict::Slower)));
    clauses.extend(faster(f, &all, &having(Verdict::Faster)));
    clauses.extend(silent_flush(&all));
    clauses.extend(undecided(&having(Verdict::Undecided)));
    clauses.extend(untrusted(&having(Verdict::Untrusted)));
    let failed: Vec<&ResultRow> = all.iter().copied().filter(|r| r.trials == 0).collect();
    if !failed.is_empty() {
        clauses.push(format!("failed at {}", labels(&failed)));
    }
    let evidence = all.iter().map(|r| r.id.clone()).collect();
    Statement {
        layer: layer.into(),
        text: format!("`{layer}` {}.", clauses.join("; ")),
        evidence,
    }
}

fn hull(rows: &[&ResultRow]) -> Option<[f64; 2]> {
    let spans = rows.iter().filter_map(|r| r.ratio?.interval);
    spans.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
}

fn same(f: &Findings, all: &[&ResultRow], rows: &[&ResultRow]) -> Option<String> {
    let span = hull(rows)?;
    Some(format!(
        "is the same as native for {} ({})",
        f.name_all(all, rows),
        number::ratio_span(span)
    ))
}

fn because(row: &ResultRow) -> String {
    row.reasons
        .first()
        .map(|r| format!(": {r}"))
        .unwrap_or_default()
}

fn slower(f: &Findings, all: &[&ResultRow], rows: &[&ResultRow]) -> Vec<String> {
    let extra = |r: &ResultRow| r.extra_us.map_or(0.0, |e| e.estimate);
    let mut ordered = rows.to_vec();
    ordered.sort_by(|a, b| extra(b).total_cmp(&extra(a)));
    let (large, small): (Vec<&ResultRow>, Vec<&ResultRow>) =
        ordered.into_iter().partition(|r| extra(r) >= TOLD_ALONE);
    let mut clauses: Vec<String> = large.iter().take(LISTED).map(|r| costs_more(r)).collect();
    if large.len() > LISTED {
        clauses.push(format!("is slower at {}", labels(&large[LISTED..])));
    }
    // Operations slower for one reason are one fact.
    for (reason, group) in by_reason(&small) {
        clauses.push(adds(&f.name_all(all, &group), &group, &reason));
    }
    clauses
}

fn costs_more(row: &ResultRow) -> String {
    let extra = row
        .extra_us
        .map(|e| number::time_with(&e))
        .unwrap_or_default();
    let times = row
        .ratio
        .map(|r| format!(", {} times native's time", number::ratio(r.estimate)))
        .unwrap_or_default();
    format!(
        "costs {extra} more at {}{times}{}",
        quoted(row),
        because(row)
    )
}

fn adds(names: &str, group: &[&ResultRow], reason: &str) -> String {
    let tail = if reason.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    };
    if let [row] = group
        && let (Some(extra), Some(ratio)) = (row.extra_us, row.ratio)
    {
        let (time, ratio) = (number::time_with(&extra), number::ratio_with(&ratio));
        return format!("adds {time} an operation to {names}, {ratio} native's time{tail}");
    }
    let span = |pick: fn(&ResultRow) -> Option<Estimate>| {
        let values = group.iter().filter_map(|r| pick(r)).map(|e| e.estimate);
        values
            .map(|v| [v, v])
            .reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
            .unwrap_or([0.0, 0.0])
    };
    let (extra, ratios) = (span(|r| r.extra_us), span(|r| r.ratio));
    format!(
        "adds {} an operation to {names} ({}x native's time){tail}",
        number::time_span(extra),
        number::ratio_span(ratios)
    )
}

/// Groups rows by their first reason, in the order of first appearance.
fn by_reason<'a>(rows: &[&'a ResultRow]) -> Vec<(String, Vec<&'a ResultRow>)> {
    let mut groups: Vec<(String, Vec<&ResultRow>)> = Vec::new();
    for row in rows {
        let reason = row.reasons.first().cloned().unwrap_or_default();
        match groups.iter_mut().find(|(r, _)| stem(r) == stem(&reason)) {
            Some((_, group)) => group.push(row),
            None => groups.push((reason, vec![row])),
        }
    }
    groups
}

fn faster(f: &Findings, all: &[&ResultRow], rows: &[&ResultRow]) -> Vec<String> {
    by_reason(rows)
        .into_iter()
        .map(|(reason, group)| {
            let gains: Vec<f64> = group
                .iter()
                .filter_map(|r| r.ratio.map(|e| 1.0 / e.estimate))
                .collect();
            let (low, high) = gains
                .iter()
                .fold((f64::MAX, 0f64), |(l, h), g| (l.min(*g), h.max(*g)));
            let gain = if group.len() == 1 {
                number::ratio(high)
            } else {
                format!("{} to {}", number::ratio(low), number::ratio(high))
            };
            let skips = group
                .iter()
                .any(|r| r.durability.verdict == DurabilityVerdict::Absorbed);
            let warning = if skips {
                ": keep no data there that has to survive a power cut"
            } else {
                ""
            };
            let joint = if reason == crate::reasons::NONE {
                ", and"
            } else {
                " because"
            };
            format!(
                "is {gain} times as fast as native at {}{joint} {reason}{warning}",
                f.name_all(all, &group)
            )
        })
        .collect()
}

/// A flush that is skipped is told even where it wins no time.
fn silent_flush(all: &[&ResultRow]) -> Option<String> {
    let rows: Vec<&ResultRow> = all
        .iter()
        .copied()
        .filter(|r| {
            r.durability.verdict == DurabilityVerdict::Absorbed && r.verdict != Verdict::Faster
        })
        .collect();
    let first = rows.first()?;
    let proof = first.durability.because.clone().unwrap_or_default();
    Some(format!("skips the flush at {} ({proof})", labels(&rows)))
}

fn undecided(rows: &[&ResultRow]) -> Vec<String> {
    let (drifting, rest): (Vec<&ResultRow>, Vec<&ResultRow>) =
        rows.iter().partition(|r| r.steady == Some(false));
    let (wide, short): (Vec<&ResultRow>, Vec<&ResultRow>) = rest
        .into_iter()
        .partition(|r| r.ratio.is_some_and(|e| e.interval.is_some()));
    let mut clauses: Vec<String> = wide
        .iter()
        .take(LISTED)
        .map(|r| format!("is not decided at {} ({})", quoted(r), known(r)))
        .collect();
    if wide.len() > LISTED {
        clauses.push(format!(
            "is not decided at {} either",
            labels(&wide[LISTED..])
        ));
    }
    if !short.is_empty() {
        let more = short
            .iter()
            .filter_map(|r| r.more_blocks)
            .max()
            .unwrap_or(0);
        clauses.push(format!(
            "has too few blocks for a verdict on {} ({} missing)",
            labels(&short),
            count(more, "more block")
        ));
    }
    if !drifting.is_empty() {
        clauses.push(format!(
            "has no steady state at {}, so no single number",
            labels(&drifting)
        ));
    }
    clauses
}

/// What is known of an undecided result: `between 4 % faster and 9 % slower`.
pub fn known(row: &ResultRow) -> String {
    let Some([low, high]) = row.ratio.and_then(|r| r.interval) else {
        return row
            .more_blocks
            .map(|n| format!("no interval yet, {} missing", count(n, "block")))
            .unwrap_or_default();
    };
    let side = |r: f64| {
        if r < 1.0 {
            format!("{} faster", number::percent(1.0 - r))
        } else {
            format!("{} slower", number::percent(r - 1.0))
        }
    };
    let more = row
        .more_blocks
        .map(|n| format!("; about {} would settle it", count(n, "more block")))
        .unwrap_or_default();
    format!("between {} and {}{more}", side(low), side(high))
}

fn untrusted(rows: &[&ResultRow]) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&ResultRow>)> = Vec::new();
    for row in rows {
        let why = row.untrusted.as_deref().unwrap_or_default();
        match groups.iter_mut().find(|(w, _)| *w == why) {
            Some((_, group)) => group.push(row),
            None => groups.push((why, vec![row])),
        }
    }
    groups
        .into_iter()
        .map(|(why, group)| format!("is not to be trusted at {} ({why})", labels(&group)))
        .collect()
}

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
    if compared.iter().all(|r| {
        r.ratio.is_none_or(|e| e.interval.is_none())
            && r.steady != Some(false)
            && r.verdict == Verdict::Undecided
    }) {
        let blocks = compared.iter().map(|r| r.blocks).max().unwrap_or(0);
        let need = layermark_stats::min_blocks(crate::results::LEVEL).unwrap_or(6);
        return Some(format!(
            "too little was measured for a verdict: {} of at least {need}",
            count(blocks, "block")
        ));
    }
    None
}

fn gist(f: &Findings) -> String {
    let (mut free, mut dear, mut skips, mut memory, mut open) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for layer in f.compared() {
        let rows = f.rows(layer);
        let has = |v: Verdict| rows.iter().any(|r| r.verdict == v);
        if rows
            .iter()
            .any(|r| r.durability.verdict == DurabilityVerdict::Absorbed)
        {
            skips.push(format!("`{layer}`"));
        }
        let slowest = rows
            .iter()
            .filter(|r| r.verdict == Verdict::Slower)
            .filter_map(|r| Some((r.ratio?.estimate, *r)));
        if f.in_memory(layer) {
            memory.push(format!("`{layer}`"));
        } else if let Some(worst) = slowest.max_by(|a, b| a.0.total_cmp(&b.0)) {
            dear.push((layer, worst));
        } else if has(Verdict::Same) && !has(Verdict::Untrusted) && !has(Verdict::Faster) {
            free.push(format!("`{layer}`"));
        } else if !has(Verdict::Faster) {
            open.push(format!("`{layer}`"));
        }
    }
    dear.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    let verb = |names: &[String], one: &str, many: &str| {
        format!(
            "{} {}",
            some_of(names),
            if names.len() == 1 { one } else { many }
        )
    };
    let mut parts = Vec::new();
    if !free.is_empty() {
        parts.push(verb(
            &free,
            "costs nothing that could be measured",
            "cost nothing that could be measured",
        ));
    }
    parts.extend(dearest(&dear));
    if !skips.is_empty() {
        parts.push(verb(&skips, "skips the flush", "skip the flush"));
    }
    if !memory.is_empty() {
        parts.push(verb(
            &memory,
            "is memory, not a disk",
            "are memory, not disks",
        ));
    }
    if parts.is_empty() && !open.is_empty() {
        parts.push(format!("nothing is decided yet about {}", some_of(&open)));
    }
    if parts.is_empty() {
        parts.push(verb(
            &f.compared()
                .iter()
                .map(|l| format!("`{l}`"))
                .collect::<Vec<_>>(),
            "is faster than native, for the reasons below",
            "are faster than native, for the reasons below",
        ));
    }
    parts.join("; ")
}

fn some_of(names: &[String]) -> String {
    if names.len() > LISTED {
        format!("{} layers", names.len())
    } else {
        list(names)
    }
}

fn dearest(dear: &[(&str, (f64, &ResultRow))]) -> Option<String> {
    let (layer, (ratio, row)) = dear.first()?;
    let most = format!(
        "up to {} times as long as native ({})",
        number::sig3(*ratio),
        row.label
    );
    Some(match dear.len() {
        1 => format!("`{layer}` takes {most}"),
        n => format!("of {n} layers that cost time `{layer}` is the dearest, taking {most}"),
    })
}
