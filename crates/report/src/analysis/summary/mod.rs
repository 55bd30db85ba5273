//! The verdict in words, derived by rules from measured data.

use std::collections::BTreeMap;

use layermark_model::{Run, TrialRecord, WorkGroup};

use crate::{
    code_span::{self, code},
    number::{self, count, list},
    types::{
        Advice, AlternativeRow, Cause, DurabilityVerdict, Estimate, LockRow, ResultRow, Statement,
        Verdict,
    },
};

pub mod advice;
pub mod caveats;
pub mod headline;
pub mod key_findings;
pub mod locks;
pub mod places;
pub mod seeing;
pub mod stalls;
pub mod sustained;
pub mod undecided;

/// Smallest difference for an operation to have its own clause, microseconds. Smaller ones share a
/// clause.
const TOLD_ALONE: f64 = 1_000.0;
/// More names than this in one clause are only counted.
const MANY: usize = 5;
/// More items of a kind than this are counted, not listed.
pub const LISTED: usize = 3;

/// The data that sentences are made from. It decides once which results the sentences cover: those
/// of the matrix. Disturbed results are included, and [`caveats`] gives their number next to the
/// headline.
pub struct Findings<'a> {
    /// The run.
    pub run: &'a Run,
    /// Results of all layers except the control.
    pub results: &'a [ResultRow],
    /// Results that are compared with others of their layer.
    pub alternatives: &'a [AlternativeRow],
    /// Whether locks exclude two clients.
    pub locks: &'a [LockRow],
    /// The answer of the study that the plan repeats.
    pub study: Option<&'a str>,
}

impl<'a> Findings<'a> {
    /// Results of the layers compared with the baseline, including those without a number.
    fn others(&self) -> impl Iterator<Item = &'a ResultRow> {
        self.results.iter().filter(|r| !self.is_baseline(&r.layer))
    }

    /// Cells of the matrix that have a number or a verdict.
    pub fn measured(&self) -> Vec<&'a ResultRow> {
        self.others().filter(|r| r.trials > 0).collect()
    }

    /// The measured results that have a verdict requested by the plan.
    pub fn asked(&self) -> Vec<&'a ResultRow> {
        let mut rows = self.measured();
        rows.retain(|r| r.verdict != Verdict::Descriptive);
        rows
    }

    /// A layer's results with a verdict requested by the plan.
    pub fn rows(&self, layer: &str) -> Vec<&'a ResultRow> {
        let mut rows = self.asked();
        rows.retain(|r| r.layer == layer);
        rows
    }

    /// Results with failed trials, with or without a number.
    pub fn failures(&self) -> Vec<&'a ResultRow> {
        let failed = self.results.iter().filter(|r| r.failed_trials > 0);
        failed.collect()
    }

    /// At how many points every trial of a layer failed.
    pub fn never_succeeded(&self, layer: &str) -> usize {
        let mut rows = self.failures();
        rows.retain(|r| r.layer == layer && r.trials == 0);
        rows.len()
    }

    /// Whether a layer is known to differ by more than delta at a point on which no verdict was asked.
    pub fn differs_unasked(&self, layer: &str) -> bool {
        let beyond = 1.0 + self.run.plan.delta;
        let differs = |r: &&ResultRow| {
            let ends = r.ratio.and_then(|e| e.interval);
            let apart = ends.is_some_and(|[low, high]| low > beyond || high < 1.0 / beyond);
            r.verdict == Verdict::Descriptive && apart
        };
        let mut rows = self.measured();
        rows.retain(|r| r.layer == layer);
        rows.iter().any(differs)
    }

    /// Names of the layers compared with the baseline that have results with a requested verdict.
    pub fn compared(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for row in self.others().filter(|r| r.verdict != Verdict::Descriptive) {
            if !names.contains(&row.layer.as_str()) {
                names.push(&row.layer);
            }
        }
        names
    }

    /// The baseline's name in a sentence.
    pub fn baseline(&self) -> String {
        code_span::baseline(self.run.baseline())
    }

    /// Whether the layer is the baseline.
    pub fn is_baseline(&self, layer: &str) -> bool {
        self.run.baseline() == layer
    }

    /// The baseline's results whose flushes did not reach the device.
    pub fn baseline_skips(&self) -> impl Iterator<Item = &'a ResultRow> {
        let own = self.results.iter().filter(|r| self.is_baseline(&r.layer));
        own.filter(|r| r.durability.skips())
    }

    /// Whether the layer's data is in memory.
    pub fn in_memory(&self, layer: &str) -> bool {
        self.run
            .layers
            .iter()
            .any(|l| l.name == layer && l.facts.in_memory())
    }
}

