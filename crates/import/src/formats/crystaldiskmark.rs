//! `CrystalDiskMark` 3 to 8: the text that it copies and saves.

use layermark_model::{ImportedPoint, mix_name};

use super::{Found, Results};
use crate::{
    lines::{self, Section},
    values,
};

pub const CRYSTAL_DISK_MARK: Results = Results {
    id: "crystaldiskmark",
    about: "CrystalDiskMark 3 to 8: the text that it copies and saves",
    example: "in CrystalDiskMark: File, Save (text)",
    begins,
    read,
    needs: "line with MB/s",
};

fn begins(line: &str) -> bool {
    line.starts_with("CrystalDiskMark ") && line.contains("(C)")
}

/// What stands at the end behind a word: `Test: 1 GiB (x5)`, `Test : 1024 MiB [`.
fn said<'a>(run: &Section<'a>, label: &str) -> Option<&'a str> {
    let rest = run.all(label).find_map(|rest| rest.strip_prefix(':'));
    rest.map(str::trim)
}

fn read(run: &Section, found: &mut Found) -> Result<(), String> {
    let tool: Vec<&str> = run.lines[0].split(' ').take(2).collect();
    found.tool = values::clean(&tool.join(" "));
    if let Some(date) = said(run, "Date") {
        found.measured = Some(values::clean(date));
    }
    let test = said(run, "Test").unwrap_or_default();
    let file_size = size(test);
    let times = test.split_once("(x").and_then(|(_, n)| lines::number(n));
    if let Some(n) = times.filter(|n| *n > 1.0) {
        found.note(format!("each value is the best of {n} runs"));
    }
    // Percentage of reads of the lines below, since version 7.
    let mut reads = None;
    let mut any = false;
    for (at, line) in run.lines.iter().enumerate() {
        match line.split(']').next() {
            Some("[Read") => reads = Some(100.0),
            Some("[Write") => reads = Some(0.0),
            Some("[Mix") => reads = line.split_once("Read ").and_then(|(_, n)| lines::number(n)),
            _ if line.contains(" MB/s") && line.contains(':') && !line.starts_with('*') => {
                let number = run.first + at;
                point(line, number, reads, file_size, found)?;
                any = true;
            }
            _ => {}
        }
    }
    if any {
        return Ok(());
    }
    Err(format!(
        "the result that begins in line {} has no values: it is cut off",
        run.first
    ))
}

/// `SEQ    1MiB (Q=  8, T= 1):  7427.749 MB/s [   7083.7 IOPS] <   987.81 us>`, and before version 7
/// `Random Read 4KiB (Q= 32,T= 1) :     7.275 MB/s [   1776.1 IOPS]`.
fn point(
    line: &str,
    number: usize,
    reads: Option<f64>,
    file_size: Option<u64>,
    found: &mut Found,
) -> Result<(), String> {
    let wrong = || {
        format!(
            "line {number}: `{}` is not a line of CrystalDiskMark",
            values::clean(line)
        )
    };
    let (what, result) = line.split_once(':').ok_or_else(wrong)?;
    let lower = what.to_ascii_lowercase();
    let reads = reads.or(match () {
        () if lower.contains("read") => Some(100.0),
        () if lower.contains("write") => Some(0.0),
        () => None,
    });
    let random = match () {
        () if lower.starts_with("rnd") || lower.starts_with("random") => Some(100.0),
        () if lower.starts_with("seq") => Some(0.0),
        () => None,
    };
    let bracket = |open: char, unit: &str| {
        let (_, rest) = result.split_once(open)?;
        rest.contains(unit).then(|| lines::number(rest))?
    };
    let bytes = lines::number(result).ok_or_else(wrong)? * 1e6;
    let ops = bracket('[', "IOPS").filter(|n| *n > 0.0);
    // Versions before 4 write KB and mean KiB, as their IOPS show.
    let own = what.split_whitespace().find_map(size_of_word);
    let fits = |size: u64| ops.is_none_or(|ops| (bytes / ops / size as f64 - 1.0).abs() < 0.01);
    let record = own.filter(|size| fits(*size));
    let count = |label: &str| {
        let (_, rest) = what.split_once(label)?;
        lines::number(rest).map(|n| n as u64)
    };
    let us = bracket('<', "us").filter(|us| *us > 0.0);
    found.point(ImportedPoint {
        name: values::clean(&what.split_whitespace().collect::<Vec<_>>().join(" ")),
        op: reads
            .zip(random)
            .map(|(reads, random)| mix_name(reads, random)),
        record,
        file_size,
        queue_depth: count("(Q=").or_else(|| count("(QD=")).or(Some(1)),
        threads: count("T=").or(Some(1)),
        bytes_per_s: Some(values::rate(&format!("line {number}"), bytes)?),
        ops_per_s: ops
            .map(|n| values::rate(&format!("line {number}: IOPS"), n))
            .transpose()?,
        op_us: us
            .map(|us| values::micros(&format!("line {number}: us"), us))
            .transpose()?,
        ..ImportedPoint::default()
    })
}

/// `4KiB`, `512KB`.
fn size_of_word(word: &str) -> Option<u64> {
    let is_size = word.ends_with('B') && word.starts_with(|c: char| c.is_ascii_digit());
    is_size.then(|| values::size(word)).flatten()
}

/// `1 GiB (x5) ...` in bytes.
fn size(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let (number, unit) = (words.next()?, words.next()?);
    // MB of versions before 4 are 2^20 bytes or 10^6: not known.
    unit.contains('i')
        .then(|| values::size(&format!("{number}{unit}")))?
}
