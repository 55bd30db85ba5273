//! A whole run: sessions, each of several blocks, until enough is known or the time is up.

use std::{
    io::{self, ErrorKind},
    path::Path,
};

use layermark_layers::{Base, in_facts, in_words, workdir::WorkDir};
use layermark_model::{LayerStatus, Run, RunStatus, TrialRecord};
use layermark_probe::packaged;
use layermark_store::Store;

use crate::{
    Ended, Event, LabError, Outcome, Stop, check,
    execute::{
        fixed::{Fixed, Setup},
        layer_failure::LayerFailure,
        machine::Machine,
        output::Output,
        progress::Progress,
        session::RunningLayer,
        waited::OwnWork,
    },
    machine::now_ms,
};

/// A run in progress.
pub(crate) struct Lab<'a> {
    pub(crate) fixed: Fixed<'a>,
    pub(crate) progress: Progress,
    pub(crate) machine: Machine,
    pub(crate) out: Output<'a>,
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
        let machine = Machine::new(run.layers.len(), setup.silence, work);
        let fixed = Fixed::new(&run, setup, stop, !trials.is_empty());
        let mut progress = Progress::new(run, &fixed.setup)?;
        progress.take_up(trials);
        Ok(Self {
            fixed,
            progress,
            machine,
            out: Output::new(store, on_event),
        })
    }

    pub(crate) fn go(mut self) -> Result<Outcome, LabError> {
        self.announce();
        let (result, stop) = (self.sessions(), self.fixed.stop);
        let result = match result {
            Err(LabError::CutOff { .. }) if stop.is_over() && !stop.asked() => {
                self.note_cut();
                Ok(Ended::Budget)
            }
            other => other,
        };
        // Everything is unwound before the end is reported.
        let raised = self.machine.raise_for_set_up();
        self.machine.tear_down();
        self.machine.remove_work();
        drop(raised);
        let (progress, out) = (&mut self.progress, &mut self.out);
        let run = &mut progress.run;
        run.status = match &result {
            Ok(Ended::Stopped) | Err(LabError::CutOff { .. }) => RunStatus::Stopped,
            Ok(_) if progress.tally.all_failed() => RunStatus::Failed,
            Ok(_) => RunStatus::Done,
            Err(_) => RunStatus::Failed,
        };
        run.ended_ms = Some(now_ms());
        let stored = out.update(run);
        out.tell_lost(&run.id);
        out.emit(Event::RunEnded {
            id: run.id.clone(),
            status: run.status,
            trials: progress.seq,
        });
        let ended = result?;
        stored?;
        let lost = run.layers.iter();
        let lost = lost.filter(|l| l.status == LayerStatus::Failed);
        let lost = lost.filter(|l| !self.fixed.setup.lacking.contains(&l.name));
        let lost = lost.map(|l| l.name.clone()).collect();
        Ok(Outcome {
            run: self.progress.run,
            ended,
            trials: self.progress.seq,
            lost,
        })
    }

    fn announce(&mut self) {
        let (run, out) = (&self.progress.run, &mut self.out);
        out.emit(Event::started(run, self.fixed.resumed));
        for note in &self.fixed.setup.notes {
            out.note(note.clone());
        }
        let failed = run.layers.iter();
        for layer in failed.filter(|l| l.status == LayerStatus::Failed) {
            out.emit(Event::LayerFailed {
                name: layer.name.clone(),
                reason: layer.reason.clone().unwrap_or_default(),
                hint: layer.hint.clone(),
            });
        }
    }

    fn sessions(&mut self) -> Result<Ended, LabError> {
        let path = self.machine.named_work();
        self.out.emit(Event::WorkDir { path });
        let master = self.machine.work().join("packaged");
        let stop = self.fixed.stop;
        let started = stop.now();
        self.within_budget()?;
        self.make_packaged(&master)?;
        self.set_up()?;
        self.progress.clock.note_set_up(stop.now() - started);
        self.reserve_for_stretches();
        loop {
            let session = self.progress.session + 1;
            let sessions = self.progress.planned_sessions().max(session);
            self.out.emit(Event::SessionStarted { session, sessions });
            let ended = self.session()?;
            let change = stop.now();
            self.prove_again()?;
            if let Some(ended) = ended {
                self.sustain(ended);
            }
            let raised = self.machine.raise_for_set_up();
            self.machine.tear_down();
            drop(raised);
            if let Some(ended) = ended {
                return Ok(ended);
            }
            self.progress.session += 1;
            self.set_up()?;
            self.progress.changes.0 += 1;
            self.progress.changes.1 += (stop.now() - change).as_secs_f64();
        }
    }

    /// Runs blocks until the layers are set up again. Returns the reason if the run is over.
    fn session(&mut self) -> Result<Option<Ended>, LabError> {
        let (first, over) = (self.progress.block, self.progress.set_ups_due() + 1);
        loop {
            // Checked first, so that nothing is set up for a run that is over.
            let due = match self.next_due()? {
                Ok(due) => due,
                Err(ended) => return Ok(Some(ended)),
            };
            let progress = &self.progress;
            if progress.set_ups_due() >= over || progress.may_set_up_again(first) {
                return Ok(None);
            }
            if let Some(ended) = self.make_block(&due)? {
                return Ok(Some(ended));
            }
        }
    }

    /// Makes the master copy of the packaged files.
    fn make_packaged(&mut self, master: &Path) -> Result<(), LabError> {
        let (run, stop) = (&self.progress.run, self.fixed.stop);
        let go_on = || !stop.at_once();
        let wrote = std::fs::create_dir(master).and_then(|()| {
            let files = check::packaged(&run.points);
            packaged::write(master, &files, run.seed, &go_on)?;
            packaged::place(master, &self.fixed.setup.placed, &go_on)
        });
        wrote.map_err(|source| match source.kind() {
            ErrorKind::Interrupted => self.cut_off(),
            _ => LabError::Packaged {
                dir: in_words(&master.to_string_lossy()).into(),
                source: io::Error::new(source.kind(), layermark_sys::in_words(master, &source)),
            },
        })
    }

    /// Sets up all layers that are measured. The first time some may be left out for the budget.
    fn set_up(&mut self) -> Result<(), LabError> {
        let is_first = self.progress.session == 0;
        for index in 0..self.progress.run.layers.len() {
            if is_first {
                self.within_budget()?;
                self.leave_time_for_rounds(index)?;
            }
            if self.progress.run.layers[index].status != LayerStatus::Ready {
                continue;
            }
            if self.fixed.stop.at_once() {
                return Err(self.cut_off());
            }
            self.set_up_layer(index)?;
            self.progress.clock.is_up(index);
        }
        if is_first {
            self.within_budget()?;
        }
        self.machine.meter.refresh();
        self.out.update(&self.progress.run)?;
        self.progress.still_comparable()
    }

    fn set_up_layer(&mut self, index: usize) -> Result<(), LabError> {
        let stop = self.fixed.stop;
        let base = self.machine.base(&self.fixed, self.progress.session, index);
        let started = stop.now();
        let (raised, work) = (self.machine.raise_for_set_up(), OwnWork::begin());
        let opened = self.open(index, &base);
        if raised.is_none() {
            self.machine.set_ups = self.machine.set_ups.and(work.end());
        }
        drop(raised);
        match opened {
            Ok(up) => {
                let layer = &mut self.progress.run.layers[index];
                layer.facts.renew(in_facts(up.facts.clone()));
                layer.self_test = up.self_test;
                layer.read_only = up.info().read_only;
                layer.setup_s = (stop.now() - started).as_secs_f64();
                let (name, seconds) = (layer.name.clone(), layer.setup_s);
                self.machine.layers[index] = Some(up);
                self.out.emit(Event::LayerReady { name, seconds });
                Ok(())
            }
            Err(lost) => {
                // What was only too slow for the end of the run has not failed.
                let cut_off = lost.cut_off || stop.is_over();
                self.drop_layer(index, LayerFailure { cut_off, ..lost })
            }
        }
    }

    /// Builds a layer and starts its probes.
    pub(crate) fn open(&mut self, index: usize, base: &Base) -> Result<RunningLayer, LayerFailure> {
        let run = &self.progress.run;
        self.machine.open(&self.fixed, run, index, base)
    }

    /// Checks at the end of a session that each layer is still the one that was set up.
    fn prove_again(&mut self) -> Result<(), LabError> {
        for index in 0..self.machine.layers.len() {
            if let Err(lost) = self.machine.prove_again(index) {
                self.drop_layer(index, lost)?;
            }
        }
        Ok(())
    }
}
