//! Limits of all other sentences, printed next to the headline.

use layermark_model::{
    BASELINE, ClockTime, Cut, LayerRun, Limit, Limited as LimitKind, Run, RunStatus, TrialRecord,
    flags,
};

use crate::{
    Report, ResultRow,
    facts::{index::Index, limits, waiting},
    group,
    statements::Selection,
    types::{LockReason, LockVerdict},
};

/// Up to this share of disturbed trials, the trimmed means exclude them.
const BORNE: f64 = 0.2;

/// A limit of all other sentences.
#[derive(Debug)]
pub enum Caveat<'a> {
    /// Layers on an emulated CPU, where the baseline's is a real one.
    Emulated {
        layers: Vec<&'a str>,
        /// Whether a time that was measured elsewhere is part of a result: that between the calls of a recorded program.
        estimated: bool,
    },
    /// Other programs disturbed the run.
    Busy(BusyMachine),
    /// Limits of control groups that the results may have met.
    Limits(Vec<Limited<'a>>),
    /// Layers whose locks are not proved between machines, for one reason.
    Locks(&'a LockReason, Vec<&'a str>),
    /// The run ended before its time.
    CutShort(&'a Run, Ended),
    /// The budget was spent.
    CutByBudget(&'a Run, &'a Cut),
    /// Times are without waiting.
    Waited(Waited),
}

/// Why a run ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The user stopped it.
    ByUser,
    /// An error that was not in a trial.
    ByError,
    /// It was killed.
    Interrupted,
}

/// A limit, and the layers that have it.
#[derive(Debug)]
pub struct Limited<'a> {
    /// The limit.
    pub limit: &'a Limit,
    /// `None`: all, and more than one.
    pub layers: Option<Vec<&'a str>>,
}

/// Trials that were made while other programs, or the hypervisor, used the CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusyMachine {
    /// Disturbed trials.
    pub disturbed: usize,
    /// All trials.
    pub trials: usize,
    /// Cells all of whose trials were disturbed.
    pub wholly: usize,
    /// Cells with a number.
    pub cells: usize,
}

/// Waiting for a CPU that times are without.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waited {
    /// Share of the time.
    pub share: f64,
    /// Whether all times are without it.
    pub everywhere: bool,
}

/// All caveats of a run.
pub fn all<'a>(f: &Selection<'a>, trials: &[TrialRecord], index: &Index) -> Vec<Caveat<'a>> {
    let busy = BusyMachine::of_run(f, trials).map(Caveat::Busy);
    // First, because its ratios do not show what a guest costs on real hardware.
    emulated(f)
        .into_iter()
        .chain(busy)
        .chain(limits(f))
        .chain(locks(f))
        .chain(cut_short(f.run, trials))
        .chain(cut_by_budget(f.run))
        .chain(waited(f, index))
        .collect()
}

impl BusyMachine {
    /// Of a run. `None`: the few disturbed trials change no number.
    pub fn of_run(f: &Selection, trials: &[TrialRecord]) -> Option<Self> {
        Self::of(trials.iter().map(|t| &t.flags), &f.measured())
    }

    /// Of a report, which may have been read back.
    pub fn of_report(report: &Report) -> Option<Self> {
        let compared = report.results.iter();
        let compared = compared.filter(|r| r.trials > 0 && r.layer != report.baseline());
        Self::of(
            report.trials.iter().map(|t| &t.flags),
            &compared.collect::<Vec<_>>(),
        )
    }

    fn of<'a>(
        trials: impl ExactSizeIterator<Item = &'a Vec<String>>,
        cells: &[&ResultRow],
    ) -> Option<Self> {
        let all = trials.len();
        let disturbed = trials.filter(|flags| flags.iter().any(|f| f == flags::CONTAMINATED));
        let busy = Self {
            disturbed: disturbed.count(),
            trials: all,
            wholly: cells.iter().filter(|r| r.disturbed()).count(),
            cells: cells.len(),
        };
        (busy.share() > BORNE || busy.wholly > 0).then_some(busy)
    }

    /// Share of disturbed trials.
    pub fn share(&self) -> f64 {
        self.disturbed as f64 / self.trials.max(1) as f64
    }
}

