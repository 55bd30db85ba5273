//! The tables that `iozone -R` prints, one file for each layer, for programs that read those.
//!
//! Format: a line `iozone test complete.`, a line `Excel output is below:`, then for each test an
//! empty line, its quoted title, a line of quoted records and a line for each file size, both in kB
//! (1,024 bytes); cells are KiB/s, 0 where nothing was measured, absent where the record is larger
//! than the file. Readers look tables up by title, so a file holds each title once.

use std::io::Write;

use layermark_model::{IozoneTable, iozone_tables};

use super::{Exporter, Files, PartNames, own::own_line};
use crate::{Report, analysis::size_table::SizeTable};

/// See the module.
pub struct Iozone;

impl Exporter for Iozone {
    fn id(&self) -> &'static str {
        "iozone"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["iozone", "iozone.txt"]
    }

    fn is_own(&self, head: &str, _: &mut std::fs::File) -> bool {
        own_line(head).is_some_and(|line| line.contains(", run "))
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let families = families(report);
        let sets = sets(&families);
        let mut parts = PartNames::default();
        let mut named = false;
        for layer in report.layers.iter().filter(|l| !l.control) {
            for (n, set) in sets.iter().enumerate() {
                let has = |t: &&Table| t.family.layers(report).contains(&layer.name.as_str());
                let tables: Vec<&Table> = set.iter().filter(has).collect();
                if tables.is_empty() {
                    continue;
                }
                // The baseline's plain tests are the file that was named.
                let part = match (named, n) {
                    (false, _) => String::new(),
                    (true, 0) => parts.next(&layer.name),
                    (true, n) => parts.next(&format!("{} {}", layer.name, n + 1)),
                };
                named = true;
                file(out.open(&part)?, report, &layer.name, &tables)?;
            }
        }
        if !named {
            let out = out.open("")?;
            preamble(out, report, None)?;
            writeln!(
                out,
                "Nothing that was measured is one of iozone's tests: those are of the workload file, by file size and record."
            )?;
        }
        Ok(())
    }
}

/// What can stand in a table of file sizes and records in kB.
pub(super) fn families(report: &Report) -> Vec<SizeTable<'_>> {
    let mut families = crate::analysis::size_table::tables(report);
    for family in &mut families {
        family.keep_sizes(whole_kib);
    }
    families.retain(|f| !f.files.is_empty() && !f.records.is_empty());
    families
}

/// A test and what was measured for it.
pub(super) struct Table<'a> {
    pub title: &'static str,
    pub family: &'a SizeTable<'a>,
}

/// Tests in iozone's order, each title once in a set. A second set holds what the first has the
/// titles of already, such as the same tests with a cold cache.
pub(super) fn sets<'a>(families: &'a [SizeTable<'a>]) -> Vec<Vec<Table<'a>>> {
    let mut sets: Vec<Vec<Table>> = Vec::new();
    for IozoneTable { title, op, engine } in iozone_tables() {
        let fits = |f: &&SizeTable| f.operation() == op && api(f, families) == engine;
        for (n, family) in families.iter().filter(fits).enumerate() {
            if sets.len() == n {
                sets.push(Vec::new());
            }
            sets[n].push(Table { title, family });
        }
    }
    sets
}

/// The engine that gives a test titles of its own. iozone's plain tests are those of read(2) and write(2). Where `pread` is the only engine of that
/// kind in the run, as it is by default, its tests are the plain ones.
fn api(family: &SizeTable, all: &[SizeTable]) -> Option<&'static str> {
    match family.engine()? {
        "stdio" => Some("stdio"),
        "preadv" => Some("preadv"),
        "pread" if all.iter().any(|f| f.engine() == Some("sync")) => Some("pread"),
        _ => None,
    }
}

/// A size that iozone can name: whole kB.
fn whole_kib(bytes: u64) -> bool {
    bytes.is_multiple_of(1024)
}

fn file(
    out: &mut dyn Write,
    report: &Report,
    layer: &str,
    tables: &[&Table],
) -> anyhow::Result<()> {
    preamble(out, report, Some(layer))?;
    for t in tables {
        writeln!(out, "{}: {}", t.title, plain(&t.family.describe()))?;
    }
    for t in tables {
        threads(out, t, layer)?;
    }
    writeln!(out, "\niozone test complete.\nExcel output is below:")?;
    for t in tables {
        table(out, t, layer)?;
    }
    Ok(())
}

/// What readers skip: they look for the line that comes after it.
fn preamble(out: &mut dyn Write, report: &Report, layer: Option<&str>) -> anyhow::Result<()> {
    writeln!(
        out,
        "{}, run {} of plan {}, {}",
        report.generated_by,
        report.run,
        plain(&report.label),
        report.started
    )?;
    if let Some(layer) = layer {
        writeln!(
            out,
            "Layer {}. Output is in kBytes/sec (1,024 bytes); a cell is the centre of its trials, and 0 was not measured.",
            plain(layer)
        )?;
    }
    Ok(())
}

/// Without what a reader could take for the start of a table, and on one line.
fn plain(text: &str) -> String {
    text.replace(['"', '\u{1b}'], "'")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// The lines of `iozone -t`, where a test has several threads, for each file size and record.
/// iozone's children stop when the first is through, so what they see is the figure until then.
fn threads(out: &mut dyn Write, t: &Table, layer: &str) -> anyhow::Result<()> {
    let cells = t.family.files.iter().flat_map(|file| {
        let records = t.family.records.iter();
        records.map(move |record| (*file, *record))
    });
    for (file, record) in cells {
        let cell = t.family.cell(layer, file, record);
        let Some((row, of)) = cell.and_then(|row| Some((row, row.threads?))) else {
            continue;
        };
        writeln!(
            out,
            "\n{} threads, {}: file {} kB each, record {} kB",
            of.count,
            t.title,
            file / 1024,
            record / 1024
        )?;
        let rates = [
            ("Children see throughput", of.stonewall),
            ("Parent sees throughput", row.value.unwrap_or(0.0)),
            ("Min throughput per process", of.slowest),
            ("Max throughput per process", of.fastest),
            ("Avg throughput per process", of.mean),
        ];
        for (what, rate) in rates {
            writeln!(out, "\t{what:<32}= {:>12.2} kB/sec", rate / 1024.0)?;
        }
        let least = of.least_done * file as f64 / 1024.0;
        writeln!(out, "\t{:<32}= {least:>12.2} kB", "Min xfer")?;
    }
    Ok(())
}

fn table(out: &mut dyn Write, t: &Table, layer: &str) -> anyhow::Result<()> {
    let family = t.family;
    write!(out, "\n\"{} report\"\n      ", t.title)?;
    for record in &family.records {
        write!(out, "  \"{}\"", record / 1024)?;
    }
    writeln!(out)?;
    for file in &family.files {
        write!(out, "\"{}\"  ", file / 1024)?;
        for record in family.records.iter().filter(|r| *r <= file) {
            let rate = family.value(layer, *file, *record).unwrap_or(0.0) / 1024.0;
            write!(out, " {rate:.0} ")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
