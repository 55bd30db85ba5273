//! Sections as text: tables in columns, then their conclusions.

use std::{io::Write, mem};

use super::{
    Style,
    columns::{display_width, left, right},
    lines, name_parts, plain, plain_name, stacked, text, wrapped,
};
use crate::{
    Cell, Conclusion, DataTable, Holds, Section,
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

/// A section with as many of its conclusions, tables and remarks as have room, at least the conclusions that its matrix
/// does not have, its first table or its first remark. What has none is counted.
pub fn short(section: &Section, style: Style, room: usize) -> anyhow::Result<String> {
    let mut out = Vec::new();
    wrapped(&mut out, style, "", "  ", &plain(&section.title))?;
    matrix(section, style, &mut out)?;
    let mut shown = String::from_utf8(out)?;
    let of_conclusions = section.conclusions.len();
    let said = said(section, style, room.saturating_sub(lines(&shown) + 1))?;
    shown += &said.concat();
    let mut parts = Vec::new();
    for table in &section.tables {
        let mut out = Vec::new();
        of_several(section, table, style, &mut out)?;
        parts.push(String::from_utf8(out)?);
    }
    let conclusions = said.len();
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
    let fits = all_remarks && conclusions == of_conclusions && lines(&files) <= free(&shown);
    if fits {
        shown += &files;
    }
    let of_files = section.files.len();
    let left = [
        left_of(conclusions, of_conclusions, "conclusion"),
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

/// The conclusions that have room, in their order: all that are not the `yes` that the matrix has already.
fn said(section: &Section, style: Style, room: usize) -> anyhow::Result<Vec<String>> {
    let all = section.conclusions.iter().map(|of| {
        let in_matrix = of.holds == Holds::Yes && !of.claim.is_empty();
        let said = text(style, "  ", "    ", &sentence(of))?;
        anyhow::Ok((in_matrix, said))
    });
    let all: Vec<(bool, String)> = all.collect::<anyhow::Result<_>>()?;
    let must = all.iter().filter(|(in_matrix, _)| !in_matrix);
    let must: usize = must.map(|(_, said)| lines(said)).sum();
    let mut left = room.saturating_sub(must);
    let shown = all.into_iter().filter_map(|(in_matrix, said)| {
        let needed = if in_matrix { lines(&said) } else { 0 };
        let fits = needed <= left;
        if fits {
            left -= needed;
        }
        fits.then_some(said)
    });
    Ok(shown.collect())
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

/// The matrix of conclusions and layers.
fn matrix(section: &Section, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(claims) = section.claims() {
        print_table(&narrowed(claims.table(), style)?, style, out)?;
        writeln!(out)?;
    }
    Ok(())
}

/// A table whose first column is wrapped so that the others have room beside it, but is a third of the window at least.
fn narrowed(table: DataTable, style: Style) -> anyhow::Result<DataTable> {
    let widths = (0..table.head.len()).map(|c| Column::of(&table, c).width);
    let widths: Vec<usize> = widths.collect();
    let others: usize = widths.iter().skip(1).sum();
    let width = style.width.saturating_sub(others + GAP);
    let width = width.max(style.width / 3);
    if widths.first().is_none_or(|first| *first <= width + GAP) {
        return Ok(table);
    }
    let narrow = Style { width, ..style };
    let mut rows = Vec::new();
    for mut row in table.rows {
        let label = text(narrow, "", "  ", &row[0].text)?;
        let mut lines = label.lines();
        row[0] = Cell::text(lines.next().unwrap_or_default());
        let blank = vec![Cell::text(""); row.len()];
        rows.push(row);
        for line in lines {
            let mut row = blank.clone();
            row[0] = Cell::text(line);
            rows.push(row);
        }
    }
    Ok(DataTable { rows, ..table })
}

/// The matrix of conclusions and layers, then each conclusion in words.
fn conclusions(section: &Section, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    matrix(section, style, out)?;
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

    fn table() -> DataTable {
        DataTable {
            title: "Times".into(),
            note: String::new(),
            head: vec!["layer".into()],
            rows: vec![vec![Cell::text("fuse")]; 4],
        }
    }

    /// Power cuts of five layers did not fit a screen: four of them kept all, which the matrix says.
    #[test]
    fn a_yes_without_room_is_in_the_matrix_alone() {
        let of = |layer: &str, holds| Conclusion {
            text: format!("{layer} was cut"),
            claim: "keeps what fsync acknowledged".into(),
            layer: layer.into(),
            holds,
            evidence: Vec::new(),
        };
        let section = Section {
            title: "Answer".into(),
            conclusions: vec![
                of("native", Holds::Yes),
                of("fuse", Holds::No),
                of("bind", Holds::Open),
                of("tmpfs", Holds::Yes),
            ],
            ..Section::default()
        };
        let told = |room| short(&section, Style::default(), room).expect("text");
        let least = told(0);
        assert!(
            least.ends_with(
                "fuse was cut\n  cannot be decided: bind was cut\nand 2 more conclusions: --full\n"
            ),
            "{least}"
        );
        assert!(least.contains("yes"), "{least}");
        let whole = told(lines(&least) + 2);
        for layer in ["native", "fuse", "bind", "tmpfs"] {
            assert!(whole.contains(&format!("{layer} was cut")), "{whole}");
        }
        assert!(!whole.contains("--full"), "{whole}");
        // Not where there is no matrix.
        let mut alone = section.clone();
        alone.conclusions.iter_mut().for_each(|c| c.claim.clear());
        let told = short(&alone, Style::default(), 0).expect("text");
        assert!(
            told.contains("native was cut") && !told.contains("--full"),
            "{told}"
        );
    }

    /// Its two lines were two tables, one of them with one layer.
    #[test]
    fn a_long_claim_leaves_room_for_its_layers() {
        let claim = "keeps what POSIX or fsync(2) promises after sequences of operations";
        let of = |layer: &str| Conclusion {
            text: "it was cut".into(),
            claim: claim.into(),
            layer: layer.into(),
            holds: Holds::Yes,
            evidence: Vec::new(),
        };
        let layers = ["fuse:fsync=data", "fuse", "native", "overlay:upper"];
        let section = Section {
            conclusions: layers.map(of).to_vec(),
            ..Section::default()
        };
        for width in [80, 100] {
            let style = Style {
                width,
                ..Style::default()
            };
            let mut out = Vec::new();
            matrix(&section, style, &mut out).expect("text");
            let told = String::from_utf8(out).expect("text");
            assert_eq!(told.matches("claim").count(), 1, "{told}");
            let joined: Vec<&str> = told.split_whitespace().collect();
            assert!(joined.join(" ").contains("after sequences of"), "{told}");
            assert!(told.lines().all(|l| l.len() <= width), "{told}");
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