fn emulated<'a>(f: &Selection<'a>) -> Option<Caveat<'a>> {
    let is_emulated = |layer: &&LayerRun| layer.facts.emulated_cpu();
    let baseline = f.run.layers.get(BASELINE).filter(is_emulated);
    let layers = f.ready().filter(is_emulated).map(|l| l.name.as_str());
    let layers: Vec<&str> = layers.collect();
    let estimated = f.run.points.iter().any(|p| p.meaning.added.is_some());
    (!layers.is_empty() && baseline.is_none()).then_some(Caveat::Emulated { layers, estimated })
}

/// Limits that the results may have met: each with the layers that have it.
fn limits<'a>(f: &Selection<'a>) -> Option<Caveat<'a>> {
    let met = |layer: &str, limit: &Limit| {
        let mut rows = f.results.iter().filter(|r| r.layer == layer);
        match limit.of {
            LimitKind::Cpu => limit.uncounted || rows.any(|r| limits::stopped(r) > 0.0),
            _ => rows.any(|r| limits::waits(&r.meaning, limit)),
        }
    };
    let ready: Vec<_> = f.ready().collect();
    let all = ready.iter().flat_map(|layer| {
        let own = layer.facts.limits.iter();
        let own = own.filter(|limit| met(&layer.name, limit));
        own.map(|limit| (limit, layer.name.as_str()))
    });
    let each = group::grouped(all)
        .into_iter()
        .map(|(limit, layers)| Limited {
            limit,
            layers: (layers.len() < ready.len() || ready.len() == 1).then_some(layers),
        });
    let each: Vec<Limited> = each.collect();
    (!each.is_empty()).then_some(Caveat::Limits(each))
}

/// The layers whose locks are not proved, by reason.
fn locks<'a>(f: &Selection<'a>) -> impl Iterator<Item = Caveat<'a>> + use<'a> {
    let open = f
        .locks
        .iter()
        .filter(|r| r.verdict == LockVerdict::NotProved);
    let each = open.map(|r| (&r.why, r.layer.as_str()));
    let by_reason = group::grouped(each).into_iter();
    by_reason.map(|(why, layers)| Caveat::Locks(why, group::distinct(layers)))
}

/// What was at work when the budget was spent.
fn cut_by_budget(run: &Run) -> Option<Caveat<'_>> {
    let cut = run.cut.as_ref()?;
    Some(Caveat::CutByBudget(run, cut))
}

/// Why the run ended before its time.
fn cut_short<'a>(run: &'a Run, trials: &[TrialRecord]) -> Option<Caveat<'a>> {
    let ended = match run.status {
        RunStatus::Running | RunStatus::Done => return None,
        RunStatus::Stopped => Ended::ByUser,
        // A run of which every trial failed has reached its end.
        RunStatus::Failed if trials.iter().all(|t| t.trial.is_none()) && !trials.is_empty() => {
            return None;
        }
        RunStatus::Failed => Ended::ByError,
        RunStatus::Interrupted => Ended::Interrupted,
    };
    Some(Caveat::CutShort(run, ended))
}

/// That times are without waiting, and how much of them it was.
fn waited<'a>(f: &Selection<'a>, index: &Index) -> Option<Caveat<'a>> {
    let is_left_out = |r: &&ResultRow| r.waiting.is_some_and(|w| w.left_out);
    let rows = f.results.iter().filter(is_left_out);
    let sites = rows.filter_map(|r| f.run.site(&r.layer, &r.label));
    let trials = sites.flat_map(|(layer, point)| index.trials(layer, point));
    let share = waiting::of(trials, 1.0, ClockTime::Clear)?.share;
    Some(Caveat::Waited(Waited {
        share: share.filter(|share| *share >= waiting::TOLD)?,
        everywhere: f.results.iter().all(|r| is_left_out(&r)),
    }))
}
