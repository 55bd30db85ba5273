//! The table that iozone prints without `-R`: a line for each file and record size, a column for each
//! test. Values of tests that were not run are left blank, so a value belongs to the column that it
//! stands under.

use layermark_model::{IozoneTable, iozone_tables};

use super::{Found, Head, Run, cells, kilobytes, point};

/// Columns by their words, of both lines of the header, and the tables of `-R` that are the same.
const COLUMNS: &[(&str, &str)] = &[
    ("write", "Writer"),
    ("rewrite", "Re-writer"),
    ("read", "Reader"),
    ("reread", "Re-Reader"),
    ("random read", "Random read"),
    ("random write", "Random write"),
    ("bkwd read", "Backward read"),
    ("record rewrite", "Record rewrite"),
    ("stride read", "Stride read"),
    ("fwrite", "Fwrite"),
    ("frewrite", "Re-Fwrite"),
    ("fread", "Fread"),
    ("freread", "Re-Fread"),
    ("pwrite", "Pwrite"),
    ("repwrite", "Re-Pwrite"),
    ("pread", "Pread"),
    ("repread", "Re-Pread"),
];

/// A column: where its words end, and what it holds. `None` for a test that is not known.
struct Column {
    end: usize,
    table: Option<IozoneTable>,
}

/// Reads the lines below each header of the run.
pub fn read(run: &Run, head: &Head, found: &mut Found) -> Result<(), String> {
    let mut columns: Vec<Column> = Vec::new();
    for (at, line) in run.lines.iter().enumerate() {
        if cells(line).starts_with(&["kB", "reclen"]) || cells(line).starts_with(&["KB", "reclen"])
        {
            columns = header(at.checked_sub(1).map(|at| run.lines[at]), line);
            let unknown = columns.iter().filter(|c| c.table.is_none()).count();
            if unknown > 0 {
                found.note(format!(
                    "{unknown} columns of the table are not known and were left out"
                ));
            }
            continue;
        }
        let words = words(line);
        let sizes = |n: usize| words.get(n).and_then(|(_, word)| kilobytes(word));
        let (Some(file_size), Some(record)) = (sizes(0), sizes(1)) else {
            continue;
        };
        if columns.is_empty() || words.len() < 3 {
            continue;
        }
        run.whole(at)?;
        for (column, text) in under(&columns, &words[2..])
            .ok_or_else(|| format!("line {}: its values stand under no columns", run.number(at)))?
        {
            let Some(table) = &column.table else { continue };
            let test = table.title.to_ascii_lowercase();
            let what = format!("line {}: {test}, record {}", run.number(at), record / 1024);
            point(head, table, &what, text, (file_size, record), found)?;
        }
    }
    Ok(())
}

/// Words of a line, each with the place of its end.
fn words(line: &str) -> Vec<(usize, &str)> {
    let all = line.split_whitespace();
    all.map(|word| {
        let begin = word.as_ptr() as usize - line.as_ptr() as usize;
        (begin + word.len(), word)
    })
    .collect()
}

/// The columns of a header of two lines: the first has words such as `random` above `read`.
fn header(above: Option<&str>, line: &str) -> Vec<Column> {
    let all = words(line);
    let ends: Vec<usize> = all.iter().map(|(end, _)| *end).collect();
    let mut names: Vec<String> = all.iter().map(|(_, word)| (*word).to_owned()).collect();
    for (end, word) in above.map(words).unwrap_or_default() {
        let nearest = (2..ends.len()).min_by_key(|at| ends[*at].abs_diff(end));
        if let Some(at) = nearest.filter(|_| ["random", "bkwd", "record", "stride"].contains(&word))
        {
            names[at] = format!("{word} {}", all[at].1);
        }
    }
    let columns = ends.iter().zip(&names).skip(2);
    columns
        .map(|(end, name)| {
            let title = COLUMNS.iter().find(|(column, _)| column == name);
            let table = title.and_then(|(_, title)| iozone_tables().find(|t| t.title == *title));
            Column { end: *end, table }
        })
        .collect()
}

/// Each value with the column whose words end nearest to its own end. `None` if two are under the same
/// or there are more than columns.
fn under<'a, 'b>(
    columns: &'a [Column],
    values: &[(usize, &'b str)],
) -> Option<Vec<(&'a Column, &'b str)>> {
    if values.len() == columns.len() {
        return Some(
            columns
                .iter()
                .zip(values.iter().map(|(_, text)| *text))
                .collect(),
        );
    }
    let mut placed: Vec<(usize, &str)> = Vec::new();
    for (end, text) in values {
        let at = (0..columns.len()).min_by_key(|at| columns[*at].end.abs_diff(*end))?;
        if placed.last().is_some_and(|(last, _)| *last >= at) {
            return None;
        }
        placed.push((at, text));
    }
    Some(
        placed
            .into_iter()
            .map(|(at, text)| (&columns[at], text))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_belongs_to_the_column_above_it() {
        let above = "                                                              random    random     bkwd    record    stride";
        let line = "              kB  reclen    write  rewrite    read    reread    read     write     read   rewrite      read   fwrite frewrite    fread  freread";
        let columns = header(Some(above), line);
        let titles: Vec<&str> = columns.iter().map(|c| c.table.unwrap().title).collect();
        assert_eq!(titles.len(), 13);
        assert_eq!(
            titles[4..9],
            [
                "Random read",
                "Random write",
                "Backward read",
                "Record rewrite",
                "Stride read"
            ]
        );
        let row = "            1024       4   501234   702345                     1234567   890123";
        let values = words(row);
        let placed = under(&columns, &values[2..]).unwrap();
        let names: Vec<&str> = placed.iter().map(|(c, _)| c.table.unwrap().title).collect();
        assert_eq!(
            names,
            ["Writer", "Re-writer", "Random read", "Random write"]
        );
    }
}
