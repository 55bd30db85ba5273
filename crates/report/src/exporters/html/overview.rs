//! The answer as a table: operations down, layers across, a shade for each ratio.

use maud::{Markup, html};

use super::{matrix, text::breakable};
use crate::{
    Report, ResultRow, Verdict,
    number::count,
    views::overview::{Overview, sign, words},
};

/// More rows than these are no answer: those with the largest differences stay.
const ROWS: usize = 20;

pub fn section(report: &Report) -> Markup {
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
                            @if left > 0 { " And " (count(left, "more operation")) " with smaller differences: " a href="#results" { "results" } "." }
                        }
                        thead { tr { th scope="col" { "Operation" } @for layer in &shown.layers { th.num scope="col" { code { (breakable(layer)) } } } } }
                        tbody {
                            @for (label, cells) in &shown.points {
                                tr { th scope="row" { (label) } @for row in cells { (cell(*row)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cell(row: Option<&ResultRow>) -> Markup {
    let said = words(row);
    html! {
        td class={ "num " (row.map_or(String::new(), class)) } {
            @if let Some(row) = row {
                a href={ "#" (row.id) } title=(said) { span aria-hidden="true" { (sign(Some(row))) } span.unseen { (said) } }
            } @else {
                span aria-hidden="true" { (sign(None)) } span.unseen { (said) }
            }
        }
    }
}

/// The stronger the shade, the larger the ratio; what is only probable has the lightest one.
fn class(row: &ResultRow) -> String {
    match (row.verdict, row.ratio, row.leaning()) {
        (Verdict::Slower | Verdict::Faster, Some(r), _) => matrix::shade(r.estimate),
        (Verdict::Same, ..) => "same".into(),
        (Verdict::Untrusted, ..) => "untrusted".into(),
        (.., Verdict::Slower) => "s1".into(),
        (.., Verdict::Faster) => "f1".into(),
        _ => String::new(),
    }
}
