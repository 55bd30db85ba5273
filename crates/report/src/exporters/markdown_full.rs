//! The complete report, for an issue or a wiki.

use std::io::Write;

use super::{
    Exporter, Files,
    markdown::{cell, cells, headline, name_cell, prose},
};
use crate::{
    DataTable, Report, ResultRow, Section,
    code_span::{code, fence},
    views::rows,
};

/// See the module.
pub struct MarkdownFull;

impl Exporter for MarkdownFull {
    fn id(&self) -> &'static str {
        "markdown_full"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["full.md"]
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let out = out.open("")?;
        writeln!(out, "<!-- {} -->\n", report.generated_by)?;
        write!(out, "{}", headline(report))?;
        for verdict in &report.verdicts {
            writeln!(out, "- {}", prose(&verdict.text))?;
        }
        writeln!(out, "\n{}\n", prose(&rows::about(report)))?;
        let sections = report.sections();
        let (study, others) = sections.split_at(usize::from(report.study.is_some()));
        study.iter().try_for_each(|s| section(s, out))?;
        trust(report, out)?;
        table(report, out)?;
        others.iter().try_for_each(|s| section(s, out))?;
        advice(report, out)?;
        left_out(report, out)?;
        reproduce(report, out)
    }
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
            let label = if n == 0 {
                name_cell(label)
            } else {
                String::new()
            };
            writeln!(out, "| {label} {}", result(row, &notes.of(row)))?;
        }
    }
    writeln!(out)?;
    Ok(())
}

fn result(row: &ResultRow, note: &str) -> String {
    let cells = [
        name_cell(&rows::layer(row)),
        rows::op_time(row),
        rows::ratio(row).replace('[', "\\["),
        rows::extra(row),
        row.word().into(),
        rows::label(row),
        cell(note),
    ];
    format!("| {} |", cells.join(" | "))
}

fn section(section: &Section, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(
        out,
        "## {}\n\n{}\n",
        prose(&section.title),
        prose(&section.about)
    )?;
    if let Some(claims) = section.claims() {
        writeln!(out, "{}", cells(&claims.table()))?;
    }
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
    for of in &section.tables {
        data(of, out)?;
    }
    for remark in &section.remarks {
        writeln!(out, "- {}.", prose(remark))?;
    }
    if !section.remarks.is_empty() {
        writeln!(out)?;
    }
    for file in &section.files {
        let (name, fence) = (code(&file.name), fence(&file.text, 3));
        writeln!(out, "{name}\n\n{fence}\n{}{fence}\n", file.text)?;
    }
    Ok(())
}

fn data(table: &DataTable, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "### {}\n", prose(&table.title))?;
    if !table.note.is_empty() {
        writeln!(out, "{}\n", prose(&table.note))?;
    }
    writeln!(out, "{}", cells(table))?;
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
            .map(|h| format!(" ({})", code(h)))
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
    let (command, plan) = (&report.reproduce.command, &report.reproduce.plan_toml);
    let (around, toml) = (fence(command, 3), fence(plan, 3));
    writeln!(out, "{around}\n{command}\n{around}\n")?;
    writeln!(out, "{toml}toml\n# plan.toml\n{plan}{toml}")?;
    Ok(())
}
