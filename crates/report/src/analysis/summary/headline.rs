//! One sentence for the whole run.

use layermark_model::{LayerStatus, brief};

use crate::{
    analysis::{
        power_cuts,
        summary::{Findings, locks, seeing, some_of},
    },
    code_span::code,
    number::{self, count, list, times},
    types::{AlternativeRow, DurabilityVerdict, ResultRow, Verdict},
};

/// An interval that misses 1 by less than this share shows no relevant difference.
const ALL_BUT: f64 = 0.01;
/// If the typical time and the median of single operations have ratios that differ by this factor, a
/// few operations make the cost, and both are said.
const MEDIAN_DIFFERS: f64 = 2.0;
/// From this ratio on, a cell with failed trials is reported although it is not certain.
const MAY_FROM: f64 = 1.5;
/// Longest headline, words. [`BUSY`] is not counted.
const WORDS: usize = 24;
/// Precedes a headline about figures that other programs disturbed, since it is quoted alone.
pub const BUSY: &str = "Measured on a busy machine: ";

/// One sentence for the whole run, of at most [`WORDS`] words.
pub fn headline(f: &Findings, busy: bool, control_failed: bool) -> String {
    // Lost data comes before any cost, and with its evidence.
    if let Some(lost) = power_cuts::sentence(&power_cuts::of(f.run)) {
        return lost;
    }
    let nothing = nothing(f);
    let answer = f.study.map(str::to_owned).filter(|_| nothing.is_none());
    let is_study = answer.is_some();
    let known = answer.map(|answer| vec![answer]).or_else(|| choices(f));
    // Without figures, nothing was disturbed.
    let busy = busy && (known.is_some() || nothing.is_none());
    let mut parts = known
        .or_else(|| nothing.map(|text| vec![text]))
        .unwrap_or_else(|| gist(f));
    if parts.is_empty() {
        // Fallback. Every layer should have a part, and every report has layers.
        parts.push("no verdict can be given".into());
    }
    if f.baseline_skips().next().is_some() {
        let text = format!("{} skips fsync: trust no ratio of a flush", f.baseline());
        parts.insert(0, text);
    }
    if control_failed {
        let text = format!("{} differed from itself: trust no figure", f.baseline());
        parts.insert(0, text);
    }
    // A study's answer is not cut.
    let text = if is_study {
        parts.join("; ")
    } else {
        fitted(&parts)
    };
    qualified(&text, busy)
}

/// A sentence with a capital letter, or with what limits it.
pub fn qualified(text: &str, busy: bool) -> String {
    if busy {
        return format!("{BUSY}{text}");
    }
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars).collect()
}

