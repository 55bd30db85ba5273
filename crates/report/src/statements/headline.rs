//! The sentence for the whole run.

use layermark_model::witness::{ProgramCut, SequenceCut, WitnessTrial};

use crate::{
    facts::power_cuts,
    group,
    statements::{
        Selection,
        everyday::{Everyday, factor, lost},
        late::{Late, is_late},
        locks::OpenLocks,
        programs,
        sequences::{self, SequenceAnswer},
    },
    types::{DurabilityVerdict, Estimate, ResultRow, Verdict},
};

/// An interval that misses 1 by less than this share shows no relevant difference.
const ALL_BUT: f64 = 0.01;
/// If the typical time and the median of single operations have ratios that differ by this factor, a
/// few operations make the cost, and both are said.
const MEDIAN_DIFFERS: f64 = 2.0;
/// From this ratio on, a cell with failed trials is reported although it is not certain.
const MAY_FROM: f64 = 1.5;

/// The sentence for the whole run.
#[derive(Debug)]
pub enum Headline<'a> {
    /// Power cuts lost data: this comes before any cost.
    LostData(Vec<WitnessTrial>),
    /// What the user's programs keep, which was the question.
    Programs(Vec<ProgramCut>),
    /// What sequences of operations lost that POSIX promises.
    Sequences(Vec<SequenceCut>),
    /// Warnings, and the answer of the study.
    Study {
        /// Warnings.
        warnings: Vec<HeadlinePart<'a>>,
        /// The answer, which is not cut.
        answer: &'a str,
    },
    /// Parts, most important first, as many as fit.
    Parts(Vec<HeadlinePart<'a>>),
}

