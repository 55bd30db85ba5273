//! The answer in at most 40 lines: matrix, headline, findings, trust. The rest is in [`super::print_full`].

use std::io::Write;

use super::{
    Style,
    columns::cut,
    matrix::{Matrix, Row},
    name_parts, plain, plain_name, wrapped,
};
use crate::{
    Report, ResultRow,
    exporters::rows,
    number::count,
    overview::{Overview, sign},
};

/// Lines in all, with the one that names the page's path, which goes to standard error.
const LINES: usize = 40;
/// Longest label of a point; the rest of it is cut.
const LABEL: usize = 32;
/// Findings that are printed however little room there is.
const FINDINGS: usize = 2;
/// Points that are printed however little room there is.
const POINTS: usize = 6;

/// So few results are printed as the table, which has times and intervals too.
const TABLE: usize = 12;

/// Prints the summary.
pub fn print(report: &Report, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    let head = text(style, "", "", &format!("{}.", report.headline))?;
    if let Some(study) = &report.study {
        // A study answers with its conclusions, then with its own tables.
        super::sections::conclusions(study, style, out)?;
        super::sections::tables(study, style, out)?;
        return Ok(write!(out, "\n{head}\n{}", foot(report, style)?)?);
    }
    let findings = report.findings.iter();
    let findings: Vec<String> = findings
        .map(|f| text(style, "  ", "    ", &f.text))
        .collect::<anyhow::Result<_>>()?;
    let foot = foot(report, style)?;
    let advice = match report.advice.first() {
        Some(advice) => text(style, "Advice: ", "  ", &advice.text)?,
        None => String::new(),
    };
    // Blank lines stand after the matrix and after the findings.
    let fixed = lines(&head) + lines(&foot) + 3;
    let least: usize = findings.iter().take(FINDINGS).map(|f| lines(f)).sum();
    let room = LINES.saturating_sub(fixed + least);
    let table = table(report, style)?.filter(|table| lines(table) <= room);
    let matrix = match table {
        Some(table) => table,
        None => matrix(report, style, room)?,
    };
    let mut room = LINES.saturating_sub(fixed + lines(&matrix));
    let mut body = head;
    for (n, finding) in findings.iter().enumerate() {
        if n >= FINDINGS && lines(finding) > room {
            break;
        }
        room = room.saturating_sub(lines(finding));
        body += finding;
    }
    if lines(&advice) <= room {
        body += &advice;
    }
    Ok(write!(out, "{matrix}\n{body}\n{foot}")?)
}

/// The table of all results, where these are few.
fn table(report: &Report, style: Style) -> anyhow::Result<Option<String>> {
    if report.results.len() > TABLE {
        return Ok(None);
    }
    let mut table = Vec::new();
    super::table(report, style, &mut table)?;
    Ok(Some(String::from_utf8(table)?.trim_end().to_owned() + "\n"))
}

fn lines(text: &str) -> usize {
    text.lines().count()
}

fn text(style: Style, first: &str, rest: &str, text: &str) -> anyhow::Result<String> {
    let mut out = Vec::new();
    wrapped(&mut out, style, first, rest, &plain(text))?;
    Ok(String::from_utf8(out)?)
}

/// Trust in a line, the run, and what to type for more.
fn foot(report: &Report, style: Style) -> anyhow::Result<String> {
    let trust = format!("Trust: {}.", rows::trust(report));
    let more = format!("More: layermark report {} --full", report.run);
    let out = rows::left_out(report).map(|out| format!("Left out: {out}."));
    let parts = [Some(trust), out, Some(rows::about(report)), Some(more)];
    let parts = parts.iter().flatten();
    let parts = parts.map(|part| text(style, "", "  ", part));
    Ok(parts.collect::<anyhow::Result<Vec<String>>>()?.concat())
}

/// Operations down, layers across, in as many groups of layers as the window needs.
fn matrix(report: &Report, style: Style, room: usize) -> anyhow::Result<String> {
    let all = Overview::new(report);
    if all.layers.is_empty() {
        return Ok(String::new());
    }
    let points = all.points.len();
    let (groups, heads) = cells(&all).groups_and_heads(style.width);
    let legend = text(style, "", "  ", &all.legend())?;
    let lines = room.saturating_sub(heads + lines(&legend)) / groups;
    let shown = if points <= lines.max(POINTS) {
        all
    } else {
        all.largest(lines.saturating_sub(1).max(POINTS))
    };
    let mut out = cells(&shown).print(style);
    let left = points - shown.points.len();
    if left > 0 {
        let more = format!(
            "and {} with smaller differences: --full",
            count(left, "more point")
        );
        out += &text(style, "", "  ", &more)?;
    }
    out += &legend;
    Ok(out)
}

fn cells(all: &Overview) -> Matrix {
    let row = |(label, cells): &(&str, Vec<Option<&ResultRow>>)| Row {
        label: vec![cut(&plain_name(label), LABEL).to_owned()],
        cells: cells
            .iter()
            .map(|row| (sign(*row), row.map(|r| r.verdict)))
            .collect(),
    };
    let heads = all.layers.iter().map(|name| name_parts(&plain_name(name)));
    Matrix {
        heads: heads.collect(),
        rows: all.points.iter().map(row).collect(),
    }
}
