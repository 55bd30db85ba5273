//! The results. Every number has its raw value, so that it can be found in the JSON.

use maud::{Markup, html};

use super::{
    fold,
    text::{micro, rich},
};
use layermark_model::flags::CONTAMINATED;

use crate::{
    Estimate, LatencyUs, Report, ResultRow, Verdict,
    number::{self, Written},
    views::{
        overview::ratio_of,
        rows::{self, Numbers},
    },
};

const HEADS: [&str; 13] = [
    "Layer",
    "Verdict",
    "Ratio",
    "Difference",
    "Time an operation",
    "Baseline's",
    "Throughput",
    "Data came from, fsync",
    "p50",
    "p99",
    "CPU an operation",
    "Blocks",
    "Result",
];
/// Columns of numbers, which are aligned to the right.
const NUMBERS: [usize; 9] = [2, 3, 4, 5, 6, 8, 9, 10, 11];
/// Columns from this one on do not fit on paper.
const AUX: usize = 8;

pub fn section(report: &Report) -> Markup {
    let mut notes = rows::Notes::default();
    let busy = busy(report);
    let folds = super::matrix::folds(report);
    let mut groups = rows::groups(report);
    groups.retain(|(_, rows)| !rows.iter().all(|r| folds(r)));
    let body = html! {
        @if report.results.is_empty() {
            p { "No trial was made." }
        } @else {
            p.hint {
                "Ratio: " (ratio_of(report)) ", with its " (number::percent(report.level))
                " interval. Above 1 is slower, whatever the unit."
            }
            @if let Some(busy) = &busy { p.hint { (busy) } }
            @if groups.is_empty() { p { "All of them are matrices of file sizes and records: see below." } }
            @else { div.scroll.main tabindex="0" role="region" aria-label="Results, scrolls sideways" {
                table.results {
                    caption.unseen { "Results by operation and layer" }
                    thead { tr {
                        @for (n, head) in HEADS.iter().enumerate() { th.name[n == 0].num[NUMBERS.contains(&n)].aux[n >= AUX] scope="col" { (head) } }
                    } }
                    @for (label, group) in groups { (group_of(label, &group, &mut notes, busy.is_some())) }
                }
            } }
        }
    };
    let note = number::count(report.results.len(), "result");
    fold("results", "Results", &note, &body)
}

/// Where other programs disturbed most results, they are counted once and not in each row.
fn busy(report: &Report) -> Option<String> {
    let made = report.results.iter().filter(|r| r.trials > 0);
    let of = |r: &ResultRow| r.flag_counts.get(CONTAMINATED).copied().unwrap_or(0);
    let (results, trials) = made
        .clone()
        .fold((0, 0), |(r, t), row| (r + 1, t + row.trials));
    let rows = made.clone().filter(|r| of(r) > 0).count();
    (2 * rows > results).then(|| {
        let disturbed: usize = made.map(of).sum();
        format!(
            "{CONTAMINATED}: {disturbed} of {}, in {rows} of {}; not repeated in each row.",
            number::count(trials, "trial"),
            number::count(results, "result")
        )
    })
}

fn group_of<'a>(
    label: &str,
    group: &[&'a ResultRow],
    notes: &mut rows::Notes<'a>,
    busy: bool,
) -> Markup {
    let what = group
        .first()
        .map(|r| r.meaning.describe(&[]))
        .unwrap_or_default();
    html! {
        tbody {
            tr.group { th scope="rowgroup" colspan=(HEADS.len()) { span.point { (label) } " " small { (what) } } }
            @for row in group { (line(row, &notes.of(row), busy)) }
        }
    }
}

/// A result, with its note below.
fn line(row: &ResultRow, note: &str, busy: bool) -> Markup {
    let made = if row.blocks > 0 {
        row.blocks
    } else {
        row.trials
    };
    let latency = row.latency_us;
    let numbers = rows::numbers(row);
    let each = |of: fn(&Numbers) -> Markup| {
        html! { @for n in &numbers { (of(n)) @if !n.of.is_empty() { " " span.span { (n.of) } } } }
    };
    let cells = [
        chip(row),
        each(ratio),
        each(extra),
        each(time),
        each(|n| html! { @if let Some(us) = n.baseline_us { (data(us, &n.baseline())) } }),
        html! { @if let Some(v) = row.value { (data(v, &number::value(v, &row.unit))) } },
        html! { (rows::label(row)) },
        percentile(latency.map(|l| l.p50), latency.and_then(|l| l.p50_interval)),
        tail(latency.as_ref()),
        cpu(row),
        html! { (data(made as f64, &made.to_string())) },
        html! { a href={ "#" (row.id) } { (row.id) } },
    ];
    let source = row.served_because.as_deref();
    let source = source.filter(|s| !note.contains(s)).unwrap_or_default();
    let flags = flags(row, busy);
    let mut said = vec![note, source, &flags];
    said.retain(|s| !s.is_empty());
    html! {
        tr id=(row.id) {
            th.name scope="row" { code { (row.layer) } }
            @for (n, cell) in (1..).zip(cells) { td.num[NUMBERS.contains(&n)].aux[n >= AUX] data-head=(HEADS[n]) { (cell) } }
        }
        @if !said.is_empty() {
            tr.remark { td colspan=(HEADS.len()) { p.why { (rich(&micro(&said.join("; ")))) } } }
        }
    }
}