/// The most important parts that fit, most important first.
fn fitted(parts: &[String]) -> String {
    let mut room = WORDS;
    let mut kept: Vec<String> = Vec::new();
    for part in parts {
        let part = if words(part) > room {
            // Without the label, which may be long.
            part.split(" (").next().unwrap_or_default().to_owned()
        } else {
            part.clone()
        };
        if words(&part) <= room {
            room -= words(&part);
            kept.push(part);
        }
    }
    if kept.is_empty() {
        // A long name may leave no room for a whole part.
        let first = parts.first().map(String::as_str).unwrap_or_default();
        let start: Vec<&str> = first.split_whitespace().take(WORDS).collect();
        return start.join(" ");
    }
    kept.join("; ")
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// How alternatives compare with the first of them, if no layer is compared with the baseline.
fn choices(f: &Findings) -> Option<Vec<String>> {
    let one_layer = f.results.iter().all(|r| f.is_baseline(&r.layer));
    if !one_layer || f.alternatives.is_empty() {
        return None;
    }
    let label = |id: &str| {
        let row = f.results.iter().find(|r| r.id == id);
        row.map(|r| code(&r.label)).unwrap_or_default()
    };
    let sentence = |a: &AlternativeRow| {
        let (here, there) = (label(&a.result), label(&a.reference));
        let probably = if a.probably.is_some() {
            "probably "
        } else {
            ""
        };
        let ratio = a.ratio.as_ref().map(|e| (times(e), number::written(e).1));
        match (a.probably.unwrap_or(a.verdict), ratio) {
            (Verdict::Slower | Verdict::Faster, Some((ratio, ""))) => {
                Some(format!("{here} {probably}takes {ratio} as long as {there}"))
            }
            (Verdict::Slower | Verdict::Faster, Some((ratio, _))) => {
                Some(format!("{here} is {probably}{ratio} than {there}"))
            }
            (Verdict::Same, _) => Some(format!("{here} takes as long as {there}")),
            _ => None,
        }
    };
    let mut parts: Vec<String> = f.alternatives.iter().filter_map(sentence).collect();
    parts.retain(|part| words(part) <= WORDS);
    if parts.is_empty() {
        let mut kinds: Vec<(&str, usize)> = Vec::new();
        for word in f.alternatives.iter().map(AlternativeRow::word) {
            match kinds.iter_mut().find(|(known, _)| *known == word) {
                Some((_, n)) => *n += 1,
                None => kinds.push((word, 1)),
            }
        }
        let kinds: Vec<String> = kinds
            .iter()
            .map(|(word, n)| format!("{n} {word}"))
            .collect();
        parts.push(format!("compared with the first one: {}", list(&kinds)));
    }
    Some(parts)
}

/// The headline if there are no verdicts.
fn nothing(f: &Findings) -> Option<String> {
    let ready = f
        .run
        .layers
        .iter()
        .filter(|l| l.status == LayerStatus::Ready && !l.control)
        .count();
    if !f.run.layers.is_empty() && ready == 0 {
        return Some("no layer could be set up, so nothing was measured".into());
    }
    if f.results.iter().all(|r| r.trials == 0) {
        return Some("nothing was measured yet".into());
    }
    let compared = f.measured();
    if compared.is_empty() {
        return Some(nothing_compared(f));
    }
    let asked = f.asked();
    if asked.is_empty() {
        return Some("nothing that a verdict was asked on was measured".into());
    }
    let blocks = asked.iter().map(|r| r.blocks).max().unwrap_or(0);
    let need = layermark_stats::MIN_BLOCKS;
    let open = |r: &ResultRow| {
        r.ratio.is_none_or(|e| e.interval.is_none())
            && r.steady != Some(false)
            && r.verdict == Verdict::Undecided
    };
    // What little was measured may be distrusted as well.
    let few = |r: &ResultRow| open(r) || r.verdict == Verdict::Untrusted && r.blocks < need;
    if asked.iter().all(|r| few(r)) && asked.iter().any(|r| open(r)) {
        return Some(format!(
            "too little was measured for a verdict: {} of at least {need}",
            count(blocks, "block")
        ));
    }
    None
}

/// The headline if only the baseline has a number.
fn nothing_compared(f: &Findings) -> String {
    let mut failed = f.failures();
    failed.retain(|r| r.trials == 0 && !f.is_baseline(&r.layer));
    let Some(first) = failed.first() else {
        let only = f.baseline();
        return format!("only {only} was measured, so there is nothing to compare");
    };
    let mut layers: Vec<String> = failed.iter().map(|r| code(&r.layer)).collect();
    layers.sort();
    layers.dedup();
    let why = brief(first.error.as_deref().unwrap_or_default());
    format!("every trial of {} failed ({why})", some_of(&layers))
}

/// The state of a layer, for the headline.
enum Standing {
    /// Slower somewhere, certainly or probably.
    Slower,
    /// Its data is in memory, so being faster is not reported.
    Memory,
    /// It shows changes of the other side later, or not in time.
    Late,
    /// Slower somewhere, by an amount that changed during the run.
    SlowerUnsteady,
    /// No known difference from the baseline anywhere.
    Free,
    /// Within delta of the baseline at this many of this many points, and nowhere slower or faster.
    Near(usize, usize),
    /// Faster somewhere and slower nowhere.
    Faster,
    /// Probably faster somewhere, and slower nowhere.
    ProbablyFaster,
    /// It waited too much for a CPU somewhere, and nothing is known elsewhere.
    Waits,
    /// None of its figures is trusted.
    Untrusted,
    /// None of these.
    Open,
}

/// Certainty of a row that costs more than the baseline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sure {
    /// Some trials failed, and the others are too few for a verdict.
    May,
    /// By the weaker rule.
    Probably,
    /// Certain.
    Yes,
}

