//! One block: its points and layers, their rounds, and the outcome of each trial.

use std::{collections::BTreeMap, mem, path::Path, time::Duration};

use layermark_layers::{drop_kernel_caches, spread};
use layermark_model::{BASELINE, Cell, LayerStatus, Point, Restarted, Run, TrialRecord, TurnCost};
use layermark_store::Store;

use crate::{
    Ended, Event, LabError, MAX_BLOCKS, check,
    decide::{
        budget::{Clock, Due},
        fewer::least_blocks,
        forecast::{Forecast, ToCome},
        stop::{Site, Stopping},
    },
    execute::{
        background::ControlWindows,
        drive::{Lab, tell_lost},
        layer_failure::LayerFailure,
        rounds::{ActiveTrial, RoundOptions},
        session::RunningLayer,
        trial::{self, Attempt},
        trial_request::{Failure, TrialRequest},
        turn::Length,
        watch::Watch,
    },
    resolve,
};

/// How many times a failed probe is restarted per run.
const RESTARTS: u32 = 1;

/// Shorter trials are stored while the probe prepares the next one. After longer ones there is time
/// to store them at once.
const SHORT: Duration = Duration::from_millis(50);

/// Steps of a trial, in words: what was done when it was cut.
const MAKING: &str = "its files were made";
const COOLING: &str = "its caches were emptied";
const SETTLING: &str = "its files were flushed";
const ENDING: &str = "its results were read";

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;

/// Stores trials and emits their events.
struct TrialSink<'a> {
    run: &'a Run,
    clock: &'a Clock,
    stopping: &'a Stopping,
    forecast: &'a mut Forecast,
    store: &'a mut Store,
    on_event: &'a mut dyn FnMut(Event),
}