/// All sentences of a run.
pub struct Words {
    /// One sentence for the whole run.
    pub headline: String,
    /// Limits of all other sentences.
    pub caveats: Vec<String>,
    /// Key findings.
    pub findings: Vec<Statement>,
    /// One sentence for each layer.
    pub verdicts: Vec<Statement>,
    /// Advice.
    pub advice: Vec<Advice>,
}

impl Words {
    /// Makes all sentences from the same results.
    pub fn of(f: &Findings, trials: &[TrialRecord], control_failed: bool) -> Self {
        let caveats = caveats::all(f, trials);
        let busy = caveats::is_busy(&caveats);
        Self {
            headline: headline::headline(f, busy, control_failed),
            caveats,
            findings: key_findings::pick(f),
            verdicts: verdicts(f),
            advice: advice::give(f, busy),
        }
    }
}

/// Names rows by their kind of work if the group is complete, else by label.
pub fn name_all(all: &[&ResultRow], some: &[&ResultRow]) -> String {
    if some.len() == all.len() && some.len() > 1 {
        return format!("all {} operations", some.len());
    }
    let tally = |rows: &[&ResultRow]| {
        rows.iter()
            .fold(BTreeMap::<WorkGroup, usize>::new(), |mut n, r| {
                *n.entry(r.meaning.group()).or_default() += 1;
                n
            })
    };
    let (whole, part) = (tally(all), tally(some));
    // Each name, and how many operations it stands for.
    let mut names: Vec<(String, usize)> = Vec::new();
    for (kind, n) in &part {
        if whole.get(kind) == Some(n) && *n > 1 {
            names.push((kind.words().into(), *n));
        } else {
            let own = some.iter().filter(|r| r.meaning.group() == *kind);
            names.extend(own.map(|r| (quoted(r), 1)));
        }
    }
    if names.len() > MANY {
        let rest = names.split_off(MANY - 1);
        let rest: usize = rest.iter().map(|(_, n)| n).sum();
        names.push((format!("{rest} more"), rest));
    }
    let names: Vec<String> = names.into_iter().map(|(name, _)| name).collect();
    list(&names)
}

/// Names of layers for a sentence; many layers are only counted.
pub fn some_of(names: &[String]) -> String {
    if names.len() > LISTED {
        format!("{} layers", names.len())
    } else {
        list(names)
    }
}

/// A label in curly quotes, because labels contain commas and spaces.
pub fn quoted(row: &ResultRow) -> String {
    format!("\u{201c}{}\u{201d}", row.label)
}

pub fn labels(rows: &[&ResultRow]) -> String {
    let mut names: Vec<String> = rows.iter().take(LISTED).map(|r| quoted(r)).collect();
    if rows.len() > LISTED {
        names.push(format!("{} more", rows.len() - LISTED));
    }
    list(&names)
}

/// A sentence for each layer.
pub fn verdicts(f: &Findings) -> Vec<Statement> {
    let layers = f.compared().into_iter();
    layers.filter_map(|layer| sentence(f, layer)).collect()
}

fn sentence(f: &Findings, layer: &str) -> Option<Statement> {
    let all = f.rows(layer);
    let rest: Vec<&ResultRow> = all
        .iter()
        .copied()
        .filter(|r| !seeing::is_late(r))
        .collect();
    let having = |v: Verdict| -> Vec<&ResultRow> {
        rest.iter()
            .copied()
            .filter(|r| r.verdict == v)
            .filter(|r| v == Verdict::Undecided || r.steady != Some(false))
            // Results with stalls are reported with their average.
            .filter(|r| !(r.has_stalls() && r.is_told()))
            .collect()
    };
    let mut failed = f.failures();
    failed.retain(|r| r.layer == layer);
    let baseline = &f.baseline();
    let mut clauses = Vec::new();
    clauses.extend(same(&all, &having(Verdict::Same), baseline));
    clauses.extend(slower(&all, &having(Verdict::Slower), baseline));
    clauses.extend(faster(&all, &having(Verdict::Faster), baseline));
    clauses.extend(locks::clause(f, layer));
    clauses.extend(seeing::clauses(&all, baseline));
    clauses.extend(stalls::clauses(&rest, baseline));
    clauses.extend(unsteady(&rest, Verdict::Slower));
    clauses.extend(unsteady(&rest, Verdict::Faster));
    clauses.extend(silent_flush(&all));
    clauses.extend(fewer_flushes(&all));
    let undecided = having(Verdict::Undecided);
    clauses.extend(undecided::clauses(&all, &undecided, baseline));
    clauses.extend(untrusted(&having(Verdict::Untrusted)));
    clauses.extend(failures(&failed));
    let rows = all.iter().chain(failed.iter().filter(|r| r.trials == 0));
    (!clauses.is_empty()).then(|| Statement {
        layer: layer.into(),
        text: format!("{} {}.", code(layer), clauses.join("; ")),
        evidence: rows.map(|r| r.id.clone()).collect(),
    })
}

