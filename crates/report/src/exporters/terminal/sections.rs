//! Sections as text: tables in columns, then what follows from them.

use std::io::Write;

use super::{Style, plain, wrapped};
use crate::{DataTable, Report, Section};

/// More rows than these are in the page and in the other formats.
const ROWS: usize = 40;
const GAP: usize = 2;

pub fn print(report: &Report, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    for section in report.sections() {
        one(&section, style, out)?;
    }
    Ok(())
}

fn one(section: &Section, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out)?;
    wrapped(out, style, "", "  ", &plain(&section.title))?;
    tables(section, style, out)?;
    if !section.conclusions.is_empty() {
        writeln!(out)?;
    }
    conclusions(section, style, out)
}

pub fn tables(section: &Section, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    for table in &section.tables {
        if section.tables.len() > 1 {
            writeln!(out)?;
            wrapped(out, style, "  ", "    ", &plain(&table.title))?;
        }
        if !table.note.is_empty() {
            wrapped(out, style, "  ", "    ", &plain(&table.note))?;
        }
        print_table(table, style, out)?;
    }
    for file in &section.files {
        writeln!(out, "\n  {}", plain(&file.name))?;
        for line in file.text.lines() {
            writeln!(out, "{}", plain(line))?;
        }
    }
    Ok(())
}

pub fn conclusions(section: &Section, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    for conclusion in &section.conclusions {
        let text = format!("{}: {}", conclusion.holds.words(), conclusion.text);
        wrapped(out, style, "  ", "    ", &plain(&text))?;
    }
    Ok(())
}

/// Columns as wide as their widest cell; a table too wide for the window is printed as records.
fn print_table(table: &DataTable, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    let widths: Vec<usize> = (0..table.head.len())
        .map(|c| {
            let cells = table.rows.iter().filter_map(|r| r.get(c));
            let widest = cells.map(|c| plain(&c.text).chars().count()).max();
            widest.unwrap_or(0).max(table.head[c].chars().count())
        })
        .collect();
    let total: usize = widths.iter().map(|w| w + GAP).sum();
    if total > style.width {
        return records(table, style, out);
    }
    let numeric: Vec<bool> = (0..table.head.len())
        .map(|c| {
            table
                .rows
                .iter()
                .any(|r| r.get(c).is_some_and(|c| c.value.is_some()))
        })
        .collect();
    let line = |cells: Vec<String>| {
        let mut line = String::new();
        for (c, text) in cells.iter().enumerate() {
            let width = widths[c];
            line.push_str("  ");
            let padding = " ".repeat(width.saturating_sub(text.chars().count()));
            let parts = if numeric[c] {
                [&padding, text]
            } else {
                [text, &padding]
            };
            line.extend(parts.map(String::as_str));
        }
        line.trim_end().to_owned()
    };
    writeln!(
        out,
        "{}",
        line(table.head.iter().map(|h| plain(h)).collect())
    )?;
    for row in table.rows.iter().take(ROWS) {
        writeln!(
            out,
            "{}",
            line(row.iter().map(|c| plain(&c.text)).collect())
        )?;
    }
    more(table, out)
}

fn records(table: &DataTable, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    for row in table.rows.iter().take(ROWS) {
        let named =
            |(head, cell): (&String, &crate::Cell)| match (head.as_str(), cell.text.as_str()) {
                (_, "") => None,
                ("", text) => Some(text.to_owned()),
                (head, text) if cell.value.is_some() => Some(format!("{head} {text}")),
                (_, text) => Some(text.to_owned()),
            };
        let parts: Vec<String> = table.head.iter().zip(row).filter_map(named).collect();
        wrapped(out, style, "  ", "      ", &plain(&parts.join("; ")))?;
    }
    more(table, out)
}

fn more(table: &DataTable, out: &mut dyn Write) -> anyhow::Result<()> {
    if table.rows.len() > ROWS {
        let left = table.rows.len() - ROWS;
        writeln!(
            out,
            "  and {} in the page",
            crate::number::count(left, "more row")
        )?;
    }
    Ok(())
}
