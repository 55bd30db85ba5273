//! One block: which points and layers have a trial, their rounds, and what becomes of each trial.

use std::{
    collections::BTreeMap,
    mem,
    path::Path,
    time::{Duration, Instant},
};

use layermark_layers::spread;
use layermark_model::{
    BASELINE, Cell, LayerStatus, Point, Restarted, Run, Target, TrialRecord, TurnCost,
};
use layermark_store::Store;

use crate::{
    Ended, Event, LabError, MAX_BLOCKS,
    background::ControlWindows,
    budget::{Clock, Due},
    check,
    drive::{Lab, tell_lost},
    forecast::{Forecast, ToCome},
    rounds::{How, Try},
    session::{Lost, Up},
    stop::{Site, Stopping},
    trial::{self, Ask, Attempt, Failure},
    turn::Length,
    watch::Watch,
};

/// A probe that broke is started again so often in a run.
const RESTARTS: u32 = 1;

/// Trials that took less are stored while the probe makes the next one ready. After longer ones
/// there is time to do it at once.
const SHORT: Duration = Duration::from_millis(50);

const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;

/// Where trials are entered.
struct Books<'a> {
    run: &'a Run,
    clock: &'a Clock,
    stopping: &'a Stopping,
    forecast: &'a mut Forecast,
    store: &'a mut Store,
    on_event: &'a mut dyn FnMut(Event),
}

