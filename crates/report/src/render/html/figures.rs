//! Charts: those of the layers that differ most are visible, the others folded.

use maud::{Markup, PreEscaped, html};

use super::{fold, sections::is_wide, text::micro};
use crate::{
    number,
    page::{Document, charts},
};

/// Visible charts of a group: one row on a wide screen, and not too long on a phone.
const SHOWN: usize = 3;

/// Ratios with their intervals, a chart for each operation.
pub fn forest(document: &Document) -> Markup {
    let Some(group) = document.forest() else {
        return html! {};
    };
    html! {
        section.charts.later aria-labelledby="cost" {
            h2 #cost { (group.title) }
            p.hint { (group.hint) }
            (some(&group.charts))
        }
    }
}

/// The first charts; the others are folded.
pub fn some(charts: &[charts::Chart]) -> Markup {
    let (first, rest) = charts.split_at(charts.len().min(SHOWN));
    html! {
        (grid(first))
        @if !rest.is_empty() {
            details {
                summary { (number::count(rest.len(), "more chart")) }
                (grid(rest))
            }
        }
    }
}

/// Charts of sizes, latency and drift.
pub fn others(document: &Document) -> Markup {
    html! {
        @for (n, group) in document.other_charts().into_iter().enumerate() {
            (fold(&format!("charts-{n}"), &group.title, &number::count(group.charts.len(), "chart"), &html! {
                p.hint { (group.hint) }
                (grid(&group.charts))
            }))
        }
    }
}

pub fn grid(charts: &[charts::Chart]) -> Markup {
    html! { div.grid { @for chart in charts { (figure(chart)) } } }
}

fn figure(chart: &charts::Chart) -> Markup {
    html! {
        figure {
            figcaption { (chart.title) }
            (PreEscaped(chart.svg.inline()))
            @if chart.legend.len() > 1 {
                ul.legend aria-label="Legend" {
                    @for key in &chart.legend {
                        li { svg.key viewBox="0 0 16 16" aria-hidden="true" fill=(key.colour) { (PreEscaped(key.marker)) } (key.name) }
                    }
                }
            }
            details {
                summary { "Data of this chart" }
                div.scroll.wide[is_wide(chart.table.head.len())] tabindex="0" role="region" aria-label={ "Data: " (chart.title) } {
                    table.small {
                        thead { tr { @for head in &chart.table.head { th scope="col" { (head) } } } }
                        tbody { @for row in &chart.table.rows { tr { @for (cell, head) in row.iter().zip(&chart.table.head) { td data-head=(head) { (micro(cell)) } } } } }
                    }
                }
            }
        }
    }
}
