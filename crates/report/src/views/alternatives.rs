//! Alternatives compared with the reference: a table for each choice.

use crate::{
    Report,
    code_span::code,
    group,
    number::{self, Written},
    types::{AlternativeRow, Cell, DataTable, ResultRow, Section},
    words::{alternatives as words, captions},
};

/// Name of the section.
pub const NAME: &str = "alternatives";

/// `None` without alternatives.
pub fn section(report: &Report) -> Option<Section> {
    let choices = group::by(&report.alternatives, |row| {
        let reference = report.result(&row.reference);
        reference.map_or("", |r| r.label.as_str())
    });
    let tables: Vec<DataTable> = choices
        .iter()
        .map(|(reference, rows)| table(report, reference, rows))
        .collect();
    (!tables.is_empty()).then(|| Section {
        name: NAME.into(),
        title: captions::ALTERNATIVES.title.into(),
        about: captions::ALTERNATIVES.about.into(),
        tables,
        ..Section::default()
    })
}

fn table(report: &Report, reference: &str, rows: &[&AlternativeRow]) -> DataTable {
    let several = rows.iter().any(|r| r.layer != rows[0].layer);
    let mut lines: Vec<Vec<Cell>> = Vec::new();
    let mut last = "";
    for row in rows {
        if row.reference != last {
            last = &row.reference;
            lines.extend(report.result(last).map(|r| line(r, None)));
        }
        lines.extend(report.result(&row.result).map(|r| line(r, Some(row))));
    }
    let ratio = String::from(words::ratio_head(report.level));
    let mut head = ["layer", "what", &ratio, "difference", "verdict"]
        .map(str::to_owned)
        .to_vec();
    if !several {
        head.remove(0);
        for line in &mut lines {
            line.remove(0);
        }
    }
    DataTable {
        title: words::compared_with(reference).into(),
        note: words::all_of_them(&rows[0].what).into(),
        head,
        rows: lines,
    }
}

/// A result, and its comparison with its reference, unless it is the reference itself.
fn line(result: &ResultRow, against: Option<&AlternativeRow>) -> Vec<Cell> {
    let compared = against.map(|a| a.comparison);
    let ratio = compared.and_then(|c| Some((c.ratio?, c.leaning())));
    let extra = compared.and_then(|c| c.extra_us);
    vec![
        Cell::text(code(&result.layer)),
        Cell::text(code(&result.label)),
        ratio.map_or_else(Cell::default, |(e, leaning)| {
            Cell::number(Written::beside(leaning, &e).with_ends(), e.estimate)
        }),
        extra.map_or_else(Cell::default, |e| {
            Cell::number(number::extra_of(&e), e.estimate)
        }),
        Cell::text(compared.map_or("reference", |c| c.word())),
    ]
}
