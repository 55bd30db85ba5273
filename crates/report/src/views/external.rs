//! Results of another program next to ours, as a table.

use crate::{
    code_span::code,
    number,
    types::{Cell, DataTable, ExternalResults, ExternalRow, Section},
};

/// How many of their points are named if none of ours matches.
const SHOWN: usize = 6;

/// The part of the report that shows an import.
pub fn section(of: &ExternalResults) -> Section {
    let when = of
        .measured
        .as_deref()
        .unwrap_or("at a time that its file does not tell");
    let mut note = vec![format!(
        "Ratio: time an operation, ours over theirs; above 1, ours took longer. Theirs was measured by {} ({when}), read from {}. It took no turns with ours, and may have run on \
         another machine, disk and directory; the state of its cache was not proved. So this is no verdict.",
        of.tool, of.file
    )];
    note.extend(of.notes.iter().map(|note| format!("Import: {note}.")));
    if !of.unmatched.is_empty() {
        let n = of.unmatched.len();
        let first = of.unmatched[..n.min(SHOWN)].join("; ");
        let more = if n > SHOWN { "; ..." } else { "" };
        let count = number::count(n, "point");
        note.push(format!("Without one of ours: {count} ({first}{more})."));
    }
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
        let nothing = "None of them is of a point of this run, so there is nothing to compare";
        remarks.push(nothing.to_owned());
        let more = note[1..].iter().map(|note| note.trim_end_matches('.'));
        remarks.extend(more.map(str::to_owned));
    } else {
        tables.push(DataTable {
            title: format!("Ours and {}", of.tool),
            note: note.join(" "),
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

fn cells(row: &ExternalRow) -> Vec<Cell> {
    let show = |v: f64| match row.unit.as_str() {
        "us" => number::time(v),
        unit => number::value(v, unit),
    };
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