/// A part of the headline.
#[derive(Debug)]
pub enum HeadlinePart<'a> {
    /// The control differed from the baseline.
    ControlFailed,
    /// The baseline skips flushes.
    BaselineSkips,
    /// Alternatives of the only layer, and how many have each word.
    Choices(Vec<Choice<'a>>, Vec<(&'static str, usize)>),
    /// No layer could be set up.
    NoLayer,
    /// No trial has a number.
    NotMeasured,
    /// Only the baseline has numbers.
    OnlyBaseline,
    /// Every trial of these layers failed; holds the first error.
    AllFailed(Vec<&'a str>, &'a str),
    /// Nothing that a verdict was asked on was measured.
    NotAsked,
    /// There are this many blocks; a verdict needs more.
    TooLittle(usize),
    /// What a layer costs where it loses most time.
    Costs(Costs<'a>),
    /// No cost is certain: the largest.
    Uncertain(Costs<'a>),
    /// Locks that exclude nobody.
    Locks(OpenLocks<'a>),
    /// Changes of the other side are seen later.
    Late(Late<'a>),
    /// A layer failed at some of its operations.
    Failed(&'a str, usize, usize),
    /// Layers that skip flushes.
    Skip(Vec<&'a str>),
    /// Layers that cost nothing.
    Free(Vec<&'a str>),
    /// Layers near the baseline, and delta.
    Near(Vec<Near<'a>>, f64),
    /// Layers whose data is in memory.
    Memory(Vec<&'a str>),
    /// Layers that are slower by an amount that changed.
    SlowerUnsteady(Vec<&'a str>),
    /// Faster layers, and whether a reason is known.
    Faster(Vec<&'a str>, bool),
    /// Probably faster layers.
    ProbablyFaster(Vec<&'a str>),
    /// Layers that waited too much for a CPU.
    Wait(Vec<&'a str>),
    /// Layers that are too noisy.
    Open(Vec<&'a str>),
    /// Layers that are not trusted.
    Untrusted(Vec<&'a str>),
    /// On a busy machine: how many results are not decided, and of how many.
    Undecided(usize, usize),
}

/// An alternative, compared with the first one.
#[derive(Debug)]
pub struct Choice<'a> {
    /// Its label.
    pub here: &'a str,
    /// The label of the first one.
    pub there: &'a str,
    /// Its verdict, which may be probable.
    pub verdict: Verdict,
    /// Whether the verdict is only probable.
    pub probably: bool,
    /// Its time over that of the first one.
    pub ratio: Option<Estimate>,
}

/// A layer, and whether its CPU is emulated, other than the baseline's: its ratio says nothing of a real CPU.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// The layer.
    pub layer: &'a str,
    /// Whether every instruction is emulated.
    pub emulated: bool,
}

/// A row whose ratio is said, with the notes that it needs.
#[derive(Debug, Clone, Copy)]
pub struct Ratio<'a> {
    /// The row.
    pub row: &'a ResultRow,
    /// Ratio of the medians, if it is far from the typical one.
    pub median: Option<f64>,
}

/// What a layer costs.
#[derive(Debug)]
pub struct Costs<'a> {
    /// The layer.
    pub name: Named<'a>,
    /// Where it loses most time, of the work that people do if it slows any.
    pub ratio: Ratio<'a>,
    /// How certain that is.
    pub sure: Sure,
    /// Operations that it slows for certain.
    pub slowed: usize,
    /// Operations that a verdict was asked on.
    pub asked: usize,
}

/// A layer within delta of the baseline, at some of its points.
#[derive(Debug, Clone, Copy)]
pub struct Near<'a> {
    /// The layer.
    pub layer: &'a str,
    /// Points at which it is.
    pub same: usize,
    /// All points.
    pub all: usize,
}

/// The sentence for the whole run. `busy`: other programs disturbed it.
pub fn headline<'a>(f: &Selection<'a>, busy: bool, control_failed: bool) -> Headline<'a> {
    // Lost data comes before any cost, and with its evidence.
    let cuts = power_cuts::of(f.run);
    if power_cuts::sentence(&cuts).is_some() {
        return Headline::LostData(cuts);
    }
    let sequences = sequences::cuts(f.run);
    let lied = || {
        sequences::answers(&sequences)
            .iter()
            .any(SequenceAnswer::lied)
    };
    if sequences::controls_failed(&sequences).is_some() || lied() {
        return Headline::Sequences(sequences);
    }
    let programs = programs::cuts(f.run);
    if !programs.is_empty() {
        return Headline::Programs(programs);
    }
    let mut parts = Vec::new();
    if control_failed {
        parts.push(HeadlinePart::ControlFailed);
    }
    if f.baseline_skips().next().is_some() {
        parts.push(HeadlinePart::BaselineSkips);
    }
    let nothing = nothing(f);
    if let (Some(answer), None) = (f.study, &nothing) {
        return Headline::Study {
            warnings: parts,
            answer,
        };
    }
    match choices(f).or(nothing) {
        Some(known) => parts.push(known),
        None => {
            parts.extend(gist(f, busy));
        }
    }
    Headline::Parts(parts)
}

/// How many results are not decided.
fn undecided<'a>(f: &Selection) -> Option<HeadlinePart<'a>> {
    let asked = f.asked();
    let open = asked.iter().filter(|r| !r.leaning().is_decided()).count();
    (open > 0).then_some(HeadlinePart::Undecided(open, asked.len()))
}

/// How alternatives compare with the first of them, if no layer is compared with the baseline.
fn choices<'a>(f: &Selection<'a>) -> Option<HeadlinePart<'a>> {
    let one_layer = f.results.iter().all(|r| f.is_baseline(&r.layer));
    if !one_layer || f.alternatives.is_empty() {
        return None;
    }
    let label = |id: &str| {
        let row = f.results.iter().find(|r| r.id == id);
        row.map_or("", |r| r.label.as_str())
    };
    let kinds = group::by(f.alternatives, |row| row.comparison.word()).into_iter();
    let kinds = kinds.map(|(word, alike)| (word, alike.len())).collect();
    let choices = f.alternatives.iter().map(|a| Choice {
        here: label(&a.result),
        there: label(&a.reference),
        verdict: a.comparison.leaning(),
        probably: a.comparison.probably.is_some(),
        ratio: a.comparison.ratio,
    });
    let is_said = |c: &Choice| match c.verdict {
        Verdict::Slower | Verdict::Faster => c.ratio.is_some(),
        verdict => verdict == Verdict::Same,
    };
    Some(HeadlinePart::Choices(
        choices.filter(is_said).collect(),
        kinds,
    ))
}

/// The headline if there are no verdicts.
fn nothing<'a>(f: &Selection<'a>) -> Option<HeadlinePart<'a>> {
    if !f.run.layers.is_empty() && f.ready().next().is_none() {
        return Some(HeadlinePart::NoLayer);
    }
    if f.results.iter().all(|r| r.trials == 0) {
        return Some(HeadlinePart::NotMeasured);
    }
    let compared = f.measured();
    if compared.is_empty() {
        return Some(nothing_compared(f));
    }
    let asked = f.asked();
    if asked.is_empty() {
        return Some(HeadlinePart::NotAsked);
    }
    let blocks = asked.iter().map(|r| r.blocks).max().unwrap_or(0);
    let open = |r: &ResultRow| {
        r.ratio.is_none_or(|e| e.interval.is_none())
            && r.steady != Some(false)
            && r.verdict == Verdict::Undecided
    };
    // What little was measured may be distrusted as well.
    let few = |r: &ResultRow| {
        open(r) || r.verdict == Verdict::Untrusted && r.blocks < layermark_stats::MIN_BLOCKS
    };
    let too_little = asked.iter().all(|r| few(r)) && asked.iter().any(|r| open(r));
    too_little.then_some(HeadlinePart::TooLittle(blocks))
}

/// The headline if only the baseline has a number.
fn nothing_compared<'a>(f: &Selection<'a>) -> HeadlinePart<'a> {
    let mut failed = f.failures();
    failed.retain(|r| r.trials == 0 && !f.is_baseline(&r.layer));
    let Some(first) = failed.first() else {
        return HeadlinePart::OnlyBaseline;
    };
    let mut layers: Vec<&str> = failed.iter().map(|r| r.layer.as_str()).collect();
    layers.sort_unstable();
    layers.dedup();
    HeadlinePart::AllFailed(layers, first.error.as_deref().unwrap_or_default())
}

/// The state of a layer, for the headline.
enum LayerState {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sure {
    /// Some trials failed, and the others are too few for a verdict.
    May,
    /// By the weaker rule.
    Probably,
    /// Certain.
    Yes,
}

/// A row that costs more than the baseline, with its certainty.
#[derive(Clone, Copy)]
struct Slower<'a> {
    row: &'a ResultRow,
    sure: Sure,
}

impl<'a> Slower<'a> {
    fn of(row: &'a ResultRow) -> Option<Self> {
        let estimate = row.ratio.filter(|_| !is_late(row))?;
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
        Some(Self { row, sure })
    }

    fn layer(&self) -> &'a str {
        &self.row.layer
    }
}

