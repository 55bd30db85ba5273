//! Sentences about changes that the other side of a shared directory sees later, or not in time. Nothing waits for
//! them, so the delay is not a cost of an operation.

use layermark_model::{FRESHER, Target};

use crate::{
    analysis::summary::{Findings, labels},
    code_span::code,
    number::{self, count},
    types::{Advice, ResultRow, Statement, Verdict},
};

/// Whether a result is the time until a change is seen, and certainly or probably longer than in the baseline.
pub fn is_late(row: &ResultRow) -> bool {
    let later = row.not_seen() || row.leaning() == Verdict::Slower;
    row.meaning.is_seeing() && row.is_told() && later
}

/// Whether a result is a lock that was held on one side while the other one took it: see [`super::locks`].
fn is_open(row: &ResultRow) -> bool {
    row.meaning.target == Target::SharedLock && row.not_seen()
}

/// Changes that are seen later, the most delayed first; those that probably are; and those that are not seen in
/// time, the shortest wait first. Without locks that exclude nobody.
fn split<'a>(rows: impl Iterator<Item = &'a ResultRow>) -> [Vec<&'a ResultRow>; 3] {
    let (mut unseen, delayed): (Vec<&ResultRow>, Vec<&ResultRow>) = rows
        .filter(|r| is_late(r) && !is_open(r))
        .partition(|r| r.not_seen());
    let (mut slower, probably): (Vec<&ResultRow>, Vec<&ResultRow>) = delayed
        .into_iter()
        .partition(|r| r.verdict == Verdict::Slower);
    let delay = |r: &ResultRow| r.extra_us.map_or(0.0, |e| e.estimate);
    slower.sort_by(|a, b| delay(b).total_cmp(&delay(a)));
    let wait = |r: &ResultRow| r.op_us.unwrap_or_default();
    unseen.sort_by(|a, b| wait(a).total_cmp(&wait(b)));
    [slower, probably, unseen]
}

fn of_layer<'a>(f: &Findings<'a>, layer: &str) -> [Vec<&'a ResultRow>; 3] {
    split(f.rows(layer).into_iter())
}

/// How much later than in the baseline the most delayed is seen. `None` if a delay changed during the run.
fn longest(slower: &[&ResultRow]) -> Option<String> {
    let known = slower.iter().all(|r| r.extra_us.is_some());
    let extra = slower.first().filter(|_| known)?.extra_us?;
    Some(number::time(extra.estimate))
}

/// How long each of them was waited for at least, without being seen.
fn within(unseen: &[&ResultRow]) -> Option<String> {
    unseen.first()?.op_us.map(number::time)
}

/// Clauses of the layer's sentence.
pub fn clauses(rows: &[&ResultRow], baseline: &str) -> Vec<String> {
    let [slower, probably, unseen] = split(rows.iter().copied());
    let shows = |rows: &[&ResultRow]| {
        let labels = labels(rows);
        format!("shows changes of the other side later than {baseline} at {labels}")
    };
    let up_to = longest(&slower).map(|longest| format!(", up to {longest} later"));
    let delayed = (!slower.is_empty()).then(|| shows(&slower) + &up_to.unwrap_or_default());
    let leaning = (!probably.is_empty()).then(|| format!("probably {}", shows(&probably)));
    let unseen =
        within(&unseen).map(|within| format!("does not show {} within {within}", labels(&unseen)));
    let clauses = [delayed, leaning, unseen];
    clauses.into_iter().flatten().collect()
}

/// The part of the headline about one layer.
pub fn part(f: &Findings, layer: &str) -> Option<String> {
    let [slower, probably, unseen] = of_layer(f, layer);
    let mut all = f.rows(layer);
    all.retain(|r| r.meaning.is_seeing());
    let all = count(all.len(), "change");
    let shows = |rows: &[&ResultRow]| format!("shows {} of {all} later", rows.len());
    let up_to = longest(&slower).map(|longest| format!(", by up to {longest}"));
    let delayed = (!slower.is_empty()).then(|| shows(&slower) + &up_to.unwrap_or_default());
    let leaning = (!probably.is_empty()).then(|| format!("probably {}", shows(&probably)));
    let unseen = within(&unseen)
        .map(|within| format!("does not show {} of {all} within {within}", unseen.len()));
    let parts = [unseen, delayed, leaning];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
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

#[cfg(test)]
mod tests {
    use layermark_model::{Meaning, flags};

    use super::*;
    use crate::types::Estimate;

    /// A change that natively is seen after a second.
    fn row(label: &str, verdict: Verdict, delay_us: Option<f64>) -> ResultRow {
        ResultRow {
            label: label.into(),
            meaning: Meaning {
                target: Target::SharedDirectory,
                ..Meaning::default()
            },
            trials: 9,
            op_us: Some(1e6 + delay_us.unwrap_or_default()),
            extra_us: delay_us.map(|estimate| Estimate {
                estimate,
                interval: None,
                average: None,
            }),
            verdict,
            ..ResultRow::default()
        }
    }

    fn told(rows: &[ResultRow]) -> String {
        let rows: Vec<&ResultRow> = rows.iter().collect();
        clauses(&rows, "native").join("; ").replace(['“', '”'], "")
    }

    #[test]
    fn a_delay_is_what_is_added_to_the_baselines_time() {
        let mut slow = row("a", Verdict::Slower, Some(2000.0));
        // Natively it takes longer than all of the other one.
        slow.op_us = Some(9e6);
        let rows = [slow, row("b", Verdict::Slower, Some(500_000.0))];
        assert_eq!(
            told(&rows),
            "shows changes of the other side later than native at b and a, up to 500 ms later"
        );
        let rows = [rows[0].clone(), row("b", Verdict::Slower, None)];
        let told = told(&rows);
        assert!(told.contains("at a and b"), "{told}");
        assert!(!told.contains("up to"), "it changed during the run: {told}");
    }

    #[test]
    fn a_delay_that_is_not_certain_is_probable() {
        let mut likely = row("a", Verdict::Undecided, Some(2e6));
        likely.probably = Some(Verdict::Slower);
        let rows = [likely, row("b", Verdict::Slower, Some(300_000.0))];
        assert_eq!(
            told(&rows),
            "shows changes of the other side later than native at b, up to 300 ms later; \
             probably shows changes of the other side later than native at a"
        );
    }

    #[test]
    fn what_is_not_seen_was_waited_for_at_least_as_long_as_told() {
        let unseen = |label: &str, wait_us: f64| {
            let mut row = row(label, Verdict::Slower, Some(1e6));
            row.op_us = Some(wait_us);
            row.flag_counts.insert(flags::NOT_SEEN.into(), row.trials);
            row
        };
        let rows = [unseen("a", 5e6), unseen("b", 2e6)];
        assert_eq!(told(&rows), "does not show b and a within 2.00 s");
    }
}
