//! The answer for a pull request: headline, matrix, findings, in at most 60 lines.

use std::fmt::Write as _;

use super::{Exporter, Files};
use crate::{
    Cell, DataTable, Report, Section,
    code_span::{Part, code, parts},
    number::count,
    views::{
        overview::{Overview, sign},
        rows,
    },
};

/// Most lines.
const LINES: usize = 60;
/// Fewest operations of the matrix, whatever the space.
const POINTS: usize = 4;
/// Lines of the matrix besides its operations: head, rule, legend and blank lines.
const AROUND: usize = 5;
/// Rows of every other table, and the fewest rows, whatever the space.
const ROWS: usize = 10;
const LEAST: usize = 2;
/// Most pieces of advice.
const ADVICE: usize = 3;

/// See the module.
pub struct Markdown;

impl Exporter for Markdown {
    fn id(&self) -> &'static str {
        "markdown"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["md", "markdown"]
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let head = format!(
            "<!-- {} -->\n\n{}{}",
            report.generated_by,
            headline(report),
            study(report)
        );
        let foot = findings(report) + &about(report);
        let all = Overview::new(report);
        let least = if all.layers.is_empty() {
            0
        } else {
            all.points.len().min(POINTS) + AROUND
        };
        let taken = head.lines().count() + foot.lines().count();
        let own = fitted(&own(report), LINES.saturating_sub(taken + least));
        let room = LINES.saturating_sub(taken + own.lines().count());
        write!(out.open("")?, "{head}{}{own}{foot}", matrix(all, room))?;
        Ok(())
    }
}

/// The headline and its caveats.
pub fn headline(report: &Report) -> String {
    let mut text = format!("# {}\n\n", prose(&report.headline));
    for caveat in &report.caveats {
        let _ = write!(text, "\u{26a0} **{}.**\n\n", prose(caveat));
    }
    text
}

fn findings(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let _ = writeln!(text, "- {}", prose(&finding.text));
    }
    if !report.advice.is_empty() {
        text += "\nWhat to do:\n\n";
    }
    for advice in report.advice.iter().take(ADVICE) {
        let _ = writeln!(text, "- {}", prose(&advice.text));
    }
    text
}

fn about(report: &Report) -> String {
    let trust = format!("Trust: {}", rows::trust(report));
    let out = rows::left_out(report).map(|out| format!("left out: {out}"));
    let parts = [Some(trust), out, Some(rows::about(report))];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let all = match &report.compared {
        Some(_) => format!("{} --full", report.reproduce.command),
        None => format!("layermark report {} -o report.full.md", report.run),
    };
    format!("\n{}. All of it: `{all}`\n", prose(&parts.join("; ")))
}

/// Which of a study's claims hold in which layer.
fn study(report: &Report) -> String {
    let claims = report.study.as_ref().and_then(|s| Some((s, s.claims()?)));
    claims.map_or_else(String::new, |(study, claims)| {
        titled(&study.title, &claims.table(), ROWS)
    })
}

/// The main tables of a run besides ratios, with titles: launches, figures, imported results.
fn own(report: &Report) -> Vec<(String, DataTable)> {
    let own = report.sections().into_iter().filter(Section::is_own);
    own.filter_map(|s| Some((s.title, s.tables.into_iter().next()?)))
        .collect()
}

/// The tables, each with as many rows as fit. If not even [`LEAST`] rows of each fit, the last
/// tables are only counted.
fn fitted(tables: &[(String, DataTable)], room: usize) -> String {
    let with = |tables: &[(String, DataTable)], rows: usize| -> String {
        let texts = tables
            .iter()
            .map(|(title, table)| titled(title, table, rows));
        texts.collect()
    };
    for rows in (LEAST..=ROWS).rev() {
        let text = with(tables, rows);
        if text.lines().count() <= room {
            return text;
        }
    }
    let counted = |shown: usize| {
        let left = count(tables.len() - shown, "more table");
        format!("{}And {left}.\n\n", with(&tables[..shown], LEAST))
    };
    let mut texts = (0..tables.len()).rev().map(counted);
    let fits = texts.find(|text| text.lines().count() <= room);
    fits.unwrap_or_default()
}

/// The first rows of a table below a title.
fn titled(title: &str, table: &DataTable, rows: usize) -> String {
    let shown = &table.rows[..table.rows.len().min(rows)];
    let more = match table.rows.len() - shown.len() {
        0 => String::new(),
        n => format!("And {}.\n\n", count(n, "more row")),
    };
    format!(
        "{}:\n\n{}\n{more}",
        prose(title),
        head_and_rows(&table.head, shown)
    )
}

/// Operations as rows, layers as columns.
fn matrix(all: Overview, room: usize) -> String {
    if all.layers.is_empty() {
        return String::new();
    }
    let points = all.points.len();
    let shown = all.largest(room.saturating_sub(AROUND).max(POINTS));
    let heads = shown.heads.iter().map(|l| name_cell(l));
    let mut text = line(std::iter::once("operation".to_owned()).chain(heads));
    let _ = writeln!(text, "\n| --- |{}", " ---: |".repeat(shown.layers.len()));
    for (label, results) in &shown.points {
        let signs = results.iter().map(|r| sign(*r).replace('~', "\\~"));
        let cells = std::iter::once(name_cell(label)).chain(signs);
        let _ = writeln!(text, "{}", line(cells));
    }
    let more = match points - shown.points.len() {
        0 => String::new(),
        n => format!(" {} with smaller differences.", count(n, "more operation")),
    };
    let legend = shown.legend().replace('~', "\\~");
    format!("{text}\n{legend}.{more}\n\n")
}

/// Text in which only code spans keep their meaning.
pub fn prose(text: &str) -> String {
    let part = |part: Part| match part {
        Part::Words(words) => literal(words),
        Part::Code(name) => code(&name.replace(['\n', '\r'], " ")),
    };
    parts(text).into_iter().map(part).collect()
}

/// Literal text, such as a name: no character has a special meaning.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '&' | '~' => out.push('\\'),
            '\n' | '\r' => {
                out.push(' ');
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

/// [`prose`] inside a table. A `|` ends a cell even in a code span, so a name with one is not
/// marked as code.
pub fn cell(text: &str) -> String {
    let part = |part: Part| match part {
        Part::Code(name) if !name.contains('|') => prose(&code(name)),
        Part::Words(text) | Part::Code(text) => name_cell(text),
    };
    parts(text).into_iter().map(part).collect()
}

/// A name inside a table.
pub fn name_cell(name: &str) -> String {
    literal(name).replace('|', "\\|")
}

/// A line of a table.
pub fn line<S: AsRef<str>>(cells: impl IntoIterator<Item = S>) -> String {
    let cells: Vec<S> = cells.into_iter().collect();
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    format!("| {} |", cells.join(" | "))
}

/// The lines of a table.
pub fn cells(table: &DataTable) -> String {
    head_and_rows(&table.head, &table.rows)
}

fn head_and_rows(head: &[String], rows: &[Vec<Cell>]) -> String {
    let first = [
        line(head.iter().map(|h| name_cell(h))),
        line(vec!["---"; head.len()]),
    ];
    let rows = rows.iter();
    let rows = rows.map(|row| line(row.iter().map(|c| cell(&c.text))));
    first.into_iter().chain(rows).map(|l| l + "\n").collect()
}