fn standing(f: &Selection, layer: &str, rows: &[&ResultRow]) -> LayerState {
    let has = |v: Verdict| rows.iter().filter(|r| r.verdict == v).count();
    let leans = |v: Verdict| rows.iter().any(|r| r.leaning() == v);
    if rows.iter().any(|r| Slower::of(r).is_some()) {
        LayerState::Slower
    } else if rows.iter().any(|r| is_late(r)) {
        LayerState::Late
    } else if f.in_memory(layer) {
        LayerState::Memory
    } else if leans(Verdict::Slower) {
        LayerState::SlowerUnsteady
    } else if has(Verdict::Faster) > 0 {
        LayerState::Faster
    } else if leans(Verdict::Faster) {
        LayerState::ProbablyFaster
    } else if rows
        .iter()
        .all(|r| r.verdict == Verdict::Same && holds_one(r))
    {
        LayerState::Free
    } else if has(Verdict::Same) > 0 {
        LayerState::Near(has(Verdict::Same), rows.len())
    } else if rows.iter().any(|r| r.withheld.is_some()) {
        LayerState::Waits
    } else if has(Verdict::Untrusted) == rows.len() {
        LayerState::Untrusted
    } else {
        LayerState::Open
    }
}

/// Whether the interval contains 1, or nearly does, so that no relevant difference is known.
fn holds_one(row: &ResultRow) -> bool {
    let interval = row.ratio.and_then(|e| e.interval);
    interval.is_some_and(|[low, high]| low <= 1.0 + ALL_BUT && high >= 1.0 - ALL_BUT)
}

