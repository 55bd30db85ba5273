//! The answer as a table: operations as rows, layers as columns, a shade for each ratio.

use maud::{Markup, html};

use super::text::breakable;
use crate::{
    number::count,
    page::{
        Document,
        cell::{MatrixCell, Shown, Unit},
        matrix::{Matrix, MatrixColumn},
        shade::{self, Shade},
        sign::Sign,
    },
    words::matrix::CENTRES,
};

/// Most rows; those with the largest differences are kept.
const ROWS: usize = 20;

/// The section, with links to the rows of the page's results.
pub fn section(document: &Document) -> Markup {
    made(document, true)
}

/// The matrix alone, for the page of a running run.
pub fn matrix(document: &Document) -> Markup {
    made(document, false)
}

/// What the switch above the matrix offers: class, word and content of the cells.
const UNITS: [(&str, &str, Unit); 3] = [
    ("r", "ratio", Unit::Ratio),
    ("t", "time", Unit::Time),
    ("v", "throughput", Unit::Throughput),
];

fn made(document: &Document, links: bool) -> Markup {
    let Some(all) = document.matrix() else {
        return html! {};
    };
    let ratios = all.ratios();
    // The page of a running run is replaced all the time, and a comparison has only ratios.
    let switch = links && !document.is_comparison && !ratios.columns.is_empty();
    let legend = ratios.clone().largest(ROWS).legend();
    // With the baseline's column, for numbers that are not ratios to it.
    let all = if switch {
        all.in_unit(Unit::Time)
    } else {
        ratios
    };
    let points = all.rows.len();
    let shown = all.largest(ROWS);
    let left = points - shown.rows.len();
    html! {
        @if !shown.columns.is_empty() {
            section.overview aria-label="All layers and operations" {
                @if switch { (units()) }
                div.scroll tabindex="0" role="region" aria-label="Ratios of all layers and operations" {
                    table.heat {
                        caption {
                            span.relative { (legend) "." }
                            @if switch { span.absolute { "Each number is " (CENTRES) "." } }
                            @if left > 0 { " And " (count(left, "more operation")) @if links { ": " a href="#results" { "results" } } "." }
                        }
                        thead { tr { th scope="col" { "Operation" } @for of in &shown.columns { th.num.base[of.is_baseline] scope="col" title=(titled(of)) { code { (breakable(&of.head)) } } } } }
                        tbody {
                            @for row in &shown.rows {
                                tr { th scope="row" { (row.label) (absent(&row.cells)) } @for (of, column) in row.cells.iter().zip(&shown.columns) { (cell(of, column, links, switch)) } }
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

/// In how many layers an operation was not measured: on a phone, in place of as many empty cells.
fn absent(cells: &[MatrixCell]) -> Markup {
    let absent = cells.iter().filter(|cell| is_absent(cell)).count();
    html! { @if absent > 0 { span.absent { "not measured in " (count(absent, "layer")) } } }
}

fn is_absent(cell: &MatrixCell) -> bool {
    cell.signs.has(Sign::Missing)
}

/// On a narrow screen the layer's name is above the ratio.
fn cell(of: &MatrixCell, column: &MatrixColumn, links: bool, switch: bool) -> Markup {
    let shown = html! {
        @if switch {
            @for (class, _, unit) in UNITS { span class=(class) { @if unit == Unit::Ratio { (ratio(&of.shown)) } @else { (of.text(unit)) } } }
        } @else { (ratio(&of.shown)) }
    };
    let said = &of.words;
    html! {
        td class={ "num " (of.shade.map_or(String::new(), class)) @if of.is_hatched() { " hatched" } @if is_absent(of) { " none" } @if column.is_baseline { " base" } } data-head=(column.head) {
            @if let Some(id) = of.result.filter(|_| links) {
                a href={ "#" (id) } title=(said) { span aria-hidden="true" { (shown) } span.unseen { (said) } }
            } @else {
                span aria-hidden="true" title=(said) { (shown) } span.unseen { (said) }
            }
        }
    }
}

/// The name of a layer and what it is.
fn titled(column: &MatrixColumn) -> String {
    let (layer, about) = (column.name, column.about);
    let joint = if about.is_empty() { "" } else { ": " };
    format!("{layer}{joint}{about}")
}

/// What each layer is, in a few words.
fn explained(all: &Matrix) -> Markup {
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
fn ratio(shown: &Shown) -> Markup {
    html! {
        (shown.number)
        @if !shown.words.is_empty() { i { " " (shown.words) } }
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
fn class(shade: Shade) -> String {
    match shade {
        Shade::Slower(step) => format!("s{step}"),
        Shade::Faster(step) => format!("f{step}"),
        Shade::Same => "same".into(),
        Shade::Untrusted => "untrusted".into(),
        Shade::Open => "open".into(),
    }
}

/// The scale of the shades: of the colours that occur.
fn ramp(all: &Matrix) -> Markup {
    let has = |is: fn(Shade) -> bool| all.cells().any(|cell| cell.shade.is_some_and(is));
    let sides = [
        ("s", "slower", has(|s| matches!(s, Shade::Slower(_)))),
        ("f", "faster", has(|s| matches!(s, Shade::Faster(_)))),
    ];
    html! {
        @if sides.iter().any(|(.., occurs)| *occurs) {
            p.ramp {
                @for (class, word, _) in sides.iter().filter(|(.., occurs)| *occurs) {
                    span { (word) ": " @for (step, text) in (1..).zip(shade::scale()) { i class=(format!("{class}{step}")) { (text) } } }
                }
            }
        }
    }
}
