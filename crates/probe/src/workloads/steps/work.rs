//! One execution of a step, as a trial.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use layermark_model::{FigureValues, Pass, Stopped, Trial, Turn, Verified};

use super::{figures, programs::StepPrograms};
use crate::workloads::launch::guarded::Launched;
use crate::{
    Beat, Context, ProbeError, TurnRequest, Turned, Work, counters, limits::HEARTBEAT_NS,
    programs::guard::Guard, run::Mark, workloads::work_dir::WorkDir,
};

/// What the first execution of each step in this process had before and after it, by its point. A
/// layer's probe lives for a session.
static FIRST: Mutex<BTreeMap<String, Vec<String>>> = Mutex::new(BTreeMap::new());

/// A prepared execution.
pub struct StepWork {
    /// Declared first, so that all processes have ended before their home is removed.
    pub guard: Guard<StepPrograms>,
    /// Key of the point.
    pub key: String,
    /// How many things it does.
    pub count: u64,
    /// Whether its files have to be restored.
    pub changes: bool,
    /// The layer's directory.
    pub dir: PathBuf,
    pub context: Context,
    pub _home: Option<WorkDir>,
}

impl Work for StepWork {
    /// A step cannot be divided.
    fn turn(
        &mut self,
        ask: &TurnRequest,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError> {
        let before = counters::sum(&self.context.devices);
        let every = Duration::from_nanos(HEARTBEAT_NS);
        let done = self.guard.work(every, &mut || beat(0, 0))?;
        let after = counters::sum(&self.context.devices);
        let Launched {
            elapsed_ns,
            cpu,
            launch,
        } = done.launched;
        let ops = self.count;
        trial.passes.push(Pass {
            elapsed_ns,
            ops,
            bytes: 0,
        });
        trial.cpu = cpu;
        trial.device = before.zip(after).map(|(b, a)| counters::between(b, a));
        trial.figures = FigureValues::of(&launch);
        let printed = done.figures.iter();
        printed.for_each(|figure| figure.add_to(&mut trial.figures));
        Ok(Turned {
            turn: Turn {
                round: ask.round,
                elapsed_ns,
                ops,
                bytes: 0,
            },
            cpu,
            device: trial.device,
            uncounted_ns: 0,
            more: false,
        })
    }

    /// Writes back what the step has left unwritten, ends what it has left running, and checks its
    /// outcome.
    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        if self.changes {
            let devices = counters::Devices::open(&self.context.devices);
            let since = Mark::read(&devices);
            self.context.sync(&self.dir)?;
            trial.debt = Some(since.debt(&devices));
        }
        let concluded = self.guard.stop()?;
        let left = concluded.stopped != Stopped::Itself;
        trial.figures.set(figures::LEFT, left);
        as_first(&self.key, &concluded.outcome)?;
        // A wrong outcome is an error, so there is no trial.
        trial.verified = Some(Verified { records: 1, bad: 0 });
        if !concluded.outcome.is_empty() {
            trial.outcome = Some(concluded.outcome.join("; "));
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
