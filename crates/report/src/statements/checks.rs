//! Checks: reasons to trust the numbers, or not to.

use std::collections::{BTreeMap, BTreeSet};

use layermark_model::{DirectIo, LayerStatus, Point, Run, Target, TrialRecord, flags};
use layermark_stats::{self as stats, MIN_BLOCKS_FOR_CHANGE};

use crate::{
    facts::{
        data_source,
        index::{Index, cost},
        storage,
    },
    types::{Control, ResultRow, TrustState, Unproved},
};

/// The medians tolerate disturbed trials up to this share.
const DISTURBED_TO: f64 = 0.05;
/// Measuring overhead above this share of an operation causes a warning.
const OWN_COST: f64 = 0.05;
/// Significance level of the control's alarm: one false alarm in a hundred reports.
const CONTROL_ALPHA: f64 = 0.01;
/// Smallest difference of the baseline from itself, as a share, that raises the alarm.
pub const CONTROL_DELTA: f64 = 0.01;
/// From this factor on, the spread of a baseline's times over the run is reported.
const MOVES: f64 = 2.0;
/// Most points at which the baseline moved that are named.
const MOVES_NAMED: usize = 3;
/// Intervals of the control that reach further from 1 than this many times delta are wide.
const WIDE: f64 = 2.0;
/// Smallest delta for judging what is wide.
const LEAST_DELTA: f64 = 0.05;

/// The input of the checks.
pub struct CheckedRun<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its trials.
    pub trials: &'a [TrialRecord],
    /// Results of all layers except the control.
    pub results: &'a [ResultRow],
    /// The control.
    pub control: Option<&'a Control>,
    /// The trials by layer, point and block.
    pub index: &'a Index<'a>,
    /// Index of the baseline.
    pub baseline: usize,
}

