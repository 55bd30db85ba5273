//! Text in which no character of a name has a meaning for Markdown, and tables.

use crate::{
    Cell, DataTable,
    code_span::{Span, code, parts},
};

/// Text in which only code spans keep their meaning.
pub fn prose(text: &str) -> String {
    let part = |part: Span| match part {
        Span::Words(words) => literal(words),
        Span::Code(name) => code(&name.replace(['\n', '\r'], " ")),
    };
    parts(text).into_iter().map(part).collect()
}

/// Literal text, such as a name: no character has a special meaning.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '&' | '~' => out.push('\\'),
            '\n' | '\r' => {
                out.push(' ');
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

/// [`prose`] inside a table. A `|` ends a cell even in a code span, so a name with one is not
/// marked as code.
pub fn cell(text: &str) -> String {
    let part = |part: Span| match part {
        Span::Code(name) if !name.contains('|') => prose(&code(name)),
        Span::Words(text) | Span::Code(text) => name_cell(text),
    };
    parts(text).into_iter().map(part).collect()
}

/// A name inside a table.
pub fn name_cell(name: &str) -> String {
    literal(name).replace('|', "\\|")
}

/// A line of a table.
pub fn line<S: AsRef<str>>(cells: impl IntoIterator<Item = S>) -> String {
    let cells: Vec<S> = cells.into_iter().collect();
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    format!("| {} |", cells.join(" | "))
}

/// The lines of a table.
pub fn cells(table: &DataTable) -> String {
    head_and_rows(&table.head, &table.rows)
}

/// The lines of a table with this head and these rows.
pub fn head_and_rows(head: &[String], rows: &[Vec<Cell>]) -> String {
    let first = [
        line(head.iter().map(|h| name_cell(h))),
        line(vec!["---"; head.len()]),
    ];
    let rows = rows.iter();
    let rows = rows.map(|row| line(row.iter().map(|c| cell(&c.text))));
    first.into_iter().chain(rows).map(|l| l + "\n").collect()
}
