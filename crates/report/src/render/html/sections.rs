//! Cost, buffer sizes, seeks, launches and the study: conclusions, charts, tables, files.

use base64::{Engine, engine::general_purpose::STANDARD};
use maud::{Markup, html};

use super::{
    evidence, figures, fold,
    text::{breakable, micro, rich},
};
use crate::{
    Cell, Claims, Conclusion, DataTable, Holds, Section, TextFile,
    code_span::unmarked,
    number,
    page::{Content, Document, Part, charts},
};

/// More tables than this are folded.
const TABLES: usize = 2;
/// Most columns of a table that stays one on a phone. In others each row is a block, with the name
/// of a column above its cell.
const NARROW: usize = 3;

/// The CSS class of a table with so many columns, if its rows are blocks on a phone.
pub(super) fn is_wide(columns: usize) -> bool {
    columns > NARROW
}

/// Sections that are a part of the answer, or that have its figures: paper leaves these out, unless something in them
/// was opened.
pub fn open(document: &Document, parts: &[Part]) -> Markup {
    // The answer of a study is its claims.
    let is_study = document.of(&[Part::Study]).next().is_some();
    let is_later = |part: Part| part == Part::Figures || is_study && part == Part::Answer;
    html! {
        @for block in document.of(parts) {
            @if let Content::Section(of) = &block.content {
                @let id = format!("section-{}", of.name);
                section.later[is_later(block.part) && !of.is_outcome()] aria-labelledby=(id) {
                    h2 id=(id) { (of.title) }
                    (body(of, document.level))
                }
            }
        }
    }
}

/// Sections derived from the results: cost, buffer sizes, seeks.
pub fn folded(document: &Document) -> Markup {
    html! {
        @for of in document.sections(&[Part::Model]) {
            (fold(&format!("section-{}", of.name), &of.title, "", &body(of, document.level)))
        }
    }
}

fn body(section: &Section, level: f64) -> Markup {
    let (first, rest) = section.tables.split_at(section.tables.len().min(TABLES));
    html! {
        p.hint { (rich(&section.about)) }
        @match section.claims() {
            Some(claims) => {
                (matrix(&claims))
                details.later { summary { "Each conclusion in words" } (conclusions(section)) }
            }
            None => (conclusions(section)),
        }
        @if let Some(group) = charts::lines(section, level) {
            div.later {
                p.hint { (group.hint) }
                (figures::some(&group.charts))
            }
        }
        // Where there are claims, tables are what they were decided by.
        div.later[section.claims().is_some()] { @for t in first { (table(t)) } }
        @for remark in &section.remarks { p { (rich(&micro(remark))) "." } }
        @if let Some(group) = charts::sequences(section) {
            div.later {
                h3 { (group.title) }
                p.hint { (group.hint) }
                (figures::some(&group.charts))
            }
        }
        @if !rest.is_empty() || !section.details.is_empty() {
            details.later {
                summary { (number::count(rest.len() + section.details.len(), "more table")) }
                @for t in rest.iter().chain(&section.details) { (table(t)) }
            }
        }
        @if !section.files.is_empty() {
            p.hint.later { "As the study's own program printed it: " @for file in &section.files { (link(file)) " " } }
        }
    }
}

/// Claims as rows, layers as columns. A cell links to the first result behind it. On a narrow screen
/// the layer's name is above the answer.
fn matrix(claims: &Claims) -> Markup {
    html! {
        div.scroll.claims tabindex="0" role="region" aria-label="Which conclusions hold" {
            table.small {
                caption.unseen { "Which conclusions hold in which layer" }
                thead { tr { th scope="col" { "Claim" } @for layer in &claims.layers { th scope="col" { code { (breakable(layer)) } } } } }
                tbody {
                    @for (claim, all) in &claims.claims {
                        tr { th scope="row" { (claim) } @for (c, layer) in all.iter().zip(&claims.layers) { td data-head=(layer) { @if let Some(c) = c { (stands(c)) } @else { span.chip { "not asked" } } } } }
                    }
                }
            }
        }
    }
}

fn stands(c: &Conclusion) -> Markup {
    let chip = html! { span class={ "chip " (class(c.holds)) } { (c.holds.words()) } };
    html! {
        @match c.evidence.first() {
            Some(id) => a href={ "#" (id) } title=(unmarked(&c.text)) { (chip) },
            None => (chip),
        }
    }
}

fn conclusions(section: &Section) -> Markup {
    html! {
        @if !section.conclusions.is_empty() {
            ul.sentences {
                @for c in &section.conclusions {
                    li { span class={ "chip " (class(c.holds)) } { (c.holds.words()) } " " (rich(&micro(&c.text))) " " (evidence(&c.evidence)) }
                }
            }
        }
    }
}

/// The CSS class of an answer, which has the colours of verdicts.
fn class(holds: Holds) -> &'static str {
    match holds {
        Holds::Yes => "same",
        Holds::No => "slower",
        Holds::Open => "undecided",
    }
}

fn table(table: &DataTable) -> Markup {
    html! {
        h3 { (table.title) }
        @if !table.note.is_empty() { p.hint { (rich(&micro(&table.note))) } }
        div.scroll.wide[is_wide(table.head.len())] tabindex="0" role="region" aria-label=(table.title) {
            table.small {
                thead { tr { @for (n, head) in table.head.iter().enumerate() { th.num[numeric(table, n)] scope="col" { (head) } } } }
                tbody {
                    @for row in &table.rows {
                        tr { @for ((n, c), head) in row.iter().enumerate().zip(&table.head) { td.num[numeric(table, n)] data-head=(head) { (cell(c)) } } }
                    }
                }
            }
        }
    }
}

/// Whether a column has numbers, which are aligned to the right.
fn numeric(table: &DataTable, column: usize) -> bool {
    let cells = table.rows.iter().filter_map(|r| r.get(column));
    cells.clone().any(|c| c.value.is_some())
        && cells
            .clone()
            .all(|c| c.value.is_some() || c.text.is_empty())
}

fn cell(cell: &Cell) -> Markup {
    html! {
        @match cell.value {
            Some(value) => data value=(value) { (micro(&cell.text)) },
            None => (rich(&micro(&cell.text))),
        }
    }
}

/// A file inside the page, which needs no request.
fn link(file: &TextFile) -> Markup {
    let href = format!("data:text/plain;base64,{}", STANDARD.encode(&file.text));
    html! { a href=(href) download=(file.name) { (file.name) } }
}
