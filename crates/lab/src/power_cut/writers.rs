//! Writers of records in a layer, and what is there of them after power cuts.

use std::{collections::BTreeSet, fs, path::Path, time::Instant};

use layermark_layers::{
    Content, End, Undo, in_words,
    volatile::{Journal, Mark, PowerCutBase},
};
use layermark_model::{
    protocol::{FromProbe, ToProbe, WitnessJob},
    witness::{Acknowledged, GuestKilled, Storey, Survey, WitnessTrial},
};
use layermark_probe::witness::{self, Writer};

use super::{
    CutDisk, Cutter, RECORD,
    after_cut::add_unseen,
    flush_all,
    program::ProgramRun,
    sequences::SequenceRuns,
    stack::{self, Stack},
    stand::AT_A_TIME,
    states,
};
use crate::{
    execute::{layer_failure::LayerFailure, probe_client::ProbeClient, session},
    machine,
};

/// A writer, its job, and the records that were acknowledged, each with how much of the disk's log there
/// was then.
struct Writing {
    writer: &'static dyn Writer,
    job: WitnessJob,
    log: Vec<Acknowledged>,
    marks: Vec<Mark>,
    error: Option<String>,
    /// A call that the layer refuses.
    refused: Option<String>,
}

/// All that was written.
pub(super) struct Written {
    writing: Vec<Writing>,
    /// The writers' files were on the disk.
    prepared: Mark,
    /// Each writer had written a record.
    begun: Mark,
    /// The last record was acknowledged.
    end: Mark,
    /// What was there after only the guest was killed; absent for layers that are not guests.
    killed: Option<Result<Vec<Survey>, LayerFailure>>,
    storeys: Vec<Storey>,
    started_ms: i64,
    pub(super) programs: Vec<ProgramRun>,
    pub(super) sequences: Option<SequenceRuns>,
}

