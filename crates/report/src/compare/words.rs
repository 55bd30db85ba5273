//! The comparison of two runs in words.

use crate::{
    analysis,
    code_span::{self, code},
    number::{self, count, list, times, verb},
    statements::MOST,
    types::{ResultRow, Statement, TrustItem, TrustState, Verdict},
};

/// Rows of the layers, or of the baseline if there are no others.
fn judged<'a>(rows: &'a [ResultRow], baseline: Option<&str>) -> Vec<&'a ResultRow> {
    let is_own = |r: &&ResultRow| baseline == Some(&*r.layer);
    let others: Vec<&ResultRow> = rows.iter().filter(|r| !is_own(r)).collect();
    if others.is_empty() {
        rows.iter().collect()
    } else {
        others
    }
}

fn having<'a>(rows: &[&'a ResultRow], verdict: Verdict) -> Vec<&'a ResultRow> {
    let of = rows
        .iter()
        .copied()
        .filter(|r| r.verdict == verdict && r.probably.is_none());
    of.collect()
}

/// The row with the largest change, as |ln ratio|.
fn most<'a>(rows: &[&'a ResultRow]) -> Option<&'a ResultRow> {
    let size = |r: &ResultRow| r.ratio.map_or(0.0, |e| e.estimate.ln().abs());
    rows.iter()
        .copied()
        .max_by(|a, b| size(a).total_cmp(&size(b)))
}

/// Layers in the order of the rows, each with its rows.
fn by_layer<'a>(rows: &[&'a ResultRow]) -> Vec<(&'a str, Vec<&'a ResultRow>)> {
    let mut layers: Vec<(&str, Vec<&ResultRow>)> = Vec::new();
    for row in rows.iter().copied() {
        match layers.iter_mut().find(|(name, _)| *name == row.layer) {
            Some((_, own)) => own.push(row),
            None => layers.push((&row.layer, vec![row])),
        }
    }
    layers
}

/// `1.25x at small read`.
fn at(row: &ResultRow) -> String {
    let times = row.ratio.as_ref().map(times);
    let times = times.unwrap_or_else(|| "by how much changed during a run".into());
    format!("{times} at {}", row.label)
}

/// One sentence for both runs.
pub fn headline(rows: &[ResultRow], baseline: Option<&str>) -> String {
    let all = judged(rows, baseline);
    let slower = having(&all, Verdict::Slower);
    let faster = having(&all, Verdict::Faster);
    let said = |rows: &[&ResultRow], word: &str| {
        let layers = by_layer(rows);
        let most = most(rows).map(at).unwrap_or_default();
        match layers.as_slice() {
            [(layer, _)] => format!("{} is {word} than in the old run, {most}", code(layer)),
            _ => format!(
                "{} are {word} than in the old run, {most} most",
                count(layers.len(), "layer")
            ),
        }
    };
    if !slower.is_empty() {
        return said(&slower, "slower");
    }
    let stalls: Vec<&ResultRow> = all.iter().copied().filter(|r| r.has_stalls()).collect();
    if let Some(row) = stalls.first() {
        return format!(
            "{} has stalls that it did not have in the old run, at {}",
            code(&row.layer),
            row.label
        );
    }
    if !faster.is_empty() {
        return format!("{}; nothing is slower", said(&faster, "faster"));
    }
    let probable = all
        .iter()
        .copied()
        .filter(|r| r.probably == Some(Verdict::Slower));
    let probable: Vec<&ResultRow> = probable.collect();
    if let Some(row) = most(&probable) {
        return format!(
            "nothing is certainly slower; {} probably is, {}",
            code(&row.layer),
            at(row)
        );
    }
    let same = having(&all, Verdict::Same).len();
    let rest = all.len() - same;
    let of = count(all.len(), "result");
    match rest {
        0 => format!("nothing changed: {of}, all the same"),
        _ if rest == all.len() => format!("nothing can be told: none of {of} is certain"),
        _ => format!(
            "nothing is known to be slower or faster: {same} of {of} {} the same",
            verb(same, "is", "are")
        ),
    }
}

/// All sentences, most serious first, undecided results last.
pub fn told(trust: &[TrustItem], rows: &[ResultRow], baseline: Option<&str>) -> Vec<Statement> {
    let all = judged(rows, baseline);
    let mut told: Vec<Statement> = Vec::new();
    told.extend(unlike(trust));
    told.extend(machine(trust, rows, baseline));
    told.extend(changed(&all, Verdict::Slower));
    told.extend(stalls(&all, baseline));
    told.extend(changed(&all, Verdict::Faster));
    told.extend(open(&all));
    told
}

/// At most five of these, including the last.
pub fn findings(told: &[Statement]) -> Vec<Statement> {
    match told.split_last() {
        Some((last, before)) if before.len() >= MOST => {
            before[..MOST - 1].iter().chain([last]).cloned().collect()
        }
        _ => told.to_vec(),
    }
}

