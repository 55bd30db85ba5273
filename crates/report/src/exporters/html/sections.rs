//! Cost, buffer sizes, seeks and the study: tables, conclusions, files. Their charts are with the
//! others.

use base64::{Engine, engine::general_purpose::STANDARD};
use maud::{Markup, html};

use super::{
    evidence,
    text::{micro, rich},
};
use crate::{Cell, DataTable, Holds, Report, Section, TextFile};

/// All sections of the report.
pub fn all(report: &Report) -> Markup {
    html! { @for section in report.sections() { (one(&section)) } }
}

fn one(section: &Section) -> Markup {
    let id = format!("section-{}", section.name);
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { (section.title) }
            p.hint { (rich(&section.about)) }
            @if !section.conclusions.is_empty() {
                ul.sentences {
                    @for c in &section.conclusions {
                        li { span class={ "chip " (class(c.holds)) } { (c.holds.words()) } " " (rich(&micro(&c.text))) " " @if !c.evidence.is_empty() { (evidence(&c.evidence)) } }
                    }
                }
            }
            @for t in &section.tables { (table(t)) }
            @if !section.files.is_empty() {
                p.hint { "As the study's own program printed it: " @for file in &section.files { (link(file)) " " } }
            }
        }
    }
}

/// The colours of verdicts, which these are.
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
        div.scroll tabindex="0" role="region" aria-label=(table.title) {
            table.small {
                thead { tr { @for (n, head) in table.head.iter().enumerate() { th.num[numeric(table, n)] scope="col" { (head) } } } }
                tbody {
                    @for row in &table.rows {
                        tr { @for (n, c) in row.iter().enumerate() { td.num[numeric(table, n)] { (cell(c)) } } }
                    }
                }
            }
        }
    }
}

/// Columns of numbers stand at the right edge.
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

/// A file inside the page: no request is made for it.
fn link(file: &TextFile) -> Markup {
    let href = format!("data:text/plain;base64,{}", STANDARD.encode(&file.text));
    html! { a href=(href) download=(file.name) { (file.name) } }
}
