//! A whole run: sessions, each of several blocks, until enough is known or the time is up.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use layermark_layers::{Base, in_facts, in_words, workdir::WorkDir};
use layermark_model::{BASELINE, Environment, LayerStatus, Point, Run, RunStatus, TrialRecord};
use layermark_probe::{Placed, packaged};
use layermark_store::Store;

use crate::{
    Catalog, Ended, Event, LabError, Outcome, Schedule, Stop, check, cpus,
    decide::{
        budget::Clock,
        fewer::{self, Known},
        forecast::Forecast,
        guess::Speed,
        skips,
        stop::{Change, Stopping},
        tally::Tally,
    },
    execute::{
        cpu::{Meter, Recent},
        layer_failure::LayerFailure,
        rested::RestedRounds,
        session::RunningLayer,
        watch::Watch,
    },
    machine::now_ms,
};

/// Setting all layers up is quick if it takes less than this: then it is done at least
/// [`FEWEST_SESSIONS`] times.
const QUICK_SET_UP: Duration = Duration::from_secs(1);
/// The fewest sessions when setting up is quick.
const FEWEST_SESSIONS: u32 = 3;
/// In a longer run, layers are set up again while that takes less than this share of the time.
const SET_UP_SHARE: f64 = 0.1;
/// With a budget no set-up but the first one may take more than this share of it, with the files that are
/// made anew.
const MOST_OF_BUDGET: f64 = 0.1;

/// What a run needs in addition to its stored form.
pub(crate) struct Setup {
    pub exe: PathBuf,
    pub silence: Duration,
    pub catalog: Catalog,
    pub notes: Vec<String>,
    /// Values of the variables that points name. They are never stored.
    pub env: Environment,
    /// Names of layers that this machine lacks and the user did not name.
    pub lacking: Vec<String>,
    /// Files of this host that are copied to each layer.
    pub placed: Vec<Placed>,
    /// Points that are run differently in a layer, by indices of layer and point.
    pub in_layers: BTreeMap<(usize, usize), Point>,
    /// Whether layers that do not fit the budget are left out. A replay leaves out the same ones as
    /// the original run.
    pub may_leave_out: bool,
    /// When this part of the run was started.
    pub begun: Instant,
    pub speed: Speed,
    /// The budget is the usual one of a command.
    pub usual_budget: bool,
}

/// A run in progress.
pub(crate) struct Lab<'a> {
    pub(crate) run: Run,
    pub(crate) setup: Setup,
    pub(crate) store: &'a mut Store,
    pub(crate) stop: &'a Stop,
    pub(crate) on_event: &'a mut dyn FnMut(Event),
    pub(crate) schedule: Schedule,
    /// The kept file that each point uses, as the workload identifies it.
    pub(crate) kept_files: Vec<Option<(u64, u64)>>,
    pub(crate) tally: Tally,
    pub(crate) stopping: Stopping,
    pub(crate) clock: Clock,
    pub(crate) meter: Meter,
    /// CPU use in the latest blocks.
    pub(crate) recent: Recent,
    pub(crate) watch: Watch,
    /// The layers that are up, indexed as in the run.
    pub(crate) running: Vec<Option<RunningLayer>>,
    /// Layers that depend on a server that layermark has not started.
    remote: BTreeSet<usize>,
    /// Which of the points have two ends.
    ends: skips::Work,
    /// The work directory is below the layers, so it is dropped after them, also after a panic.
    pub(crate) work: Option<WorkDir>,
    /// Sessions, layers and points in which an extra trial was made.
    pub(crate) extras: BTreeSet<(u32, usize, usize)>,
    /// What the work has left at each point, as the baseline's first trial had it.
    pub(crate) outcomes: BTreeMap<usize, String>,
    /// Rested rounds that were made, by point and a layer of the part of the block.
    pub(crate) rested: BTreeMap<(usize, usize), RestedRounds>,
    /// Points whose blocks had to be divided.
    pub(crate) divided: BTreeSet<usize>,
    /// How many times each layer's probe was restarted.
    pub(crate) restarts: Vec<u32>,
    /// The current block.
    pub(crate) block: u32,
    pub(crate) session: u32,
    /// How many times the session was changed, and how long that took in all, s.
    changes: (u32, f64),
    pub(crate) seq: u64,
    /// The latest trials, until they are stored and reported.
    pub(crate) owed: Vec<TrialRecord>,
    pub(crate) forecast: Forecast,
    resumed: bool,
}

