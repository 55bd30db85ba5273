//! Sentences about results with stalls, and advice on them.

use crate::{
    analysis::summary::{Findings, quoted},
    code_span::code,
    number::times,
    statements::remarks,
    types::{Advice, Estimate, ResultRow, Statement},
    words::{Names, Text, Words},
};

fn words(row: &ResultRow, names: &Names) -> Option<Text> {
    Some(remarks::stalls(row)?.words(names))
}

fn rows<'a>(f: &Findings<'a>) -> Vec<&'a ResultRow> {
    let layers = f.compared();
    let asked = layers.iter().flat_map(|layer| f.rows(layer));
    let told = |r: &&ResultRow| r.is_told() && words(r, &f.names()).is_some();
    asked.filter(told).collect()
}

/// A sentence for each layer with stalls: the result whose average differs most from its typical
/// ratio.
pub fn findings(f: &Findings) -> Vec<Statement> {
    let (all, names) = (rows(f), f.names());
    let mut layers: Vec<&str> = all.iter().map(|r| r.layer.as_str()).collect();
    layers.dedup();
    let of_layer = |layer: &str| {
        let own: Vec<&ResultRow> = all.iter().copied().filter(|r| r.layer == layer).collect();
        let most = own.iter().max_by(|a, b| apart(a).total_cmp(&apart(b)))?;
        Some(Statement {
            layer: layer.into(),
            text: format!(
                "{} at {}: {}.",
                code(layer),
                quoted(most),
                words(most, &names)?
            ),
            evidence: own.iter().map(|r| r.id.clone()).collect(),
        })
    };
    layers.into_iter().filter_map(of_layer).collect()
}

/// The clauses about stalls in a layer's sentence.
pub fn clauses(rows: &[&ResultRow], names: &Names) -> Vec<String> {
    let told = rows.iter().filter(|r| r.is_told());
    let verb = |r: &ResultRow| match r.ratio {
        Some(ratio) if ratio.estimate < 1.0 => "is",
        _ => "takes",
    };
    told.filter_map(|r| {
        let words = words(r, names)?;
        Some(format!("{} {words} at {}", verb(r), quoted(r)))
    })
    .collect()
}

/// Distance of the average from the typical ratio, as |ln|.
fn apart(row: &ResultRow) -> f64 {
    let both = row
        .ratio
        .and_then(|r| Some((r.average?.estimate, r.estimate)));
    both.map_or(0.0, |(average, typical)| (average / typical).ln().abs())
}

/// Advice about the worst stalls: in the layer, and in the baseline itself. Where other programs disturbed
/// every trial, a long operation may be theirs.
pub fn advice(f: &Findings) -> Vec<Advice> {
    let stalls = |layer: bool| {
        let own = move |r: &&ResultRow| {
            let average = r.ratio.and_then(|e| Some(e.average?.estimate > e.estimate));
            average == Some(layer) && !r.disturbed()
        };
        let rows: Vec<&ResultRow> = rows(f).into_iter().filter(own).collect();
        let most = rows
            .iter()
            .max_by(|a, b| apart(a).total_cmp(&apart(b)))
            .copied();
        most.map(|row| (row, rows))
    };
    let here = stalls(true).map(|(row, rows)| Advice {
        text: format!(
            "Plan with the average of {} at {}, {}, not with its usual time; a program that waits for one operation may meet the longest.",
            code(&row.layer),
            quoted(row),
            row.ratio
                .and_then(|r| r.average)
                .map(|a| times(&Estimate::from(a)))
                .unwrap_or_default()
        ),
        evidence: rows.iter().map(|r| r.id.clone()).collect(),
    });
    let baseline = stalls(false).map(|(row, rows)| Advice {
        text: format!(
            "The baseline itself, {}, stalls at {}: look at its disk, and at what its programs do now and then, before a layer is judged by that average.",
            f.baseline(),
            quoted(row)
        ),
        evidence: rows.iter().map(|r| r.id.clone()).collect(),
    });
    here.into_iter().chain(baseline).collect()
}