/// A check, with what it found.
#[derive(Debug)]
pub enum Check<'a> {
    /// The baseline was not measured a second time; holds why.
    NoControl(Option<&'a str>),
    /// The baseline against itself.
    Control(&'a Control),
    /// Changes during the run.
    Drift(Drift<'a>),
    /// Other programs.
    Contamination(Contamination),
    /// Whether cold was cold and warm was warm.
    Cache(Cache<'a>),
    /// Data that was read back.
    Verified(VerifiedData),
    /// Whether the layers were there.
    Proof(Proof<'a>),
    /// Points with a requested verdict, and the others.
    Family(usize, usize),
    /// Trials that honoured `O_DIRECT`, of those that ask.
    Direct(usize, usize),
    /// Layers on an emulated CPU.
    Emulated(Emulated<'a>),
    /// Trials, and how many failed.
    Trials(Trials<'a>),
    /// The largest share of an operation that measuring takes, and the result.
    OwnCost(Option<(f64, &'a ResultRow)>),
}

/// Changes during the run.
#[derive(Debug)]
pub struct Drift<'a> {
    /// Points at which the baseline's own times changed, the largest change first.
    pub moved: Vec<Moved<'a>>,
    /// How many more there are.
    pub more: usize,
    /// Ratios that changed late.
    pub changed: usize,
    /// Ratios with enough blocks.
    pub looked: usize,
    /// All ratios.
    pub compared: usize,
}

/// A point at which the baseline's own times changed.
#[derive(Debug)]
pub struct Moved<'a> {
    /// Its label.
    pub point: &'a str,
    /// From and to, microseconds.
    pub us: [f64; 2],
}

/// Trials that others disturbed.
#[derive(Debug)]
pub struct Contamination {
    /// Other programs, or the hypervisor, used the CPUs.
    pub disturbed: usize,
    /// A device wrote data of others.
    pub written: usize,
    /// All trials.
    pub all: usize,
}

/// Trials that ask for a state of the cache.
#[derive(Debug)]
pub struct Cache<'a> {
    /// All that ask.
    pub all: usize,
    /// Neither refuted nor without proof.
    pub proved: usize,
    /// Refuted, and in which layers.
    pub refuted: (usize, Vec<&'a str>),
    /// Not proved, by reason, with the layers.
    pub unproved: Vec<(Unproved, Vec<&'a str>)>,
    /// How many these are.
    pub unproved_trials: usize,
    /// Whether one of these asks for a cold cache.
    pub unproved_cold: bool,
    /// Waited for pages that had been warm, and in which layers.
    pub faulted: (usize, Vec<&'a str>),
}

/// Data that was read back.
#[derive(Debug)]
pub struct VerifiedData {
    /// Records.
    pub records: u64,
    /// Records that came back wrong.
    pub bad: u64,
    /// Results of scripts and steps.
    pub results: u64,
    /// Whether these are of steps.
    pub steps: bool,
}

/// Whether the layers were there.
#[derive(Debug)]
pub enum Proof<'a> {
    /// Layers that were lost while they were measured.
    Lost(Vec<&'a str>),
    /// No layer was set up.
    NoLayer,
    /// Layers for which no mount or device shows where they ran.
    Bare(Vec<&'a str>),
    /// The mount below the probe was read in the baseline and in so many others, of which some are on other devices.
    Read(usize, Vec<&'a str>),
}

/// Layers on an emulated CPU.
#[derive(Debug)]
pub struct Emulated<'a> {
    /// These layers.
    pub layers: Vec<&'a str>,
    /// Guests on a real CPU.
    pub real: Vec<&'a str>,
    /// Whether the baseline is one of the first.
    pub baseline: bool,
}

/// Trials, and how many failed.
#[derive(Debug)]
pub struct Trials<'a> {
    /// All.
    pub made: usize,
    /// Those that failed.
    pub failed: usize,
    /// Layer, point and error of the first one.
    pub first: Option<[&'a str; 3]>,
}

impl Check<'_> {
    /// Its result.
    pub fn state(&self) -> TrustState {
        match self {
            Self::NoControl(_) | Self::Proof(Proof::NoLayer) => TrustState::None,
            Self::Control(c) => or_none(c.points > 0, !c.failed() && c.wide == 0),
            Self::Drift(d) if d.changed > 0 || !d.moved.is_empty() => TrustState::Warn,
            Self::Drift(d) => or_none(d.looked > 0, true),
            Self::Contamination(c) => {
                let most = c.disturbed.max(c.written) as f64;
                or_none(c.all > 0, most <= DISTURBED_TO * c.all as f64)
            }
            Self::Cache(c) => or_none(c.all > 0, c.is_proved()),
            Self::Verified(v) => or_none(v.records + v.results > 0, v.bad == 0),
            Self::Proof(proof) => or_none(true, matches!(proof, Proof::Read(..))),
            Self::Family(..) => TrustState::Ok,
            Self::Direct(honoured, all) => or_none(true, honoured == all),
            Self::Emulated(_) => TrustState::Warn,
            Self::Trials(t) => or_none(t.made > 0, t.failed == 0),
            Self::OwnCost(cost) => or_none(
                cost.is_some(),
                cost.is_some_and(|(share, _)| share <= OWN_COST),
            ),
        }
    }
}

fn or_none(checked: bool, good: bool) -> TrustState {
    match (checked, good) {
        (false, _) => TrustState::None,
        (_, true) => TrustState::Ok,
        (_, false) => TrustState::Warn,
    }
}

/// All checks, in display order.
pub fn checks<'a>(e: &CheckedRun<'a>) -> Vec<Check<'a>> {
    let mut checks = vec![
        control(e),
        Check::Drift(drift(e)),
        Check::Contamination(contamination(e)),
        Check::Cache(cache(e)),
    ];
    checks.extend(vital(e.run, e.trials));
    checks.extend(family(e));
    checks.extend(direct(e));
    checks.extend(emulated(e));
    checks.push(trials(e));
    checks.push(own_cost(e));
    checks
}

/// Without these no number is believed: data came back as written, and every layer was proved to be there.
pub fn vital<'a>(run: &'a Run, trials: &[TrialRecord]) -> [Check<'a>; 2] {
    [verified(run, trials), proof(run, trials)]
}

/// The family of verdicts that the correction for multiple comparisons covers, if the plan limits
/// it.
fn family<'a>(e: &CheckedRun<'a>) -> Option<Check<'a>> {
    let labels = || e.run.points.iter().map(|p| p.label.as_str());
    let asked = labels().filter(|l| e.run.plan.confirms(l)).count();
    let rest = labels().count() - asked;
    (rest > 0).then_some(Check::Family(asked, rest))
}

/// Most points whose interval may exclude 1 by chance (at 1 %).
fn allowed_misses(points: usize) -> usize {
    let n = points as f64;
    (0.05 * n + 2.33 * (0.05 * 0.95 * n).sqrt() + 0.5) as usize
}

fn control<'a>(e: &CheckedRun<'a>) -> Check<'a> {
    e.control.map_or_else(
        || {
            let left = e.run.layers.iter().find(|l| l.control);
            Check::NoControl(left.and_then(|l| l.reason.as_deref()))
        },
        Check::Control,
    )
}

impl Control {
    /// Whether the baseline differed from itself by more than chance explains.
    pub fn failed(&self) -> bool {
        self.false_alarms > 0
            || self.points.saturating_sub(self.cover) > allowed_misses(self.points)
    }
}

/// The control's results together.
#[derive(Debug)]
pub struct AgainstItself {
    /// Points with an interval.
    pub points: usize,
    /// Intervals that contain 1.
    pub cover: usize,
    /// Points that differ by more than [`CONTROL_DELTA`] for certain.
    pub alarms: usize,
    /// Points with a wide interval.
    pub wide: usize,
    /// The smallest difference that hides in a wide interval, as a share.
    pub hidden: f64,
    /// The lowest and the highest end.
    pub span: [f64; 2],
}

impl AgainstItself {
    /// From the control's rows.
    pub fn of(results: &[ResultRow], delta: f64) -> Self {
        let with: Vec<[f64; 2]> = results.iter().filter_map(|r| r.ratio?.interval).collect();
        let holds = |[low, high]: &&[f64; 2]| *low <= 1.0 && *high >= 1.0;
        let is_alarm = |r: &&ResultRow| {
            let ratio = r.ratio.map_or(1.0, |e| e.estimate);
            r.p_adjusted.is_some_and(|p| p <= CONTROL_ALPHA)
                && ratio.max(1.0 / ratio) > 1.0 + CONTROL_DELTA
        };
        let limit = 1.0 + WIDE * delta.max(LEAST_DELTA);
        let is_wide = |[low, high]: &&[f64; 2]| *high > limit || *low < 1.0 / limit;
        let span = with
            .iter()
            .fold((f64::MAX, f64::MIN), |(l, h), i| (l.min(i[0]), h.max(i[1])));
        Self {
            points: with.len(),
            cover: with.iter().filter(holds).count(),
            alarms: results.iter().filter(is_alarm).count(),
            wide: with.iter().filter(is_wide).count(),
            hidden: limit - 1.0,
            span: span.into(),
        }
    }
}

fn drift<'a>(e: &CheckedRun<'a>) -> Drift<'a> {
    let compared: Vec<&ResultRow> = e.results.iter().filter(|r| r.blocks > 0).collect();
    let enough = |r: &&&ResultRow| r.blocks >= MIN_BLOCKS_FOR_CHANGE;
    let mut moved = moves(e);
    let more = moved.len().saturating_sub(MOVES_NAMED);
    moved.truncate(MOVES_NAMED);
    Drift {
        moved,
        more,
        changed: compared.iter().filter(|r| r.steady == Some(false)).count(),
        looked: compared.iter().filter(enough).count(),
        compared: compared.len(),
    }
}