/// A formatted number, with its raw value.
fn data(value: f64, text: &str) -> Markup {
    html! { data value=(value) { (micro(text)) } }
}

/// A time, with its interval below.
fn spanned(e: Option<Estimate>) -> Markup {
    html! {
        @if let Some(e) = e {
            (data(e.estimate, &number::time_of(&e)))
            @if let Some(ends) = number::ends_of(&e) { span.span { (micro(&ends)) } }
        }
    }
}

fn ratio(of: &Numbers) -> Markup {
    html! {
        @if let Some((e, written)) = of.ratio.zip(of.written()) {
            b { (data(e.estimate, &written.ratio())) }
            @match ends(&e, written).zip(written.ends()) {
                Some((at, words)) => span.span { (data(at[0], &words[0])) "\u{2013}" (data(at[1], &words[1])) },
                None => span.span { "no interval" },
            }
        }
    }
}

/// The ends of a ratio's interval in the order in which they are written.
fn ends(e: &Estimate, written: Written) -> Option<[f64; 2]> {
    let [low, high] = e.interval?;
    Some(if written.is_inverse() {
        [high, low]
    } else {
        [low, high]
    })
}

fn time(of: &Numbers) -> Markup {
    html! {
        @if let Some(e) = of.time {
            (data(e.estimate, &of.time()))
            @if let Some(ends) = number::ends_of(&e) { span.span { (micro(&ends)) } }
        }
    }
}

fn extra(of: &Numbers) -> Markup {
    html! {
        @if let Some(e) = of.extra {
            @if of.extra_is_stored { (data(e.estimate, &of.extra())) } @else { (micro(&of.extra())) }
            @if let Some(ends) = number::ends_of(&e) { span.span { (micro(&ends)) } }
        }
    }
}

/// A percentile; empty if too few operations were timed for it.
fn percentile(us: Option<f64>, interval: Option<[f64; 2]>) -> Markup {
    spanned(us.map(|estimate| Estimate {
        estimate,
        interval,
        average: None,
    }))
}

/// The 99th percentile, or the highest one that fewer operations allow.
fn tail(latency: Option<&LatencyUs>) -> Markup {
    let lower = latency.and_then(|l| l.tail);
    html! {
        @if let Some(tail) = lower {
            small { "p" (tail.percentile) " " }
            (percentile(Some(tail.us), tail.interval))
        } @else {
            (percentile(latency.and_then(|l| l.p99), latency.and_then(|l| l.p99_interval)))
        }
    }
}

fn cpu(row: &ResultRow) -> Markup {
    html! {
        @if let Some(c) = row.cpu_us_per_op {
            (data(c.probe, &number::time(c.probe)))
            @if c.upkeep > 0.0 { span.span { "+ " (data(c.upkeep, &number::time(c.upkeep))) " helpers" } }
        }
    }
}

fn flags(row: &ResultRow, busy: bool) -> String {
    let each: Vec<String> = row
        .flag_counts
        .iter()
        .filter(|(flag, _)| !(busy && *flag == CONTAMINATED))
        .map(|(flag, n)| format!("{flag}: {n} of {}", number::count(row.trials, "trial")))
        .collect();
    each.join("; ")
}

fn chip(row: &ResultRow) -> Markup {
    let verdict = row.verdict;
    if verdict == Verdict::Descriptive {
        return html! {};
    }
    let mark = match row.leaning() {
        Verdict::Same => "=",
        Verdict::Slower => "+",
        Verdict::Faster => "\u{2212}",
        Verdict::Undecided => "?",
        Verdict::Untrusted => "!",
        Verdict::Baseline | Verdict::Descriptive => "\u{b7}",
    };
    html! { span class={ "chip " (verdict.id()) } { span aria-hidden="true" { (mark) } (row.word()) } }
}