/// Failures, by reason.
fn failures(rows: &[&ResultRow]) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&ResultRow>)> = Vec::new();
    for row in rows {
        let why = layermark_model::brief(row.error.as_deref().unwrap_or_default());
        match groups.iter_mut().find(|(w, _)| *w == why) {
            Some((_, group)) => group.push(row),
            None => groups.push((why, vec![row])),
        }
    }
    let said = |(why, group): (String, Vec<&ResultRow>)| {
        let trials: usize = group.iter().map(|r| r.trials + r.failed_trials).sum();
        let failed: usize = group.iter().map(|r| r.failed_trials).sum();
        let of = count(trials, "trial");
        format!("failed in {failed} of {of} at {}: {why}", labels(&group))
    };
    groups.into_iter().map(said).collect()
}

pub fn hull(rows: &[&ResultRow]) -> Option<[f64; 2]> {
    let spans = rows.iter().filter_map(|r| r.ratio?.interval);
    spans.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
}

fn same(all: &[&ResultRow], rows: &[&ResultRow], baseline: &str) -> Option<String> {
    let span = hull(rows)?;
    Some(format!(
        "is the same as {baseline} for {} ({})",
        name_all(all, rows),
        number::ratio_span(span)
    ))
}

/// A known direction without a single number: the ratio changed during the run.
fn unsteady(all: &[&ResultRow], verdict: Verdict) -> Option<String> {
    let changed = |r: &&ResultRow| r.verdict == verdict && r.steady == Some(false);
    let rows: Vec<&ResultRow> = all.iter().copied().filter(changed).collect();
    (!rows.is_empty()).then(|| {
        let names = labels(&rows);
        format!(
            "is {} at {names}, by how much changed during the run",
            verdict.word()
        )
    })
}

/// End of a clause with the reason for being slower; empty if no cause is known.
pub fn because(cause: Option<&Cause>, baseline: &str) -> String {
    let text = cause.map(|c| format!(": {}", c.words(baseline)));
    text.unwrap_or_default()
}

/// End of a clause with the reason for being faster.
pub fn explained(cause: Option<&Cause>, baseline: &str) -> String {
    let joint = match cause {
        None => return String::new(),
        Some(Cause::Unexplained | Cause::Small(_) | Cause::OtherFileSystem(_)) => ", and",
        Some(_) => " because",
    };
    let cause = cause.map(|c| c.words(baseline)).unwrap_or_default();
    format!("{joint} {cause}")
}

fn slower(all: &[&ResultRow], rows: &[&ResultRow], baseline: &str) -> Vec<String> {
    let extra = |r: &ResultRow| r.extra_us.map_or(0.0, |e| e.estimate);
    let mut ordered = rows.to_vec();
    ordered.sort_by(|a, b| extra(b).total_cmp(&extra(a)));
    let (large, small): (Vec<&ResultRow>, Vec<&ResultRow>) =
        ordered.into_iter().partition(|r| extra(r) >= TOLD_ALONE);
    let listed = large.iter().take(LISTED);
    let mut clauses: Vec<String> = listed.map(|r| costs_more(r, baseline)).collect();
    if large.len() > LISTED {
        clauses.push(format!("is slower at {}", labels(&large[LISTED..])));
    }
    // Operations that are slower for one reason share a clause.
    for (cause, group) in by_cause(&small) {
        clauses.push(adds(
            &name_all(all, &group),
            &group,
            cause.as_ref(),
            baseline,
        ));
    }
    clauses
}

fn costs_more(row: &ResultRow, baseline: &str) -> String {
    let extra = row
        .extra_us
        .map(|e| number::time_with(&e))
        .unwrap_or_default();
    let times = row
        .ratio
        .map(|r| format!(", {} times {baseline}'s time", number::ratio_of(&r)))
        .unwrap_or_default();
    format!(
        "costs {extra} more at {}{times}{}",
        quoted(row),
        because(row.causes.first(), baseline)
    )
}