fn statement(layer: &str, rows: &[&ResultRow], text: String) -> Statement {
    Statement {
        layer: layer.into(),
        text,
        evidence: rows.iter().map(|r| r.id.clone()).collect(),
    }
}

/// What differs between the runs.
fn unlike(trust: &[TrustItem]) -> Option<Statement> {
    let not = |t: &&TrustItem| t.state == TrustState::Warn && t.id != "drift" && t.id != "set-ups";
    let texts: Vec<&str> = trust.iter().filter(not).map(|t| t.text.as_str()).collect();
    let text = format!("The runs are not alike: {}.", texts.join("; "));
    (!texts.is_empty()).then(|| statement("", &[], text))
}

/// The change of the machine, if it is worth a sentence.
fn machine(trust: &[TrustItem], rows: &[ResultRow], baseline: Option<&str>) -> Option<Statement> {
    let item = trust.iter().find(|t| t.id == "drift")?;
    let name = baseline.unwrap_or_default();
    let own: Vec<&ResultRow> = rows.iter().filter(|r| r.layer == name).collect();
    let alone = own.len() == rows.len();
    let mut text = item.text.clone();
    if alone {
        text = format!(
            "Only {} is in both runs: a change of the machine cannot be told from one of what it ran",
            code(name)
        );
    } else if item.state == TrustState::Ok {
        return None;
    }
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let text = first.chain(letters).collect::<String>() + ".";
    Some(statement(name, &own, text))
}

/// The change of the baseline between the runs; `None` if it is unknown.
pub fn drift(rows: &[ResultRow], baseline: Option<&str>) -> Option<String> {
    let name = baseline?;
    let own: Vec<&ResultRow> = rows.iter().filter(|r| r.layer == name).collect();
    let moved = |r: &&ResultRow| matches!(r.leaning(), Verdict::Slower | Verdict::Faster);
    let changed: Vec<&ResultRow> = own.iter().copied().filter(moved).collect();
    let (of, name) = (count(own.len(), "point"), code(name));
    if let Some(row) = most(&changed) {
        let more = changed.len();
        return Some(format!(
            "{name} itself changed at {more} of {of}, most {}; that is taken out of the other layers",
            at(row)
        ));
    }
    let same = own.iter().filter(|r| r.verdict == Verdict::Same).count();
    (!own.is_empty())
        .then(|| format!("{name} is the same at {same} of {of}, and nowhere known to have changed"))
}

/// A sentence for each layer that changed, largest change first.
fn changed(all: &[&ResultRow], verdict: Verdict) -> Vec<Statement> {
    let mut layers = by_layer(&having(all, verdict));
    let size = |rows: &[&ResultRow]| {
        let ratio = most(rows).and_then(|r| r.ratio);
        ratio.map_or(0.0, |e| e.estimate.ln().abs())
    };
    layers.sort_by(|a, b| size(&b.1).total_cmp(&size(&a.1)));
    let said = |(layer, rows): (&str, Vec<&ResultRow>)| {
        let of = all.iter().filter(|r| r.layer == layer).count();
        let worst = most(&rows)?;
        let extra = worst
            .extra_us
            .map(|e| format!(", {}", number::extra_of(&e)));
        let text = format!(
            "{} is {} than in the old run at {} of {of}, most {}{}.",
            code(layer),
            verdict.word(),
            rows.len(),
            at(worst),
            extra.unwrap_or_default()
        );
        Some(statement(layer, &rows, text))
    };
    layers.into_iter().filter_map(said).collect()
}

/// A sentence for each layer with new stalls.
fn stalls(all: &[&ResultRow], baseline: Option<&str>) -> Vec<Statement> {
    let baseline = code_span::baseline(baseline.unwrap_or("the baseline"));
    let having: Vec<&ResultRow> = all.iter().copied().filter(|r| r.has_stalls()).collect();
    let said = |(layer, rows): (&str, Vec<&ResultRow>)| {
        let first = rows.first()?;
        let words = analysis::stalls::words(first, &baseline)?;
        let text = format!(
            "{} has stalls that it did not have in the old run, at {}: {words}.",
            code(layer),
            first.label
        );
        Some(statement(layer, &rows, text))
    };
    by_layer(&having).into_iter().filter_map(said).collect()
}

/// The undecided results.
fn open(all: &[&ResultRow]) -> Option<Statement> {
    let undecided = having(all, Verdict::Undecided);
    let untrusted = having(all, Verdict::Untrusted);
    let part = |rows: &[&ResultRow], what: &str| {
        let verb = if rows.len() == 1 { "is" } else { "are" };
        let of = count(all.len(), "result");
        (!rows.is_empty()).then(|| format!("{} of {of} {verb} {what}", rows.len()))
    };
    let parts = [
        part(&undecided, "too noisy to tell"),
        part(&untrusted, "not trusted"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let rows = [undecided, untrusted].concat();
    (!parts.is_empty()).then(|| statement("", &rows, format!("{}.", list(&parts))))
}