impl Cutter<'_> {
    /// Sets the layer up on the disk, and writes records with every writer in turn. Then the disk takes
    /// no more writes.
    pub(super) fn write(&self, disk: &mut PowerCutBase) -> Result<Written, LayerFailure> {
        let (dir, at) = (disk.dir(), self.server());
        self.on_ground(&dir, &at, &mut Undo::new(), |ground, undo| {
            self.write_on(disk, ground, undo)
        })
    }

    fn write_on(
        &self,
        disk: &mut PowerCutBase,
        ground: &Path,
        undo: &mut Undo,
    ) -> Result<Written, LayerFailure> {
        let base = self.base(ground.join("layer"), Content::Left);
        fs::create_dir(&base.dir)
            .map_err(|e| LayerFailure::new(format!("{}: {e}", base.dir.display())))?;
        // A server of the user's may keep names until it is asked for them. One that refuses promises none.
        let _ = witness::sync_dir(ground);
        let mut place = self.kind()?.open(&base, &self.layer.spec, undo)?;
        let (mut probe, _) =
            session::start(place.start(End::Far), self.request.silence, self.stop)?;
        // The layer was set up long before the cut.
        flush_all(disk)?;
        let writing = self.prepare(&mut probe, &place.info().dir.join("witness"))?;
        // Where no directory can be flushed, the names of the files are promised by nobody.
        if writing.iter().any(|w| w.refused.is_some()) {
            flush_all(disk)?;
        }
        let mut written = Written {
            writing,
            prepared: disk.mark()?,
            begun: disk.mark()?,
            end: Mark::default(),
            killed: None,
            storeys: Vec::new(),
            started_ms: machine::now_ms(),
            programs: Vec::new(),
            sequences: None,
        };
        let mut facts = place.facts()?;
        // The disk itself, whose own journal counts its flushes.
        facts.mounts.retain(|m| m.at != self.home.join("disk/disk"));
        let is_guest = facts.guest.is_some();
        let stack = Stack::of(facts);
        self.request_records(disk, &mut probe, &mut written)?;
        written.end = disk.mark()?;
        written.storeys = stack.storeys();
        written.sequences = self.run_sequences(disk, &*place, &mut probe);
        if !self.request.programs.is_empty() {
            flush_all(disk)?;
            written.programs = self.run_programs(disk, &*place, &mut probe);
        }
        if !is_guest {
            disk.cut()?;
        }
        probe.end();
        drop(probe);
        // A guest is killed with its place. Its host goes on, and so does the disk.
        drop(place);
        if is_guest {
            let mut again = Undo::new();
            let found = self.survey(&base.dir, &written, &mut again);
            again.run();
            written.killed = Some(found);
            disk.cut()?;
        }
        Ok(written)
    }

    pub(super) fn job(&self, writer: &dyn Writer, id: u64, dir: &Path) -> WitnessJob {
        WitnessJob {
            id,
            writer: writer.id().into(),
            dir: dir.join(writer.id()).to_string_lossy().into_owned(),
            run: self.request.seed ^ id,
            record: RECORD,
        }
    }

    /// Has each writer make its files.
    fn prepare(&self, probe: &mut ProbeClient, dir: &Path) -> Result<Vec<Writing>, LayerFailure> {
        let mut writing = Vec::new();
        for (id, writer) in (0..).zip(witness::ALL) {
            let job = self.job(*writer, id, dir);
            let (error, refused) = match self.ask(probe, &ToProbe::Witness(job.clone()))? {
                FromProbe::Error { message, .. } => (Some(in_words(&message)), None),
                FromProbe::Prepared { refused, .. } => (None, refused),
                _ => return Err(LayerFailure::new("the probe said something out of turn")),
            };
            writing.push(Writing {
                writer: *writer,
                job,
                log: Vec::new(),
                marks: Vec::new(),
                error,
                refused,
            });
        }
        Ok(writing)
    }

    /// Requests records of all writers in turn, and marks the disk's log after each acknowledgement.
    fn request_records(
        &self,
        disk: &PowerCutBase,
        probe: &mut ProbeClient,
        written: &mut Written,
    ) -> Result<(), LayerFailure> {
        let since = Instant::now();
        for record in 0..self.request.records {
            for writing in written.writing.iter_mut().filter(|w| w.error.is_none()) {
                let id = writing.job.id;
                match self.ask(probe, &ToProbe::Write { id })? {
                    FromProbe::Acknowledged { stamp, .. } => {
                        writing.marks.push(disk.mark()?);
                        writing.log.push(Acknowledged {
                            sequence: stamp.sequence,
                            block: stamp.block,
                            generation: stamp.generation,
                            ns: u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX),
                        });
                    }
                    FromProbe::Error { message, .. } => writing.error = Some(in_words(&message)),
                    _ => return Err(LayerFailure::new("the probe said something out of turn")),
                }
            }
            if record == 0 {
                written.begun = disk.mark()?;
            }
            if self.stop.is_ending() {
                break;
            }
        }
        Ok(())
    }

    /// Cuts the power at moments drawn from the seed, and looks for the records after each.
    pub(super) fn cut(&self, disk: &CutDisk, written: &Written) -> Vec<WitnessTrial> {
        let mut trials = self.uncut_trials(disk.history.journal(), written);
        let settled = disk.settled(written.begun);
        let disk = settled.as_ref().unwrap_or(disk);
        let journal = disk.history.journal();
        let range = (journal.point(written.begun), journal.point(written.end));
        let last = written.writing.iter().filter_map(|w| w.marks.last());
        let last = last.map(|mark| journal.point(*mark));
        let (seed, mut cuts) = (self.request.seed, self.request.cuts as usize);
        if written.writing.iter().all(|w| w.log.is_empty()) {
            cuts = 0;
        }
        let states = states::drawn(seed, cuts, range, last, journal);
        let mut cut_off = false;
        for states in states.chunks(AT_A_TIME) {
            let looked = disk.side_by_side(states.len(), |at, stand| {
                if self.stop.is_ending() {
                    return None;
                }
                let looked = self.after_cut(disk, stand, states[at], |dir, undo| {
                    self.survey(dir, written, undo)
                });
                // It was cut off.
                (looked.is_ok() || !self.stop.is_ending()).then_some(looked)
            });
            for (state, looked) in states.iter().zip(looked) {
                let Some(looked) = looked else {
                    cut_off = true;
                    continue;
                };
                add_cut(&mut trials, written, journal.mark(state.0), &looked);
            }
        }
        // A loss is one after however few cuts. Nothing lost in some of them is not what was asked for.
        if cut_off && !trials.iter().any(WitnessTrial::lied) {
            return self.not_begun().writers;
        }
        // A writer that does not work in this layer says nothing of it.
        trials.retain(|t| t.records > 0 || t.error.is_some());
        trials
    }

    /// A trial for each writer, before any cut.
    fn uncut_trials(&self, journal: &Journal, written: &Written) -> Vec<WitnessTrial> {
        let (from, to) = (journal.point(written.prepared), journal.point(written.end));
        let flushes = journal.flushes(from, to) as u64;
        let mut trials: Vec<WitnessTrial> = written
            .writing
            .iter()
            .map(|w| WitnessTrial {
                layer: self.layer.name.clone(),
                writer: w.writer.id().into(),
                control: self.layer.control,
                named: self.layer.named,
                records: w.log.len() as u64,
                flushes_below: Some(flushes),
                error: w.error.clone(),
                refused: w.refused.clone(),
                ..WitnessTrial::default()
            })
            .collect();
        if let Some(first) = trials.first_mut() {
            let records = written.writing.iter().map(|w| w.log.len() as u64);
            first.storeys = stack::whole(&written.storeys, records.sum(), flushes);
        }
        if let Some(found) = &written.killed {
            for (at, (trial, writing)) in trials.iter_mut().zip(&written.writing).enumerate() {
                // It acknowledged nothing that could be lost.
                if writing.log.is_empty() {
                    continue;
                }
                trial.guest_killed = Some(match found {
                    Ok(surveys) => killed(writing, &surveys[at]),
                    Err(why) => GuestKilled {
                        lost: None,
                        why: Some(why.reason.clone()),
                    },
                });
            }
        }
        trials
    }

    /// Sets the layer up on what is in its directory, and reads what is there of each writer.
    fn survey(
        &self,
        dir: &Path,
        written: &Written,
        undo: &mut Undo,
    ) -> Result<Vec<Survey>, LayerFailure> {
        let base = self.base(dir.into(), Content::Survived);
        let mut place = self.kind()?.open(&base, &self.layer.spec, undo)?;
        let (mut probe, _) =
            session::start(place.start(End::Far), self.request.silence, self.stop)?;
        let mut surveys = Vec::new();
        for writing in &written.writing {
            let dir = place.info().dir.join("witness").join(writing.writer.id());
            let job = WitnessJob {
                dir: dir.to_string_lossy().into_owned(),
                ..writing.job.clone()
            };
            match self.ask(&mut probe, &ToProbe::Look(job))? {
                FromProbe::Surveyed { survey, .. } => surveys.push(survey),
                FromProbe::Error { message, errno, .. } => {
                    return Err(LayerFailure::of_probe(message, errno));
                }
                _ => return Err(LayerFailure::new("the probe said something out of turn")),
            }
        }
        probe.end();
        drop(probe);
        drop(place);
        Ok(surveys)
    }
}

