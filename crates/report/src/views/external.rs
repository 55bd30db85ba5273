//! Results of another program next to ours, as a table.

use crate::{
    code_span::code,
    number,
    types::{Cell, DataTable, ExternalResults, ExternalRow, ImportComparison, ImportPair, Section},
    words::{Text, captions, external as words},
};

/// The part of the report that shows an import.
pub fn section(of: &ExternalResults) -> Section {
    let mut more: Vec<Text> = of
        .notes
        .iter()
        .map(|note| words::imported(None, note))
        .collect();
    more.extend(words::without("Without one of ours", &of.unmatched));
    let head = [
        "operation",
        "layer",
        "theirs is",
        "ours",
        "theirs",
        "ratio",
        "differs in",
    ];
    let rows = of.rows.iter().map(cells).collect::<Vec<_>>();
    let (mut tables, mut remarks) = (Vec::new(), Vec::new());
    if rows.is_empty() {
        remarks.push(words::NONE_MATCHES.to_owned());
        remarks.extend(more.into_iter().map(String::from));
    } else {
        tables.push(DataTable {
            title: words::ours_and(&of.tool).into(),
            note: words::sentences(words::ours_over_theirs(of), &more).into(),
            head: head.map(str::to_owned).to_vec(),
            rows,
        });
    }
    Section {
        name: ["beside-", &of.import].concat(),
        title: words::beside(&of.tool).into(),
        about: captions::IMPORTED.about.into(),
        is_answer: true,
        tables,
        remarks,
        ..Section::default()
    }
}

fn cells(row: &ExternalRow) -> Vec<Cell> {
    let show = |v: f64| shown(v, &row.unit);
    let ours = number::ranged(row.ours, row.interval, show);
    vec![
        Cell::text(&row.point),
        Cell::text(code(&row.layer)),
        Cell::text(&row.name),
        Cell::number(ours, row.ours),
        Cell::number(show(row.theirs), row.theirs),
        Cell::number(number::ratio(row.ratio), row.ratio),
        Cell::text(row.differences.join("; ")),
    ]
}

fn shown(value: f64, unit: &str) -> String {
    match unit {
        "us" => number::time(value),
        unit => number::value(value, unit),
    }
}

/// Two imports next to each other, as a table.
pub fn comparison(of: &ImportComparison) -> Section {
    let mut more = vec![
        words::read_from("Older", &of.old),
        words::read_from("Newer", &of.new),
    ];
    for (which, side) in [("older", &of.old), ("newer", &of.new)] {
        let notes = side.notes.iter();
        more.extend(notes.map(|text| words::imported(Some(which), text)));
    }
    more.extend(words::without("Only in the older", &of.only_old));
    more.extend(words::without("Only in the newer", &of.only_new));
    let head = ["operation", "older", "newer", "ratio", "differs in"];
    let tables = DataTable {
        title: captions::TWO_IMPORTS.title.into(),
        note: words::sentences(words::NEWER_OVER_OLDER.into(), &more).into(),
        head: head.map(str::to_owned).to_vec(),
        rows: of.rows.iter().map(pair_cells).collect(),
    };
    let is_empty = of.rows.is_empty();
    Section {
        name: "imports".into(),
        title: words::both(&of.old.tool, &of.new.tool).into(),
        about: captions::TWO_IMPORTS.about.into(),
        is_answer: true,
        tables: if is_empty { Vec::new() } else { vec![tables] },
        remarks: if is_empty {
            let more = more.into_iter().map(String::from);
            std::iter::once(words::NONE_IN_COMMON.to_owned())
                .chain(more)
                .collect()
        } else {
            Vec::new()
        },
        ..Section::default()
    }
}

fn pair_cells(row: &ImportPair) -> Vec<Cell> {
    vec![
        Cell::text(&row.point),
        Cell::number(shown(row.old, &row.unit), row.old),
        Cell::number(shown(row.new, &row.unit), row.new),
        Cell::number(number::ratio(row.ratio), row.ratio),
        Cell::text(row.differences.join("; ")),
    ]
}