impl<'a> Lab<'a> {
    pub(crate) fn new(
        run: Run,
        trials: Vec<TrialRecord>,
        setup: Setup,
        work: WorkDir,
        store: &'a mut Store,
        stop: &'a Stop,
        on_event: &'a mut dyn FnMut(Event),
    ) -> Result<Self, LabError> {
        let (layers, points) = (run.layers.len(), run.points.len());
        let ends = skips::Work::of(&run.points);
        let kept_files = run.points.iter().map(|at| at.needs.kept_file_key);
        let mut lab = Self {
            schedule: Schedule::new(run.seed, layers, points),
            kept_files: kept_files.collect(),
            tally: Tally::default(),
            stopping: Stopping::new(run.plan.precision()).fixed(run.plan.blocks),
            clock: fewer::clock(&Known {
                plan: &run.plan,
                layers: &run.layers,
                points: &run.points,
                packaged: &check::packaged(&run.points),
                catalog: setup.catalog,
                speed: setup.speed,
                usual: setup.usual_budget,
            })?,
            meter: Meter::new(),
            recent: Recent::default(),
            watch: Watch::new(setup.silence),
            running: std::iter::repeat_with(|| None).take(layers).collect(),
            remote: BTreeSet::new(),
            ends,
            work: Some(work),
            extras: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            rested: BTreeMap::new(),
            divided: BTreeSet::new(),
            restarts: vec![0; layers],
            block: 0,
            session: 0,
            changes: (0, 0.0),
            seq: 0,
            owed: Vec::new(),
            forecast: Forecast::default(),
            resumed: !trials.is_empty(),
            run,
            setup,
            store,
            stop,
            on_event,
        };
        lab.take_up(trials);
        Ok(lab)
    }