/// Layers by their state.
#[derive(Default)]
struct Gist<'a> {
    near: Vec<Near<'a>>,
    free: Vec<&'a str>,
    memory: Vec<&'a str>,
    faster: Vec<&'a str>,
    perhaps_faster: Vec<&'a str>,
    slower: Vec<Slower<'a>>,
    unsteady: Vec<&'a str>,
    untrusted: Vec<&'a str>,
    open: Vec<&'a str>,
    waits: Vec<&'a str>,
    failed: Vec<HeadlinePart<'a>>,
    late: Vec<Late<'a>>,
    open_locks: Vec<OpenLocks<'a>>,
}

impl<'a> Gist<'a> {
    fn add(&mut self, f: &Selection<'a>, layer: &'a str) {
        let rows = f.rows(layer);
        let fails = f.never_succeeded(layer);
        if fails > 0 {
            let mut made = f.measured();
            made.retain(|r| r.layer == layer);
            let all = made.len() + fails;
            self.failed.push(HeadlinePart::Failed(layer, fails, all));
        }
        if rows.is_empty() {
            return;
        }
        if f.in_memory(layer) {
            self.memory.push(layer);
        }
        self.open_locks.extend(OpenLocks::of(f, layer));
        let near = |same, all| Near { layer, same, all };
        match standing(f, layer, &rows) {
            LayerState::Memory => {}
            LayerState::Slower => self
                .slower
                .extend(rows.iter().filter_map(|r| Slower::of(r))),
            LayerState::Late => self.late.extend(Late::of(f, layer)),
            LayerState::SlowerUnsteady => self.unsteady.push(layer),
            // That it costs nothing is not the answer where it does not do everything.
            LayerState::Free | LayerState::Near(..) if fails > 0 => {}
            LayerState::Free if f.differs_unasked(layer) => {
                self.near.push(near(rows.len(), rows.len()));
            }
            LayerState::Free => self.free.push(layer),
            LayerState::Near(same, all) => self.near.push(near(same, all)),
            LayerState::Faster => self.faster.push(layer),
            LayerState::ProbablyFaster => self.perhaps_faster.push(layer),
            LayerState::Waits => self.waits.push(layer),
            LayerState::Untrusted => self.untrusted.push(layer),
            LayerState::Open => self.open.push(layer),
        }
    }
}

/// A part about some layers, if there are any.
fn about<T>(layers: Vec<T>) -> Option<Vec<T>> {
    (!layers.is_empty()).then_some(layers)
}

fn gist<'a>(f: &Selection<'a>, busy: bool) -> Vec<HeadlinePart<'a>> {
    let mut all = Gist::default();
    for layer in f.compared() {
        all.add(f, layer);
    }
    let mut skips: Vec<&str> = Vec::new();
    for row in f.measured() {
        let absorbed = row.durability.verdict == DurabilityVerdict::Absorbed;
        if absorbed && !skips.contains(&row.layer.as_str()) {
            skips.push(&row.layer);
        }
    }
    let mut known: Vec<HeadlinePart> = all
        .open_locks
        .into_iter()
        .map(HeadlinePart::Locks)
        .collect();
    known.extend(costs(f, &all.slower));
    known.extend(all.late.into_iter().map(HeadlinePart::Late));
    known.extend(all.failed);
    known.extend(about(skips).map(HeadlinePart::Skip));
    known.extend(about(all.free).map(HeadlinePart::Free));
    let delta = f.run.plan.delta;
    known.extend(about(all.near).map(|near| HeadlinePart::Near(near, delta)));
    known.extend(about(all.memory).map(HeadlinePart::Memory));
    known.extend(about(all.unsteady).map(HeadlinePart::SlowerUnsteady));
    if !known.is_empty() {
        known.extend(busy.then(|| undecided(f)).flatten());
        return known;
    }
    let explained = |r: &&ResultRow| r.verdict == Verdict::Faster && !r.causes.is_empty();
    let explained = f.measured().iter().any(explained);
    let or = uncertain(f, &all.slower)
        .or_else(|| about(all.faster).map(|layers| HeadlinePart::Faster(layers, explained)))
        .or(about(all.perhaps_faster).map(HeadlinePart::ProbablyFaster))
        .or(about(all.waits).map(HeadlinePart::Wait))
        .or(about(all.open).map(HeadlinePart::Open))
        .or(about(all.untrusted).map(HeadlinePart::Untrusted));
    or.into_iter().collect()
}

