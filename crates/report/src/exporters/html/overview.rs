//! The answer as a table: operations as rows, layers as columns, a shade for each ratio.

use maud::{Markup, html};

use super::{matrix::shade, text::breakable};
use crate::{
    Report, ResultRow, Verdict,
    number::count,
    views::overview::{Overview, sign},
};

/// Most rows; those with the largest differences are kept.
const ROWS: usize = 20;

/// The section, with links to the rows of the page's results.
pub fn section(report: &Report) -> Markup {
    made(report, true)
}

/// The matrix alone, for the page of a running run.
pub fn matrix(report: &Report) -> Markup {
    made(report, false)
}

fn made(report: &Report, links: bool) -> Markup {
    let all = Overview::new(report);
    let points = all.points.len();
    let shown = all.largest(ROWS);
    let left = points - shown.points.len();
    html! {
        @if !shown.layers.is_empty() {
            section.overview aria-label="All layers and operations" {
                div.scroll tabindex="0" role="region" aria-label="Ratios of all layers and operations" {
                    table.heat {
                        caption {
                            (shown.legend()) "."
                            @if left > 0 { " And " (count(left, "more operation")) " with smaller differences" @if links { ": " a href="#results" { "results" } } "." }
                        }
                        thead { tr { th scope="col" { "Operation" } @for layer in &shown.layers { th.num scope="col" { code { (breakable(layer)) } } } } }
                        tbody {
                            @for (label, cells) in &shown.points {
                                tr { th scope="row" { (label) } @for row in cells { (cell(*row, &shown.words(*row), links)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cell(row: Option<&ResultRow>, said: &str, links: bool) -> Markup {
    html! {
        td class={ "num " (row.map_or(String::new(), class)) } {
            @if let Some(row) = row.filter(|_| links) {
                a href={ "#" (row.id) } title=(said) { span aria-hidden="true" { (sign(Some(row))) } span.unseen { (said) } }
            } @else {
                span aria-hidden="true" title=(said) { (sign(row)) } span.unseen { (said) }
            }
        }
    }
}

/// The CSS class of a cell: the larger the ratio, the stronger the shade. Probable verdicts have
/// the lightest one.
fn class(row: &ResultRow) -> String {
    match (row.verdict, row.ratio, row.leaning()) {
        (Verdict::Slower | Verdict::Faster, Some(r), _) => shade(r.estimate),
        (Verdict::Same, ..) => "same".into(),
        (Verdict::Untrusted, ..) => "untrusted".into(),
        (.., Verdict::Slower) => "s1".into(),
        (.., Verdict::Faster) => "f1".into(),
        _ => String::new(),
    }
}