/// How the baseline's own times changed during the run, which no ratio shows. A point is reported
/// if nine tenths of its trials spread by a factor of 2, or if they step.
fn moves<'a>(e: &CheckedRun<'a>) -> Vec<Moved<'a>> {
    let times = |point: usize| -> Vec<f64> {
        let trials = e.index.trials(e.baseline, point).into_iter();
        trials.filter_map(cost).collect()
    };
    let points = 0..e.run.points.len();
    let all: Vec<Vec<f64>> = points.map(times).collect();
    let long = |t: &Vec<f64>| t.len() >= MIN_BLOCKS_FOR_CHANGE;
    let series: Vec<Vec<f64>> = all.iter().filter(|t| long(t)).cloned().collect();
    let mut steps = stats::change_points_of_many(&series, e.run.seed).into_iter();
    let mut moved: Vec<(f64, Moved)> = Vec::new();
    for (point, times) in e.run.points.iter().zip(&all) {
        let stepped = long(times) && steps.next().is_some_and(|s| !s.is_empty());
        let ends = stats::quantile(times, 0.05).zip(stats::quantile(times, 0.95));
        let Some((low, high)) = ends.filter(|_| times.len() >= stats::FEWEST_BLOCKS) else {
            continue;
        };
        if stepped || high > MOVES * low {
            let us = [low, high].map(|ns| ns * point.meaning.under_way() / 1e3);
            let point = &point.label;
            moved.push((high / low, Moved { point, us }));
        }
    }
    moved.sort_by(|a, b| b.0.total_cmp(&a.0));
    moved.into_iter().map(|(_, moved)| moved).collect()
}