/// A row that costs more than the baseline, with amount and certainty.
struct Slower<'a> {
    row: &'a ResultRow,
    ratio: f64,
    sure: Sure,
}

impl<'a> Slower<'a> {
    fn of(row: &'a ResultRow) -> Option<Self> {
        let estimate = row.ratio.filter(|_| !seeing::is_late(row))?;
        let sure = match (row.verdict, row.probably) {
            (Verdict::Slower, _) => Sure::Yes,
            (Verdict::Undecided, Some(Verdict::Slower)) => Sure::Probably,
            (Verdict::Undecided, None)
                if row.failed_trials > 0
                    && row.withheld.is_none()
                    && estimate.estimate >= MAY_FROM =>
            {
                Sure::May
            }
            _ => return None,
        };
        let ratio = estimate.estimate;
        Some(Self { row, ratio, sure })
    }
}

fn standing(f: &Findings, layer: &str, rows: &[&ResultRow]) -> Standing {
    let has = |v: Verdict| rows.iter().filter(|r| r.verdict == v).count();
    let leans = |v: Verdict| rows.iter().any(|r| r.leaning() == v);
    if rows.iter().any(|r| Slower::of(r).is_some()) {
        Standing::Slower
    } else if rows.iter().any(|r| seeing::is_late(r)) {
        Standing::Late
    } else if f.in_memory(layer) {
        Standing::Memory
    } else if leans(Verdict::Slower) {
        Standing::SlowerUnsteady
    } else if has(Verdict::Faster) > 0 {
        Standing::Faster
    } else if leans(Verdict::Faster) {
        Standing::ProbablyFaster
    } else if rows
        .iter()
        .all(|r| r.verdict == Verdict::Same && holds_one(r))
    {
        Standing::Free
    } else if has(Verdict::Same) > 0 {
        Standing::Near(has(Verdict::Same), rows.len())
    } else if rows.iter().any(|r| r.withheld.is_some()) {
        Standing::Waits
    } else if has(Verdict::Untrusted) == rows.len() {
        Standing::Untrusted
    } else {
        Standing::Open
    }
}

/// Whether the interval contains 1, or nearly does, so that no relevant difference is known.
fn holds_one(row: &ResultRow) -> bool {
    let interval = row.ratio.and_then(|e| e.interval);
    interval.is_some_and(|[low, high]| low <= 1.0 + ALL_BUT && high >= 1.0 - ALL_BUT)
}

/// Layers near the baseline, with the number of such points and of all points.
type Near = Vec<(String, usize, usize)>;

fn within(near: &Near, delta: f64, baseline: &str) -> Option<String> {
    let (_, same, all) = near.first()?;
    let names: Vec<String> = near.iter().map(|(name, ..)| name.clone()).collect();
    let points = if near.iter().all(|(_, s, a)| (s, a) == (same, all)) {
        format!("{same} of {}", count(*all, "point"))
    } else if near.iter().all(|(_, s, a)| 2 * s > *a) {
        "most points".into()
    } else {
        "some points".into()
    };
    let within = format!(
        "within {} of {baseline} at {points}",
        number::percent(delta)
    );
    said(&names, &format!("is {within}"), &format!("are {within}"))
}

