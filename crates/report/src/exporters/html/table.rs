//! The results, every number with its raw value so that it can be found in the JSON.

use maud::{Markup, html};

use super::{
    rows,
    text::{micro, rich},
};
use crate::{Estimate, Report, ResultRow, Verdict, number};

const COLUMNS: usize = 11;

pub fn section(report: &Report) -> Markup {
    let mut notes = rows::Notes::default();
    let folds = super::matrix::folds(report);
    let mut groups = rows::groups(report);
    groups.retain(|(_, rows)| !rows.iter().all(|r| folds(r)));
    html! {
        section aria-labelledby="results" {
            h2 #results { "Results" }
            @if report.results.is_empty() {
                p { "No trial was made." }
            } @else {
                p.hint {
                    "Ratio: time an operation takes in the layer over the time it takes natively, with its "
                    (number::percent(report.level)) " interval. Above 1 is slower, whatever the unit."
                }
                @if groups.is_empty() { p { "All of them are matrices of file sizes and records: see below." } }
                @else { div.scroll.main tabindex="0" role="region" aria-label="Results, scrolls sideways" {
                    table.results {
                        caption.unseen { "Results by operation and layer" }
                        (head())
                        @for (label, group) in groups { (body(label, &group, &mut notes)) }
                    }
                } }
            }
        }
    }
}

fn head() -> Markup {
    html! {
        thead { tr {
            th.name scope="col" { "Layer" }
            th.num scope="col" { "Ratio" }
            th.num scope="col" { "Difference" }
            th scope="col" { "Verdict" }
            th.num scope="col" { "Time an operation" }
            th.num scope="col" { "Throughput" }
            th scope="col" { "Served by, flush" }
            th.num.aux scope="col" { "p50, p99" }
            th.num.aux scope="col" { "CPU an operation" }
            th.num.aux scope="col" { "Blocks" }
            th.aux scope="col" { "Result" }
        } }
    }
}

fn body<'a>(label: &str, group: &[&'a ResultRow], notes: &mut rows::Notes<'a>) -> Markup {
    let what = group.first().map(|r| rows::describe(r)).unwrap_or_default();
    html! {
        tbody {
            tr.group { th scope="rowgroup" colspan=(COLUMNS) { span.point { (label) } " " small { (what) } } }
            @for row in group { (line(row, &notes.of(row))) }
        }
    }
}

fn line(row: &ResultRow, note: &str) -> Markup {
    html! {
        tr id=(row.id) {
            th.name scope="row" { code { (row.layer) } }
            td.num { (ratio(row)) }
            td.num { (extra(row)) }
            td {
                (chip(row))
                @if !note.is_empty() { p.why { (rich(&micro(note))) } }
            }
            td.num { (spanned(row.op_us.map(|v| Estimate { estimate: v, interval: row.op_us_interval }), number::time, number::time_span)) }
            td.num { @if let Some(v) = row.value { (data(v, &number::value(v, &row.unit))) } }
            td { (rows::label(row)) @if let Some(why) = &row.served_because { p.why { (why) } } @if !row.flags.is_empty() { p.why.flags { (flags(row)) } } }
            td.num.aux { (latency(row)) }
            td.num.aux { (cpu(row)) }
            td.num.aux { @if row.blocks > 0 { (data(row.blocks as f64, &row.blocks.to_string())) } @else { (data(row.trials as f64, &row.trials.to_string())) } }
            td.aux { a href={ "#" (row.id) } { (row.id) } }
        }
    }
}

/// A number as people read it, with the number itself.
fn data(value: f64, text: &str) -> Markup {
    html! { data value=(value) { (micro(text)) } }
}

fn spanned(e: Option<Estimate>, one: fn(f64) -> String, span: fn([f64; 2]) -> String) -> Markup {
    html! {
        @if let Some(e) = e {
            (data(e.estimate, &one(e.estimate)))
            @if let Some(i) = e.interval { span.span { (dash(&micro(&span(i)))) } }
        }
    }
}

/// `0.99-1.02` with the dash of a span.
fn dash(text: &str) -> String {
    text.replace('-', "\u{2013}")
}

fn ratio(row: &ResultRow) -> Markup {
    html! {
        @if let Some(e) = row.ratio {
            b { (data(e.estimate, &number::ratio(e.estimate))) }
            @match e.interval {
                Some(i) => span.span { (data(i[0], &number::ratio(i[0]))) "\u{2013}" (data(i[1], &number::ratio(i[1]))) },
                None => span.span { "no interval" },
            }
        }
    }
}

fn extra(row: &ResultRow) -> Markup {
    html! {
        @if let Some(e) = row.extra_us {
            (data(e.estimate, &number::extra(e.estimate)))
            @if let Some(i) = e.interval { span.span { (micro(&number::time_span(i))) } }
        }
    }
}

fn latency(row: &ResultRow) -> Markup {
    html! {
        @if let Some(l) = row.latency_us {
            (percentile(l.p50, l.p50_interval))
            @if let Some(p99) = l.p99 { p.tail { (percentile(p99, l.p99_interval)) } }
        }
    }
}

fn percentile(us: f64, interval: Option<[f64; 2]>) -> Markup {
    let estimate = Estimate {
        estimate: us,
        interval,
    };
    spanned(Some(estimate), number::time, number::time_span)
}

fn cpu(row: &ResultRow) -> Markup {
    html! {
        @if let Some(c) = row.cpu_us_per_op {
            (data(c.probe, &number::time(c.probe)))
            @if c.upkeep > 0.0 { span.span { "+ " (data(c.upkeep, &number::time(c.upkeep))) " helpers" } }
        }
    }
}

fn flags(row: &ResultRow) -> String {
    let each: Vec<String> = row
        .flag_counts
        .iter()
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
    html! { span class={ "chip " (verdict.word()) } { span aria-hidden="true" { (mark) } (row.word()) } }
}
