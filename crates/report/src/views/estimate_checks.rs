//! Estimates beside what they estimate, as a table.

use crate::{
    code_span::code,
    number,
    types::{
        Cell, Conclusion, DataTable, Estimate, EstimateCheck, EstimateVerdict, Holds, Report,
        Section,
    },
    words::{captions, estimate_checks::apart},
};

/// The table. `None` if nothing was estimated and measured.
pub fn section(report: &Report) -> Option<Section> {
    let rows = &report.estimate_checks;
    if rows.is_empty() {
        return None;
    }
    let head = ["layer", "program", "estimate", "apart", ""];
    Some(Section {
        name: "estimate_checks".into(),
        title: captions::ESTIMATES.title.into(),
        about: captions::ESTIMATES.about.into(),
        is_answer: true,
        tables: vec![DataTable {
            title: captions::ESTIMATE_TABLE.title.into(),
            note: String::new(),
            head: head.map(str::to_owned).to_vec(),
            rows: rows.iter().map(cells).collect(),
        }],
        conclusions: rows.iter().map(conclusion).collect(),
        ..Section::default()
    })
}

fn conclusion(row: &EstimateCheck) -> Conclusion {
    Conclusion {
        text: row.text.clone(),
        claim: String::new(),
        layer: row.layer.clone(),
        holds: match row.verdict {
            EstimateVerdict::Explained => Holds::Yes,
            EstimateVerdict::NotExplained => Holds::No,
            EstimateVerdict::Undecided => Holds::Open,
        },
        evidence: vec![row.estimate.clone(), row.measured.clone()],
    }
}

fn cells(row: &EstimateCheck) -> Vec<Cell> {
    let ratio = |e: &Option<Estimate>| {
        let number = |e: &Estimate| Cell::number(number::ratio_with(e), e.estimate);
        e.as_ref().map_or_else(|| Cell::text("-"), number)
    };
    let apart = row.difference.map_or_else(
        || Cell::text("-"),
        |d| Cell::number(String::from(apart(&d)), d.estimate),
    );
    vec![
        Cell::text(code(&row.layer)),
        ratio(&row.measured_ratio),
        ratio(&row.estimate_ratio),
        apart,
        Cell::text(row.verdict.word()),
    ]
}