fn gist(f: &Findings) -> Vec<String> {
    let mut near = Near::new();
    let (mut free, mut memory, mut faster, mut perhaps_faster) = (vec![], vec![], vec![], vec![]);
    let (mut slower, mut unsteady, mut untrusted, mut open) = (vec![], vec![], vec![], vec![]);
    let mut waits: Vec<String> = Vec::new();
    let mut failed: Vec<String> = Vec::new();
    let (mut late, mut open_locks): (Vec<String>, Vec<String>) = (vec![], vec![]);
    for layer in f.compared() {
        let rows = f.rows(layer);
        let name = code(layer);
        let fails = f.never_succeeded(layer);
        if fails > 0 {
            let mut made = f.measured();
            made.retain(|r| r.layer == layer);
            let of = count(made.len() + fails, "operation");
            failed.push(format!("{name} failed at {fails} of {of}"));
        }
        if rows.is_empty() {
            continue;
        }
        if f.in_memory(layer) {
            memory.push(name.clone());
        }
        open_locks.extend(locks::part(f, layer));
        match standing(f, layer, &rows) {
            Standing::Memory => {}
            Standing::Slower => slower.extend(rows.iter().filter_map(|r| Slower::of(r))),
            Standing::Late => late.extend(seeing::part(f, layer)),
            Standing::SlowerUnsteady => unsteady.push(name),
            // That it costs nothing is not the answer where it does not do everything.
            Standing::Free | Standing::Near(..) if fails > 0 => {}
            Standing::Free if f.differs_unasked(layer) => {
                near.push((name, rows.len(), rows.len()));
            }
            Standing::Free => free.push(name),
            Standing::Near(same, all) => near.push((name, same, all)),
            Standing::Faster => faster.push(name),
            Standing::ProbablyFaster => perhaps_faster.push(name),
            Standing::Waits => waits.push(name),
            Standing::Untrusted => untrusted.push(name),
            Standing::Open => open.push(name),
        }
    }
    let mut skips: Vec<String> = Vec::new();
    for row in f.measured() {
        let name = code(&row.layer);
        if row.durability.verdict == DurabilityVerdict::Absorbed && !skips.contains(&name) {
            skips.push(name);
        }
    }
    let changed = "slower, by how much changed during the run";
    let mut known = open_locks;
    known.extend(slowest(f, &slower));
    known.extend(late);
    known.extend(failed);
    known.extend(said(&skips, "skips fsync", "skip fsync"));
    known.extend(said(
        &free,
        "costs nothing measurable",
        "cost nothing measurable",
    ));
    known.extend(within(&near, f.run.plan.delta, &f.baseline()));
    known.extend(said(
        &memory,
        "is memory, not a disk",
        "are memory, not disks",
    ));
    known.extend(said(
        &unsteady,
        &format!("is {changed}"),
        &format!("are {changed}"),
    ));
    if !known.is_empty() {
        // Probable costs are left out if there are certain ones.
        return known;
    }
    let baseline = f.baseline();
    let explained = |r: &&ResultRow| r.verdict == Verdict::Faster && !r.causes.is_empty();
    let below = if f.measured().iter().any(explained) {
        ", for the reasons below"
    } else {
        ""
    };
    let reasons = format!("faster than {baseline}{below}");
    let or = probable(f, &slower)
        .or_else(|| said(&faster, &format!("is {reasons}"), &format!("are {reasons}")))
        .or_else(|| {
            let probably = format!("probably faster than {baseline}");
            let (one, many) = (format!("is {probably}"), format!("are {probably}"));
            said(&perhaps_faster, &one, &many)
        })
        .or_else(|| {
            let much = "too much for a CPU to tell";
            said(&waits, &format!("waits {much}"), &format!("wait {much}"))
        })
        .or_else(|| said(&open, "is too noisy to tell", "are too noisy to tell"))
        .or_else(|| said(&untrusted, "is not trusted", "are not trusted"));
    or.into_iter().collect()
}

