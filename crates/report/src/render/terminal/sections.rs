//! Sections as text: tables in columns, then their conclusions.

use std::{io::Write, mem};

use super::{
    Style,
    columns::{display_width, left, right},
    lines, name_parts, plain, plain_name, stacked, text, wrapped,
};
use crate::{
    Conclusion, DataTable, Section,
    number::{count, list},
};

/// Most rows; further ones are in the page and in the other formats.
const ROWS: usize = 40;
const GAP: usize = 2;

/// Prints a section: its conclusions, then its tables.
pub fn print(section: &Section, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    wrapped(out, style, "", "  ", &plain(&section.title))?;
    conclusions(section, style, out)?;
    tables(section, style, out)
}

/// A section with as many of its tables and remarks as have room, at least its conclusions, its first table or its first
/// remark. What has none is counted.
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
    let mut said = Vec::new();
    for remark in &section.remarks {
        said.push(text(style, "  ", "    ", &format!("{remark}."))?);
    }
    let mut out = Vec::new();
    files(section, &mut out)?;
    let files = String::from_utf8(out)?;
    // The last line counts what has no room.
    let free = |shown: &str| room.saturating_sub(lines(shown) + 1);
    let mut needed = usize::from(section.conclusions.is_empty());
    let mut take = |parts: &[String]| {
        let mut taken = 0;
        for part in parts {
            if taken >= needed && lines(part) > free(&shown) {
                break;
            }
            shown += part;
            taken += 1;
        }
        needed = needed.saturating_sub(taken);
        taken
    };
    let tables = take(&parts);
    let all_tables = tables == parts.len();
    let remarks = if all_tables { take(&said) } else { 0 };
    let all_remarks = all_tables && remarks == said.len();
    let fits = all_remarks && lines(&files) <= free(&shown);
    if fits {
        shown += &files;
    }
    let of_files = section.files.len();
    let left = [
        left_of(tables, parts.len(), "table"),
        left_of(remarks, said.len(), "remark"),
        left_of(if fits { of_files } else { 0 }, of_files, "text file"),
    ];
    let left: Vec<String> = left.into_iter().flatten().collect();
    if !left.is_empty() {
        shown += &text(style, "", "  ", &format!("and {}: --full", list(&left)))?;
    }
    Ok(shown)
}

/// `3 more tables`, of which these were shown.
fn left_of(shown: usize, all: usize, word: &str) -> Option<String> {
    let more = if shown == 0 { "" } else { "more " };
    (shown < all).then(|| count(all - shown, &format!("{more}{word}")))
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
    for remark in &section.remarks {
        wrapped(out, style, "  ", "    ", &plain(&format!("{remark}.")))?;
    }
    files(section, out)
}

fn files(section: &Section, out: &mut dyn Write) -> anyhow::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cell;

    fn table() -> DataTable {
        DataTable {
            title: "Times".into(),
            note: String::new(),
            head: vec!["layer".into()],
            rows: vec![vec![Cell::text("fuse")]; 4],
        }
    }

    /// What a section said below its tables went without a word.
    #[test]
    fn what_has_no_room_is_counted() {
        let section = Section {
            title: "Answer".into(),
            tables: vec![table(), table()],
            remarks: vec!["One".into(), "Two".into()],
            ..Section::default()
        };
        let of = |section: &Section, room| short(section, Style::default(), room).expect("text");
        let told = of(&section, 9);
        assert!(
            told.ends_with("and 1 more table and 2 remarks: --full\n"),
            "{told}"
        );
        let told = of(&section, 40);
        assert!(told.ends_with("One.\n  Two.\n"), "{told}");
        let told = of(&section, lines(&told));
        assert!(
            told.ends_with("  One.\nand 1 more remark: --full\n"),
            "{told}"
        );
        // Without tables the first remark is what the section says.
        let alone = Section {
            tables: Vec::new(),
            ..section
        };
        let told = of(&alone, 0);
        assert!(
            told.ends_with("  One.\nand 1 more remark: --full\n"),
            "{told}"
        );
    }
}