impl Books<'_> {
    /// Stores trials and tells of them.
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
    /// What is to be done in the block in hand; why the run is over, if it is.
    pub(crate) fn next_due(&mut self) -> Result<Result<Vec<Due>, Ended>, LabError> {
        if self.stop.asked() {
            return Ok(Err(Ended::Stopped));
        }
        if self.block > 0 {
            self.within_budget(Duration::ZERO)?;
        }
        let due = self.due();
        if due.is_empty() {
            return Ok(Err(Ended::Settled));
        }
        if self.run.plan.blocks.is_some_and(|n| self.block >= n) {
            return Ok(Err(Ended::Settled));
        }
        if self.run.plan.blocks.is_none() && self.block >= MAX_BLOCKS {
            return Ok(Err(Ended::Cap));
        }
        let due = self.clock.fit(self.block, due);
        Ok(if due.is_empty() {
            Err(Ended::Budget)
        } else {
            Ok(due)
        })
    }

    /// Makes the block in hand; why the run is over, if it is.
    pub(crate) fn make_block(&mut self, due: &[Due]) -> Result<Option<Ended>, LabError> {
        let (to_come, open) = self.to_come(due);
        self.forecast.renew(to_come, open);
        let stopped = self.groups(due);
        self.settle()?;
        if stopped? {
            return Ok(Some(Ended::Stopped));
        }
        for event in self.look() {
            (self.on_event)(event);
        }
        self.block += 1;
        self.meter.refresh();
        Ok(None)
    }

    /// The points of this block in their order, each with the layers that need it in theirs. The
    /// baseline is in as long as any other layer is.
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

    /// Points in their order. What goes on with the same kept file comes right after the first of them.
    fn points(&self) -> Vec<usize> {
        let mut first = BTreeMap::new();
        let drawn = self.schedule.points(self.block).into_iter().enumerate();
        let mut order: Vec<(usize, usize)> = drawn
            .map(|(place, point)| match self.kept[point] {
                Some(kept) => (*first.entry(kept).or_insert(place), point),
                None => (place, point),
            })
            .collect();
        order.sort_by_key(|(place, _)| *place);
        order.into_iter().map(|(_, point)| point).collect()
    }

    /// Whether a layer is up and can do a point at all.
    fn can(&self, layer: usize, point: usize) -> bool {
        let l = &self.run.layers[layer];
        let Point { meaning, label, .. } = &self.run.points[point];
        // Memory has nothing below it to be cold.
        let cold_memory = meaning.is_cold() && l.facts.in_memory();
        let impossible = l.read_only && meaning.changes || cold_memory;
        l.status == LayerStatus::Ready && !impossible && !l.skips.contains_key(label)
    }

    /// All points in their order. Whether the user has asked to stop.
    fn groups(&mut self, due: &[Due]) -> Result<bool, LabError> {
        for due in due {
            if self.block == 0 {
                self.within_budget(Duration::ZERO)?;
            }
            let mut due = due.clone();
            due.layers.retain(|l| !self.is_left_out(*l));
            if self.group(&due)? {
                return Ok(true);
            }
            self.still_comparable()?;
        }
        Ok(false)
    }

    /// All trials at one point. Whether the user has asked to stop.
    fn group(&mut self, due: &Due) -> Result<bool, LabError> {
        let tried = self.tally.tried(self.block, due.point);
        if due.layers.iter().all(|l| tried.contains(l)) {
            // Made before the run was resumed.
            return Ok(false);
        }
        let at = &self.run.points[due.point];
        let Some(divided) = at.meaning.divided else {
            for layer in &due.layers {
                if self.stop.asked() {
                    return Ok(true);
                }
                self.alone(*layer, due.point)?;
            }
            return Ok(false);
        };
        let one_cpu = self.fits_one_cpu(at)?;
        let asked = self.run.plan.turn()?;
        let mut round = 0;
        for part in self.parts_that_fit(due, divided)? {
            if self.stop.asked() {
                return Ok(true);
            }
            let guest = |layer: &usize| {
                let up = self.ups[*layer].as_ref();
                up.is_some_and(|up| !up.place.on_this_host())
            };
            let length = Length::of(divided, part.iter().any(guest), asked);
            let one_cpu = one_cpu && !part.iter().any(|l| self.is_served(*l));
            let how = How { length, one_cpu };
            round = self.together(&part, due.point, how, round, None)?;
        }
        Ok(self.stop.asked())
    }

    /// A trial in one stretch.
    fn alone(&mut self, layer: usize, point: usize) -> Result<(), LabError> {
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
        self.together(&[layer], point, How::WHOLE, 0, restarted)?;
        Ok(())
    }

    /// A trial in each of these layers: all are made ready, then they take turns, then all settle,
    /// then each is proved. Only one probe works at any time. Returns the number of the next round.
    fn together(
        &mut self,
        layers: &[usize],
        point: usize,
        how: How,
        first_round: u32,
        restarted: Option<Restarted>,
    ) -> Result<u32, LabError> {
        let begun = Instant::now();
        let divided = self.run.points[point].meaning.divided;
        if divided.is_some_and(|divided| divided.cost == TurnCost::Files) {
            spread::reuse_deleted(Path::new(&self.run.dir));
        }
        let mut tries = self.tries(layers, point)?;
        for this in &mut tries {
            let mut owed = mem::take(&mut self.owed);
            let mut entered = Ok(());
            let (mut books, ups, watch) = self.books();
            // The trials before are entered while the probe makes this one ready.
            this.step(watch, ups, |attempt, up, ask| {
                attempt.prepare(up, ask, &mut || {
                    entered = books.enter(&mem::take(&mut owed));
                })
            });
            entered.and_then(|()| books.enter(&owed))?;
        }
        if self.run.points[point].meaning.is_cold() {
            for this in &mut tries {
                this.step(&self.watch, &mut self.ups, Attempt::cool);
            }
        }
        for this in &mut tries {
            this.step(&self.watch, &mut self.ups, |attempt, up, _| {
                attempt.begin(up)
            });
        }
        let kernel = self.meter.kernel();
        let mut windows = self.control_windows(&tries, point);
        let (next_round, whole) = self.rounds(&mut tries, point, how, first_round, &mut windows);
        if !whole && tries.iter().all(|this| this.attempt.failure.is_none()) {
            // Too few rounds to decide anything: not kept, so that `--resume` makes all of them.
            return Ok(next_round);
        }
        let all = tries.iter().map(|this| &this.attempt.used);
        let all = self.meter.total(all, &kernel);
        for this in &mut tries {
            let up = self.ups[this.layer].as_ref();
            this.attempt.background = up.and_then(|up| windows.of(&up.physical()));
            this.attempt.beside = all;
        }
        for this in &mut tries {
            this.step(&self.watch, &mut self.ups, |_, up, ask| {
                trial::settle(up, ask)
            });
        }
        for this in &mut tries {
            this.step(&self.watch, &mut self.ups, Attempt::end);
        }
        for this in &mut tries {
            if let Some(made) = &mut this.attempt.trial {
                made.restarted = restarted;
            }
        }
        self.count(point, tries, begun)?;
        Ok(next_round)
    }

    /// Where flushes are counted: at points that flush, and of programs, which may.
    fn control_windows(&self, tries: &[Try<'_>], point: usize) -> ControlWindows {
        let meaning = &self.run.points[point].meaning;
        let programs = matches!(meaning.target, Target::Program | Target::Script);
        if !meaning.flushes && !programs {
            return ControlWindows::default();
        }
        let ups = tries
            .iter()
            .filter_map(|this| self.ups[this.layer].as_ref());
        ControlWindows::over(ups.map(Up::physical))
    }

    /// What is to be done at a point, for each of these layers that is up.
    fn tries(&mut self, layers: &[usize], point: usize) -> Result<Vec<Try<'a>>, LabError> {
        let at = &self.run.points[point];
        let workload = self.setup.catalog.workload(&at.workload)?;
        let mut tries = Vec::with_capacity(layers.len());
        for (id, &layer) in (self.seq..).zip(layers.iter().filter(|l| self.ups[**l].is_some())) {
            let here = workload.in_layer(at, &self.run.layers[layer].spec)?;
            // Before anything is known of the point in this session: traced, it tells what was done.
            let first = self.extras.insert((self.session, layer, point));
            let ask = Ask {
                id,
                extra: workload.extra(&here).filter(|_| first),
                point: here,
                workload,
                cpus: at.meaning.cpus(),
                seed: self.schedule.work_seed(self.block),
                base: self.run.dir.clone(),
                env: self.setup.env.clone(),
                stop: self.stop,
            };
            let attempt = Attempt::new();
            tries.push(Try {
                layer,
                ask,
                attempt,
            });
        }
        Ok(tries)
    }

    /// Records what came of trials, then handles what went wrong.
    fn count(&mut self, point: usize, tries: Vec<Try<'_>>, begun: Instant) -> Result<(), LabError> {
        if tries.iter().any(Try::is_cut_off) {
            // What was cut off says nothing.
            return Err(self.cut_off());
        }
        let mut failures = Vec::new();
        let mut took = Duration::ZERO;
        for Try { layer, attempt, .. } in tries {
            let record = self.record(layer, point, &attempt);
            self.tally.add(&record);
            self.clock.note(layer, point, attempt.took);
            took += attempt.took;
            self.seq += 1;
            self.owed.push(record);
            failures.extend(attempt.failure.map(|failure| (layer, failure)));
        }
        if !failures.is_empty() || took >= SHORT {
            self.settle()?;
        }
        self.clock.spend(begun.elapsed().saturating_sub(took));
        for (layer, failure) in failures {
            match failure {
                Failure::Work {
                    message,
                    errno: Some(ENOSPC | EDQUOT),
                } => self.full(layer, point, message)?,
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

    /// Stores the trials that are still owed, and tells of them.
    pub(crate) fn settle(&mut self) -> Result<(), LabError> {
        let owed = mem::take(&mut self.owed);
        self.books().0.enter(&owed)
    }

    /// Parts that are used at the same time.
    fn books(&mut self) -> (Books<'_>, &mut [Option<Up>], &Watch) {
        let books = Books {
            run: &self.run,
            clock: &self.clock,
            stopping: &self.stopping,
            forecast: &mut self.forecast,
            store: self.store,
            on_event: self.on_event,
        };
        (books, &mut self.ups, &self.watch)
    }

    /// Starts a broken probe again, once. Then the layer is lost.
    fn revive(&mut self, layer: usize, reason: String) -> Result<(), LabError> {
        if self.restarts[layer] >= RESTARTS {
            let hint = "the kernel may say why: dmesg | tail; if it is only slow: --silence 5m";
            return self.drop_layer(
                layer,
                Lost {
                    hint: Some(hint.to_owned()),
                    ..Lost::new(reason)
                },
            );
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
        let baseline = self.run.layers[layer].spec == self.run.layers[BASELINE].spec;
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

    /// Trials to come, this block included, and whether their number is open.
    fn to_come(&self, due: &[Due]) -> (BTreeMap<Site, ToCome>, bool) {
        let done = self.block as usize;
        let least = (self.fewest_blocks() as usize).saturating_sub(done).max(1);
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
            let more = |e: &Option<usize>| e.map_or(least, |e| e.saturating_sub(done).max(1));
            let most = expected.iter().map(more).max().unwrap_or(least);
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
