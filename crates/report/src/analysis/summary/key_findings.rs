//! Key findings: at most five short sentences, most serious first.

use layermark_model::brief;

use crate::{
    analysis::{
        others,
        summary::{Findings, LISTED, locks, places, quoted, seeing, stalls, sustained},
    },
    code_span::code,
    number::{self, count, list, times, verb},
    types::{Cause, Durability, DurabilityVerdict, ResultRow, Statement, Verdict},
};

/// Most findings.
pub const MOST: usize = 5;

/// The sentences, each with the results as evidence.
pub fn pick(f: &Findings) -> Vec<Statement> {
    let mut found: Vec<Statement> = Vec::new();
    found.extend(baseline_skips(f));
    found.extend(skipped_flushes(f));
    found.extend(answered_early(f));
    found.extend(contradicted(f));
    found.extend(sustained::finding(f));
    found.extend(fewer_bytes(f));
    found.extend(failures(f));
    found.extend(places::finding(f));
    found.extend(stalls::findings(f));
    found.extend(locks::findings(f));
    found.extend(seeing::findings(f));
    found.extend(slowest(f));
    found.extend(near(f));
    found.extend(unexplained(f));
    // The last place is for results that could not be decided.
    let open = open(f);
    found.truncate(MOST - usize::from(open.is_some()));
    found.extend(open);
    found
}

fn statement(layers: &[&str], rows: &[&ResultRow], text: String) -> Statement {
    Statement {
        layer: layers.join(", "),
        text,
        evidence: rows.iter().map(|r| r.id.clone()).collect(),
    }
}

/// Names of layers for a sentence; many layers are only counted.
fn names(layers: &[&str]) -> String {
    if layers.len() > LISTED {
        return count(layers.len(), "layer");
    }
    let quoted: Vec<String> = layers.iter().map(|l| code(l)).collect();
    list(&quoted)
}

fn flushes(n: u64) -> String {
    format!("{n} flush{}", if n == 1 { "" } else { "es" })
}

/// The baseline first, because comparisons with it are invalid.
fn baseline_skips(f: &Findings) -> Option<Statement> {
    let rows: Vec<&ResultRow> = f.baseline_skips().collect();
    let first = rows.first()?;
    let text = format!(
        "{} skips fsync ({}), so no ratio to it of what flushes is trusted.",
        code(&first.layer),
        first.durability.because.as_deref().unwrap_or_default(),
    );
    Some(statement(&[&first.layer], &rows, text))
}

/// A sentence for layers that skip flushes, each with its own figures: the sums of the trials in
/// which no other program flushed.
fn skipped_flushes(f: &Findings) -> Option<Statement> {
    let mut rows = f.measured();
    rows.retain(|r| r.durability.verdict == DurabilityVerdict::Absorbed);
    let mut layers: Vec<&str> = rows.iter().map(|r| r.layer.as_str()).collect();
    layers.sort_unstable();
    layers.dedup();
    let figures = |layer: &&str| {
        let of = rows.iter().filter(|r| r.layer == *layer);
        let (mut at_device, mut asked, mut reference) = (0, 0, 0);
        for Durability {
            flushes,
            syncs,
            reference_flushes,
            ..
        } in of.map(|r| &r.durability)
        {
            at_device += flushes.unwrap_or(0);
            asked += syncs;
            reference += reference_flushes.unwrap_or(0);
        }
        let of = if asked > 0 {
            format!("for {}", count(asked as usize, "sync"))
        } else {
            format!("where {} had {reference}", f.baseline())
        };
        format!("{} at the device {of}", flushes(at_device))
    };
    let text = match layers.as_slice() {
        [] => return None,
        [layer] => format!("{} skips fsync: {}.", code(layer), figures(layer)),
        _ => {
            let each = layers.iter().take(LISTED);
            let each = each.map(|l| format!("{}: {}", code(l), figures(l)));
            let mut each: Vec<String> = each.collect();
            if layers.len() > LISTED {
                each.push(format!("and {} more", layers.len() - LISTED));
            }
            format!("{} skip fsync ({}).", names(&layers), each.join("; "))
        }
    };
    Some(statement(&layers, &rows, text))
}

/// A layer that answers fsync and flushes the device later.
fn answered_early(f: &Findings) -> Option<Statement> {
    let is_late = |r: &&ResultRow| r.durability.verdict == DurabilityVerdict::Late;
    let row = f.results.iter().find(is_late)?;
    let text = format!(
        "{} answers fsync before the device is flushed: {}.",
        code(&row.layer),
        row.durability.because.as_deref()?,
    );
    Some(statement(&[&row.layer], &[row], text))
}

/// A layer that is configured to drop flushes, although the device counted them all.
fn contradicted(f: &Findings) -> Option<Statement> {
    let row = f.results.iter().find(|r| r.durability.contradicted)?;
    let text = format!(
        "{} at {}: {}.",
        code(&row.layer),
        row.label,
        row.durability.because.as_deref()?,
    );
    Some(statement(&[&row.layer], &[row], text))
}

/// A layer that stores less than it is given: its cell with the smallest share.
fn fewer_bytes(f: &Findings) -> Option<Statement> {
    let rows = f.results.iter().filter(|r| r.is_told());
    let share = |r: &&ResultRow| {
        let fewer = r.fewer_bytes.as_ref();
        let device = fewer.and_then(|f| Some(f.device? as f64 / f.application as f64));
        device.unwrap_or(1.0)
    };
    let row = rows
        .filter(|r| r.fewer_bytes.is_some())
        .min_by(|a, b| share(a).total_cmp(&share(b)))?;
    let text = format!(
        "{} at {}: {}.",
        code(&row.layer),
        row.label,
        others::fewer_words(row)?
    );
    Some(statement(&[&row.layer], &[row], text))
}

