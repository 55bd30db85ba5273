//! Sections as text: tables in columns, then their conclusions.

use std::{io::Write, mem};

use super::{
    Style,
    columns::{display_width, left, right},
    lines, name_parts, plain, plain_name, stacked, text, wrapped,
};
use crate::{Conclusion, DataTable, Section, number::count};

/// Most rows; further ones are in the page and in the other formats.
const ROWS: usize = 40;
const GAP: usize = 2;

/// Prints a section: its conclusions, then its tables.
pub fn print(section: &Section, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    wrapped(out, style, "", "  ", &plain(&section.title))?;
    conclusions(section, style, out)?;
    tables(section, style, out)
}

/// A section with as many of its tables as have room, at least its conclusions or its first table.
pub fn short(section: &Section, style: Style, room: usize) -> anyhow::Result<String> {
    let mut out = Vec::new();
    wrapped(&mut out, style, "", "  ", &plain(&section.title))?;
    conclusions(section, style, &mut out)?;
    let mut shown = String::from_utf8(out)?;
    let mut parts = Vec::new();
    for table in &section.tables {
        let mut out = Vec::new();
        of_several(section, table, style, &mut out)?;
        parts.push(String::from_utf8(out)?);
    }
    let mut out = Vec::new();
    remarks(section, style, &mut out)?;
    let last = String::from_utf8(out)?;
    // The line that counts the tables without room.
    let free = |shown: &str| room.saturating_sub(lines(shown) + 1);
    let (mut tables, needed) = (0, usize::from(section.conclusions.is_empty()));
    for part in &parts {
        if tables >= needed && lines(part) > free(&shown) {
            break;
        }
        shown += part;
        tables += 1;
    }
    if tables < parts.len() {
        let word = if tables == 0 { "table" } else { "more table" };
        let more = count(parts.len() - tables, word);
        shown += &text(style, "", "  ", &format!("and {more}: --full"))?;
    } else if lines(&last) <= free(&shown) {
        shown += &last;
    }
    Ok(shown)
}

/// A table, with its title if the section has others.
fn of_several(
    section: &Section,
    table: &DataTable,
    style: Style,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if section.tables.len() > 1 {
        writeln!(out)?;
        wrapped(out, style, "  ", "    ", &plain(&table.title))?;
    }
    noted(table, style, out)
}

fn tables(section: &Section, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    for table in &section.tables {
        of_several(section, table, style, out)?;
    }
    remarks(section, style, out)
}

fn remarks(section: &Section, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    for remark in &section.remarks {
        wrapped(out, style, "  ", "    ", &plain(&format!("{remark}.")))?;
    }
    for file in &section.files {
        writeln!(out, "\n  {}", plain(&file.name))?;
        for line in file.text.lines() {
            writeln!(out, "{}", plain(line))?;
        }
    }
    Ok(())
}

/// A table with its title, after a blank line.
pub fn titled(table: &DataTable, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out)?;
    wrapped(out, style, "", "  ", &plain(&table.title))?;
    noted(table, style, out)
}

fn noted(table: &DataTable, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    if !table.note.is_empty() {
        wrapped(out, style, "  ", "    ", &plain(&table.note))?;
    }
    print_table(table, style, out)
}

/// The matrix of conclusions and layers, then each conclusion in words.
fn conclusions(section: &Section, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(claims) = section.claims() {
        print_table(&claims.table(), style, out)?;
        writeln!(out)?;
    }
    for conclusion in &section.conclusions {
        wrapped(out, style, "  ", "    ", &plain(&sentence(conclusion)))?;
    }
    Ok(())
}

/// `no: write in ...`.
pub fn sentence(conclusion: &Conclusion) -> String {
    format!("{}: {}", conclusion.holds.words(), conclusion.text)
}

/// A column of a table.
struct Column {
    /// The head's parts, one per line.
    head: Vec<String>,
    cells: Vec<String>,
    /// Whether it has numbers, which are aligned to the right.
    numeric: bool,
    width: usize,
}

impl Column {
    fn of(table: &DataTable, c: usize) -> Self {
        let cells = || table.rows.iter().take(ROWS).map(|r| r.get(c));
        let head = name_parts(&plain_name(&table.head[c]));
        let cells_text: Vec<String> = cells()
            .map(|cell| cell.map_or_else(String::new, |c| plain(&c.text)))
            .collect();
        let widths = head.iter().chain(&cells_text).map(|t| display_width(t));
        Self {
            numeric: cells().flatten().any(|c| c.value.is_some()),
            width: widths.max().unwrap_or(0) + GAP,
            cells: cells_text,
            head,
        }
    }
}

/// Columns as wide as their widest cell. A table wider than the window is split into groups of
/// columns, each with the columns that name the row.
fn print_table(table: &DataTable, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    let columns: Vec<Column> = (0..table.head.len())
        .map(|c| Column::of(table, c))
        .collect();
    for (n, group) in groups(&columns, style.width).iter().enumerate() {
        if n > 0 {
            writeln!(out)?;
        }
        let heads: Vec<&[String]> = group.iter().map(|c| c.head.as_slice()).collect();
        for parts in stacked(&heads) {
            print_line(group, &parts, style, out)?;
        }
        for row in 0..table.rows.len().min(ROWS) {
            let cells: Vec<&str> = group.iter().map(|c| c.cells[row].as_str()).collect();
            print_line(group, &cells, style, out)?;
        }
    }
    more(table, out)
}

/// Groups that fit into this width. Each includes the first columns.
fn groups(columns: &[Column], width: usize) -> Vec<Vec<&Column>> {
    let total = |all: &[&Column]| all.iter().map(|c| c.width).sum::<usize>();
    // A number may name a row, such as a size. All columns before the first number also name it.
    let words = columns.iter().take_while(|c| !c.numeric).count();
    let naming = if words < columns.len() {
        words.max(1)
    } else {
        1
    };
    let names: Vec<&Column> = columns.iter().take(naming).collect();
    let (mut groups, mut group) = (Vec::new(), names.clone());
    for column in &columns[names.len()..] {
        if group.len() > names.len() && total(&group) + column.width > width {
            groups.push(mem::replace(&mut group, names.clone()));
        }
        group.push(column);
    }
    groups.push(group);
    groups
}

fn print_line(
    columns: &[&Column],
    cells: &[&str],
    style: Style,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut line = String::new();
    for (column, text) in columns.iter().zip(cells) {
        let padded = if column.numeric {
            right(text, column.width)
        } else {
            format!("{:GAP$}{}", "", left(text, column.width - GAP))
        };
        line.push_str(&padded);
    }
    let line = line.trim_end();
    if display_width(line) > style.width {
        return wrapped(out, style, "  ", "      ", line);
    }
    Ok(writeln!(out, "{line}")?)
}

fn more(table: &DataTable, out: &mut dyn Write) -> anyhow::Result<()> {
    if table.rows.len() > ROWS {
        let left = table.rows.len() - ROWS;
        writeln!(out, "  and {} in the page", count(left, "more row"))?;
    }
    Ok(())
}
