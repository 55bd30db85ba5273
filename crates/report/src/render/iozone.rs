//! The tables that `iozone -R` prints, one file for each layer, for programs that read those.
//!
//! Format: a line `iozone test complete.`, a line `Excel output is below:`, then for each test an
//! empty line, its quoted title, a line of quoted record sizes, and a line for each file size.
//! Sizes are in kB (1,024 bytes). Cells are KiB/s: 0 if nothing was measured, absent if the record
//! is larger than the file. Readers look tables up by title, so a file holds each title once.

use std::io::Write;

use super::{Exporter, Files, PartNames};
use crate::{
    Report,
    views::iozone::{TableSet, TitledTable, kib_per_s, table_sets, tests_alone},
};

/// See the module.
pub struct Iozone;

impl Exporter for Iozone {
    fn id(&self) -> &'static str {
        "iozone"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["iozone", "iozone.txt"]
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let tests = tests_alone(report);
        let sets = table_sets(report, &tests);
        let mut parts = PartNames::default();
        for (at, set) in sets.iter().enumerate() {
            // The baseline's plain tests go into the named file.
            let part = match (at, set.number) {
                (0, _) => String::new(),
                (_, 0) => parts.next(set.layer),
                (_, n) => parts.next(&format!("{} {}", set.layer, n + 1)),
            };
            file(out.open(&part)?, report, set)?;
        }
        if sets.is_empty() {
            let out = out.open("")?;
            preamble(out, report, None)?;
            writeln!(
                out,
                "No result is one of iozone's tests. Those are of the workload file, by file size and record, and several of each are needed next to other work."
            )?;
        }
        Ok(())
    }
}

fn file(out: &mut dyn Write, report: &Report, set: &TableSet) -> anyhow::Result<()> {
    preamble(out, report, Some(set.layer))?;
    for t in &set.tables {
        writeln!(out, "{}: {}", t.title, plain(&t.test.title))?;
    }
    for t in &set.tables {
        threads(out, t)?;
    }
    writeln!(out, "\niozone test complete.\nExcel output is below:")?;
    for t in &set.tables {
        table(out, t)?;
    }
    Ok(())
}

/// Text that readers skip: they look for the line after it.
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

/// Text on one line, without anything that a reader could take for the start of a table.
fn plain(text: &str) -> String {
    text.replace(['"', '\u{1b}'], "'")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// The lines of `iozone -t`, if a test has several threads, for each file size and record size.
/// iozone's children stop when the first one finishes, so their figures cover the time until then.
fn threads(out: &mut dyn Write, t: &TitledTable) -> anyhow::Result<()> {
    let rows = t.test.files.iter().zip(&t.in_layer.cells);
    let cells = rows.flat_map(|(file, row)| {
        let records = t.test.records.iter().zip(row);
        records.map(move |(record, cell)| (*file, *record, *cell))
    });
    for (file, record, cell) in cells {
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

fn table(out: &mut dyn Write, t: &TitledTable) -> anyhow::Result<()> {
    let test = t.test;
    write!(out, "\n\"{} report\"\n      ", t.title)?;
    for record in &test.records {
        write!(out, "  \"{}\"", record / 1024)?;
    }
    writeln!(out)?;
    for (file, row) in test.files.iter().zip(&t.in_layer.cells) {
        write!(out, "\"{}\"  ", file / 1024)?;
        let cells = test.records.iter().zip(row);
        for (_, cell) in cells.filter(|(record, _)| *record <= file) {
            write!(out, " {:.0} ", cell.and_then(kib_per_s).unwrap_or(0.0))?;
        }
        writeln!(out)?;
    }
    Ok(())
}
