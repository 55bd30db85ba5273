//! One block: which points and layers have a turn, and what becomes of each turn.

use std::time::{Duration, Instant};

use layermark_model::{Cell, Environment, LayerStatus, Run, TrialRecord};
use layermark_stats::FEWEST_BLOCKS;
use layermark_store::Store;

use crate::{
    Ended, Event, LabError, MAX_BLOCKS,
    budget::{Clock, Due},
    check,
    cpu::KernelThreads,
    drive::{Lab, tell_lost},
    session::{Lost, Up},
    turn::{self, Ask, Failure, Turn},
};

/// A probe that broke is started again so often in a run.
const RESTARTS: u32 = 1;

/// A trial that took less is stored while the probe makes the next one ready. After a longer one
/// there is time to do it at once.
const SHORT: Duration = Duration::from_millis(50);

const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;

/// Where trials are entered.
struct Books<'a> {
    run: &'a Run,
    clock: &'a Clock,
    forecast: &'a mut (u64, Duration),
    store: &'a mut Store,
    on_event: &'a mut dyn FnMut(Event),
}

impl Books<'_> {
    /// Stores a trial, with something to do beside it, and tells of it.
    fn enter<T>(
        &mut self,
        record: &TrialRecord,
        beside: impl FnOnce() -> T,
    ) -> Result<T, LabError> {
        let besides = self.store.trial_beside(&self.run.id, record, beside)?;
        tell_lost(self.store, &self.run.id, self.on_event);
        let (trials, time) = &mut *self.forecast;
        let took = self.clock.estimate(record.cell.layer, record.cell.point);
        *trials = trials.saturating_sub(1);
        *time = time.saturating_sub(took);
        let done = record.seq + 1;
        (self.on_event)(Event::TrialDone {
            done,
            planned: done + *trials,
            left: (!time.is_zero())
                .then(|| self.clock.left().map_or(*time, |left| left.min(*time))),
            layer: self.run.layers[record.cell.layer].name.clone(),
            point: self.run.points[record.cell.point].label.clone(),
            ns_per_op: record
                .trial
                .as_ref()
                .and_then(layermark_model::Trial::ns_per_op),
            error: record.error.clone(),
            flags: record.flags.clone(),
        });
        Ok(besides)
    }
}

