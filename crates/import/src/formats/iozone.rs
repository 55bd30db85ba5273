//! iozone `-R`: text tables, one for each test. Rows are file sizes, columns record sizes, both in
//! kB.

use layermark_model::{ImportedPoint, IozoneTable, iozone_tables};

use super::{Format, Found, short_lines, some};
use crate::values;

pub struct Iozone;

impl Format for Iozone {
    fn id(&self) -> &'static str {
        "iozone"
    }

    fn about(&self) -> &'static str {
        "iozone with -R: the text that it prints"
    }

    fn knows(&self, text: &str) -> bool {
        text.lines().any(|l| title(l).is_some()) || text.contains("Iozone: Performance Test")
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        if !text.ends_with('\n') {
            return Err("it ends within a line: its last number may be cut off".into());
        }
        if text.contains("Throughput report Y-axis") {
            return Err(
                "it is of the throughput mode (-t), which has no file and record sizes".into(),
            );
        }
        short_lines(text)?;
        let head = Head::read(text);
        let mut found = Found {
            tool: head.tool.clone(),
            measured: head.measured.clone(),
            ..Found::default()
        };
        let mut lines = text.lines().enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            let Some(table) = title(line) else { continue };
            let Some(known) = iozone_tables().find(|t| t.title.eq_ignore_ascii_case(&table)) else {
                let table = values::clean(&table);
                found.note(format!("the table `{table}` is not known and was left out"));
                continue;
            };
            let header = lines.next().map(|(_, l)| cells(l)).unwrap_or_default();
            let records = sizes(&header).filter(|r| !r.is_empty());
            let records = records.ok_or_else(|| {
                format!(
                    "line {}: the table `{table}` has no line of record sizes",
                    number + 2
                )
            })?;
            let before = found.points.len();
            while let Some((number, line)) =
                lines.next_if(|(_, l)| l.trim_start().starts_with('"') && title(l).is_none())
            {
                row(&head, &known, &records, line, number + 1, &mut found)?;
            }
            if found.points.len() == before {
                return Err(format!(
                    "line {}: the table `{table}` has no rows",
                    number + 1
                ));
            }
        }
        some(found, "table such as \"Writer report\"")
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
    cells.iter().map(|c| kilobytes(c)).collect()
}

fn kilobytes(cell: &str) -> Option<u64> {
    let number = cell.strip_prefix('"')?.strip_suffix('"')?;
    number
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
        .filter(|n| *n > 0)
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
    let file_size = kilobytes(first).ok_or_else(|| {
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
        let value: f64 = text
            .parse()
            .map_err(|_| format!("{what}: `{}` is not a number", values::clean(text)))?;
        // iozone prints 0 for tests it did not run.
        if value == 0.0 {
            continue;
        }
        let (bytes_per_s, ops_per_s) = head.rates(&what, value, *record)?;
        found.point(ImportedPoint {
            name: test.clone(),
            op: Some(table.op.into()),
            record: Some(*record),
            file_size: Some(file_size),
            queue_depth: Some(1),
            threads: Some(1),
            direct: Some(head.direct),
            sync: Some(head.sync.into()),
            engine: table.engine.or(head.engine).map(str::to_owned),
            bytes_per_s: Some(bytes_per_s),
            ops_per_s: Some(ops_per_s),
            op_us: Some(values::micros(
                &format!("{test}: the time of an operation"),
                1e6 / ops_per_s,
            )?),
            ..ImportedPoint::default()
        })?;
    }
    Ok(())
}

/// The lines above the tables.
struct Head {
    tool: String,
    measured: Option<String>,
    direct: bool,
    sync: &'static str,
    engine: Option<&'static str>,
    unit: Unit,
}

#[derive(Clone, Copy, PartialEq)]
enum Unit {
    KiBs,
    Ops,
    Micros,
}

impl Head {
    fn read(text: &str) -> Self {
        let has = |words: &str| text.contains(words);
        let after = |words: &str| {
            let line = text.lines().find_map(|l| l.trim().strip_prefix(words))?;
            Some(values::clean(line.trim_matches([' ', '$', ':'])))
        };
        let tool = after("Version $Revision").map_or("iozone".into(), |v| format!("iozone {v}"));
        Self {
            tool,
            measured: after("Run began"),
            direct: has("O_DIRECT feature enabled"),
            sync: if has("SYNC Mode") {
                "osync"
            } else if has("Include fsync in write timing") {
                "fsync"
            } else if has("Include close in write timing") {
                "close"
            } else {
                "none"
            },
            engine: has("Using mmap files").then_some("mmap").or(Some("sync")),
            unit: if has("Output is in ops/sec") || has("OPS Mode") {
                Unit::Ops
            } else if has("Microseconds/op Mode") || has("Output is in microseconds") {
                Unit::Micros
            } else {
                Unit::KiBs
            },
        }
    }

    /// Bytes per second and operations per second.
    fn rates(&self, what: &str, value: f64, record: u64) -> Result<(f64, f64), String> {
        let record = record as f64;
        let ops = match self.unit {
            Unit::KiBs => value * 1024.0 / record,
            Unit::Ops => value,
            Unit::Micros => 1e6 / value,
        };
        Ok((values::rate(what, ops * record)?, values::rate(what, ops)?))
    }
}
