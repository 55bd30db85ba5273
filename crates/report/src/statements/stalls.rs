//! Results with stalls.

use crate::{statements::Selection, types::ResultRow};

/// Whether its average differs from its typical time, and both are known.
pub fn has_average(row: &ResultRow) -> bool {
    row.has_stalls() && row.ratio.is_some_and(|r| r.average.is_some())
}

/// Results of the layers that are compared whose stalls can be said.
pub fn rows<'a>(f: &Selection<'a>) -> Vec<&'a ResultRow> {
    let layers = f.compared();
    let asked = layers.iter().flat_map(|layer| f.rows(layer));
    asked.filter(|r| r.is_told() && has_average(r)).collect()
}

/// The row whose average is farthest from its typical ratio.
pub fn worst<'a>(rows: &[&'a ResultRow]) -> Option<&'a ResultRow> {
    let farthest = rows.iter().max_by(|a, b| apart(a).total_cmp(&apart(b)));
    farthest.copied()
}

/// Distance of the average from the typical ratio, as |ln|.
fn apart(row: &ResultRow) -> f64 {
    let apart = row.ratio.and_then(|r| r.average_apart());
    apart.unwrap_or_default()
}