fn said(names: &[String], one: &str, many: &str) -> Option<String> {
    let verb = if names.len() == 1 { one } else { many };
    (!names.is_empty()).then(|| format!("{} {verb}", some_of(names)))
}

/// The rows with the largest cost, largest first.
fn most<'a, 'b>(rows: impl Iterator<Item = &'b Slower<'a>>) -> Option<&'b Slower<'a>>
where
    'a: 'b,
{
    rows.max_by(|a, b| a.ratio.total_cmp(&b.ratio).then(a.sure.cmp(&b.sure)))
}

/// The layer that slows the most operations, if it slows more than one.
struct Commonest<'a> {
    layer: &'a str,
    /// The layer in the sentence.
    name: String,
    /// Operations that it slows for certain, including those without a single number.
    slowed: usize,
    /// Operations that a verdict was asked on.
    asked: usize,
    /// The largest certain ratio.
    most: Option<&'a ResultRow>,
}

impl<'a> Commonest<'a> {
    fn of(f: &Findings<'a>) -> Option<Self> {
        let of_layer = |layer: &'a str| {
            let rows = f.rows(layer);
            let asked = rows.len();
            let is_slower = |r: &&ResultRow| r.verdict == Verdict::Slower && !seeing::is_late(r);
            let slower = rows.into_iter().filter(is_slower);
            let slower: Vec<&ResultRow> = slower.collect();
            let known = slower.iter().copied().filter(|r| r.ratio.is_some());
            Self {
                layer,
                name: named(f, layer),
                slowed: slower.len(),
                asked,
                most: known.max_by(|a, b| factor(a).total_cmp(&factor(b))),
            }
        };
        let layers = f.compared().into_iter().map(of_layer);
        let most = |c: &Self| c.most.map_or(0.0, factor);
        let by = |a: &Self, b: &Self| a.slowed.cmp(&b.slowed).then(most(a).total_cmp(&most(b)));
        layers.max_by(by).filter(|c| c.slowed > 1)
    }

    /// `` `fuse` slows 11 of 12 operations``.
    fn words(&self) -> String {
        let of = count(self.asked, "operation");
        format!("{} slows {} of {of}", self.name, self.slowed)
    }
}

/// The layer's name. Its ratio says nothing of a real CPU where every instruction is emulated.
fn named(f: &Findings, layer: &str) -> String {
    let emulated = |name: &str| {
        let mut layers = f.run.layers.iter();
        layers.any(|l| l.name == name && l.facts.emulated_cpu())
    };
    let name = code(layer);
    if emulated(layer) && !emulated(f.run.baseline()) {
        format!("{name} on an emulated CPU")
    } else {
        name
    }
}

fn factor(row: &ResultRow) -> f64 {
    row.ratio.map_or(0.0, |e| e.estimate)
}

/// Whether a layer may take longer somewhere than this certain ratio. That may be at an operation with a
/// less certain ratio, or at one without a steady state, whose largest ratio is unknown.
fn goes_beyond(f: &Findings, slower: &[Slower], layer: &str, ratio: f64) -> bool {
    let unknown = |r: &&ResultRow| r.leaning() == Verdict::Slower && r.ratio.is_none();
    let larger = |s: &Slower| s.row.layer == layer && s.ratio > ratio;
    slower.iter().any(larger) || f.rows(layer).iter().any(unknown)
}

