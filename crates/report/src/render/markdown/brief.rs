//! The answer for a pull request: headline, matrix, findings, in at most 60 lines.

use std::fmt::Write as _;

use super::{
    headline,
    text::{head_and_rows, line, name_cell, prose},
};
use crate::{
    DataTable, Section,
    number::count,
    page::{
        Document, Item, Part,
        matrix::{Matrix, MatrixRow},
    },
};

/// Most lines.
const LINES: usize = 60;
/// Lines of the comment above the text.
const ABOVE: usize = 2;
/// Fewest operations of the matrix, whatever the space.
const POINTS: usize = 4;
/// Lines of the matrix besides its operations: head, rule, legend, layers and blank lines.
const AROUND: usize = 7;
/// Rows of every other table, and the fewest rows, whatever the space.
const ROWS: usize = 10;
const LEAST: usize = 2;
/// Most layers with a line of their own.
const LAYERS: usize = 16;
/// Most pieces of advice.
const ADVICE: usize = 3;

/// The whole text. `all` is the command that prints everything.
pub fn brief(document: &Document, all: &str) -> String {
    let head = document.of(&[Part::Headline]).map(headline);
    let head = head.collect::<String>() + &in_short(document) + &study(document);
    let foot = findings(document) + &about(document, all);
    let taken = ABOVE + head.lines().count() + foot.lines().count();
    let Some(ratios) = document.matrix().map(Matrix::ratios) else {
        return head + &foot;
    };
    let least = if ratios.columns.is_empty() {
        0
    } else {
        ratios.rows.len().min(POINTS) + AROUND
    };
    let own = fitted(&own(document), LINES.saturating_sub(taken + least));
    let room = LINES.saturating_sub(taken + own.lines().count());
    format!("{head}{}{own}{foot}", matrix(&ratios, room))
}

/// A line for each layer; of many layers only the first.
fn in_short(document: &Document) -> String {
    let items = document.items(Part::InShort);
    let mut lines = String::new();
    for item in items.iter().take(LAYERS) {
        let _ = writeln!(lines, "- {}", prose(&item.text));
    }
    if items.len() > LAYERS {
        let more = count(items.len() - LAYERS, "more layer");
        let _ = writeln!(lines, "- and {more}");
    }
    if !lines.is_empty() {
        lines.push('\n');
    }
    lines
}

fn findings(document: &Document) -> String {
    let lines = |items: &[Item]| -> String {
        let lines = items.iter().map(|i| format!("- {}\n", prose(&i.text)));
        lines.collect()
    };
    let advice = document.items(Part::Advice);
    let head = if advice.is_empty() {
        ""
    } else {
        "\nWhat to do:\n\n"
    };
    let first = &advice[..advice.len().min(ADVICE)];
    lines(document.items(Part::Findings)) + head + &lines(first)
}

fn about(document: &Document, all: &str) -> String {
    let said = |part, what: &str| document.note(part).map(|note| format!("{what}: {note}"));
    let parts = [
        said(Part::Trust, "Trust"),
        said(Part::LeftOut, "left out"),
        Some(document.line(Part::About).to_owned()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("\n{}. All of it: `{all}`\n", prose(&parts.join("; ")))
}

/// Which of a study's claims hold in which layer.
fn study(document: &Document) -> String {
    let studies = document.sections(&[Part::Study]);
    let claims = studies.filter_map(|s| Some(titled(&s.title, &s.claims()?.table(), ROWS)));
    claims.collect()
}

/// The tables of measured figures, each with its title: first that of each section, then the others.
fn own(document: &Document) -> Vec<(String, DataTable)> {
    let sections = || document.sections(&[Part::Study, Part::Answer, Part::Figures]);
    let titled = |s: &Section, table: &DataTable| {
        let title = match table.title.as_str() {
            "" => s.title.clone(),
            table => format!("{}: {table}", s.title),
        };
        (title, table.clone())
    };
    let first = sections().filter_map(|s| Some(titled(s, s.tables.first()?)));
    let others = sections().flat_map(|s| s.tables.iter().skip(1).map(move |t| titled(s, t)));
    first.chain(others).collect()
}

/// The tables, each with as many rows as fit. If not even [`LEAST`] rows of each fit, the last
/// tables are only counted.
fn fitted(tables: &[(String, DataTable)], room: usize) -> String {
    let with = |tables: &[(String, DataTable)], rows: usize| -> String {
        let texts = tables
            .iter()
            .map(|(title, table)| titled(title, table, rows));
        texts.collect()
    };
    for rows in (LEAST..=ROWS).rev() {
        let text = with(tables, rows);
        if text.lines().count() <= room {
            return text;
        }
    }
    let counted = |shown: usize| {
        let left = count(tables.len() - shown, "more table");
        format!("{}And {left}.\n\n", with(&tables[..shown], LEAST))
    };
    let mut texts = (0..tables.len()).rev().map(counted);
    let fits = texts.find(|text| text.lines().count() <= room);
    fits.unwrap_or_default()
}

/// The first rows of a table below a title.
fn titled(title: &str, table: &DataTable, rows: usize) -> String {
    let shown = &table.rows[..table.rows.len().min(rows)];
    let more = match table.rows.len() - shown.len() {
        0 => String::new(),
        n => format!("And {}.\n\n", count(n, "more row")),
    };
    format!(
        "{}:\n\n{}\n{more}",
        prose(title),
        head_and_rows(&table.head, shown)
    )
}

/// Operations as rows, layers as columns.
fn matrix(all: &Matrix, room: usize) -> String {
    if all.columns.is_empty() {
        return String::new();
    }
    let points = all.rows.len();
    let shown = all.clone().largest(room.saturating_sub(AROUND).max(POINTS));
    let heads = shown.columns.iter().map(|column| name_cell(&column.head));
    let mut text = line(std::iter::once("operation".to_owned()).chain(heads));
    let _ = writeln!(text, "\n| --- |{}", " ---: |".repeat(shown.columns.len()));
    for MatrixRow { label, cells, .. } in &shown.rows {
        let signs = cells.iter().map(|of| shown.text(of).replace('~', "\\~"));
        let cells = std::iter::once(name_cell(label)).chain(signs);
        let _ = writeln!(text, "{}", line(cells));
    }
    let more = match points - shown.rows.len() {
        0 => String::new(),
        n => format!(" {}.", count(n, "more operation")),
    };
    let legend = shown.legend().replace('~', "\\~");
    let layers = match shown.explanation() {
        said if said.is_empty() => said,
        said => format!("Layers: {}.\n\n", prose(&said)),
    };
    format!("{text}\n{legend}.{more}\n\n{layers}")
}
