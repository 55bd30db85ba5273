//! A format that nobody asked for, plain HTML without style, drawn from the blocks alone.

use std::fmt::Write;

use layermark_report::{
    DataTable, Report,
    page::{Block, Content, Document, Item},
};
use layermark_testkit::sample::Sample;

use crate::iozone_vm;

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

fn table<'a>(head: &[String], rows: impl Iterator<Item = Vec<&'a str>>) -> String {
    let line = |tag: &str, cells: Vec<&str>| -> String {
        let cells = cells.into_iter().map(escaped);
        let cells: Vec<String> = cells.map(|c| format!("<{tag}>{c}</{tag}>")).collect();
        format!("<tr>{}</tr>\n", cells.concat())
    };
    let head = line("th", head.iter().map(String::as_str).collect());
    let rows: String = rows.map(|cells| line("td", cells)).collect();
    format!("<table>\n{head}{rows}</table>\n")
}

fn data(of: &DataTable) -> String {
    let rows = of.rows.iter();
    let rows = rows.map(|row| row.iter().map(|c| c.text.as_str()).collect());
    format!("<h3>{}</h3>\n{}", escaped(&of.title), table(&of.head, rows))
}

fn item(of: &Item) -> String {
    let hint = of.hint.map_or_else(String::new, |h| format!(" ({h})"));
    format!("<li>{}{}</li>\n", escaped(&of.text), escaped(&hint))
}

fn content(of: &Content) -> String {
    match of {
        Content::Caveats(all) => {
            let all = all.iter().map(|c| format!("<b>{}.</b>\n", escaped(c)));
            all.collect::<Vec<_>>().concat()
        }
        Content::Line(text) => format!("<p>{}</p>\n", escaped(text)),
        Content::List(items) => format!(
            "<ul>\n{}</ul>\n",
            items.iter().map(item).collect::<String>()
        ),
        Content::Checks(checks) => {
            let head = ["check", "state", "found"].map(str::to_owned);
            table(
                &head,
                checks
                    .iter()
                    .map(|c| vec![c.title.as_str(), c.state.word(), &c.text]),
            )
        }
        Content::Matrix(all) => {
            let head: Vec<String> = ["operation".to_owned()]
                .into_iter()
                .chain(all.columns.iter().map(|column| column.head.clone()))
                .collect();
            let rows: Vec<Vec<String>> = all
                .rows
                .iter()
                .map(|row| {
                    let cells = row.cells.iter().map(|cell| all.text(cell));
                    [row.label.to_owned()].into_iter().chain(cells).collect()
                })
                .collect();
            table(
                &head,
                rows.iter()
                    .map(|row| row.iter().map(String::as_str).collect()),
            )
        }
        Content::Results(results) => {
            let head = ["operation", "layer", "verdict", "note"].map(str::to_owned);
            let lines = results.lines();
            table(
                &head,
                lines.map(|l| vec![l.label, l.layer, l.word, l.notes.all.as_str()]),
            )
        }
        Content::Section(section) => {
            let mut text = String::new();
            for c in &section.conclusions {
                let _ = writeln!(text, "<p>{}: {}</p>", c.holds.words(), escaped(&c.text));
            }
            text.extend(section.tables.iter().map(data));
            text.extend(
                section
                    .remarks
                    .iter()
                    .map(|r| format!("<p>{}.</p>\n", escaped(r))),
            );
            text
        }
        Content::Reproduce(how) => format!(
            "<pre>{}\n{}</pre>\n",
            escaped(&how.command),
            escaped(&how.plan_toml)
        ),
        Content::Method(how) => format!("<p>{} blocks</p>\n", how.blocks),
        Content::Stack(stack) => {
            let layers = stack.layers.iter().map(|l| l.name.as_str());
            table(&["layer".to_owned()], layers.map(|name| vec![name]))
        }
        Content::SelfTests(layers) => {
            let rows: Vec<[String; 2]> = layers
                .iter()
                .map(|l| [l.name.clone(), l.self_test.clock_ns.to_string()])
                .collect();
            let rows = rows
                .iter()
                .map(|row| row.iter().map(String::as_str).collect());
            table(&["layer", "clock read, ns"].map(str::to_owned), rows)
        }
        Content::Trials(trials) => {
            let rows = trials.iter();
            table(
                &["layer", "operation"].map(str::to_owned),
                rows.map(|t| vec![t.layer.as_str(), t.point.as_str()]),
            )
        }
    }
}

fn block(of: &Block) -> String {
    let (title, about) = (escaped(&of.title), escaped(&of.about));
    format!("<h2>{title}</h2>\n<p>{about}</p>\n{}", content(&of.content))
}

#[test]
fn plain_html_has_every_block() {
    let (run, trials) = Sample::default().build();
    let mut report = Report::build(&run, &trials);
    report.left_out = serde_json::from_str(
        r#"[{"layer": "vm", "point": "a", "reason": "no <KVM>", "hint": "modprobe kvm"},
            {"layer": "vm", "point": "b", "reason": "no <KVM>", "hint": "modprobe kvm"}]"#,
    )
    .expect("what was left out");
    for report in [report, iozone_vm::report()] {
        let document = Document::new(&report);
        let page: String = document.blocks.iter().map(block).collect();
        let has = |text: &str| assert!(page.contains(&escaped(text)), "{text}: {page}");
        has(&report.headline);
        if !report.left_out.is_empty() {
            has("`vm`: no <KVM> (`a` and `b`) (modprobe kvm)");
        }
        has(&report.run);
        has(&report.reproduce.plan_toml);
        let sentences = report
            .findings
            .iter()
            .chain(&report.verdicts)
            .map(|s| &s.text);
        sentences.for_each(|text| has(text));
        report
            .caveats
            .iter()
            .chain(&report.fidelity)
            .for_each(|text| has(text));
        report.advice.iter().for_each(|a| has(&a.text));
        report.trust.iter().for_each(|t| has(&t.text));
        report.results.iter().for_each(|r| has(&r.label));
        for section in report.sections() {
            has(&section.title);
            section.tables.iter().for_each(|t| has(&t.title));
            section.conclusions.iter().for_each(|c| has(&c.text));
        }
        let blocks = document.blocks.iter();
        let titled = blocks.filter(|b| !b.title.is_empty()).count();
        // The line about the run and the matrix have none.
        assert_eq!(titled + 2, document.blocks.len());
        assert_eq!(page.matches("<h2>").count(), document.blocks.len());
    }
}