fn contamination(e: &CheckedRun) -> Contamination {
    let flagged = |flag: &str| {
        let has = |t: &&TrialRecord| t.flags.iter().any(|f| f == flag);
        e.trials.iter().filter(has).count()
    };
    Contamination {
        disturbed: flagged(flags::CONTAMINATED),
        written: flagged(flags::WRITE_BACK),
        all: e.trials.len(),
    }
}

fn cache<'a>(e: &CheckedRun<'a>) -> Cache<'a> {
    let point = |t: &TrialRecord| e.run.points.get(t.cell.point);
    // The programs of user scripts have been rehearsed, so they should be warm.
    let asked = |t: &&TrialRecord| {
        let is_asked = |p: &Point| p.meaning.cache.is_some() || p.meaning.target == Target::Script;
        point(t).is_some_and(is_asked)
    };
    let having = |flag: &str| -> Vec<&TrialRecord> {
        let has = |t: &&TrialRecord| t.flags.iter().any(|f| f == flag);
        e.trials.iter().filter(asked).filter(has).collect()
    };
    let (wrong, unproved) = (having(flags::CACHE), having(flags::CACHE_UNPROVED));
    let faulted = having(flags::MAJOR_FAULTS);
    let cold = |t: &&TrialRecord| point(t).is_some_and(|p| p.meaning.is_cold());
    let all = e.trials.iter().filter(asked).count();
    Cache {
        all,
        proved: all.saturating_sub(wrong.len() + unproved.len()),
        refuted: (wrong.len(), layers_of(e, &wrong)),
        unproved: why_unproved(e, &unproved),
        unproved_trials: unproved.len(),
        unproved_cold: unproved.iter().any(cold),
        faulted: (faulted.len(), layers_of(e, &faulted)),
    }
}

impl Cache<'_> {
    /// Whether nothing is refuted, and nothing is without proof.
    pub fn is_proved(&self) -> bool {
        self.refuted.0 + self.unproved_trials + self.faulted.0 == 0
    }
}

/// Layers whose cache state is not proved, by reason.
fn why_unproved<'a>(e: &CheckedRun<'a>, trials: &[&TrialRecord]) -> Vec<(Unproved, Vec<&'a str>)> {
    let privileged = e.run.machine.privilege == "root";
    let mut reasons: BTreeMap<Unproved, Vec<&TrialRecord>> = BTreeMap::new();
    for trial in trials {
        let Some(layer) = e.run.layers.get(trial.cell.layer) else {
            continue;
        };
        let point = e.run.points.get(trial.cell.point);
        let is_cold = point.is_some_and(|p| p.meaning.is_cold());
        let why = data_source::why_unproved(&layer.facts, is_cold, privileged);
        reasons.entry(why).or_default().push(trial);
    }
    let each = reasons.into_iter();
    each.map(|(why, trials)| (why, layers_of(e, &trials)))
        .collect()
}

fn layers_of<'a>(e: &CheckedRun<'a>, trials: &[&TrialRecord]) -> Vec<&'a str> {
    let layers: BTreeSet<usize> = trials.iter().map(|t| t.cell.layer).collect();
    let name = |l: usize| Some(e.run.layers.get(l)?.name.as_str());
    layers.into_iter().filter_map(name).collect()
}

fn verified<'a>(run: &Run, trials: &[TrialRecord]) -> Check<'a> {
    let checked = |scripts: bool| {
        let target = |t: &TrialRecord| run.points.get(t.cell.point).map(|p| p.meaning.target);
        let trials = trials.iter();
        trials
            .filter(|t| matches!(target(t), Some(Target::Script | Target::Step)) == scripts)
            .filter_map(|t| t.trial.as_ref()?.verified)
            .fold((0, 0), |(r, b), v| (r + v.records, b + v.bad))
    };
    let ((records, bad), (results, _)): ((u64, u64), (u64, u64)) = (checked(false), checked(true));
    Check::Verified(VerifiedData {
        records,
        bad,
        results,
        steps: run.points.iter().any(|p| p.meaning.target == Target::Step),
    })
}

