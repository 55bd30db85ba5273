//! File size by record size: a table for each layer of a test, a colour scale behind its numbers,
//! and the same as a surface. In a large report the results of a matrix appear here, not in the
//! main table.

use maud::{Markup, html};

use super::{figures, fold, text::micro};
use crate::{
    Report, ResultRow, Verdict,
    analysis::{
        size_table::{self, LayerTable, SizeTable},
        stalls,
    },
    charts, number,
    views::{heat, rows},
};
use layermark_model::format_size;

/// With more results than this, those of a matrix are folded into its own section.
const FOLDED: usize = 600;

/// Whether a result appears only with its matrix.
pub fn folds(report: &Report) -> impl Fn(&ResultRow) -> bool {
    let many = report.results.len() > FOLDED;
    let matrices = size_table::ids_in_matrices(report);
    move |row| many && matrices.contains(row.id.as_str())
}

pub fn section(report: &Report) -> Markup {
    let mut matrices = size_table::tables(report);
    matrices.retain(SizeTable::is_matrix);
    let baseline = report.baseline();
    let body = html! {
        p.hint {
            "Rows are file sizes, columns records. A cell has the throughput, and below it the time an operation takes divided by that in " (baseline) ". "
            "A cell of " (baseline) " is darker where it is faster. A layer is orange where it is slower than " (baseline) ", blue where it is faster; ? means not known, "
            (stalls::SIGN) " that " (stalls::MEANING) "."
        }
        @for (n, test) in matrices.iter().enumerate() {
            details.matrix open[matrices.len() < 5] {
                summary { (test.title) }
                @for of in &test.layers { (table(test, of)) }
                (surfaces(test, n))
                @if report.results.len() > FOLDED { (rows(test)) }
            }
        }
    };
    let note = number::count(matrices.len(), "test");
    html! { @if !matrices.is_empty() { (fold("matrices", "File size and record", &note, &body)) } }
}

fn table(test: &SizeTable, of: &LayerTable) -> Markup {
    let scale = heat::Scale::of(of);
    let label = format!("{}, {}", test.title, of.layer.name);
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table.small.heat {
                caption { code { (of.layer.name) } }
                thead { tr { th scope="col" { "file" } @for record in &test.records { th.num scope="col" { (format_size(*record)) } } } }
                tbody {
                    @for (file, row) in test.files.iter().zip(&of.cells) {
                        tr {
                            th scope="row" { (format_size(*file)) }
                            @for result in row { (cell(*result, &scale)) }
                        }
                    }
                }
            }
        }
    }
}

fn cell(row: Option<&ResultRow>, scale: &heat::Scale) -> Markup {
    let Some((row, value)) = row.and_then(|r| Some((r, r.value?))) else {
        return html! { td {} };
    };
    let ratio = row.ratio.filter(|r| r.estimate > 0.0);
    let written = number::Written::in_row(row).filter(|_| ratio.is_some());
    let class = match (ratio, row.verdict) {
        (None, _) => format!("v{}", scale.step(value)),
        (Some(r), Verdict::Slower | Verdict::Faster) => shade(r.estimate),
        _ => "v0".into(),
    };
    let open = matches!(row.verdict, Verdict::Undecided | Verdict::Untrusted);
    html! {
        td class={ "num " (class) } {
            (number::value(value, &row.unit))
            @if let Some(r) = written { span.span { (r.times()) (stalls::sign(row)) @if open { " ?" } } }
        }
    }
}

/// The CSS class of a ratio's shade.
pub fn shade(ratio: f64) -> String {
    let side = if ratio > 1.0 { "s" } else { "f" };
    format!("{side}{}", heat::of_ratio(ratio))
}

fn surfaces(test: &SizeTable, n: usize) -> Markup {
    let drawn = charts::surfaces(test, n);
    html! {
        @if !drawn.is_empty() {
            details.charts { summary { "As a surface" } (figures::grid(&drawn)) }
        }
    }
}

/// The results of a folded matrix, in short form.
fn rows(test: &SizeTable) -> Markup {
    html! {
        details {
            summary { (number::count(test.results.len(), "result")) }
            div.scroll tabindex="0" role="region" aria-label={ "Results: " (test.title) } {
                table.small {
                    thead { tr { @for head in ["Operation", "Layer", "Ratio", "Verdict", "Time an operation", "Baseline's", "Throughput", "Result"] { th scope="col" { (head) } } } }
                    tbody { @for row in &test.results { (lines(row)) } }
                }
            }
        }
    }
}

fn lines(row: &ResultRow) -> Markup {
    html! {
        @for n in rows::numbers(row) {
            @let typical = n.of.is_empty();
            tr id=[typical.then_some(&row.id)] {
                td { (row.label) @if !typical { ", " (n.of) } }
                td { code { (row.layer) } }
                td.num { (n.ratio()) }
                td { @if typical { (row.word()) @if row.value.is_none() { @if let Some(e) = &row.error { " " (e) } } } }
                td.num { (micro(&n.time())) }
                td.num { (micro(&n.baseline())) }
                td.num { @if typical { (number::result_value(row)) } }
                td { (row.id) }
            }
        }
    }
}
