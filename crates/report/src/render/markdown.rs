//! Markdown: the answer for a pull request, or the complete report for an issue or a wiki.

use std::fmt::Write as _;

use super::{Files, Renderer};
use crate::{
    DataTable, Reproduce, Section, TrustItem,
    code_span::{code, fence},
    page::{
        Block, Content, Document, Item, Part,
        results::{Numbers, ResultLine, Results},
    },
    words::result_line,
};

mod brief;
mod text;

use text::{cell, cells, line, name_cell, prose};

/// See the module.
pub struct Markdown {
    id: &'static str,
    endings: &'static [&'static str],
    full: bool,
}

/// The answer.
pub static BRIEF: Markdown = Markdown {
    id: "markdown",
    endings: &["md", "markdown"],
    full: false,
};
/// Everything.
pub static FULL: Markdown = Markdown {
    id: "markdown_full",
    endings: &["full.md"],
    full: true,
};

impl Renderer for Markdown {
    fn id(&self) -> &'static str {
        self.id
    }

    fn extensions(&self) -> &'static [&'static str] {
        self.endings
    }

    fn draw(&self, document: &Document, out: &mut dyn Files) -> anyhow::Result<()> {
        let text = if self.full {
            document.in_order(ORDER).map(block).collect()
        } else {
            brief::brief(document, &document.more("-o report.full.md"))
        };
        write!(
            out.open("")?,
            "<!-- {} -->\n\n{text}",
            document.generated_by
        )?;
        Ok(())
    }
}

/// The parts of the complete report.
const ORDER: &[&[Part]] = &[
    &[Part::Headline],
    &[Part::InShort],
    &[Part::Layers],
    &[Part::Findings],
    &[Part::About],
    &[Part::Study],
    &[Part::Trust],
    &[Part::Results],
    &[Part::Answer, Part::Figures, Part::Model],
    &[Part::Advice],
    &[Part::LeftOut],
    &[Part::Fidelity],
    &[Part::Reproduce],
];

fn block(block: &Block) -> String {
    let body = match &block.content {
        Content::Caveats(_) => return headline(block),
        Content::Line(text) => return prose(text) + "\n\n",
        // The layers' paragraphs explain the headline above them.
        Content::List(items) if matches!(block.part, Part::InShort | Part::Layers) => {
            return list(items) + "\n";
        }
        Content::Results(of) if of.is_empty() => return String::new(),
        Content::List(items) => list(items) + "\n",
        Content::Checks(items) => checks(items),
        Content::Results(of) => results(of),
        Content::Section(of) => section(of),
        Content::Reproduce(how) => reproduce(how),
        Content::Matrix(_)
        | Content::Method(_)
        | Content::Stack(_)
        | Content::SelfTests(_)
        | Content::Trials(_) => return String::new(),
    };
    format!(
        "## {}\n\n{}{body}",
        prose(&block.title),
        paragraph(&block.about)
    )
}

/// The headline and its caveats.
fn headline(block: &Block) -> String {
    let title = format!("# {}\n\n", prose(&block.title));
    let caveats = match &block.content {
        Content::Caveats(caveats) => *caveats,
        _ => &[],
    };
    let caveats = caveats.iter();
    let caveats = caveats.map(|c| format!("\u{26a0} **{}.**\n\n", prose(c)));
    title + &caveats.collect::<String>()
}

fn paragraph(text: &str) -> String {
    match text {
        "" => String::new(),
        text => prose(text) + "\n\n",
    }
}

fn list(items: &[Item]) -> String {
    let line = |item: &Item| {
        let hint = item
            .hint
            .map_or_else(String::new, |h| format!(" ({})", code(h)));
        let evidence = evidence(item.evidence);
        format!("- {}{evidence}{hint}\n", prose(&item.text))
    };
    items.iter().map(line).collect()
}

fn evidence(ids: &[String]) -> String {
    match ids {
        [] => String::new(),
        ids => format!(" ({})", ids.join(", ")),
    }
}

fn checks(items: &[TrustItem]) -> String {
    let row = |item: &TrustItem| {
        let cells = [
            cell(&item.title),
            item.state.word().into(),
            cell(&item.text),
        ];
        line(cells) + "\n"
    };
    let rows: String = items.iter().map(row).collect();
    format!("| check | | found |\n| --- | --- | --- |\n{rows}\n")
}

fn results(results: &Results) -> String {
    let mut text = format!(
        "| operation | layer | time an operation | {} | ratio | difference | verdict | {} | |\n\
         | --- | --- | ---: | ---: | ---: | ---: | --- | --- | --- |\n",
        result_line::BASELINE,
        result_line::SOURCE
    );
    for group in &results.groups {
        for (n, of) in group.lines.iter().enumerate() {
            let label = if n == 0 {
                name_cell(group.label)
            } else {
                String::new()
            };
            for numbers in &of.numbers {
                let label = if numbers.is_average {
                    ""
                } else {
                    label.as_str()
                };
                let _ = writeln!(text, "| {label} {}", result(of, numbers));
            }
        }
    }
    text + "\n"
}

fn result(of: &ResultLine, numbers: &Numbers) -> String {
    let name = name_cell(&of.name);
    let of_row = if numbers.is_average {
        [const { String::new() }; 3]
    } else {
        [of.word.into(), of.source.clone(), cell(&of.notes.all)]
    };
    let cells = [
        format!("{name} {}", numbers.of()).trim_end().to_owned(),
        numbers.time(),
        numbers.baseline(),
        numbers.ratio().replace('[', "\\["),
        numbers.extra(),
    ];
    line(cells.into_iter().chain(of_row))
}

fn section(section: &Section) -> String {
    let mut text = String::new();
    if let Some(claims) = section.claims() {
        text += &(cells(&claims.table()) + "\n");
    }
    for c in &section.conclusions {
        let (holds, evidence) = (c.holds.words(), evidence(&c.evidence));
        let _ = writeln!(text, "- **{holds}**: {}{evidence}", prose(&c.text));
    }
    if !section.conclusions.is_empty() {
        text += "\n";
    }
    text.extend(section.tables.iter().map(data));
    let remarks = section.remarks.iter();
    text.extend(remarks.map(|remark| format!("- {}.\n", prose(remark))));
    if !section.remarks.is_empty() {
        text += "\n";
    }
    for file in &section.files {
        let (name, fence) = (code(&file.name), fence(&file.text, 3));
        let _ = writeln!(text, "{name}\n\n{fence}\n{}{fence}\n", file.text);
    }
    text
}

fn data(table: &DataTable) -> String {
    let (title, note) = (prose(&table.title), paragraph(&table.note));
    format!("### {title}\n\n{note}{}\n", cells(table))
}

fn reproduce(how: &Reproduce) -> String {
    let (command, plan) = (&how.command, &how.plan_toml);
    let (around, toml) = (fence(command, 3), fence(plan, 3));
    format!("{around}\n{command}\n{around}\n\n{toml}toml\n# plan.toml\n{plan}{toml}\n")
}
