//! The answer for a pull request: headline, matrix, findings, in at most 60 lines.

use std::fmt::Write as _;

use super::{Exporter, Files, own::NAME, rows, series};
use crate::{
    Cell, DataTable, Report, Section,
    code_span::{Part, code, parts},
    number::count,
    overview::{Overview, sign},
};

/// Lines in all.
const LINES: usize = 60;
/// Operations of the matrix, however little room there is.
const POINTS: usize = 4;
/// Rows of every other table.
const ROWS: usize = 10;
/// Pieces of advice.
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

    fn is_own(&self, head: &str, _: &mut std::fs::File) -> bool {
        head.starts_with(&format!("<!-- {NAME}"))
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let head = format!(
            "<!-- {} -->\n\n# {}\n\n{}",
            report.generated_by,
            prose(&report.headline),
            study(report)
        );
        let foot = own(report) + &findings(report) + &about(report);
        let room = LINES.saturating_sub(head.lines().count() + foot.lines().count());
        write!(out.open("")?, "{head}{}{foot}", matrix(report, room))?;
        Ok(())
    }
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
    format!(
        "\n{}. All of it: `layermark report {} -o report.full.md`\n",
        prose(&parts.join("; ")),
        report.run
    )
}

/// Which of a study's claims hold in which layer.
fn study(report: &Report) -> String {
    let claims = report.study.as_ref().and_then(|s| Some((s, s.claims()?)));
    claims.map_or_else(String::new, |(study, claims)| {
        titled(&study.title, claims.table())
    })
}

/// What such a run is made for beside ratios: launches, Iometer's figures, what is set beside.
fn own(report: &Report) -> String {
    let mut text = String::new();
    let levels = series::levels(report);
    if !levels.is_empty() {
        let cells = |line: [String; 8]| line.into_iter().map(Cell::text).collect();
        let table = DataTable {
            title: String::new(),
            note: String::new(),
            head: series::HEADS.map(str::to_owned).to_vec(),
            rows: levels.into_iter().map(cells).collect(),
        };
        text += &titled("Launches", table);
    }
    for section in report.sections().into_iter().filter(Section::is_own) {
        if let Some(table) = section.tables.into_iter().next() {
            text += &titled(&section.title, table);
        }
    }
    text
}

/// The first rows of a table below a title.
fn titled(title: &str, mut table: DataTable) -> String {
    let left = table.rows.len().saturating_sub(ROWS);
    table.rows.truncate(ROWS);
    let more = match left {
        0 => String::new(),
        n => format!("And {}.\n\n", count(n, "more row")),
    };
    format!("{}:\n\n{}\n{more}", prose(title), cells(&table))
}

/// Operations down, layers across.
fn matrix(report: &Report, room: usize) -> String {
    // Head, rule, legend and what stands between them.
    const AROUND: usize = 5;
    let all = Overview::new(report);
    if all.layers.is_empty() {
        return String::new();
    }
    let points = all.points.len();
    let shown = all.largest(room.saturating_sub(AROUND).max(POINTS));
    let heads = shown.layers.iter().map(|l| name_cell(l));
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

/// Text, such as a name, in which nothing has a meaning.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '&' => out.push('\\'),
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

/// [`prose`] inside a table. A `|` ends a cell in a code span too, so a name with one is none.
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
    let rule = "---".to_owned();
    let head = [
        line(table.head.iter().map(|h| name_cell(h))),
        line(vec![rule; table.head.len()]),
    ];
    let rows = table.rows.iter();
    let rows = rows.map(|row| line(row.iter().map(|c| cell(&c.text))));
    head.into_iter().chain(rows).map(|l| l + "\n").collect()
}