fn proof<'a>(run: &'a Run, trials: &[TrialRecord]) -> Check<'a> {
    let tried = |layer: usize| trials.iter().any(|t| t.cell.layer == layer);
    let all = run.layers.iter().enumerate();
    let lost = all.filter(|(at, l)| l.status == LayerStatus::Failed && tried(*at));
    let lost: Vec<&str> = lost.map(|(_, l)| l.name.as_str()).collect();
    let ready = run.layers.iter();
    let ready: Vec<_> = ready.filter(|l| l.status == LayerStatus::Ready).collect();
    let bare = ready.iter().filter(|l| l.facts.mounts.is_empty());
    let bare: Vec<&str> = bare.map(|l| l.name.as_str()).collect();
    let Some(first) = ready.first().filter(|_| lost.is_empty()) else {
        let none = lost.is_empty();
        return Check::Proof(if none {
            Proof::NoLayer
        } else {
            Proof::Lost(lost)
        });
    };
    if !bare.is_empty() {
        return Check::Proof(Proof::Bare(bare));
    }
    let below = storage::physical(&first.facts);
    let apart = ready
        .iter()
        .filter(|l| storage::physical(&l.facts) != below);
    let apart = apart.map(|l| l.name.as_str()).collect();
    // As many as everywhere else: the baseline and the control are not counted.
    let others = ready.iter().skip(1).filter(|l| !l.control).count();
    Check::Proof(Proof::Read(others, apart))
}

/// Made only if a layer is a guest on an emulated CPU.
fn emulated<'a>(e: &CheckedRun<'a>) -> Option<Check<'a>> {
    let of = |emulated: bool| -> Vec<&str> {
        let layers = e.run.layers.iter().filter(|l| l.facts.guest.is_some());
        layers
            .filter(|l| l.facts.emulated_cpu() == emulated)
            .map(|l| l.name.as_str())
            .collect()
    };
    let (layers, real) = (of(true), of(false));
    let baseline = e.run.layers.get(e.baseline);
    (!layers.is_empty()).then(|| {
        Check::Emulated(Emulated {
            layers,
            real,
            baseline: baseline.is_some_and(|l| l.facts.emulated_cpu()),
        })
    })
}

/// Made only if `O_DIRECT` was requested.
fn direct<'a>(e: &CheckedRun<'a>) -> Option<Check<'a>> {
    let outcomes = e.trials.iter().filter_map(|t| t.trial.as_ref()?.direct);
    let outcomes: Vec<DirectIo> = outcomes.collect();
    let honoured = outcomes.iter().filter(|d| **d == DirectIo::Honoured);
    let honoured = honoured.count();
    (!outcomes.is_empty()).then_some(Check::Direct(honoured, outcomes.len()))
}

fn trials<'a>(e: &CheckedRun<'a>) -> Check<'a> {
    let failed: Vec<&TrialRecord> = e.trials.iter().filter(|t| t.trial.is_none()).collect();
    let first = failed.iter().find_map(|t| {
        let layer = &e.run.layers.get(t.cell.layer)?.name;
        let point = &e.run.points.get(t.cell.point)?.label;
        Some([layer, point, t.error.as_deref()?])
    });
    Check::Trials(Trials {
        made: e.trials.len(),
        failed: failed.len(),
        first,
    })
}

fn own_cost<'a>(e: &CheckedRun<'a>) -> Check<'a> {
    let shares = e.results.iter().filter_map(|row| {
        let layer = e.run.layers.iter().find(|l| l.name == row.layer)?;
        let share = layer.self_test.loop_ns / 1e3 / row.op_us?;
        share.is_finite().then_some((share, row))
    });
    let worst = shares.max_by(|a, b| a.0.total_cmp(&b.0));
    Check::OwnCost(worst.filter(|(share, _)| *share > 0.0))
}

#[cfg(test)]
mod tests {
    use super::allowed_misses;

    #[test]
    fn one_miss_in_twelve_is_chance_and_three_are_not() {
        assert_eq!(allowed_misses(1), 1);
        assert_eq!(allowed_misses(12), 2);
        assert_eq!(allowed_misses(100), 10);
    }
}