impl Lab<'_> {
    /// Makes the block in hand; why the run is over, if it is.
    pub(crate) fn next_block(&mut self) -> Result<Option<Ended>, LabError> {
        if self.stop.asked() {
            return Ok(Some(Ended::Stopped));
        }
        let due = self.due();
        if due.is_empty() {
            return Ok(Some(Ended::Settled));
        }
        if self.run.plan.blocks.is_some_and(|n| self.block >= n) {
            return Ok(Some(Ended::Settled));
        }
        if self.run.plan.blocks.is_none() && self.block >= MAX_BLOCKS {
            return Ok(Some(Ended::Cap));
        }
        let due = self.within_budget(due);
        let due = self.clock.fit(self.block, due);
        if due.is_empty() {
            return Ok(Some(Ended::Budget));
        }
        self.forecast = self.forecast(&due);
        let stopped = self.groups(&due);
        self.settle()?;
        if stopped? {
            return Ok(Some(Ended::Stopped));
        }
        for event in self.look() {
            (self.on_event)(event);
        }
        self.block += 1;
        self.threads.refresh();
        Ok(None)
    }

    /// The points of this block in their order, each with the layers that need it in theirs. The
    /// baseline is in as long as any other layer is.
    fn due(&self) -> Vec<Due> {
        let compared = self.compared();
        let mut all = Vec::new();
        for point in self.schedule.points(self.block) {
            let needs =
                |layer: usize| self.can(layer, point) && !self.stopping.is_done(layer, point);
            let needed: Vec<usize> = compared.clone().filter(|l| needs(*l)).collect();
            if needed.is_empty() || !self.can(0, point) {
                continue;
            }
            let turns = self.schedule.turns(self.block, point);
            let layers = turns
                .into_iter()
                .filter(|l| *l == 0 || needed.contains(l))
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

    /// Whether a layer is up and can do a point at all.
    fn can(&self, layer: usize, point: usize) -> bool {
        let l = &self.run.layers[layer];
        let point = &self.run.points[point];
        let writes = || {
            self.setup
                .catalog
                .workload(&point.workload)
                .is_ok_and(|w| w.writes(point))
        };
        // Memory has nothing below it to be cold.
        let cold_memory = || point.text("cache") == "cold" && l.facts.in_memory();
        l.status == LayerStatus::Ready && !(l.read_only && writes()) && !cold_memory()
    }

    /// All points in their order. Whether the user has asked to stop.
    fn groups(&mut self, due: &[Due]) -> Result<bool, LabError> {
        for due in due {
            if self.group(due)? {
                return Ok(true);
            }
            self.still_comparable()?;
        }
        Ok(false)
    }

    /// All turns at one point. Whether the user has asked to stop.
    fn group(&mut self, due: &Due) -> Result<bool, LabError> {
        let tried = self.tally.tried(self.block, due.point);
        if due.layers.iter().all(|l| tried.contains(l)) {
            // Made before the run was resumed.
            return Ok(false);
        }
        for layer in &due.layers {
            if self.stop.asked() {
                return Ok(true);
            }
            if self.ups[*layer].is_some() {
                self.trial(*layer, due.point)?;
            }
        }
        Ok(false)
    }

    fn trial(&mut self, layer: usize, point: usize) -> Result<(), LabError> {
        let started = Instant::now();
        let at = &self.run.points[point];
        let workload = self.setup.catalog.workload(&at.workload)?;
        let (refresh, restart) = (workload.needs_refresh(at), workload.needs_restart(at));
        if refresh || restart {
            // The layer is mounted anew first, and may be lost.
            self.settle()?;
        }
        let restarted = if restart {
            self.set_up_again(layer)?
        } else {
            None
        };
        if self.ups[layer].is_none() {
            return Ok(());
        }
        let at = &self.run.points[point];
        let here = workload.in_layer(at, &self.run.layers[layer].spec)?;
        // Before anything is known of the point in this session: traced, it tells what was done.
        let first = self.extras.insert((self.session, layer, point));
        let (id, stop) = (self.seq, self.stop);
        let seed = self.schedule.work_seed(self.block);
        let helpers = self.ups[layer].as_ref().map(|up| up.place.helpers());
        let watching = self.watch.over(&helpers.unwrap_or_default());
        // The trial before is entered while the probe makes this one ready.
        let (mut owed, mut entered) = (self.owed.take(), Ok(()));
        let (mut books, ups, threads, env) = self.parts();
        let Some(up) = ups[layer].as_mut() else {
            return Ok(());
        };
        let ask = Ask {
            id,
            point: &here,
            extra: workload.extra(&here).filter(|_| first),
            workload,
            seed,
            base: &books.run.dir,
            threads,
            env,
            stop,
        };
        let mut enter = || {
            let Some(record) = owed.take() else {
                return threads.look();
            };
            books.enter(&record, || threads.look()).unwrap_or_else(|e| {
                entered = Err(e);
                threads.look()
            })
        };
        let mut turn = turn::take(up, &ask, &mut enter);
        if let Some(record) = owed {
            entered = books.enter(&record, || ());
        }
        entered?;
        if let Err(lost) = watching.judge(Ok(())) {
            turn.trial = None;
            turn.failure = Some(Failure::Lost(lost));
        }
        drop(watching);
        if let Some(trial) = &mut turn.trial {
            trial.restarted = restarted;
        }
        self.count(layer, point, turn, started.elapsed())
    }

    /// Counts what came of a turn, and does something about what went wrong.
    fn count(
        &mut self,
        layer: usize,
        point: usize,
        turn: Turn,
        took: Duration,
    ) -> Result<(), LabError> {
        if turn.failure == Some(Failure::CutOff) {
            // What was cut off says nothing.
            return Err(self.cut_off());
        }
        let record = self.record(layer, point, &turn);
        self.tally.add(&record);
        self.clock.note(layer, point, took);
        self.seq += 1;
        self.owed = Some(record);
        if turn.failure.is_some() || took >= SHORT {
            let begun = Instant::now();
            self.settle()?;
            self.clock.spend(begun.elapsed());
        }
        match turn.failure {
            Some(Failure::Work {
                message,
                errno: Some(ENOSPC | EDQUOT),
            }) => self.full(layer, point, message),
            Some(Failure::Broken(reason)) => self.revive(layer, reason),
            Some(Failure::Lost(lost)) => self.drop_layer(layer, lost),
            _ => Ok(()),
        }
    }

    fn record(&self, layer: usize, point: usize, turn: &Turn) -> TrialRecord {
        TrialRecord {
            seq: self.seq,
            cell: Cell {
                session: self.session,
                block: self.block,
                layer,
                point,
            },
            at_ms: u64::try_from(turn.started_ms - self.run.started_ms).unwrap_or(0),
            trial: turn.trial.clone(),
            error: turn.failure.as_ref().map(|f| f.text().to_owned()),
            upkeep_ns: turn.usage.upkeep_ns,
            foreign_cpu: turn.usage.foreign,
            steal: turn.usage.steal,
            backing_resident: turn.backing,
            flags: turn.flags.clone(),
        }
    }

    /// Stores and tells of the trial that is still owed.
    pub(crate) fn settle(&mut self) -> Result<(), LabError> {
        let Some(record) = self.owed.take() else {
            return Ok(());
        };
        self.parts().0.enter(&record, || ())
    }

    /// Parts that are used at the same time.
    fn parts(&mut self) -> (Books<'_>, &mut [Option<Up>], &KernelThreads, &Environment) {
        let books = Books {
            run: &self.run,
            clock: &self.clock,
            forecast: &mut self.forecast,
            store: self.store,
            on_event: self.on_event,
        };
        (books, &mut self.ups, &self.threads, &self.setup.env)
    }

    /// Starts a broken probe again, once. Then the layer is lost.
    fn revive(&mut self, layer: usize, reason: String) -> Result<(), LabError> {
        if self.restarts[layer] >= RESTARTS {
            return self.drop_layer(layer, Lost::new(reason));
        }
        self.restarts[layer] += 1;
        let name = self.run.layers[layer].name.clone();
        let first = reason.lines().next().unwrap_or_default();
        (self.on_event)(Event::Warning {
            text: format!("{name}: {first}; its probe is started again"),
            hint: None,
        });
        let Some(up) = self.ups[layer].as_mut() else {
            return Ok(());
        };
        let watching = self.watch.over(&up.place.helpers());
        let restarted = up.restart(self.stop);
        let revived = watching.judge(restarted);
        drop(watching);
        revived.or_else(|lost| {
            let why = format!("{first}, and {}", lost.reason);
            self.drop_layer(
                layer,
                Lost {
                    reason: why,
                    ..lost
                },
            )
        })
    }

    /// A layer may have little space of its own. When it is the disk below all of them, nothing
    /// that follows could be believed.
    fn full(&mut self, layer: usize, point: usize, message: String) -> Result<(), LabError> {
        let at = &self.run.points[point];
        let needed = self.setup.catalog.workload(&at.workload)?.space(at);
        let dir = std::path::PathBuf::from(&self.run.dir);
        let baseline = self.run.layers[layer].spec == self.run.layers[0].spec;
        if baseline || !check::has_room(&dir, needed) {
            return Err(LabError::DiskFull {
                dir,
                message,
                run: self.run.id.clone(),
            });
        }
        let hint = Some("make the files smaller: --scale 0.1".to_owned());
        self.drop_layer(
            layer,
            Lost {
                hint,
                ..Lost::new(format!("it is full: {message}"))
            },
        )
    }

    /// Trials and time to come, this block included, by what is known now.
    fn forecast(&self, due: &[Due]) -> (u64, Duration) {
        let mut trials = 0;
        let mut time = Duration::ZERO;
        for due in due {
            let done = self.block as usize;
            let more = |layer: &usize| {
                self.stopping
                    .expected(*layer, due.point)
                    .saturating_sub(done)
                    .max(1)
            };
            let most = due
                .layers
                .iter()
                .filter(|l| **l != 0)
                .map(more)
                .max()
                .unwrap_or(1);
            for layer in &due.layers {
                let blocks = if *layer == 0 { most } else { more(layer) };
                trials += blocks as u64;
                time += self.clock.estimate(*layer, due.point) * blocks as u32;
            }
        }
        if self.clock.knows_nothing() {
            return (trials, self.clock.left().unwrap_or_default());
        }
        let block: u64 = due.iter().map(|d| d.layers.len() as u64).sum();
        match self.clock.left().filter(|left| *left < time) {
            // The budget allows less than the precision asks for.
            Some(left) => {
                let share = left.as_secs_f64() / time.as_secs_f64().max(1e-9);
                (((trials as f64 * share) as u64).max(block), left)
            }
            None => (trials, time),
        }
    }

    /// Leaves layers out, and says so, when the fewest blocks of all would take half as much again as
    /// the budget: as soon as a block has been timed that did not have to make its files; or the first
    /// one, when half of what it took would be too much.
    fn within_budget(&mut self, due: Vec<Due>) -> Vec<Due> {
        let fewest = FEWEST_BLOCKS as u32;
        if self.warned || self.block == 0 || self.block >= fewest || self.run.plan.blocks.is_some()
        {
            return due;
        }
        let control = |l: &usize| self.run.layers[*l].control;
        let kept: Vec<usize> = (0..self.run.layers.len()).filter(control).collect();
        let first = self.block == 1;
        let block = if first {
            fewest.div_ceil(2)
        } else {
            self.block
        };
        let out = self.clock.left_out(block, &due, &kept);
        if out.is_empty() {
            return due;
        }
        self.warned = true;
        let names: Vec<&str> = out
            .iter()
            .map(|l| self.run.layers[*l].name.as_str())
            .collect();
        let cost = self.clock.block_cost(&due);
        let needed = self.clock.needed(FEWEST_BLOCKS, cost).as_secs_f64().ceil();
        (self.on_event)(Event::Warning {
            text: format!(
                "left out, because {FEWEST_BLOCKS} blocks of all layers would take {needed} s: {}",
                names.join(", ")
            ),
            hint: Some(format!("for all of them: --budget {needed}s")),
        });
        for (layer, point) in out
            .iter()
            .flat_map(|l| (0..self.run.points.len()).map(|p| (*l, p)))
        {
            self.stopping.give_up(layer, point);
        }
        self.due()
    }
}