impl TrialSink<'_> {
    /// Stores trials and emits `TrialDone` for each.
    fn enter(&mut self, records: &[TrialRecord]) -> Result<(), LabError> {
        records.iter().try_for_each(|record| self.enter_one(record))
    }

    fn enter_one(&mut self, record: &TrialRecord) -> Result<(), LabError> {
        self.store.trial(&self.run.id, record)?;
        tell_lost(self.store, &self.run.id, self.on_event);
        let Cell { layer, point, .. } = record.cell;
        let done = record.seq + 1;
        let (planned, left) = self.forecast.after((layer, point), done, self.clock);
        (self.on_event)(Event::TrialDone {
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
}

impl<'a> Lab<'a> {
    /// The points of the current block. Returns the reason if the run is over.
    pub(crate) fn next_due(&mut self) -> Result<Result<Vec<Due>, Ended>, LabError> {
        if self.stop.asked() {
            return Ok(Err(Ended::Stopped));
        }
        self.tick();
        if self.block > 0 {
            self.within_budget()?;
        }
        let mut due = self.due();
        if due.is_empty() && self.go_on() {
            due = self.due();
        }
        if due.is_empty() {
            return Ok(Err(Ended::Settled));
        }
        if self.run.plan.blocks.is_some_and(|n| self.block >= n) {
            return Ok(Err(Ended::Settled));
        }
        // A budget is a limit of its own.
        let most = if self.clock.budget().is_some() {
            resolve::MOST
        } else {
            MAX_BLOCKS
        };
        if self.run.plan.blocks.is_none() && self.block >= most {
            return Ok(Err(Ended::Cap));
        }
        let due = self.clock.fit(self.block, due);
        Ok(if due.is_empty() {
            Err(Ended::Budget)
        } else {
            Ok(due)
        })
    }

    /// Runs the current block. Returns the reason if the run is over.
    pub(crate) fn make_block(&mut self, due: &[Due]) -> Result<Option<Ended>, LabError> {
        let (to_come, open) = self.to_come(due);
        self.forecast.renew(to_come, open);
        let ended = self.groups(due);
        self.store_owed()?;
        if let Some(ended) = ended? {
            return Ok(Some(ended));
        }
        for event in self.look() {
            (self.on_event)(event);
        }
        self.block += 1;
        self.meter.refresh();
        Ok(None)
    }

    /// Points of this block in schedule order, with the layers that still need each one, in the
    /// order of their turns. The baseline is included while any other layer is.
    pub(crate) fn due(&self) -> Vec<Due> {
        let compared = self.compared();
        let mut all = Vec::new();
        for point in self.points() {
            let needs =
                |layer: usize| self.can(layer, point) && !self.stopping.is_done(layer, point);
            let needed: Vec<usize> = compared.clone().filter(|l| needs(*l)).collect();
            if needed.is_empty() || !self.can(BASELINE, point) {
                continue;
            }
            let turns = self.schedule.turns(self.block, point);
            let layers = turns
                .into_iter()
                .filter(|l| *l == BASELINE || needed.contains(l))
                .collect();
            let width = |l: &usize| {
                self.stopping
                    .known(*l, point)
                    .half_width
                    .unwrap_or(f64::INFINITY)
            };
            let width = needed.iter().map(width).fold(0.0, f64::max);
            all.push(Due {
                point,
                layers,
                width,
            });
        }
        all
    }

    /// Points in schedule order. Points that use the same kept file come right after the first of
    /// them.
    fn points(&self) -> Vec<usize> {
        let mut first = BTreeMap::new();
        let drawn = self.schedule.points(self.block).into_iter().enumerate();
        let mut order: Vec<(usize, usize)> = drawn
            .map(|(place, point)| match self.kept_files[point] {
                Some(kept) => (*first.entry(kept).or_insert(place), point),
                None => (place, point),
            })
            .collect();
        order.sort_by_key(|(place, _)| *place);
        order.into_iter().map(|(_, point)| point).collect()
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

    /// Runs all points in order. Returns the reason if the run is over.
    fn groups(&mut self, due: &[Due]) -> Result<Option<Ended>, LabError> {
        let mut any = false;
        for due in due {
            if self.block == 0 {
                self.within_budget()?;
            }
            self.tick();
            if self.stop.is_spent() {
                return Ok(Some(Ended::Budget));
            }
            let mut due = due.clone();
            due.layers
                .retain(|l| !self.is_left_out(*l) && self.can(*l, due.point));
            // What is known not to be ready before it is cut is not begun.
            let cost = self.clock.block_cost(std::slice::from_ref(&due));
            let timed = due
                .layers
                .iter()
                .all(|l| self.clock.has_timed(*l, due.point));
            if timed && self.stop.left().is_some_and(|left| cost > left) {
                continue;
            }
            any = true;
            if self.group(&due)? {
                return Ok(Some(Ended::Stopped));
            }
            self.give_hopeless_up()?;
            self.still_comparable()?;
        }
        Ok((!any).then_some(Ended::Budget))
    }

    /// Runs all trials at one point. Returns whether the user has asked to stop.
    fn group(&mut self, due: &Due) -> Result<bool, LabError> {
        let tried = self.tally.tried(self.block, due.point);
        if due.layers.iter().all(|l| tried.contains(l)) {
            // Run before the run was resumed.
            return Ok(false);
        }
        let at = &self.run.points[due.point];
        let Some(divided) = at.meaning.divided else {
            let mut layers = due.layers.clone();
            if at.meaning.same_outcome && !self.outcomes.contains_key(&due.point) {
                // The others are compared with the baseline.
                layers.sort_by_key(|layer| *layer != BASELINE);
            }
            for layer in layers {
                if self.stop.asked() {
                    return Ok(true);
                }
                self.alone(layer, due.point)?;
            }
            return Ok(false);
        };
        let one_cpu = Self::fits_one_cpu(at);
        let asked = self.run.plan.turn()?;
        let mut round = 0;
        for part in self.parts_that_fit(due, divided) {
            if self.stop.asked() {
                return Ok(true);
            }
            let guest = |layer: &usize| {
                let up = self.running[*layer].as_ref();
                up.is_some_and(|up| !up.info().on_this_host)
            };
            let mut length = Length::of(divided, part.iter().any(guest), asked);
            if divided.cost == TurnCost::Execution && self.tally.had_one_round(due.point) {
                // The executions take long, and so does a lead-in. Without one, a second round would come after
                // another pause than the first.
                (length.lead_in_ns, length.most_rounds) = (0, 1);
            }
            let one_cpu = one_cpu && !part.iter().any(|l| self.is_served(*l));
            let options = RoundOptions { length, one_cpu };
            round = self.together(&part, due.point, options, round, None)?;
        }
        Ok(self.stop.asked())
    }

    /// Runs a trial in one stretch.
    fn alone(&mut self, layer: usize, point: usize) -> Result<(), LabError> {
        let at = &self.run.points[point];
        let needs = at.needs.clone();
        if needs.refresh || needs.restart {
            // The layer is mounted again first, and may be lost.
            self.store_owed()?;
        }
        let restarted = if needs.restart {
            self.set_up_again(layer)?
        } else {
            None
        };
        self.together(&[layer], point, RoundOptions::WHOLE, 0, restarted)?;
        Ok(())
    }

    /// Runs a trial in each of these layers: prepares all, lets them take turns, flushes all, then
    /// proves each. Only one probe works at any time. Returns the number of the next round.
    fn together(
        &mut self,
        layers: &[usize],
        point: usize,
        options: RoundOptions,
        first_round: u32,
        restarted: Option<Restarted>,
    ) -> Result<u32, LabError> {
        let divided = self.run.points[point].meaning.divided;
        if divided.is_some_and(|divided| divided.cost == TurnCost::Files) {
            spread::reuse_deleted(Path::new(&self.run.dir));
        }
        let mut trials = self.start_trials(layers, point);
        for this in &mut trials {
            let mut owed = mem::take(&mut self.owed);
            let mut entered = Ok(());
            let (mut sink, running, watch) = self.sink();
            // The trials of the last point are stored while the probe prepares this one.
            this.step(MAKING, watch, running, |attempt, up, request| {
                attempt.prepare(up, request, &mut || {
                    entered = sink.enter(&mem::take(&mut owed));
                })
            });
            entered.and_then(|()| sink.enter(&owed))?;
        }
        if self.run.points[point].meaning.is_cold() {
            for this in &mut trials {
                this.step(COOLING, &self.watch, &mut self.running, Attempt::cool);
            }
            drop_kernel_caches(trials.iter_mut().map(|this| &mut this.attempt.cooled));
        }
        for this in &mut trials {
            this.step(MAKING, &self.watch, &mut self.running, |attempt, up, _| {
                attempt.begin(up)
            });
        }
        let kernel = self.meter.kernel();
        let mut windows = self.control_windows(&trials, point);
        let (next_round, whole) =
            self.rounds(&mut trials, point, options, first_round, &mut windows);
        if !whole && trials.iter().all(|this| this.attempt.failure.is_none()) {
            // Too few rounds for a decision: not stored, so that `--resume` runs all of them again.
            return Ok(next_round);
        }
        let all = trials.iter().map(|this| &this.attempt.used);
        let all = self.meter.total(all, &kernel);
        let recent = self.recent.with(all);
        for this in &mut trials {
            (this.attempt.beside, this.attempt.recent) = (all, recent);
            if let Some(up) = self.running[this.layer].as_ref() {
                this.attempt.background = windows.of(&up.physical());
                this.attempt.end_of_turns(up);
            }
        }
        for this in &mut trials {
            this.step(
                SETTLING,
                &self.watch,
                &mut self.running,
                |_, up, request| trial::settle(up, request),
            );
        }
        for this in &mut trials {
            this.step(ENDING, &self.watch, &mut self.running, Attempt::end);
        }
        for this in &mut trials {
            if let Some(made) = &mut this.attempt.trial {
                made.restarted = restarted;
            }
        }
        // The others are compared with the baseline.
        for is_baseline in [true, false] {
            let now = |this: &&mut ActiveTrial<'_>| (this.layer == BASELINE) == is_baseline;
            for this in trials.iter_mut().filter(now) {
                self.same_outcome(point, this);
            }
        }
        self.count(point, trials)?;
        Ok(next_round)
    }

    /// Makes a trial an error if the work has left something else than in the baseline.
    fn same_outcome(&mut self, point: usize, this: &mut ActiveTrial<'_>) {
        let made = this.attempt.trial.as_ref();
        let Some(outcome) = made.and_then(|made| made.outcome.as_ref()) else {
            return;
        };
        let expected = match self.outcomes.get(&point) {
            Some(expected) => expected,
            None if this.layer == BASELINE => {
                self.outcomes.insert(point, outcome.clone());
                return;
            }
            None => return,
        };
        if expected != outcome {
            let baseline = &self.run.layers[BASELINE].name;
            this.attempt.failure = Some(Failure::Work {
                message: format!("the outcome is wrong: {outcome}; in {baseline} {expected}"),
                errno: None,
            });
            this.attempt.trial = None;
        }
    }

    /// Control windows: after each round where flushes are counted, at points that flush and of launched
    /// programs, which may flush.
    fn control_windows(&self, trials: &[ActiveTrial<'_>], point: usize) -> ControlWindows {
        let meaning = &self.run.points[point].meaning;
        let flushes = meaning.flushes || meaning.runs_programs();
        let running = trials
            .iter()
            .filter_map(|this| self.running[this.layer].as_ref());
        ControlWindows::over(running.map(RunningLayer::physical), flushes)
    }

    /// Starts an attempt at a point in each of these layers that is up.
    pub(crate) fn start_trials(&mut self, layers: &[usize], point: usize) -> Vec<ActiveTrial<'a>> {
        let at = &self.run.points[point];
        let mut trials = Vec::with_capacity(layers.len());
        for (id, &layer) in (self.seq..).zip(layers.iter().filter(|l| self.running[**l].is_some()))
        {
            let here = self.setup.in_layers.get(&(layer, point)).unwrap_or(at);
            // The first time in this session, an extra traced trial shows which system calls the
            // point makes. The control would make the baseline's.
            let first =
                !self.run.layers[layer].control && self.extras.insert((self.session, layer, point));
            let request = TrialRequest {
                id,
                traces: first,
                point: here.clone(),
                cpus: at.meaning.cpus(),
                seed: self.schedule.work_seed(self.block),
                base: self.run.dir.clone(),
                env: self.setup.env.clone(),
                stop: self.stop,
            };
            let attempt = Attempt::new();
            trials.push(ActiveTrial {
                layer,
                request,
                attempt,
                cut_in: None,
            });
        }
        trials
    }

    /// Records the outcome of trials and handles their errors.
    fn count(&mut self, point: usize, trials: Vec<ActiveTrial<'_>>) -> Result<(), LabError> {
        if trials.iter().any(ActiveTrial::is_cut_off) {
            // A trial that was cut off is not a result.
            self.note_cut_of(point, &trials);
            return Err(self.cut_off());
        }
        let mut failures = Vec::new();
        let mut took = Duration::ZERO;
        for ActiveTrial { layer, attempt, .. } in trials {
            let record = self.record(layer, point, &attempt);
            self.tally.add(&record);
            self.clock.note(layer, point, attempt.took);
            took += attempt.took;
            self.seq += 1;
            self.owed.push(record);
            failures.extend(attempt.failure.map(|failure| (layer, failure)));
        }
        if !failures.is_empty() || took >= SHORT {
            self.store_owed()?;
        }
        for (layer, failure) in failures {
            match failure {
                Failure::Work {
                    message,
                    errno: Some(ENOSPC | EDQUOT),
                } => self.full(layer, point, message)?,
                Failure::Work {
                    message,
                    errno: Some(EIO),
                } if self.run.points[point].meaning.changes => {
                    self.may_have_lost_writes(layer, &message)?;
                }
                Failure::Broken(reason) => self.revive(layer, reason)?,
                Failure::Lost(lost) => self.drop_layer(layer, lost)?,
                Failure::Work { .. } | Failure::CutOff => {}
            }
        }
        Ok(())
    }

    fn record(&self, layer: usize, point: usize, attempt: &Attempt) -> TrialRecord {
        TrialRecord {
            seq: self.seq,
            cell: Cell {
                session: self.session,
                block: self.block,
                layer,
                point,
            },
            at_ms: u64::try_from(attempt.started_ms - self.run.started_ms).unwrap_or(0),
            trial: attempt.trial.clone(),
            error: attempt.failure.as_ref().map(|f| f.text().to_owned()),
            upkeep_ns: attempt.usage.upkeep_ns,
            foreign_cpu: attempt.usage.foreign,
            steal: attempt.usage.steal,
            backing_resident: attempt.backing,
            flags: attempt.flags.clone(),
        }
    }

    /// Stores the trials that are waiting to be stored and emits their events.
    pub(crate) fn store_owed(&mut self) -> Result<(), LabError> {
        let owed = mem::take(&mut self.owed);
        self.sink().0.enter(&owed)
    }

    /// Borrows the parts that are used at the same time.
    fn sink(&mut self) -> (TrialSink<'_>, &mut [Option<RunningLayer>], &Watch) {
        let sink = TrialSink {
            run: &self.run,
            clock: &self.clock,
            stopping: &self.stopping,
            forecast: &mut self.forecast,
            store: self.store,
            on_event: self.on_event,
        };
        (sink, &mut self.running, &self.watch)
    }

    /// Restarts a failed probe, at most [`RESTARTS`] times. After that the layer is lost.
    fn revive(&mut self, layer: usize, reason: String) -> Result<(), LabError> {
        if self.restarts[layer] >= RESTARTS {
            let hint = "the kernel may say why: dmesg | tail; if it is only slow: --silence 5m";
            return self.drop_layer(
                layer,
                LayerFailure {
                    hint: Some(hint.to_owned()),
                    ..LayerFailure::new(reason)
                },
            );
        }
        self.restarts[layer] += 1;
        let name = self.run.layers[layer].name.clone();
        let brief = layermark_model::brief(&reason);
        (self.on_event)(Event::Warning {
            text: format!("{name}: {brief}; its probe is started again"),
            hint: None,
        });
        let Some(up) = self.running[layer].as_mut() else {
            return Ok(());
        };
        let watching = self.watch.over(&up.info().helpers);
        let restarted = up.restart(self.stop);
        let revived = watching.judge(restarted);
        drop(watching);
        revived.or_else(|lost| {
            let why = format!("{brief}, and {}", lost.reason);
            self.drop_layer(
                layer,
                LayerFailure {
                    reason: why,
                    ..lost
                },
            )
        })
    }

    /// A layer may have little space of its own. If the full disk is the one below all layers,
    /// later results could not be trusted, so the run ends.
    fn full(&mut self, layer: usize, point: usize, message: String) -> Result<(), LabError> {
        let at = &self.run.points[point];
        let needed = at.needs.space;
        let dir = std::path::PathBuf::from(&self.run.dir);
        // A baseline that the user names may have little space of its own as well.
        let named = self.run.plan.baseline.is_some();
        let spec = &self.run.layers[layer].spec;
        let baseline = !named && *spec == self.run.layers[BASELINE].spec;
        if baseline || spec.is_native() || !check::has_room(&dir, needed) {
            return Err(LabError::DiskFull {
                dir,
                message,
                run: self.run.id.clone(),
                store: self.store.option(),
            });
        }
        let hint = Some("make the files smaller: --scale 0.1".to_owned());
        self.drop_layer(
            layer,
            LayerFailure {
                hint,
                ..LayerFailure::new(format!("it is full: {message}"))
            },
        )
    }

    /// A layer that may have lost what was written to it. The kernel marks pages that it could not write as
    /// clean, so a second fsync would return 0 without them, and later trials would look right.
    fn may_have_lost_writes(&mut self, layer: usize, message: &str) -> Result<(), LabError> {
        let reason =
            format!("an operation failed with an I/O error, and is not tried again: {message}");
        let hint = "the kernel may say why: dmesg | tail".to_owned();
        self.drop_layer(
            layer,
            LayerFailure {
                hint: Some(hint),
                ..LayerFailure::new(reason)
            },
        )
    }

    /// Remaining trials, including this block, and whether their number is still open.
    fn to_come(&self, due: &[Due]) -> (BTreeMap<Site, ToCome>, bool) {
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
