//! The replays of a block, as turns of a trial.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use layermark_model::{Debt, FigureValues, Pass, Trial, Turn, Verified};
use layermark_recording::{KINDS, Recording};

use super::{figures, once::Replayer, params::ReplayParams, tasks::Replay};
use crate::{
    Beat, Context, ProbeError, TurnRequest, Turned, Work, counters, param,
    run::{self, Edge, Used},
};

/// The tree that the first replay of each point in this process left. A layer's probe lives for a session.
static FIRST: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// A prepared replay.
pub struct ReplayWork {
    p: ReplayParams,
    key: String,
    replayer: Replayer,
    /// The layer's directory.
    dir: PathBuf,
    context: Context,
    /// Whether the last replay has not been checked.
    open: bool,
    /// Whether the next one has to wait for [`Work::between`].
    waits: bool,
    replays: Vec<Replay>,
    debt: Option<Debt>,
    outcome: String,
}

impl ReplayWork {
    pub fn prepare(
        dir: &Path,
        p: ReplayParams,
        recording: &Recording,
        context: &Context,
    ) -> Result<Self, ProbeError> {
        // Nothing if the calls alone are on the clock.
        let computing = recording.head.computing_ns.filter(|_| p.think_ns > 0);
        let computing = computing.unwrap_or(p.think_ns);
        let mut replayer = Replayer::new(recording, dir.to_owned(), context.seed, computing)?;
        replayer.renew()?;
        context.sync(dir)?;
        Ok(Self {
            key: param::key(&p)?,
            p,
            replayer,
            dir: dir.to_owned(),
            context: context.clone(),
            open: false,
            waits: false,
            replays: Vec::new(),
            debt: None,
            outcome: String::new(),
        })
    }

    fn replay(&mut self, beat: &mut Beat<'_>) -> Result<Replay, ProbeError> {
        if self.waits {
            self.between(true)?;
        }
        let replay = self.replayer.run(&mut || beat(0, 0));
        let replay = replay.map_err(|e| {
            if e.hint.is_some() {
                return e;
            }
            let shown = self.p.shown().display().to_string();
            e.hint(format!(
                "see whether it ends so natively: layermark replay {}",
                shell_words::quote(&shown)
            ))
        })?;
        self.open = true;
        self.waits = true;
        Ok(replay)
    }

    /// Writes back what the last replay has left unwritten, and checks its tree.
    fn conclude(&mut self) -> Result<(), ProbeError> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        if self.p.changes {
            run::flush(&self.context, &self.dir, &mut self.debt)?;
        }
        self.outcome = self.replayer.after()?;
        let mut all = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
        let first = all
            .entry(self.key.clone())
            .or_insert_with(|| self.outcome.clone());
        if *first != self.outcome {
            return Err(ProbeError::new(format!(
                "the replay does not repeat: it left {}, and the first time {first}",
                self.outcome
            )));
        }
        Ok(())
    }

    /// Figures of the replays: medians, in microseconds.
    fn figures(&self) -> FigureValues {
        let median = |of: &dyn Fn(&Replay) -> u64| {
            let mut all: Vec<u64> = self.replays.iter().map(of).collect();
            all.sort_unstable();
            all.get(all.len() / 2).copied().unwrap_or(0) as f64 / 1e3
        };
        let mut values = FigureValues::default();
        let think_ns = self.p.think_ns;
        let replayed = median(&|r| r.elapsed_ns.saturating_sub(think_ns));
        let in_calls = median(&|r| r.kind_ns.iter().sum());
        values.set(figures::REPLAYED, replayed);
        values.set(figures::IN_CALLS, in_calls);
        values.set(figures::WAITED, median(&|r| r.waited_ns));
        if think_ns > 0 {
            let think = think_ns as f64 / 1e3;
            values.set(figures::THINK, think / (think + replayed));
        }
        let copied = self.replays.iter().map(|replay| replay.copied).max();
        if let Some(copied) = copied.filter(|copied| *copied > 0) {
            values.set(figures::COPIED, copied as f64);
        }
        let kinds = KINDS.map(|kind| (kind.id(), median(&|r| r.kind_ns[kind as usize])));
        let mut costly: Vec<(&str, f64)> = kinds.into_iter().filter(|(_, us)| *us > 0.0).collect();
        costly.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (kind, us) in costly
            .iter()
            .filter(|(_, us)| *us >= figures::LEAST_SHARE * in_calls)
        {
            values.set(&format!("{}.{kind}", figures::KIND), *us);
        }
        let most = costly
            .iter()
            .take(3)
            .map(|(kind, us)| format!("{kind} {:.0} %", 100.0 * us / in_calls));
        values.set(figures::MOST, most.collect::<Vec<_>>().join(", ").as_str());
        values
    }
}

impl Work for ReplayWork {
    /// One replay: it cannot be divided.
    fn turn(
        &mut self,
        ask: &TurnRequest,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError> {
        let led_in = if ask.lead_in_ns > 0 && self.replays.is_empty() {
            self.replay(beat)?.elapsed_ns
        } else {
            0
        };
        if self.waits {
            self.between(true)?;
        }
        let devices = counters::Devices::open(&self.context.devices);
        let before = Edge::read(&devices);
        let replay = self.replay(beat)?;
        let after = Edge::read(&devices);
        let mut used = Used::default();
        used.add(&before, &after);
        used.count(trial);
        let turn = Turn {
            round: ask.round,
            elapsed_ns: replay.elapsed_ns,
            ops: 1,
            bytes: replay.bytes,
            ..Turn::default()
        };
        self.replays.push(replay);
        if ask.ns > 0 {
            run::enter(trial, turn);
        } else {
            trial.passes.push(Pass {
                elapsed_ns: turn.elapsed_ns,
                ops: turn.ops,
                bytes: turn.bytes,
                ..Pass::default()
            });
        }
        Ok(Turned {
            turn,
            cpu: used.cpu,
            device: used.device,
            uncounted_ns: led_in,
            programs_ns: 0,
            more: ask.ns > 0,
            between: true,
        })
    }

    /// Every replay is flushed and checked before another layer has its turn, and its tree is made just before its own.
    fn between(&mut self, again: bool) -> Result<(), ProbeError> {
        self.conclude()?;
        if again {
            self.waits = false;
            if self.p.changes {
                self.replayer.renew()?;
                // What was written now must not be written back inside the clock.
                self.context.sync(&self.dir)?;
            }
        }
        Ok(())
    }

    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        self.conclude()?;
        self.replayer.remove()?;
        self.context.sync(&self.dir)?;
        let count = self.replays.len() as u64;
        trial.debt = self.debt.map(|sum| run::each(sum, count));
        trial.figures.extend(self.figures());
        // A wrong outcome is an error, so there is no trial.
        trial.verified = Some(Verified {
            records: self.replays.len() as u64 * self.p.calls,
            bad: 0,
        });
        trial.outcome = Some(self.outcome.clone());
        Ok(())
    }

    fn end(&mut self, _: &mut Trial) -> Result<(), ProbeError> {
        Ok(())
    }
}
