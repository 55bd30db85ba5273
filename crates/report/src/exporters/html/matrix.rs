//! File size by record: a table for each layer of a test, a colour scale behind its numbers, and the
//! same as a surface. In a large report the results of a matrix stand here, not in the main table.

use maud::{Markup, html};

use super::{figures, fold, text::micro};
use crate::{
    Report, ResultRow, Verdict,
    analysis::size_table::{self, SizeTable},
    charts, number,
    views::rows,
};
use layermark_model::format_size;

/// With more results than this, those of a matrix are folded into its own section.
const FOLDED: usize = 600;
/// Shades of the scale.
const SHADES: f64 = 5.0;

/// Whether a result is shown with its matrix alone.
pub fn folds(report: &Report) -> impl Fn(&ResultRow) -> bool {
    let many = report.results.len() > FOLDED;
    let folded: std::collections::BTreeSet<String> = size_table::tables(report)
        .iter()
        .filter(|f| many && f.is_matrix())
        .flat_map(SizeTable::ids)
        .collect();
    move |row| folded.contains(&row.id)
}

pub fn section(report: &Report) -> Markup {
    let families = size_table::tables(report);
    let matrices: Vec<&SizeTable> = families.iter().filter(|f| f.is_matrix()).collect();
    let folds = folds(report);
    let body = html! {
        p.hint {
            "Rows are file sizes, columns records. A cell has the throughput, and below it the time an operation takes divided by native's. "
            "Native is the darker the faster; a layer is orange where it is slower than native and blue where it is faster; ? stands where that is not known."
        }
        @for (n, family) in matrices.iter().enumerate() {
            details.matrix open[matrices.len() < 5] {
                summary { (family.describe()) }
                @for layer in family.layers(report) { (table(family, layer)) }
                (surfaces(report, family, n))
                (rows(report, family, &folds))
            }
        }
    };
    let note = number::count(matrices.len(), "test");
    html! { @if !matrices.is_empty() { (fold("matrices", "File size and record", &note, &body)) } }
}

fn table(family: &SizeTable, layer: &str) -> Markup {
    let span = span(family, layer);
    let label = format!("{}, {layer}", family.describe());
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table.small.heat {
                caption { code { (layer) } }
                thead { tr { th scope="col" { "file" } @for record in &family.records { th.num scope="col" { (format_size(*record)) } } } }
                tbody {
                    @for file in &family.files {
                        tr {
                            th scope="row" { (format_size(*file)) }
                            @for record in &family.records { (cell(family.cell(layer, *file, *record), span)) }
                        }
                    }
                }
            }
        }
    }
}

fn cell(row: Option<&ResultRow>, span: (f64, f64)) -> Markup {
    let Some((row, value)) = row.and_then(|r| Some((r, r.value?))) else {
        return html! { td {} };
    };
    let ratio = row.ratio.map(|r| r.estimate).filter(|r| *r > 0.0);
    let class = match (ratio, row.verdict) {
        (None, _) => level(value, span),
        (Some(r), Verdict::Slower | Verdict::Faster) => shade(r),
        _ => "v0".into(),
    };
    let open = matches!(row.verdict, Verdict::Undecided | Verdict::Untrusted);
    html! {
        td class={ "num " (class) } {
            (number::value(value, &row.unit))
            @if let Some(r) = ratio { span.span { (number::ratio(r)) "\u{d7}" @if open { " ?" } } }
        }
    }
}

/// Least and largest throughput of a table, as logarithms.
fn span(family: &SizeTable, layer: &str) -> (f64, f64) {
    let values = family.files.iter().flat_map(|f| {
        let at = family.records.iter();
        at.filter_map(|r| family.value(layer, *f, *r))
    });
    values
        .filter(|v| *v > 0.0)
        .map(f64::ln)
        .fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)))
}

fn level(value: f64, (low, high): (f64, f64)) -> String {
    let share = if high > low {
        (value.ln() - low) / (high - low)
    } else {
        0.0
    };
    format!("v{}", (share * SHADES).round().clamp(0.0, SHADES))
}

/// One shade more for each factor of 1.5.
pub fn shade(ratio: f64) -> String {
    let steps = (ratio.ln().abs() / 1.5f64.ln()).ceil().clamp(1.0, SHADES);
    format!("{}{steps}", if ratio > 1.0 { "s" } else { "f" })
}

fn surfaces(report: &Report, family: &SizeTable, n: usize) -> Markup {
    let layers = family.layers(report).into_iter().enumerate();
    let drawn: Vec<charts::Chart> = layers
        .filter_map(|(l, layer)| charts::surface(family, layer, &format!("surface-{n}-{l}")))
        .collect();
    html! {
        @if !drawn.is_empty() {
            details.charts { summary { "As a surface" } (figures::grid(&drawn)) }
        }
    }
}

/// The results behind a folded matrix, short.
fn rows(report: &Report, family: &SizeTable, folds: &impl Fn(&ResultRow) -> bool) -> Markup {
    let ids: std::collections::BTreeSet<String> = family.ids().collect();
    let rows: Vec<&ResultRow> = report
        .results
        .iter()
        .filter(|r| folds(r) && ids.contains(&r.id))
        .collect();
    html! {
        @if !rows.is_empty() {
            details {
                summary { (number::count(rows.len(), "result")) }
                div.scroll tabindex="0" role="region" aria-label={ "Results: " (family.describe()) } {
                    table.small {
                        thead { tr { @for head in ["Operation", "Layer", "Ratio", "Verdict", "Time an operation", "Throughput", "Result"] { th scope="col" { (head) } } } }
                        tbody { @for row in rows { (line(row)) } }
                    }
                }
            }
        }
    }
}

fn line(row: &ResultRow) -> Markup {
    html! {
        tr id=(row.id) {
            td { (row.label) }
            td { code { (row.layer) } }
            td.num { (rows::ratio(row)) }
            td { (row.word()) @if row.value.is_none() { @if let Some(e) = &row.error { " " (e) } } }
            td.num { (micro(&rows::op_time(row))) }
            td.num { (number::result_value(row)) }
            td { (row.id) }
        }
    }
}
