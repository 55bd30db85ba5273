//! What changes during a run: what is known so far, and how far it has come.
//!
//! Nothing here asks a layer anything, so every decision can be made again from stored trials.

use std::collections::{BTreeMap, BTreeSet};

use layermark_model::{BASELINE, LayerStatus, Point, Run, TrialRecord};

use crate::{
    Event, LabError, check,
    decide::{
        budget::{Clock, Due},
        fewer::{self, ForecastInput, least_blocks},
        forecast::{Forecast, ToCome},
        stop::{Change, Site, Stopping},
        tally::Tally,
    },
    execute::{fixed::Setup, layer_failure::LayerFailure, output::Output, rested::RestedRounds},
};

/// What changes during a run.
pub(crate) struct Progress {
    /// The run as it is stored, with the state of its layers.
    pub run: Run,
    pub tally: Tally,
    pub stopping: Stopping,
    pub clock: Clock,
    pub forecast: Forecast,
    /// Sessions, layers and points in which an extra trial was made.
    pub extras: BTreeSet<(u32, usize, usize)>,
    /// What the work has left at each point, as the baseline's first trial had it.
    pub outcomes: BTreeMap<usize, String>,
    /// Rested rounds that were made, by point and a layer of the part of the block.
    pub rested: BTreeMap<(usize, usize), RestedRounds>,
    /// Points whose blocks had to be divided.
    pub divided: BTreeSet<usize>,
    /// How many times each layer's probe was restarted.
    pub restarts: Vec<u32>,
    /// The current block.
    pub block: u32,
    pub session: u32,
    /// How many times the session was changed, and how long that took in all, s.
    pub changes: (u32, f64),
    pub seq: u64,
    /// The latest trials, until they are stored and reported.
    pub owed: Vec<TrialRecord>,
}

impl Progress {
    pub(crate) fn new(run: Run, setup: &Setup) -> Result<Self, LabError> {
        let clock = fewer::clock(&ForecastInput {
            plan: &run.plan,
            layers: &run.layers,
            points: &run.points,
            packaged: &check::packaged(&run.points),
            catalog: setup.catalog,
            speed: setup.speed,
            usual: setup.usual_budget,
        })?;
        let mut tally = Tally::default();
        tally.set_control(run.control());
        Ok(Self {
            tally,
            stopping: Stopping::new(run.plan.precision()).fixed(run.plan.blocks),
            clock,
            forecast: Forecast::default(),
            extras: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            rested: BTreeMap::new(),
            divided: BTreeSet::new(),
            restarts: vec![0; run.layers.len()],
            block: 0,
            session: 0,
            changes: (0, 0.0),
            seq: 0,
            owed: Vec::new(),
            run,
        })
    }

    /// Replays the trials of an earlier part of the run in order, so that every decision is made
    /// again as it was.
    pub(crate) fn take_up(&mut self, mut trials: Vec<TrialRecord>) {
        let Some(last) = trials.iter().map(|t| t.cell.block).max() else {
            return;
        };
        self.session = trials.iter().map(|t| t.cell.session + 1).max().unwrap_or(0);
        self.seq = trials.iter().map(|t| t.seq + 1).max().unwrap_or(0);
        self.clock.note_stored(&trials);
        trials.sort_by_key(|t| (t.cell.block, t.seq));
        for record in &trials {
            if self.block < record.cell.block {
                // Between blocks with trials there is nothing new to look at.
                self.look();
                self.block = record.cell.block;
            }
            self.tally.add(record);
            let outcome = record.trial.as_ref().and_then(|t| t.outcome.clone());
            if let Some(outcome) = outcome.filter(|_| record.cell.layer == BASELINE) {
                self.outcomes.entry(record.cell.point).or_insert(outcome);
            }
        }
        // Going through its groups shows whether the last block was complete.
        self.block = last;
    }

    /// Looks at every point after a block. Returns an event for each point that is settled.
    pub(crate) fn look(&mut self) -> Vec<Event> {
        let points = 0..self.run.points.len();
        let all = |layer| points.clone().map(move |point| (layer, point));
        let sites: Vec<_> = self.compared().flat_map(all).collect();
        let changes = self.stopping.look(&self.tally, &sites).into_iter();
        let news = changes.map(|((layer, point), change)| {
            let layer = self.run.layers[layer].name.clone();
            let point = self.run.points[point].label.clone();
            match change {
                Change::Settled(known) => Event::PointSettled {
                    layer,
                    point,
                    blocks: known.n,
                    half_width: known.half_width.unwrap_or(0.0).exp_m1(),
                },
                Change::GivenUp => Event::Warning {
                    text: format!("`{point}` is left out in {layer}: it failed every time"),
                    hint: None,
                },
            }
        });
        news.collect()
    }

    /// The layers that are compared with the baseline; the baseline itself when it is alone.
    pub(crate) fn compared(&self) -> std::ops::Range<usize> {
        let count = self.run.layers.len();
        if count > 1 { 1..count } else { 0..count }
    }

