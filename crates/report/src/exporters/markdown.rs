//! The report for an issue, a wiki or a merge request.

use std::io::Write;

use super::{Exporter, Files, own::NAME, rows, series};
use crate::{Report, ResultRow};

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
        let out = out.open("")?;
        writeln!(out, "<!-- {} -->\n", report.generated_by)?;
        writeln!(out, "# {}\n", prose(&report.headline))?;
        for verdict in &report.verdicts {
            writeln!(out, "- {}", prose(&verdict.text))?;
        }
        writeln!(out, "\n{}\n", prose(&rows::about(report)))?;
        trust(report, out)?;
        table(report, out)?;
        sections(report, out)?;
        launches(report, out)?;
        advice(report, out)?;
        left_out(report, out)?;
        reproduce(report, out)
    }
}

/// Text in which only backquotes keep their meaning.
fn prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_code = false;
    for c in text.chars() {
        match c {
            '`' => in_code = !in_code,
            '\\' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '&' if !in_code => out.push('\\'),
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

/// The same inside a table.
fn cell(text: &str) -> String {
    prose(text).replace('|', "\\|")
}

fn launches(report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    let lines = series::levels(report);
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## Launches\n\n| {} |", series::HEADS.join(" | "))?;
    writeln!(out, "|{}", " --- |".repeat(series::HEADS.len()))?;
    for line in lines {
        let cells: Vec<String> = line.iter().map(|c| cell(c)).collect();
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    writeln!(out)?;
    for says in series::says(report) {
        writeln!(out, "- {}", prose(&says))?;
    }
    Ok(())
}

fn trust(report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(
        out,
        "## Can it be trusted?\n\n| check | | found |\n| --- | --- | --- |"
    )?;
    for item in &report.trust {
        writeln!(
            out,
            "| {} | {} | {} |",
            cell(&item.title),
            item.state.word(),
            cell(&item.text)
        )?;
    }
    writeln!(out)?;
    Ok(())
}

fn table(report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    if report.results.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "## Results\n\nRatio: time an operation in the layer over the time natively, with its 95 % interval; above 1 is slower.\n"
    )?;
    writeln!(
        out,
        "| operation | layer | time an operation | ratio | difference | verdict | {} | |",
        rows::SOURCE
    )?;
    writeln!(out, "| --- | --- | ---: | ---: | ---: | --- | --- | --- |")?;
    let mut notes = rows::Notes::default();
    for (label, group) in rows::groups(report) {
        for (n, row) in group.iter().enumerate() {
            let label = if n == 0 { cell(label) } else { String::new() };
            writeln!(out, "| {label} {}", line(row, &notes.of(row)))?;
        }
    }
    writeln!(out)?;
    Ok(())
}

fn line(row: &ResultRow, note: &str) -> String {
    let cells = [
        cell(&rows::layer(row)),
        rows::op_time(row),
        rows::ratio(row).replace('[', "\\["),
        rows::extra(row),
        row.word().into(),
        rows::label(row),
        cell(note),
    ];
    format!("| {} |", cells.join(" | "))
}

fn sections(report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    for section in report.sections() {
        writeln!(
            out,
            "## {}\n\n{}\n",
            prose(&section.title),
            prose(&section.about)
        )?;
        for c in &section.conclusions {
            let evidence = if c.evidence.is_empty() {
                String::new()
            } else {
                format!(" ({})", c.evidence.join(", "))
            };
            writeln!(
                out,
                "- **{}**: {}{evidence}",
                c.holds.words(),
                prose(&c.text)
            )?;
        }
        if !section.conclusions.is_empty() {
            writeln!(out)?;
        }
        for table in &section.tables {
            writeln!(out, "### {}\n", prose(&table.title))?;
            if !table.note.is_empty() {
                writeln!(out, "{}\n", prose(&table.note))?;
            }
            let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
            writeln!(
                out,
                "{}",
                line(table.head.iter().map(|h| cell(h)).collect())
            )?;
            writeln!(out, "{}", line(vec!["---".into(); table.head.len()]))?;
            for row in &table.rows {
                writeln!(out, "{}", line(row.iter().map(|c| cell(&c.text)).collect()))?;
            }
            writeln!(out)?;
        }
        for file in &section.files {
            writeln!(out, "`{}`\n\n```\n{}```\n", file.name, file.text)?;
        }
    }
    Ok(())
}

fn advice(report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    if report.advice.is_empty() {
        return Ok(());
    }
    writeln!(out, "## What to do\n")?;
    for advice in &report.advice {
        writeln!(
            out,
            "- {} ({})",
            prose(&advice.text),
            advice.evidence.join(", ")
        )?;
    }
    writeln!(out)?;
    Ok(())
}

fn left_out(report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    if report.left_out.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Left out\n")?;
    for left in &report.left_out {
        let what = left
            .point
            .as_ref()
            .map_or_else(|| left.layer.clone(), |p| format!("{}, {p}", left.layer));
        let hint = left
            .hint
            .as_ref()
            .map(|h| format!(" (`{}`)", h.replace('`', "'")))
            .unwrap_or_default();
        writeln!(out, "- {}: {}{hint}", prose(&what), prose(&left.reason))?;
    }
    writeln!(out)?;
    Ok(())
}

fn reproduce(report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    let machine = &report.machine;
    if !report.fidelity.is_empty() {
        writeln!(out, "## Where this differs from iozone on purpose\n")?;
        for note in &report.fidelity {
            writeln!(out, "- {}", prose(note))?;
        }
        writeln!(out)?;
    }
    writeln!(out, "## Reproduce\n")?;
    writeln!(
        out,
        "{}, {} CPUs, {}, kernel {}; {}.\n",
        prose(&machine.cpu),
        machine.cpus,
        prose(&machine.os),
        prose(&machine.kernel),
        prose(&machine.base)
    )?;
    writeln!(
        out,
        "```\n{}\n```\n\n```toml\n# plan.toml\n{}```",
        report.reproduce.command, report.reproduce.plan_toml
    )?;
    Ok(())
}
