//! The executions of a step in a block, as turns of a trial.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use layermark_model::{Debt, FigureValues, Pass, Trial, Turn, Verified};

use super::{
    calls::CallTracer,
    capture::StepFigure,
    figures,
    programs::{StepDone, StepPrograms},
};
use crate::workloads::launch::start::Launched;
use crate::{
    Beat, Context, ProbeError, TurnRequest, Turned, Work, counters, limits::HEARTBEAT_NS,
    programs::guard::Guard, run, workloads::work_dir::WorkDir,
};

/// What the first execution of each step in this process had before and after it, by its point. A
/// layer's probe lives for a session.
static FIRST: Mutex<BTreeMap<String, Vec<String>>> = Mutex::new(BTreeMap::new());

/// A prepared step.
pub struct StepWork {
    /// Declared first, so that all processes have ended before their home is removed.
    pub guard: Guard<StepPrograms>,
    /// Key of the point.
    pub key: String,
    /// How many things it does.
    pub count: u64,
    /// Whether its files have to be restored.
    pub changes: bool,
    /// Whether what it leaves has to be checked.
    pub checked: bool,
    /// The layer's directory.
    pub dir: PathBuf,
    pub context: Context,
    pub done: Executions,
    /// Counts the calls of executions whose times do not count.
    pub tracer: Option<CallTracer>,
    pub _home: Option<WorkDir>,
}

/// The executions of a block so far.
#[derive(Default)]
pub struct Executions {
    count: u32,
    /// Until the last one is concluded: whether it has written to files.
    open: Option<bool>,
    /// Whether the next one has to wait for [`Work::between`].
    waits: bool,
    /// Whether any has left processes running.
    left: bool,
    /// Time and bytes of all flushes.
    debt: Option<Debt>,
    /// Figures that were printed.
    printed: Vec<StepFigure>,
    /// Trees before and after each, in words.
    outcome: Vec<String>,
}

impl StepWork {
    /// Executes the step before the first turn of a block. Caches that forget after a while are then as in
    /// the turns to come.
    fn lead_in(
        &mut self,
        ask: &TurnRequest,
        beat: &mut Beat<'_>,
    ) -> Result<Option<StepDone>, ProbeError> {
        let due = ask.lead_in_ns > 0 && self.done.count == 0;
        due.then(|| self.execute(beat)).transpose()
    }

    /// Executes the step once what the last execution has left is in order.
    fn execute(&mut self, beat: &mut Beat<'_>) -> Result<StepDone, ProbeError> {
        if self.done.waits {
            self.between(true)?;
        }
        let every = Duration::from_nanos(HEARTBEAT_NS);
        let done = *self.guard.work(every, &mut || beat(0, 0))?;
        self.done.count += 1;
        self.done.open = Some(done.wrote);
        self.done.left |= done.left;
        self.done.waits = self.changes || self.checked || done.wrote;
        Ok(done)
    }

    /// Writes back what the last execution has left unwritten, checks its outcome and cleans up.
    fn conclude(&mut self) -> Result<(), ProbeError> {
        let Some(wrote) = self.done.open.take() else {
            return Ok(());
        };
        if self.changes || wrote {
            run::flush(&self.context, &self.dir, &mut self.done.debt)?;
        }
        self.done.outcome = self.guard.conclude()?.outcome;
        as_first(&self.key, &self.done.outcome)
    }
}

impl Work for StepWork {
    /// One execution: a step cannot be divided.
    fn turn(
        &mut self,
        ask: &TurnRequest,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError> {
        let led_in = self.lead_in(ask, beat)?;
        let before = counters::sum(&self.context.devices);
        let done = self.execute(beat)?;
        let after = counters::sum(&self.context.devices);
        let Launched {
            elapsed_ns,
            waited_ns,
            cpu,
            launch,
        } = done.launched;
        let device = before.zip(after).map(|(b, a)| counters::between(b, a));
        let turn = Turn {
            round: ask.round,
            elapsed_ns,
            ops: self.count,
            bytes: 0,
            waited_ns,
            ..Turn::default()
        };
        if ask.ns > 0 {
            run::enter(trial, turn);
        } else {
            trial.passes.push(Pass {
                elapsed_ns,
                ops: self.count,
                bytes: 0,
                waited_ns,
                ..Pass::default()
            });
        }
        trial.cpu.user_ns += cpu.user_ns;
        trial.cpu.sys_ns += cpu.sys_ns;
        if let Some(crossed) = device {
            *trial.device.get_or_insert_default() += crossed;
        }
        // Faults and blocks read prove a cold cache, and a cold step has one execution in a block.
        trial.figures.extend(FigureValues::of(&launch));
        self.done.printed.extend(done.figures);
        Ok(Turned {
            turn,
            cpu,
            device,
            uncounted_ns: led_in.as_ref().map_or(0, |l| l.launched.elapsed_ns),
            // With all that was done between the two executions.
            programs_ns: done.programs_ns
                + led_in.map_or(0, |l| done.cpu_before_ns - l.cpu_before_ns),
            more: ask.ns > 0,
            between: self.done.waits,
        })
    }

    /// Every execution is flushed and checked before another layer has its turn, and prepared just
    /// before its own.
    fn between(&mut self, again: bool) -> Result<(), ProbeError> {
        self.conclude()?;
        if again {
            self.done.waits = false;
            if self.changes {
                self.guard.renew()?;
                // What was written now must not be written back inside the clock.
                self.context.sync(&self.dir)?;
            }
        }
        Ok(())
    }

    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        self.conclude()?;
        self.guard.stop()?;
        // A step that only makes or removes names is not known to write.
        self.context.sync(&self.dir)?;
        let done = &mut self.done;
        trial.debt = done.debt.map(|sum| run::each(sum, done.count.into()));
        if let Some(tracer) = &self.tracer {
            // All else is of executions that tracing has slowed down.
            trial.figures = tracer.read(self.count)?;
        } else {
            trial.figures.set(figures::LEFT, done.left);
            for figure in median_by_name(&done.printed) {
                figure.add_to(&mut trial.figures);
            }
        }
        // A wrong outcome is an error, so there is no trial.
        trial.verified = Some(Verified {
            records: done.count.into(),
            bad: 0,
        });
        if !done.outcome.is_empty() {
            trial.outcome = Some(done.outcome.join("; "));
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Trial) -> Result<(), ProbeError> {
        Ok(())
    }
}

/// An error if the trees differ from those of the first execution in this layer.
fn as_first(key: &str, now: &[String]) -> Result<(), ProbeError> {
    let mut all = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
    let first = all.entry(key.to_owned()).or_insert_with(|| now.to_vec());
    let other = first.iter().zip(now).find(|(first, now)| first != now);
    other.map_or(Ok(()), |(first, now)| {
        Err(ProbeError::new(format!(
            "the step does not repeat: {now}, at its first execution {first}"
        ))
        .hint("restore with `prepare` what the step changes"))
    })
}

/// The figure with the median value of each name.
fn median_by_name(all: &[StepFigure]) -> Vec<&StepFigure> {
    let mut by_name: BTreeMap<&str, Vec<&StepFigure>> = BTreeMap::new();
    for figure in all {
        by_name.entry(&figure.name).or_default().push(figure);
    }
    let mut medians = Vec::with_capacity(by_name.len());
    for mut own in by_name.into_values() {
        own.sort_by(|a, b| a.value.total_cmp(&b.value));
        medians.push(own[own.len() / 2]);
    }
    medians
}
