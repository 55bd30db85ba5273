//! Results of another program next to ours, as a table.

use crate::{
    code_span::code,
    number,
    types::{
        Cell, DataTable, ExternalResults, ExternalRow, ImportComparison, ImportPair, ImportSide,
        Section,
    },
};

/// How many of their points are named if none of ours matches.
const SHOWN: usize = 6;

/// The part of the report that shows an import.
pub fn section(of: &ExternalResults) -> Section {
    let when = of
        .measured
        .as_deref()
        .unwrap_or("at a time that its file does not tell");
    let ratio = format!(
        "Ratio: time an operation, ours over theirs; above 1, ours took longer. Theirs was measured by {} ({when}), read from {}. It took no turns with ours, and may have run on \
         another machine, disk and directory; the state of its cache was not proved. So this is no verdict.",
        of.tool, of.file
    );
    let mut more: Vec<String> = of
        .notes
        .iter()
        .map(|note| format!("Import: {note}"))
        .collect();
    if !of.unmatched.is_empty() {
        let n = of.unmatched.len();
        let first = of.unmatched[..n.min(SHOWN)].join("; ");
        let etc = if n > SHOWN { "; ..." } else { "" };
        let count = number::count(n, "operation");
        more.push(format!("Without one of ours: {count} ({first}{etc})"));
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
        let nothing = "None of them is of an operation of this run, so there is nothing to compare";
        remarks.push(nothing.to_owned());
        remarks.extend(more);
    } else {
        tables.push(DataTable {
            title: format!("Ours and {}", of.tool),
            note: sentences(ratio, &more),
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
fn sentences(first: String, more: &[String]) -> String {
    more.iter()
        .fold(first, |note, text| format!("{note} {text}."))
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
    let said = |which: &str, side: &ImportSide| {
        let when = side
            .measured
            .as_deref()
            .unwrap_or("at a time that its file does not tell");
        format!("{which}: {} ({when}), read from {}", side.tool, side.file)
    };
    let ratio = "Ratio: time an operation, newer over older; above 1, the newer one took longer. The two took no turns, and \
         may be of different machines, so this is no verdict.";
    let mut more = vec![said("Older", &of.old), said("Newer", &of.new)];
    for (which, side) in [("older", &of.old), ("newer", &of.new)] {
        let notes = side.notes.iter();
        more.extend(notes.map(|text| format!("Import ({which}): {text}")));
    }
    for (which, points) in [("older", &of.only_old), ("newer", &of.only_new)] {
        let first = points[..points.len().min(SHOWN)].join("; ");
        let etc = if points.len() > SHOWN { "; ..." } else { "" };
        if !points.is_empty() {
            let count = number::count(points.len(), "operation");
            more.push(format!("Only in the {which}: {count} ({first}{etc})"));
        }
    }
    let head = ["operation", "older", "newer", "ratio", "differs in"];
    let tables = DataTable {
        title: "Operations of both".into(),
        note: sentences(ratio.into(), &more),
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
            let nothing = "They have no operation in common, so there is nothing to compare";
            std::iter::once(nothing.to_owned()).chain(more).collect()
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