    /// Replays the trials of an earlier part of the run in order, so that every decision is made
    /// again as it was.
    fn take_up(&mut self, mut trials: Vec<TrialRecord>) {
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

    pub(crate) fn go(mut self) -> Result<Outcome, LabError> {
        self.announce();
        let result = self.sessions();
        let result = match result {
            Err(LabError::CutOff { .. }) if self.stop.is_over() && !self.stop.asked() => {
                self.note_cut();
                Ok(Ended::Budget)
            }
            other => other,
        };
        // Everything is unwound before the end is reported.
        self.tear_down();
        self.work = None;
        self.run.status = match &result {
            Ok(Ended::Stopped) | Err(LabError::CutOff { .. }) => RunStatus::Stopped,
            Ok(_) if self.tally.all_failed() => RunStatus::Failed,
            Ok(_) => RunStatus::Done,
            Err(_) => RunStatus::Failed,
        };
        self.run.ended_ms = Some(now_ms());
        let stored = self.store.update(&self.run);
        tell_lost(self.store, &self.run.id, self.on_event);
        (self.on_event)(Event::RunEnded {
            id: self.run.id.clone(),
            status: self.run.status,
            trials: self.seq,
        });
        let ended = result?;
        stored?;
        let lost = self
            .run
            .layers
            .iter()
            .filter(|l| l.status == LayerStatus::Failed);
        let lost = lost.filter(|l| !self.setup.lacking.contains(&l.name));
        let lost = lost.map(|l| l.name.clone()).collect();
        Ok(Outcome {
            run: self.run,
            ended,
            trials: self.seq,
            lost,
        })
    }

    fn announce(&mut self) {
        let run = &self.run;
        let others = run.layers.iter().skip(BASELINE + 1);
        let compared = others.filter(|l| !l.control && l.status == LayerStatus::Ready);
        (self.on_event)(Event::RunStarted {
            id: run.id.clone(),
            baseline: run.baseline().to_owned(),
            layers: compared.map(|l| l.name.clone()).collect(),
            points: run.points.iter().map(|p| p.label.clone()).collect(),
            seed: run.seed,
            resumed: self.resumed,
        });
        for note in &self.setup.notes {
            (self.on_event)(Event::Note(note.clone()));
        }
        for layer in self
            .run
            .layers
            .iter()
            .filter(|l| l.status == LayerStatus::Failed)
        {
            (self.on_event)(Event::LayerFailed {
                name: layer.name.clone(),
                reason: layer.reason.clone().unwrap_or_default(),
                hint: layer.hint.clone(),
            });
        }
    }

    fn sessions(&mut self) -> Result<Ended, LabError> {
        let path = self
            .work
            .as_ref()
            .map_or_else(PathBuf::new, |w| w.path().to_owned());
        let named = self.work.as_ref().map(|w| w.named().to_owned());
        (self.on_event)(Event::WorkDir {
            path: named.unwrap_or_default(),
        });
        let master = path.join("packaged");
        let started = self.stop.now();
        self.within_budget()?;
        self.make_packaged(&master)?;
        self.set_up()?;
        self.clock.note_set_up(self.stop.now() - started);
        self.reserve_for_stretches();
        loop {
            let sessions = self.planned_sessions().max(self.session + 1);
            (self.on_event)(Event::SessionStarted {
                session: self.session + 1,
                sessions,
            });
            let (first, over) = (self.block, self.set_ups_due() + 1);
            let ended = loop {
                // Checked first, so that nothing is set up for a run that is over.
                let due = match self.next_due()? {
                    Ok(due) => due,
                    Err(ended) => break Some(ended),
                };
                if self.set_ups_due() >= over || self.may_set_up_again(first) {
                    break None;
                }
                if let Some(ended) = self.make_block(&due)? {
                    break Some(ended);
                }
            };
            let change = self.stop.now();
            self.prove_again()?;
            if let Some(ended) = ended {
                self.sustain(ended);
            }
            self.tear_down();
            if let Some(ended) = ended {
                return Ok(ended);
            }
            self.session += 1;
            self.set_up()?;
            self.changes.0 += 1;
            self.changes.1 += (self.stop.now() - change).as_secs_f64();
        }
    }

    /// Makes the master copy of the packaged files.
    fn make_packaged(&mut self, master: &Path) -> Result<(), LabError> {
        let stop = self.stop;
        let go_on = || !stop.at_once();
        let wrote = std::fs::create_dir(master).and_then(|()| {
            let files = check::packaged(&self.run.points);
            packaged::write(master, &files, self.run.seed, &go_on)?;
            packaged::place(master, &self.setup.placed, &go_on)
        });
        wrote.map_err(|source| match source.kind() {
            ErrorKind::Interrupted => self.cut_off(),
            _ => LabError::Packaged {
                dir: in_words(&master.to_string_lossy()).into(),
                source: io::Error::new(source.kind(), layermark_sys::in_words(master, &source)),
            },
        })
    }

    /// How many times the layers are set up. If that is quick, it is done at least three times,
    /// whatever the profile. What one set-up happens to get (blocks on the disk, pages in memory)
    /// is not the layer.
    fn planned_sessions(&self) -> u32 {
        if let Some(sessions) = self.run.plan.sessions {
            return sessions;
        }
        let planned = self.run.plan.profile.sessions();
        if self.set_up_s() < QUICK_SET_UP.as_secs_f64() {
            planned.max(FEWEST_SESSIONS)
        } else {
            planned
        }
    }

    /// Duration of one set-up of all layers, s.
    fn set_up_s(&self) -> f64 {
        self.run.layers.iter().map(|l| l.setup_s).sum()
    }

    /// Blocks per session: the minimum number of blocks, divided by the number of sessions.
    fn session_length(&self) -> u32 {
        (self.stopping.fewest() as u32)
            .div_ceil(self.planned_sessions())
            .max(1)
    }

    /// How many times the layers should have been set up again by now. The minimum number of
    /// blocks, and the budget, are divided evenly over the sessions.
    fn set_ups_due(&self) -> u32 {
        let sessions = self.planned_sessions();
        if self.run.plan.sessions.is_none() && !self.may_afford_a_set_up() {
            return self.session;
        }
        let by_time = self.clock.budget().map_or(0, |budget| {
            (self.clock.spent().as_secs_f64() / budget.as_secs_f64() * f64::from(sessions)) as u32
        });
        let by_blocks = self.block / self.session_length();
        by_blocks.max(by_time).min(sessions - 1)
    }

    /// Whether a session that began with block `first` is as long as the others and one more set-up
    /// is cheap. Otherwise the last planned session would have most of the blocks of a long run,
    /// and its chance conditions would count most.
    fn may_set_up_again(&self, first: u32) -> bool {
        let all = self.change_s() * f64::from(self.session + 1);
        self.run.plan.sessions.is_none()
            && self.may_afford_a_set_up()
            && self.block - first >= self.session_length()
            && all <= self.clock.spent().as_secs_f64() * SET_UP_SHARE
    }

    /// Duration of setting all layers up again, s.
    fn change_s(&self) -> f64 {
        match self.changes {
            (0, _) => self.set_up_s(),
            (count, seconds) => seconds / f64::from(count),
        }
    }

    /// Whether setting all layers up again, with the files that the blocks use, takes a small part of a
    /// budget. Otherwise the rounds are worth more.
    fn may_afford_a_set_up(&self) -> bool {
        let all = self.change_s() + self.clock.afresh().as_secs_f64();
        let budget = self.clock.budget();
        budget.is_none_or(|budget| all <= budget.as_secs_f64() * MOST_OF_BUDGET)
    }

    /// Sets up all layers that are measured. The first time some may be left out for the budget.
    fn set_up(&mut self) -> Result<(), LabError> {
        for index in 0..self.run.layers.len() {
            if self.session == 0 {
                self.within_budget()?;
                self.leave_time_for_rounds(index)?;
            }
            if self.run.layers[index].status != LayerStatus::Ready {
                continue;
            }
            if self.stop.at_once() {
                return Err(self.cut_off());
            }
            let base = self.base(index);
            self.set_up_layer(index, &base)?;
            self.clock.is_up(index);
        }
        if self.session == 0 {
            self.within_budget()?;
        }
        self.meter.refresh();
        self.store.update(&self.run)?;
        self.still_comparable()
    }

    /// Builds a layer and starts its probes.
    pub(crate) fn open(&self, index: usize, base: &Base) -> Result<RunningLayer, LayerFailure> {
        let (layer, catalog) = (&self.run.layers[index], self.setup.catalog);
        let two_ends = self.ends.has_two_ends_but_for(&layer.skips);
        let network = format!("path-{index}");
        let spec = cpus::for_points(layer, &self.run.points, catalog);
        RunningLayer::open(
            (&spec, network),
            (base, catalog),
            (two_ends, self.remote.contains(&index)),
            self.setup.silence,
            self.stop,
            &self.watch,
        )
    }

    fn set_up_layer(&mut self, index: usize, base: &Base) -> Result<(), LabError> {
        let started = self.stop.now();
        match self.open(index, base) {
            Ok(up) => {
                let layer = &mut self.run.layers[index];
                layer.facts = in_facts(up.facts.clone());
                layer.self_test = up.self_test;
                layer.read_only = up.info().read_only;
                layer.setup_s = (self.stop.now() - started).as_secs_f64();
                let (name, seconds) = (layer.name.clone(), layer.setup_s);
                if up.remote {
                    self.remote.insert(index);
                }
                self.running[index] = Some(up);
                (self.on_event)(Event::LayerReady { name, seconds });
                Ok(())
            }
            Err(lost) => {
                // What was only too slow for the end of the run has not failed.
                let cut_off = lost.cut_off || self.stop.is_over();
                self.drop_layer(index, LayerFailure { cut_off, ..lost })
            }
        }
    }

    /// Leaves a layer out from now on. Without the baseline the run ends with an error.
    pub(crate) fn drop_layer(&mut self, index: usize, lost: LayerFailure) -> Result<(), LabError> {
        self.running[index] = None;
        if lost.cut_off {
            return Err(self.cut_off());
        }
        let layer = &mut self.run.layers[index];
        layer.status = LayerStatus::Failed;
        layer.reason = Some(lost.reason.clone());
        layer.hint.clone_from(&lost.hint);
        let name = layer.name.clone();
        self.store.update(&self.run)?;
        if index == 0 {
            return Err(LabError::Baseline {
                name,
                reason: lost.reason,
                hint: lost.hint,
            });
        }
        (self.on_event)(Event::LayerFailed {
            name,
            reason: lost.reason,
            hint: lost.hint,
        });
        Ok(())
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
            hint: others.iter().find_map(|l| l.hint.clone()),
        })
    }

    /// Checks at the end of a session that each layer is still the one that was set up.
    fn prove_again(&mut self) -> Result<(), LabError> {
        for index in 0..self.running.len() {
            let Some(up) = &self.running[index] else {
                continue;
            };
            let watching = self.watch.over(&up.info().helpers);
            let proved = up.still_there();
            if let Err(lost) = watching.judge(proved) {
                self.drop_layer(index, lost)?;
            }
        }
        Ok(())
    }

    /// Unwinds all layers, the last first.
    fn tear_down(&mut self) {
        for up in self.running.iter_mut().rev() {
            *up = None;
        }
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

    pub(crate) fn cut_off(&self) -> LabError {
        LabError::CutOff {
            run: self.run.id.clone(),
            store: self.store.option(),
        }
    }
}

/// Reports that the store's file was deleted, and where all results are now.
pub(crate) fn tell_lost(store: &mut Store, run: &str, on_event: &mut dyn FnMut(Event)) {
    if let Some(lost) = store.lost() {
        let kept = store.path().display();
        on_event(Event::Warning {
            text: format!(
                "the store {} was deleted or replaced while the run wrote to it; all it held is kept in {kept}",
                lost.display()
            ),
            hint: Some(format!("layermark report {run}{}", store.option())),
        });
    }
}
