//! The finding about work without pauses.

use layermark_model::Limit;

use crate::{
    analysis::{
        summary::{Findings, quoted},
        sustained,
    },
    code_span::code,
    number,
    types::{ResultRow, Statement},
    words::limits,
};

/// The result that is slower by most without pauses, of all that are.
pub fn finding(f: &Findings) -> Option<Statement> {
    let mut rows = f.measured();
    rows.retain(|row| sustained::is_slower(row));
    let most = rows.iter().max_by(|a, b| least(a).total_cmp(&least(b)))?;
    Some(Statement {
        layer: most.layer.clone(),
        text: words(most, &f.baseline())?,
        evidence: rows.iter().map(|r| r.id.clone()).collect(),
    })
}

/// The ratio of the stretch that was slower by least.
fn least(row: &ResultRow) -> f64 {
    let ratios = row.sustained.iter().flat_map(|s| &s.ratios);
    ratios.copied().fold(f64::MAX, f64::min)
}

/// `L at P: 1.1x native's time in short turns, 4.6x over 500 ms at a stretch: why`.
fn words(row: &ResultRow, baseline: &str) -> Option<String> {
    let (sustained, ratio) = (row.sustained.as_ref()?, row.ratio?);
    let who = |limit: &Limit| if limit.helper { "its program" } else { "it" };
    let why = match &sustained.limit {
        Some(limit) => limits::limit(limit, who(limit)),
        None => "why is not proved".into(),
    };
    Some(format!(
        "{} at {}: {} in short turns, {} over {} at a stretch: {why}.",
        code(&row.layer),
        quoted(row),
        number::of_baseline(ratio.average?.estimate, baseline),
        number::of_baseline(least(row), baseline),
        number::time(sustained.length_s * 1e6),
    ))
}