/// The row that loses most time: of the work that people do, if it is slower anywhere. Of other operations a large
/// ratio may be a time that nobody notices.
fn worst<'a>(rows: impl Iterator<Item = Slower<'a>> + Clone) -> Option<Slower<'a>> {
    let is_work = |s: &Slower| Everyday::is_application(&s.row.meaning);
    let most = |a: &Slower, b: &Slower| {
        let by_time = lost(a.row).total_cmp(&lost(b.row));
        by_time.then(factor(a.row).total_cmp(&factor(b.row)))
    };
    let work = rows.clone().filter(is_work).max_by(most);
    work.or_else(|| rows.max_by(most))
}

/// Where most time is lost; then a layer that takes a larger multiple; then what is certain, if neither is. Empty if no
/// row is certain.
fn costs<'a>(f: &Selection<'a>, slower: &[Slower<'a>]) -> Vec<HeadlinePart<'a>> {
    let all = slower.iter().copied();
    let certain = all.clone().filter(|s| s.sure == Sure::Yes);
    let (Some(first), Some(sure)) = (worst(all.clone()), worst(certain)) else {
        return Vec::new();
    };
    let of_work = Everyday::is_application(&first.row.meaning);
    let others = all.filter(|s| s.layer() != first.layer());
    let larger = others
        .filter(|s| Everyday::is_application(&s.row.meaning) == of_work)
        .filter(|s| factor(s.row) > factor(first.row))
        .max_by(|a, b| factor(a.row).total_cmp(&factor(b.row)));
    let mut said = vec![first];
    said.extend(larger);
    if said.iter().all(|s| s.sure != Sure::Yes) {
        said.push(sure);
    }
    let part = |s: Slower<'a>| HeadlinePart::Costs(Costs::of(f, s));
    said.into_iter().map(part).collect()
}

/// The part for probable costs, if no cost is certain.
fn uncertain<'a>(f: &Selection<'a>, slower: &[Slower<'a>]) -> Option<HeadlinePart<'a>> {
    let worst = worst(slower.iter().copied())?;
    Some(HeadlinePart::Uncertain(Costs::of(f, worst)))
}

impl<'a> Costs<'a> {
    fn of(f: &Selection<'a>, Slower { row, sure }: Slower<'a>) -> Self {
        let rows = f.rows(&row.layer);
        let is_slower = |r: &&&ResultRow| r.verdict == Verdict::Slower && !is_late(r);
        Self {
            name: named(f, &row.layer),
            ratio: Ratio::of(row),
            sure,
            slowed: rows.iter().filter(is_slower).count(),
            asked: rows.len(),
        }
    }
}

/// A layer with what a sentence has to say of its CPU.
pub fn named<'a>(f: &Selection, layer: &'a str) -> Named<'a> {
    let emulated = |name: &str| {
        let mut layers = f.run.layers.iter();
        layers.any(|l| l.name == name && l.facts.emulated_cpu())
    };
    Named {
        layer,
        emulated: emulated(layer) && !emulated(f.run.baseline()),
    }
}

impl<'a> Ratio<'a> {
    fn of(row: &'a ResultRow) -> Self {
        let both = row.ratio.map(|e| e.estimate).zip(row.median_ratio);
        let far = both
            .filter(|(typical, median)| (median / typical).max(typical / median) >= MEDIAN_DIFFERS);
        Self {
            row,
            median: far.map(|(_, median)| median),
        }
    }
}
