//! Results of another program next to ours, as a table.

use crate::{
    code_span::code,
    number,
    types::{Cell, DataTable, ExternalResults, ExternalRow, ImportComparison, ImportPair, Section},
    words::{
        Text,
        external::{
            NEWER_OVER_OLDER, NONE_IN_COMMON, NONE_MATCHES, imported, ours_over_theirs, read_from,
            without,
        },
        text,
    },
};

/// The part of the report that shows an import.
pub fn section(of: &ExternalResults) -> Section {
    let mut more: Vec<Text> = of.notes.iter().map(|note| imported(None, note)).collect();
    more.extend(without("Without one of ours", &of.unmatched));
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
        remarks.push(NONE_MATCHES.to_owned());
        remarks.extend(more.into_iter().map(String::from));
    } else {
        tables.push(DataTable {
            title: format!("Ours and {}", of.tool),
            note: sentences(ours_over_theirs(of), &more),
            head: head.map(str::to_owned).to_vec(),
            rows,
        });
    }
    Section {
        name: format!("beside-{}", of.import),
        title: format!("Beside {}", of.tool),
        about: "Results of another program, read from its file.".into(),
        is_answer: true,
        tables,
        remarks,
        ..Section::default()
    }
}

/// A note of one text and of sentences that have no full stop.
fn sentences(first: Text, more: &[Text]) -> String {
    let more = more.iter().map(|text| text!("{text}."));
    Text::joined(std::iter::once(first).chain(more), " ").into()
}

fn cells(row: &ExternalRow) -> Vec<Cell> {
    let show = |v: f64| shown(v, &row.unit);
    let ours = row.interval.map_or_else(
        || show(row.ours),
        |[low, high]| format!("{} [{} to {}]", show(row.ours), show(low), show(high)),
    );
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
    let mut more = vec![read_from("Older", &of.old), read_from("Newer", &of.new)];
    for (which, side) in [("older", &of.old), ("newer", &of.new)] {
        let notes = side.notes.iter();
        more.extend(notes.map(|text| imported(Some(which), text)));
    }
    more.extend(without("Only in the older", &of.only_old));
    more.extend(without("Only in the newer", &of.only_new));
    let head = ["operation", "older", "newer", "ratio", "differs in"];
    let tables = DataTable {
        title: "Operations of both".into(),
        note: sentences(NEWER_OVER_OLDER.into(), &more),
        head: head.map(str::to_owned).to_vec(),
        rows: of.rows.iter().map(pair_cells).collect(),
    };
    let is_empty = of.rows.is_empty();
    Section {
        name: "imports".into(),
        title: format!("{} and {}", of.old.tool, of.new.tool),
        about: "Two results of other programs.".into(),
        is_answer: true,
        tables: if is_empty { Vec::new() } else { vec![tables] },
        remarks: if is_empty {
            let more = more.into_iter().map(String::from);
            std::iter::once(NONE_IN_COMMON.to_owned())
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
