//! Whether locks exclude two clients, as a table.

use crate::{
    code_span::code,
    number,
    types::{Cell, DataTable, LockRow, Report, Section},
    words::captions,
};

/// The table. `None` if no lock was taken where another client could try it.
pub fn section(report: &Report) -> Option<Section> {
    if report.locks.is_empty() {
        return None;
    }
    let head = [
        "layer",
        "lock",
        "two clients",
        "refused",
        "slowest",
        "because",
    ];
    Some(Section {
        name: "locks".into(),
        title: captions::LOCKS.title.into(),
        about: captions::LOCKS.about.into(),
        is_answer: true,
        tables: vec![DataTable {
            title: captions::LOCK_TABLE.title.into(),
            note: String::new(),
            head: head.map(str::to_owned).to_vec(),
            rows: report.locks.iter().map(cells).collect(),
        }],
        ..Section::default()
    })
}

fn cells(row: &LockRow) -> Vec<Cell> {
    let refused = match row.tried {
        0 => Cell::text("-"),
        n => Cell::number(number::some_of(row.excluded, n), row.excluded as f64),
    };
    vec![
        Cell::text(code(&row.layer)),
        Cell::text(&row.kind),
        Cell::text(row.verdict.word()),
        refused,
        match row.longest_us {
            Some(us) => Cell::number(number::time(us), us),
            None => Cell::text("-"),
        },
        Cell::text(&row.because),
    ]
}