    /// Whether a layer is up and able to run a point.
    pub(crate) fn can(&self, layer: usize, point: usize) -> bool {
        let l = &self.run.layers[layer];
        let Point { meaning, label, .. } = &self.run.points[point];
        // Memory has nothing below it to be cold.
        let cold_memory = meaning.is_cold() && l.facts.in_memory();
        let impossible = l.read_only && meaning.changes || cold_memory;
        l.status == LayerStatus::Ready && !impossible && !l.skips.contains_key(label)
    }

    /// Whether a layer is left out for the budget.
    pub(crate) fn is_left_out(&self, layer: usize) -> bool {
        self.run.layers[layer].status == LayerStatus::LeftOut
    }

    /// The baseline, or the control.
    pub(crate) fn is_baseline(&self, layer: usize) -> bool {
        layer == BASELINE || self.run.layers[layer].control
    }

    /// Records that a layer failed. Returns its name.
    pub(crate) fn lose(&mut self, index: usize, lost: &LayerFailure) -> String {
        let layer = &mut self.run.layers[index];
        layer.status = LayerStatus::Failed;
        layer.reason = Some(lost.reason.clone());
        layer.hint.clone_from(&lost.hint);
        layer.name.clone()
    }

    /// Checks that at least one requested layer is left besides the baseline.
    pub(crate) fn still_comparable(&self) -> Result<(), LabError> {
        let others: Vec<_> = self
            .run
            .layers
            .iter()
            .skip(1)
            .filter(|l| !l.control)
            .collect();
        if others.is_empty() || others.iter().any(|l| l.status == LayerStatus::Ready) {
            return Ok(());
        }
        let reasons: Vec<String> = others
            .iter()
            .map(|l| format!("{} ({})", l.name, l.reason.as_deref().unwrap_or("lost")))
            .collect();
        Err(LabError::NoLayers {
            baseline: self.run.layers[BASELINE].name.clone(),
            reasons: reasons.join(", "),
            hint: others.iter().find_map(|l| {
                let more = l.enough_s.map(|seconds| self.replay(seconds));
                match (&l.hint, more) {
                    (Some(own), Some(more)) => Some(format!("{own}, or give it more time: {more}")),
                    (own, more) => own.clone().or(more),
                }
            }),
        })
    }

    /// The command that repeats the run with as many seconds. It is not stored, because the store may be moved.
    pub(crate) fn replay(&self, seconds: u64) -> String {
        let run = self.run.store.find(&self.run.id);
        format!("layermark run --replay {run} --budget {seconds}s")
    }

    /// Stores the trials that are waiting to be stored and emits `TrialDone` for each.
    pub(crate) fn store_owed(&mut self, out: &mut Output<'_>) -> Result<(), LabError> {
        let owed = std::mem::take(&mut self.owed);
        owed.iter().try_for_each(|record| self.enter(record, out))
    }

    fn enter(&mut self, record: &TrialRecord, out: &mut Output<'_>) -> Result<(), LabError> {
        out.store.trial(&self.run.id, record)?;
        out.tell_lost(&self.run.id);
        let (layer, point) = (record.cell.layer, record.cell.point);
        let done = record.seq + 1;
        let (planned, left) = self.forecast.after((layer, point), done, &self.clock);
        out.emit(Event::TrialDone {
            done,
            planned,
            left,
            block: record.cell.block + 1,
            blocks: self.stopping.fewest() as u32,
            ratio: self.stopping.ratio(layer, point),
            layer: self.run.layers[layer].name.clone(),
            point: self.run.points[point].label.clone(),
            ns_per_op: record
                .trial
                .as_ref()
                .and_then(layermark_model::Trial::ns_per_op),
            error: record.error.clone(),
            flags: record.flags.clone(),
        });
        Ok(())
    }

    /// Remaining trials, including this block, and whether their number is still open.
    pub(crate) fn to_come(&self, due: &[Due]) -> (BTreeMap<Site, ToCome>, bool) {
        let done = self.block as usize;
        let least = least_blocks(&self.run.plan) as usize;
        let (least, fewest) = (
            least.saturating_sub(done).max(1),
            self.stopping.fewest().saturating_sub(done).max(1),
        );
        let mut all = BTreeMap::new();
        let mut open = false;
        for Due { point, layers, .. } in due {
            let others = || {
                layers
                    .iter()
                    .filter(|l| **l != BASELINE || layers.len() == 1)
            };
            let expected = others().map(|l| self.stopping.expected(*l, *point));
            let expected: Vec<Option<usize>> = expected.collect();
            open |= expected.contains(&None);
            let more = |e: &Option<usize>| e.map_or(fewest, |e| e.saturating_sub(done).max(1));
            let most = expected.iter().map(more).max().unwrap_or(fewest);
            let to_come = |expected| ToCome {
                expected,
                least: least.min(expected),
            };
            all.insert((BASELINE, *point), to_come(most));
            let each = others().zip(&expected);
            all.extend(each.map(|(l, e)| ((*l, *point), to_come(more(e)))));
        }
        (all, open)
    }
}
