//! Sentences about changes that the other side of a shared directory sees later, or not in time. Nothing waits for
//! them, so the delay is not a cost of an operation.

use layermark_model::{FRESHER, Target};

use crate::{
    analysis::summary::{Findings, labels},
    code_span::code,
    number::{self, count},
    types::{Advice, ResultRow, Statement, Verdict},
};

/// Whether a result is the time until a change is seen, and longer than in the baseline.
pub fn is_late(row: &ResultRow) -> bool {
    let later = row.not_seen() || row.leaning() == Verdict::Slower;
    row.meaning.target == Target::SharedDirectory && row.is_told() && later
}

/// Changes that are seen later, the latest first; and those that are not seen in time.
fn split<'a>(rows: impl Iterator<Item = &'a ResultRow>) -> [Vec<&'a ResultRow>; 2] {
    let (unseen, mut delayed): (Vec<&ResultRow>, Vec<&ResultRow>) =
        rows.filter(|r| is_late(r)).partition(|r| r.not_seen());
    delayed.sort_by(|a, b| b.op_us.unwrap_or(0.0).total_cmp(&a.op_us.unwrap_or(0.0)));
    [delayed, unseen]
}

fn of_layer<'a>(f: &Findings<'a>, layer: &str) -> [Vec<&'a ResultRow>; 2] {
    split(f.rows(layer).into_iter())
}

/// How long it took, or how long was waited in vain.
fn time(row: &ResultRow) -> String {
    number::time(row.op_us.unwrap_or_default())
}

/// Clauses of the layer's sentence.
pub fn clauses(rows: &[&ResultRow], baseline: &str) -> Vec<String> {
    let [delayed, unseen] = split(rows.iter().copied());
    let delayed = delayed.first().map(|latest| {
        format!(
            "shows changes of the other side later than {baseline} at {}, up to {} later",
            labels(&delayed),
            time(latest)
        )
    });
    let unseen = unseen
        .first()
        .map(|first| format!("does not show {} within {}", labels(&unseen), time(first)));
    delayed.into_iter().chain(unseen).collect()
}

/// The part of the headline about one layer.
pub fn part(f: &Findings, layer: &str) -> Option<String> {
    let [delayed, unseen] = of_layer(f, layer);
    let all = count(f.rows(layer).len(), "change");
    let delayed = delayed.first().map(|latest| {
        format!(
            "shows {} of {all} later, by up to {}",
            delayed.len(),
            time(latest)
        )
    });
    let unseen = unseen.first().map(|first| {
        format!(
            "does not show {} of {all} within {}",
            unseen.len(),
            time(first)
        )
    });
    let parts: Vec<String> = unseen.into_iter().chain(delayed).collect();
    (!parts.is_empty()).then(|| format!("{} {}", code(layer), parts.join(", and ")))
}

/// A finding for each layer.
pub fn findings(f: &Findings) -> Vec<Statement> {
    let of = |layer: &str| {
        let text = part(f, layer)?;
        let evidence = of_layer(f, layer).concat();
        Some(Statement {
            layer: layer.into(),
            text: format!("{text}."),
            evidence: evidence.iter().map(|r| r.id.clone()).collect(),
        })
    };
    f.compared().into_iter().filter_map(of).collect()
}

/// The layer with the options that keep less in its caches, to be measured.
pub fn advice(f: &Findings, layer: &str) -> Option<Advice> {
    let rows = of_layer(f, layer).concat();
    let run = f.run.layers.iter().find(|l| l.name == layer)?;
    let options = run.facts.notes.get(FRESHER).filter(|_| !rows.is_empty())?;
    let mut spec = run.spec.clone();
    for option in options.split(',') {
        let (name, value) = option.split_once('=')?;
        spec.options.insert(name.into(), value.into());
    }
    let text = format!(
        "Do not rely on {} showing changes of the other side at once. Measure whether other options help: layermark coherence -l {spec}",
        code(layer)
    );
    Some(Advice {
        text,
        evidence: rows.iter().map(|r| r.id.clone()).collect(),
    })
}
