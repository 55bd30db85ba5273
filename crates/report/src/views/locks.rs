//! Whether locks exclude two clients, as a table.

use crate::{
    code_span::code,
    number,
    types::{Cell, DataTable, LockRow, Report, Section},
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
        title: "Do locks exclude two clients?".into(),
        about: "One side of the layer's directory takes a lock and keeps it, and the other side, another client, \
            tries to take it. Until then the other side can take it, and lets it go again. Where the other side was \
            not asked, threads on one client may exclude each other and not those of another machine."
            .into(),
        is_answer: true,
        tables: vec![DataTable {
            title: "Locks of two clients".into(),
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
        n => Cell::number(format!("{} of {n}", row.excluded), row.excluded as f64),
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