/// The commonest cost, then the certain row with the largest ratio, then a larger one that is less
/// certain. Empty if no row is certain.
fn slowest(f: &Findings, slower: &[Slower]) -> Vec<String> {
    let Some(worst) = most(slower.iter().filter(|s| s.sure == Sure::Yes)) else {
        return Vec::new();
    };
    let larger = most(slower.iter().filter(|s| s.ratio > worst.ratio));
    let layer = worst.row.layer.as_str();
    let at_most = !goes_beyond(f, slower, layer, worst.ratio);
    let up_to = if at_most { "up to " } else { "" };
    let mut parts = match Commonest::of(f) {
        Some(common) if common.layer == layer => {
            let joint = if at_most { "up to" } else { "taking" };
            vec![format!("{}, {joint} {}", common.words(), at(worst.row, ""))]
        }
        Some(common) => {
            let most = common
                .most
                .filter(|r| !goes_beyond(f, slower, &r.layer, factor(r)));
            let most = most.and_then(|r| r.ratio.as_ref());
            let most = most.map(|e| format!(", up to {}", times(e)));
            let common = common.words() + &most.unwrap_or_default();
            vec![
                common,
                format!("{} takes {}", named(f, layer), at(worst.row, "")),
            ]
        }
        None => {
            let alone = slower.iter().all(|s| s.row.layer == layer);
            let verb = if larger.is_none() && !alone {
                "is slowest, taking"
            } else {
                "takes"
            };
            vec![format!(
                "{} {verb} {up_to}{}",
                named(f, layer),
                cost(worst.row, &f.baseline())
            )]
        }
    };
    parts.extend(larger.map(|s| {
        let may = match s.sure {
            Sure::Probably | Sure::Yes => "probably takes",
            Sure::May => "may take",
        };
        let times = s.row.ratio.as_ref().map(times).unwrap_or_default();
        // Only one fits: failures are the reason for the uncertainty.
        let why = failed_of(s.row).unwrap_or_else(|| s.row.label.clone());
        format!("{} {may} {times} ({why})", named(f, &s.row.layer))
    }));
    parts
}

/// The part for probable costs, if no cost is certain.
fn probable(f: &Findings, slower: &[Slower]) -> Option<String> {
    let worst = most(slower.iter())?;
    let name = named(f, &worst.row.layer);
    let cost = cost(worst.row, &f.baseline());
    Some(match worst.sure {
        Sure::May => format!("no cost is certain; {name} may take {cost}"),
        _ => format!("no cost is certain; {name} is probably slowest, taking {cost}"),
    })
}

/// `37x native's time (untar; 1 of 5 trials failed)`.
fn cost(row: &ResultRow, baseline: &str) -> String {
    at(row, &format!(" {baseline}'s time"))
}

/// `37x (untar; 1 of 5 trials failed)`, with what it is a multiple of after the number.
fn at(row: &ResultRow, of: &str) -> String {
    let times = row.ratio.as_ref().map(times).unwrap_or_default();
    let notes = [at_median(row), failed_of(row)];
    let notes = notes.iter().flatten().map(|note| format!("; {note}"));
    format!("{times}{of} ({}{})", row.label, notes.collect::<String>())
}

/// `12x at the median`, if that is far from the typical time.
fn at_median(row: &ResultRow) -> Option<String> {
    let (typical, median) = (row.ratio?.estimate, row.median_ratio?);
    let far = (median / typical).max(typical / median) >= MEDIAN_DIFFERS;
    far.then(|| format!("{} at the median", number::times_about(median)))
}

/// `1 of 5 trials failed`.
fn failed_of(row: &ResultRow) -> Option<String> {
    let n = row.failed_trials;
    (n > 0).then(|| format!("{n} of {} failed", count(n + row.trials, "trial")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headline_keeps_what_has_room_and_drops_a_long_label() {
        let parts = |all: &[&str]| -> Vec<String> { all.iter().map(|p| (*p).to_owned()).collect() };
        let long = "`a` is slowest, taking up to 12x native's time (a label that has far more words than anybody wants to read in one line, or in two)";
        let told = fitted(&parts(&[
            long,
            "`b` skips fsync",
            "`c` costs nothing measurable",
        ]));
        assert_eq!(
            told,
            "`a` is slowest, taking up to 12x native's time; `b` skips fsync; `c` costs nothing measurable"
        );
        assert!(words(&told) <= WORDS);
        let last = fitted(&parts(&["one two three", &"x ".repeat(WORDS - 2), "four"]));
        assert_eq!(last, "one two three; four");
    }
}