/// The cell with the most failed trials, and the error of its program.
fn failures(f: &Findings) -> Option<Statement> {
    let rows = f.failures();
    let worst = rows.iter().max_by_key(|r| r.failed_trials)?;
    let others = match rows.len() - 1 {
        0 => String::new(),
        n => format!("; trials failed in {} too", count(n, "other cell")),
    };
    let text = format!(
        "{} of {} of {} in {} failed: {}{others}.",
        worst.failed_trials,
        count(worst.trials + worst.failed_trials, "trial"),
        quoted(worst),
        code(&worst.layer),
        brief(worst.error.as_deref().unwrap_or_default()),
    );
    Some(statement(&[&worst.layer], &rows, text))
}

/// A sentence for each layer that is slower somewhere, largest ratio first.
fn slowest(f: &Findings) -> Vec<Statement> {
    let mut found: Vec<(f64, Statement)> = Vec::new();
    for layer in f.compared() {
        let all = f.rows(layer);
        let slower = |r: &&ResultRow| r.verdict == Verdict::Slower && !seeing::is_late(r);
        let rows: Vec<&ResultRow> = all.iter().copied().filter(slower).collect();
        let ratio = |r: &ResultRow| r.ratio.map_or(1.0, |e| e.estimate);
        let Some(worst) = rows.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b))) else {
            continue;
        };
        // With stalls, the amount is the average's and appears with it.
        let extra = worst
            .extra_us
            .filter(|_| !worst.has_stalls())
            .map(|e| format!(", {}", number::extra_of(&e)))
            .unwrap_or_default();
        let most = match &worst.ratio {
            Some(e) => format!("most at {}: {}{extra}", worst.label, times(e)),
            None => "by how much changed during the run".into(),
        };
        let text = format!(
            "{} is slower at {} of {}, {most}.",
            code(layer),
            rows.len(),
            all.len()
        );
        found.push((ratio(worst), statement(&[layer], &rows, text)));
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, s)| s).collect()
}

/// Layers that cost nothing at most points, and nothing known anywhere.
fn near(f: &Findings) -> Option<Statement> {
    let is_near = |layer: &&str| {
        let rows = f.rows(layer);
        let same = rows.iter().filter(|r| r.verdict == Verdict::Same).count();
        let other = |r: &&&ResultRow| !matches!(r.leaning(), Verdict::Same | Verdict::Undecided);
        let works = f.never_succeeded(layer) == 0 && !f.differs_unasked(layer);
        works && same * 2 > rows.len() && rows.iter().filter(other).count() == 0
    };
    let layers: Vec<&str> = f.compared().into_iter().filter(is_near).collect();
    let rows: Vec<&ResultRow> = layers.iter().flat_map(|l| f.rows(l)).collect();
    let rows: Vec<&ResultRow> = rows
        .into_iter()
        .filter(|r| r.verdict == Verdict::Same)
        .collect();
    (!layers.is_empty()).then(|| {
        let text = format!(
            "{} {} within {} of {} wherever that could be told.",
            names(&layers),
            verb(layers.len(), "is", "are"),
            number::percent(f.run.plan.delta),
            f.baseline(),
        );
        statement(&layers, &rows, text)
    })
}

/// Faster than the baseline without a known reason.
fn unexplained(f: &Findings) -> Option<Statement> {
    let alarming = |r: &ResultRow| {
        r.verdict == Verdict::Faster && r.causes.first() == Some(&Cause::Unexplained)
    };
    let mut rows = f.measured();
    rows.retain(|r| alarming(r));
    let mut layers: Vec<&str> = rows.iter().map(|r| r.layer.as_str()).collect();
    layers.sort_unstable();
    layers.dedup();
    (!rows.is_empty()).then(|| {
        let text = format!(
            "{} {} faster than {} at {}, and nothing measured explains it.",
            names(&layers),
            verb(layers.len(), "is", "are"),
            f.baseline(),
            count(rows.len(), "operation"),
        );
        statement(&layers, &rows, text)
    })
}

/// How many results are undecided, and whether other programs are the reason.
fn open(f: &Findings) -> Option<Statement> {
    let asked = f.asked();
    let having = |v: Verdict| -> Vec<&ResultRow> {
        let certain = |r: &&ResultRow| r.verdict == v && r.probably.is_none();
        let of = asked.iter().copied().filter(certain);
        of.collect()
    };
    let (waiting, open): (Vec<&ResultRow>, Vec<&ResultRow>) = having(Verdict::Undecided)
        .into_iter()
        .partition(|r| r.withheld.is_some());
    let (few, noisy): (Vec<&ResultRow>, Vec<&ResultRow>) =
        open.into_iter().partition(|r| r.more_blocks.is_some());
    let untrusted = having(Verdict::Untrusted);
    let part = |rows: &[&ResultRow], one: &'static str, more: &'static str, what: &str| {
        let (n, of) = (rows.len(), count(asked.len(), "cell"));
        (n > 0).then(|| format!("{n} of {of} {} {what}", verb(n, one, more)))
    };
    let parts: Vec<String> = [
        part(&few, "has", "have", "too few blocks"),
        part(&noisy, "is", "are", "too noisy to tell"),
        part(&waiting, "waits", "wait", "too much for a CPU to tell"),
        part(&untrusted, "is", "are", "not trusted"),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| {
        let rows: Vec<&ResultRow> = few
            .into_iter()
            .chain(noisy)
            .chain(waiting)
            .chain(untrusted)
            .collect();
        statement(&[], &rows, format!("{}.", parts.join("; ")))
    })
}
