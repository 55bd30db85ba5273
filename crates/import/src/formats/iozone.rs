//! iozone: the tables of `-R`, its ordinary table, and the totals of the throughput mode (`-t`). Rows
//! are file sizes, columns record sizes, both in kB. A file may hold several runs, each with the lines
//! that iozone prints at its start.

use layermark_model::{ImportedPoint, IozoneTable, iozone_tables};

use self::head::Head;
use super::{Format, Found, short_lines, some};
use crate::values;

mod head;
mod ordinary;
mod throughput;

pub struct Iozone;

/// The first line of a run.
const BANNER: &str = "Iozone: Performance Test";

impl Format for Iozone {
    fn id(&self) -> &'static str {
        "iozone"
    }

    fn about(&self) -> &'static str {
        "iozone: the text that it prints, with -R, without it, or with -t"
    }

    fn example(&self) -> &'static str {
        "iozone -a -R > FILE"
    }

    fn knows(&self, text: &str) -> bool {
        text.lines().any(|l| title(l).is_some()) || text.contains(BANNER)
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        short_lines(text)?;
        let lines: Vec<&str> = text.lines().collect();
        let ended = text.ends_with('\n');
        let mut found = Found::default();
        let mut begin = 0;
        while begin < lines.len() {
            let next = lines[begin + 1..].iter().position(|l| l.contains(BANNER));
            let end = next.map_or(lines.len(), |n| begin + 1 + n);
            let run = Run {
                lines: &lines[begin..end],
                first: begin + 1,
                cut: !ended && end == lines.len(),
            };
            run.read(&mut found)?;
            begin = end;
        }
        some(found, "table such as \"Writer report\", or line of results")
    }
}

/// The lines of one run.
struct Run<'a> {
    lines: &'a [&'a str],
    /// Number of the first, from 1.
    first: usize,
    /// Whether its last line has no end.
    cut: bool,
}

impl Run<'_> {
    fn read(&self, found: &mut Found) -> Result<(), String> {
        let head = Head::read(self.lines);
        if found.tool.is_empty() || head.measured.is_some() {
            found.tool.clone_from(&head.tool);
            found.measured.clone_from(&head.measured);
        }
        let before = found.points.len();
        self.tables(&head, found)?;
        // With -R, iozone prints the ordinary table first, and its values again at the end.
        if found.points.len() == before {
            ordinary::read(self, &head, found)?;
        }
        throughput::read(self, &head, found)?;
        if found.points.len() == before && self.lines.iter().any(|l| l.contains(BANNER)) {
            let (first, why) = (self.first, "has no results");
            found.note(format!("the run that begins in line {first} {why}"));
        }
        Ok(())
    }

    /// # Errors The line is the last of the file and has no end.
    fn whole(&self, at: usize) -> Result<(), String> {
        if self.cut && at + 1 == self.lines.len() {
            return Err("it ends within a line: its last number may be cut off".into());
        }
        Ok(())
    }

    /// Number of a line in the file, from 1.
    fn number(&self, at: usize) -> usize {
        self.first + at
    }

    /// The tables of `-R`.
    fn tables(&self, head: &Head, found: &mut Found) -> Result<(), String> {
        let mut lines = self.lines.iter().enumerate().peekable();
        while let Some((at, line)) = lines.next() {
            let Some(table) = title(line) else { continue };
            let known = iozone_tables().find(|t| t.title.eq_ignore_ascii_case(&table));
            let table = values::clean(&table);
            let Some(known) = known else {
                found.note(format!("the table `{table}` is not known and was left out"));
                continue;
            };
            let header = lines.next().map(|(_, l)| cells(l)).unwrap_or_default();
            let records = sizes(&header).filter(|r| !r.is_empty());
            let records = records.ok_or_else(|| {
                let line = self.number(at) + 1;
                format!("line {line}: the table `{table}` has no line of record sizes")
            })?;
            let (before, mut rows) = (found.points.len(), 0);
            while let Some((at, line)) =
                lines.next_if(|(_, l)| l.trim_start().starts_with('"') && title(l).is_none())
            {
                self.whole(at)?;
                row(head, &known, &records, line, self.number(at), found)?;
                rows += 1;
            }
            if rows == 0 {
                let line = self.number(at);
                return Err(format!("line {line}: the table `{table}` has no rows"));
            }
            if found.points.len() == before {
                found.note(format!(
                    "the table `{table}` has no values: iozone did not get there"
                ));
            }
        }
        Ok(())
    }
}

/// `"Re-writer report"`, in lower case and without its last word.
fn title(line: &str) -> Option<String> {
    let text = line.trim().strip_prefix('"')?.strip_suffix('"')?;
    let text = text.to_ascii_lowercase();
    Some(text.strip_suffix(" report")?.trim().to_owned())
}

fn cells(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Quoted kB to bytes.
fn sizes(cells: &[&str]) -> Option<Vec<u64>> {
    cells.iter().map(|c| quoted(c)).collect()
}

fn quoted(cell: &str) -> Option<u64> {
    kilobytes(cell.strip_prefix('"')?.strip_suffix('"')?)
}

/// kB to bytes: iozone's are of 1024.
fn kilobytes(cell: &str) -> Option<u64> {
    let number = cell.parse::<u64>().ok()?.checked_mul(1024);
    number.filter(|n| *n > 0)
}

fn row(
    head: &Head,
    table: &IozoneTable,
    records: &[u64],
    line: &str,
    number: usize,
    found: &mut Found,
) -> Result<(), String> {
    let test = table.title.to_ascii_lowercase();
    let cells = cells(line);
    let (first, values) = cells.split_first().ok_or("an empty row")?;
    let file_size = quoted(first).ok_or_else(|| {
        format!(
            "line {number}: `{}` is not a file size",
            values::clean(first)
        )
    })?;
    if values.len() > records.len() {
        return Err(format!(
            "line {number}: {} values under {} record sizes",
            values.len(),
            records.len()
        ));
    }
    for (record, text) in records.iter().zip(values) {
        let what = format!("line {number}: {test}, record {}", record / 1024);
        point(head, table, &what, text, (file_size, *record), found)?;
    }
    Ok(())
}

/// Adds a value of one file and record size.
fn point(
    head: &Head,
    table: &IozoneTable,
    what: &str,
    text: &str,
    (file_size, record): (u64, u64),
    found: &mut Found,
) -> Result<(), String> {
    let not = || format!("{what}: `{}` is not a number", values::clean(text));
    let value: f64 = text.parse().map_err(|_| not())?;
    // iozone prints 0 for tests it did not run.
    if value == 0.0 {
        return Ok(());
    }
    let (bytes_per_s, ops_per_s) = head.rates(what, value, record)?;
    found.point(ImportedPoint {
        name: table.title.to_ascii_lowercase(),
        op: Some(table.op.into()),
        record: Some(record),
        file_size: Some(file_size),
        threads: Some(1),
        bytes_per_s: Some(bytes_per_s),
        ops_per_s: Some(ops_per_s),
        op_us: Some(values::micros(
            &format!("{what}: the time of an operation"),
            1e6 / ops_per_s,
        )?),
        ..head.point(table.engine)
    })
}
