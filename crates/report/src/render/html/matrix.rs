//! File size by record size: a table for each layer of a test, a colour scale behind its numbers,
//! and the same as a surface. In a large report the results of a matrix appear here, not in the
//! main table.

use maud::{Markup, html};

use super::{figures, fold, text::micro};
use crate::{
    STALLS, STALLS_MEANING, Verdict, number,
    page::{
        Document,
        cell::MatrixCell,
        results::ResultLine,
        shade::{self, Scale},
        sign::Sign,
        sizes::{SizeLayer, SizeMatrix},
    },
};
use layermark_model::format_size;

pub fn section(document: &Document) -> Markup {
    let matrices = document.size_matrices();
    let baseline = document.baseline;
    let body = html! {
        p.hint {
            "Rows are file sizes, columns records. A cell has the throughput, and below it the time an operation takes divided by that in " (baseline) ". "
            "A cell of " (baseline) " is darker where it is faster. A layer is orange where it is slower than " (baseline) ", blue where it is faster; ? means not known, "
            (STALLS) " that " (STALLS_MEANING) "."
        }
        @for (n, test) in matrices.iter().enumerate() {
            details.matrix open[matrices.len() < 5] {
                summary { (test.title) }
                @for of in &test.layers { (table(test, of)) }
                (surfaces(test, n))
                @if !test.folded.is_empty() { (rows(test)) }
            }
        }
    };
    let note = number::count(matrices.len(), "test");
    html! { @if !matrices.is_empty() { (fold("matrices", "File size and record", &note, &body)) } }
}

fn table(test: &SizeMatrix, of: &SizeLayer) -> Markup {
    let scale = Scale::of(of.values());
    let label = format!("{}, {}", test.title, of.name);
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table.small.heat {
                caption { code { (of.name) } }
                thead { tr { th scope="col" { "file" } @for record in &test.records { th.num scope="col" { (format_size(*record)) } } } }
                tbody {
                    @for (file, row) in test.files.iter().zip(&of.cells) {
                        tr {
                            th scope="row" { (format_size(*file)) }
                            @for of in row { (cell(of.as_ref(), &scale)) }
                        }
                    }
                }
            }
        }
    }
}

fn cell(of: Option<&MatrixCell>, scale: &Scale) -> Markup {
    let Some((of, value)) = of.and_then(|cell| Some((cell, cell.value?))) else {
        return html! { td {} };
    };
    let ratio = of.ratio.filter(|ratio| *ratio > 0.0);
    let class = match (ratio, of.verdict) {
        (None, _) => format!("v{}", scale.step(value)),
        (Some(ratio), Some(Verdict::Slower | Verdict::Faster)) => shade(ratio),
        _ => "v0".into(),
    };
    let open = matches!(of.verdict, Some(Verdict::Undecided | Verdict::Untrusted));
    html! {
        td class={ "num " (class) } {
            (of.throughput)
            @if ratio.is_some() { span.span { (of.times) @if of.signs.has(Sign::Stalls) { (STALLS) } @if open { " ?" } } }
        }
    }
}

/// The CSS class of a ratio's shade.
pub fn shade(ratio: f64) -> String {
    let side = if ratio > 1.0 { "s" } else { "f" };
    format!("{side}{}", shade::of_ratio(ratio))
}

fn surfaces(test: &SizeMatrix, n: usize) -> Markup {
    let drawn = test.surfaces(n);
    html! {
        @if !drawn.is_empty() {
            details.charts { summary { "As a surface" } (figures::grid(&drawn)) }
        }
    }
}

/// The results of a folded matrix, in short form.
fn rows(test: &SizeMatrix) -> Markup {
    html! {
        details {
            summary { (number::count(test.folded.len(), "result")) }
            div.scroll tabindex="0" role="region" aria-label={ "Results: " (test.title) } {
                table.small {
                    thead { tr { @for head in ["Operation", "Layer", "Ratio", "Verdict", "Time an operation", "Baseline's", "Throughput", "Result"] { th scope="col" { (head) } } } }
                    tbody { @for of in &test.folded { (lines(of)) } }
                }
            }
        }
    }
}

fn lines(of: &ResultLine) -> Markup {
    html! {
        @for n in &of.numbers {
            @let typical = !n.is_average;
            tr id=[typical.then_some(of.id)] {
                td { (of.label) @if !typical { ", " (n.of()) } }
                td { code { (of.layer) } }
                td.num { (n.ratio()) }
                td { @if typical { (of.word) @if of.value.is_none() { @if let Some(e) = of.error { " " (e) } } } }
                td.num { (micro(&n.time())) }
                td.num { (micro(&n.baseline())) }
                td.num { @if typical { (of.throughput) } }
                td { (of.id) }
            }
        }
    }
}
