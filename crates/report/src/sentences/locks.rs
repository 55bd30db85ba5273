//! Sentences about locks that exclude nobody on the other side of a layer's directory, and about those that are not
//! proved.

use crate::{
    analysis::summary::Findings,
    code_span::code,
    number,
    types::{Advice, LockRow, LockVerdict, Statement},
};

/// Kinds of lock that do not exclude, in a layer.
fn open<'a>(f: &Findings<'a>, layer: &str) -> Vec<&'a LockRow> {
    let of_layer = |r: &&LockRow| r.layer == layer && r.verdict == LockVerdict::DoesNotExclude;
    f.locks.iter().filter(of_layer).collect()
}

fn kinds(rows: &[&LockRow]) -> String {
    let names: Vec<&str> = rows.iter().map(|r| r.kind.as_str()).collect();
    let locks = if rows.len() == 1 { "lock" } else { "locks" };
    format!("{} {locks}", number::list(&names))
}

fn evidence(rows: &[&LockRow]) -> Vec<String> {
    rows.iter()
        .flat_map(|r| r.evidence.iter().cloned())
        .collect()
}

/// The clause of the layer's sentence.
pub fn clause(f: &Findings, layer: &str) -> Option<String> {
    let open = open(f, layer);
    (!open.is_empty()).then(|| format!("does not exclude the other side by {}", kinds(&open)))
}

/// The part of the headline about one layer.
pub fn part(f: &Findings, layer: &str) -> Option<String> {
    Some(format!("{} {}", code(layer), clause(f, layer)?))
}

/// A finding for each layer.
pub fn findings(f: &Findings) -> Vec<Statement> {
    let of = |layer: &str| {
        Some(Statement {
            layer: layer.into(),
            text: format!("{}.", part(f, layer)?),
            evidence: evidence(&open(f, layer)),
        })
    };
    f.compared().into_iter().filter_map(of).collect()
}

/// Where not to rely on locks.
pub fn advice(f: &Findings, layer: &str) -> Option<Advice> {
    let open = open(f, layer);
    (!open.is_empty()).then(|| Advice {
        text: format!(
            "Do not let both sides of {} rely on {}: keep files that both write, such as databases and mail boxes, \
             where locks exclude.",
            code(layer),
            kinds(&open)
        ),
        evidence: evidence(&open),
    })
}

/// The layers whose locks are not proved, by reason.
pub fn caveats(rows: &[LockRow]) -> Vec<String> {
    let mut whys: Vec<(&str, Vec<String>)> = Vec::new();
    for row in rows.iter().filter(|r| r.verdict == LockVerdict::NotProved) {
        let layer = code(&row.layer);
        match whys.iter_mut().find(|(why, _)| *why == row.because) {
            Some((_, layers)) if layers.contains(&layer) => {}
            Some((_, layers)) => layers.push(layer),
            None => whys.push((&row.because, vec![layer])),
        }
    }
    let said = |(why, layers): (&str, Vec<String>)| {
        let layers = number::list(&layers);
        format!("Locks in {layers} are not proved between machines: {why}")
    };
    whys.into_iter().map(said).collect()
}
