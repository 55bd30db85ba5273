//! The results. Every number has its raw value, so that it can be found in the JSON.

use maud::{Markup, html};

use super::{
    fold,
    text::{micro, rich},
};
use crate::{
    Estimate, Verdict,
    number::{self, Written},
    page::{
        Block, Content, Document, Part,
        results::{Numbers, ResultGroup, ResultLine, Results, TailLatency},
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

pub fn section(document: &Document) -> Markup {
    html! {
        @for block in document.of(&[Part::Results]) {
            @if let Content::Results(results) = &block.content { (results_of(block, results)) }
        }
    }
}

fn results_of(block: &Block, results: &Results) -> Markup {
    let groups: Vec<&ResultGroup> = results.groups.iter().filter(|g| !g.is_folded).collect();
    let body = html! {
        @if results.is_empty() {
            p { "No trial was made." }
        } @else {
            p.hint { (block.about) }
            @if let Some(busy) = &results.busy { p.hint { (busy) } }
            @if groups.is_empty() { p { "All of them are matrices of file sizes and records: see below." } }
            @else { div.scroll.main tabindex="0" role="region" aria-label="Results, scrolls sideways" {
                table.results {
                    caption.unseen { "Results by operation and layer" }
                    thead { tr {
                        @for (n, head) in HEADS.iter().enumerate() { th.name[n == 0].num[NUMBERS.contains(&n)].aux[n >= AUX] scope="col" { (head) } }
                    } }
                    @for group in groups { (group_of(group)) }
                }
            } }
        }
    };
    fold("results", &block.title, &block.note, &body)
}

fn group_of(group: &ResultGroup) -> Markup {
    html! {
        tbody {
            tr.group { th scope="rowgroup" colspan=(HEADS.len()) { span.point { (group.label) } " " small { (group.what) } } }
            @for of in &group.lines { (line(of)) }
        }
    }
}

/// A result, with its note below.
fn line(of: &ResultLine) -> Markup {
    let each = |part: fn(&Numbers) -> Markup| {
        html! { @for n in &of.numbers { (part(n)) @if n.is_average { " " span.span { (n.of()) } } } }
    };
    let cells = [
        chip(of),
        each(ratio),
        each(extra),
        each(time),
        each(|n| html! { @if let Some(us) = n.baseline_us { (data(us, &n.baseline())) } }),
        html! { @if let Some(v) = of.value { (data(v, &of.measured)) } },
        html! { (of.source) },
        spanned(of.p50),
        tail(of.tail.as_ref()),
        cpu(of),
        html! { (data(of.made as f64, &of.made.to_string())) },
        html! { a href={ "#" (of.id) } { (of.id) } },
    ];
    let source = of.source_because.unwrap_or_default();
    let mut said = vec![of.notes.unfolded.as_str(), source, &of.flags];
    said.retain(|s| !s.is_empty());
    html! {
        tr id=(of.id) {
            th.name scope="row" { code { (of.layer) } }
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

/// The 99th percentile, or the highest one that fewer operations allow.
fn tail(tail: Option<&TailLatency>) -> Markup {
    html! {
        @if let Some(tail) = tail {
            @if let Some(percentile) = tail.lower { small { "p" (percentile) " " } }
            (spanned(Some(tail.us)))
        }
    }
}

fn cpu(of: &ResultLine) -> Markup {
    html! {
        @if let Some([probe, upkeep]) = of.cpu_us {
            (data(probe, &number::time(probe)))
            @if upkeep > 0.0 { span.span { "+ " (data(upkeep, &number::time(upkeep))) " helpers" } }
        }
    }
}

fn chip(of: &ResultLine) -> Markup {
    if of.verdict == Verdict::Descriptive {
        return html! {};
    }
    let mark = match of.leaning {
        Verdict::Same => "=",
        Verdict::Slower => "+",
        Verdict::Faster => "\u{2212}",
        Verdict::Undecided => "?",
        Verdict::Untrusted => "!",
        Verdict::Baseline | Verdict::Descriptive => "\u{b7}",
    };
    html! { span class={ "chip " (of.verdict.id()) } { span aria-hidden="true" { (mark) } (of.word) } }
}