/// Adds what was found after a cut of the power at `before` to the trials of all writers.
fn add_cut(
    trials: &mut [WitnessTrial],
    written: &Written,
    before: Mark,
    looked: &Result<Vec<Survey>, LayerFailure>,
) {
    for (at, (trial, writing)) in trials.iter_mut().zip(&written.writing).enumerate() {
        // It acknowledged nothing; its files may not even be complete.
        if writing.log.is_empty() {
            continue;
        }
        let acknowledged = writing.marks.partition_point(|mark| *mark <= before);
        let log = &writing.log[..acknowledged];
        match looked {
            Ok(surveys) => {
                let checked = witness::judge(writing.writer, writing.job.run, log, &surveys[at]);
                trial.add(&checked, log, written.started_ms);
            }
            Err(why) => add_unseen(&mut trial.unseen, why.clone()),
        }
    }
}

/// What was there of a writer's records after only the guest was killed. Each record was acknowledged.
fn killed(writing: &Writing, survey: &Survey) -> GuestKilled {
    let checked = witness::judge(writing.writer, writing.job.run, &writing.log, survey);
    let broken = checked.broken().map(|f| f.sequence);
    GuestKilled {
        lost: Some(broken.collect::<BTreeSet<_>>().len() as u64),
        why: None,
    }
}
