//! The answer as a table: operations as rows, layers as columns, a shade for each ratio.

use maud::{Markup, html};

use super::text::breakable;
use crate::{
    Report, ResultRow,
    number::count,
    views::{
        heat::{self, Shade},
        overview::{CENTRES, Overview, Unit, absolute, sign},
    },
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

/// What the switch above the matrix offers: class, word and content of the cells.
const UNITS: [(&str, &str, Unit); 3] = [
    ("r", "ratio", Unit::Ratio),
    ("t", "time", Unit::Time),
    ("v", "throughput", Unit::Throughput),
];

fn made(report: &Report, links: bool) -> Markup {
    let ratios = Overview::new(report);
    // The page of a running run is replaced all the time, and a comparison has only ratios.
    let switch = links && report.compared.is_none() && !ratios.layers.is_empty();
    let legend = ratios.clone().largest(ROWS).legend();
    // With the baseline's column, for numbers that are not ratios to it.
    let all = if switch {
        Overview::in_unit(report, Unit::Time)
    } else {
        ratios
    };
    let points = all.points.len();
    let shown = all.largest(ROWS);
    let base = |layer: &str| report.layers.iter().any(|l| l.baseline && l.name == layer);
    let left = points - shown.points.len();
    html! {
        @if !shown.layers.is_empty() {
            section.overview aria-label="All layers and operations" {
                @if switch { (units()) }
                div.scroll tabindex="0" role="region" aria-label="Ratios of all layers and operations" {
                    table.heat {
                        caption {
                            span.relative { (legend) "." }
                            @if switch { span.absolute { "Each number is " (CENTRES) "." } }
                            @if left > 0 { " And " (count(left, "more operation")) @if links { ": " a href="#results" { "results" } } "." }
                        }
                        thead { tr { th scope="col" { "Operation" } @for ((head, layer), about) in shown.heads.iter().zip(&shown.layers).zip(&shown.abouts) { th.num.base[base(layer)] scope="col" title=(titled(layer, about)) { code { (breakable(head)) } } } } }
                        tbody {
                            @for (label, cells) in &shown.points {
                                tr { th scope="row" { (label) } @for ((row, head), layer) in cells.iter().zip(&shown.heads).zip(&shown.layers) {
                                    (cell(*row, head, base(layer), &shown.words(*row), links, switch))
                                } }
                            }
                        }
                    }
                }
                (ramp(&shown))
                (explained(&shown))
            }
        }
    }
}

/// On a narrow screen the layer's name is above the ratio.
fn cell(
    row: Option<&ResultRow>,
    head: &str,
    base: bool,
    said: &str,
    links: bool,
    switch: bool,
) -> Markup {
    let shown = html! {
        @if switch {
            @for (class, _, unit) in UNITS { span class=(class) { (absolute(row, unit).map_or_else(|| ratio(row), |text| html! { (text) })) } }
        } @else { (ratio(row)) }
    };
    html! {
        td class={ "num " (row.map_or(String::new(), class)) @if base { " base" } } data-head=(head) {
            @if let Some(row) = row.filter(|_| links) {
                a href={ "#" (row.id) } title=(said) { span aria-hidden="true" { (shown) } span.unseen { (said) } }
            } @else {
                span aria-hidden="true" title=(said) { (shown) } span.unseen { (said) }
            }
        }
    }
}

/// The name of a layer and what it is.
fn titled(layer: &str, about: &str) -> String {
    let joint = if about.is_empty() { "" } else { ": " };
    format!("{layer}{joint}{about}")
}

/// What each layer is, in a few words.
fn explained(all: &Overview) -> Markup {
    let each = all.explained();
    html! {
        @if !each.is_empty() {
            ul.explained aria-label="What each layer is" {
                @for (heads, words) in each { li { code { (heads) } " " (words) } }
            }
        }
    }
}

/// The sign of a cell. The word after a number is smaller, so that the columns of many layers fit.
fn ratio(row: Option<&ResultRow>) -> Markup {
    let sign = sign(row);
    html! {
        @match sign.split_once(' ') {
            Some((number, word)) => { (number) i { " " (word) } }
            None => (sign),
        }
    }
}

/// The switch, which needs no script.
fn units() -> Markup {
    html! {
        @for (class, word, unit) in UNITS {
            input.unit type="radio" name="unit" id={ "unit-" (class) } checked[unit == Unit::Ratio];
            label for={ "unit-" (class) } { (word) }
        }
    }
}

/// The CSS class of a cell.
fn class(row: &ResultRow) -> String {
    match Shade::of(row) {
        Shade::Slower(step) => format!("s{step}"),
        Shade::Faster(step) => format!("f{step}"),
        Shade::Same => "same".into(),
        Shade::Untrusted => "untrusted".into(),
        Shade::Open => "open".into(),
    }
}

/// The scale of the shades: of the colours that occur.
fn ramp(all: &Overview) -> Markup {
    let cells = || {
        all.points
            .iter()
            .flat_map(|(_, cells)| cells.iter().flatten())
    };
    let has = |is: fn(Shade) -> bool| cells().any(|row| is(Shade::of(row)));
    let sides = [
        ("s", "slower", has(|s| matches!(s, Shade::Slower(_)))),
        ("f", "faster", has(|s| matches!(s, Shade::Faster(_)))),
    ];
    html! {
        @if sides.iter().any(|(.., occurs)| *occurs) {
            p.ramp {
                @for (class, word, _) in sides.iter().filter(|(.., occurs)| *occurs) {
                    span { (word) ": " @for (step, text) in (1..).zip(heat::scale()) { i class=(format!("{class}{step}")) { (text) } } }
                }
            }
        }
    }
}