fn adds(names: &str, group: &[&ResultRow], cause: Option<&Cause>, baseline: &str) -> String {
    let tail = because(cause, baseline);
    if let [row] = group
        && let (Some(extra), Some(ratio)) = (row.extra_us, row.ratio)
    {
        let (time, ratio) = (number::time_with(&extra), number::ratio_with(&ratio));
        return format!("adds {time} an operation to {names}, {ratio} {baseline}'s time{tail}");
    }
    let span = |pick: fn(&ResultRow) -> Option<Estimate>| {
        let values = group.iter().filter_map(|r| pick(r)).map(|e| e.estimate);
        values
            .map(|v| [v, v])
            .reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
            .unwrap_or([0.0, 0.0])
    };
    let (extra, ratios) = (span(|r| r.extra_us), span(|r| r.ratio));
    format!(
        "adds {} an operation to {names} ({}x {baseline}'s time){tail}",
        number::time_span(extra),
        number::ratio_span(ratios)
    )
}

/// Rows with the same first cause, and that cause of all of them.
type CauseGroup<'a> = (Option<Cause>, Vec<&'a ResultRow>);

/// Groups rows by their first cause, in order of first appearance.
pub fn by_cause<'a>(rows: &[&'a ResultRow]) -> Vec<CauseGroup<'a>> {
    let mut groups: Vec<CauseGroup> = Vec::new();
    for row in rows {
        let cause = row.causes.first();
        let alike = |other: &Option<Cause>| match (other, cause) {
            (Some(a), Some(b)) => a.is_like(b),
            (a, b) => a.is_none() && b.is_none(),
        };
        match groups.iter_mut().find(|(c, _)| alike(c)) {
            Some((told, group)) => {
                if let (Some(told), Some(more)) = (told, cause) {
                    told.count(more);
                }
                group.push(row);
            }
            None => groups.push((cause.cloned(), vec![row])),
        }
    }
    groups
}

fn faster(all: &[&ResultRow], rows: &[&ResultRow], baseline: &str) -> Vec<String> {
    by_cause(rows)
        .into_iter()
        .map(|(cause, group)| {
            let ratios = || group.iter().filter_map(|r| r.ratio);
            let by = |a: &Estimate, b: &Estimate| a.estimate.total_cmp(&b.estimate);
            let ends = [ratios().max_by(by), ratios().min_by(by)];
            let [least, most] = ends.map(|e| e.map(|e| number::gain(&e)).unwrap_or_default());
            let gain = if least == most {
                most
            } else {
                format!("{least} to {most}")
            };
            let skips = group
                .iter()
                .any(|r| r.durability.verdict == DurabilityVerdict::Absorbed);
            let warning = if skips {
                ": keep no data there that has to survive a power cut"
            } else {
                ""
            };
            format!(
                "is {gain} faster than {baseline} at {}{}{warning}",
                name_all(all, &group),
                explained(cause.as_ref(), baseline)
            )
        })
        .collect()
}

/// A skipped flush is reported even if it saves no time.
fn silent_flush(all: &[&ResultRow]) -> Option<String> {
    let rows: Vec<&ResultRow> = all
        .iter()
        .copied()
        .filter(|r| {
            let told = r.leaning() == Verdict::Faster;
            r.durability.verdict == DurabilityVerdict::Absorbed && !told
        })
        .collect();
    let most = rows.iter().max_by_key(|r| r.durability.syncs)?;
    let proof = most.durability.because.clone().unwrap_or_default();
    Some(format!("skips fsync at {} ({proof})", labels(&rows)))
}

/// Fewer flushes than calls are reported at any speed.
fn fewer_flushes(all: &[&ResultRow]) -> Option<String> {
    let few = all.iter().copied().filter(|r| {
        let told = matches!(r.causes.first(), Some(Cause::FlushesPerSync(_)));
        r.durability.per_sync.is_some() && !told
    });
    let rows: Vec<&ResultRow> = few.collect();
    let most = rows.iter().max_by_key(|r| r.durability.syncs)?;
    let proof = most.durability.because.clone().unwrap_or_default();
    let words = most.durability.words();
    Some(format!("has {words} at {} ({proof})", labels(&rows)))
}

fn untrusted(rows: &[&ResultRow]) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&ResultRow>)> = Vec::new();
    for row in rows {
        let why = row.untrusted.as_deref().unwrap_or_default();
        match groups.iter_mut().find(|(w, _)| *w == why) {
            Some((_, group)) => group.push(row),
            None => groups.push((why, vec![row])),
        }
    }
    groups
        .into_iter()
        .map(|(why, group)| format!("is not to be trusted at {} ({why})", labels(&group)))
        .collect()
}

#[cfg(test)]
mod tests;
