//! Programs of the user's under power cuts. Each works alone in the layer, so that no flush of another writer covers what
//! it did not flush itself. Its lines are read outside the layer.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use layermark_layers::{
    Content, End, Place, Programs, Undo, in_words,
    volatile::{Mark, PowerCutBase},
};
use layermark_model::{
    protocol::{CheckJob, FromProbe, ProgramAsk, ProgramDid, ToProbe},
    witness::{
        AckedItem, CutProgram, ItemCheck, MOST_ITEMS, NOT_BEGUN, ProgramCut, UnseenCuts,
        judge_items,
    },
};

use layermark_probe::witness;

use super::{CutDisk, Cutter, Stand, after_cut::add_unseen, flush_all, stand::AT_A_TIME, states};
use crate::{
    execute::{layer_failure::LayerFailure, probe_client::ProbeClient, session},
    machine,
};

/// Cuts just after an acknowledgement, before anything that is drawn.
const AFTER_ACKNOWLEDGEMENTS: usize = 8;

/// How long the probe waits for an item at a time: a probe that says nothing for long is taken for dead.
const ONE_WAIT: Duration = Duration::from_secs(5);

/// What a program has done before the cuts.
pub(super) struct ProgramRun {
    /// Position among the programs.
    number: usize,
    log: Vec<AckedItem>,
    marks: Vec<Mark>,
    end: Mark,
    started_ms: i64,
    /// Its results so far.
    cut: ProgramCut,
}

impl Cutter<'_> {
    /// Runs each program in the layer, one after the other, and its check before any cut. What fails is a result of the
    /// program: what the writers have written is there.
    pub(super) fn run_programs(
        &self,
        disk: &PowerCutBase,
        place: &dyn Place,
        probe: &mut ProbeClient,
    ) -> Vec<ProgramRun> {
        let mut runs = Vec::new();
        let mut broken: Option<String> = None;
        for (number, program) in self.request.programs.iter().enumerate() {
            let mut run = ProgramRun {
                number,
                log: Vec::new(),
                marks: Vec::new(),
                end: Mark::default(),
                started_ms: 0,
                cut: self.about(program),
            };
            if self.stop.is_ending() {
                not_begun(&mut run.cut);
            } else if let Some(why) = &broken {
                run.cut.uncut = Some(why.clone());
            } else if let Err(e) = self.run_program(program, disk, place, probe, &mut run) {
                if self.stop.at_once() {
                    not_begun(&mut run.cut);
                } else {
                    run.cut.uncut = Some(e.reason.clone());
                    broken = Some(e.reason);
                }
            }
            runs.push(run);
        }
        runs
    }

    fn about(&self, program: &CutProgram) -> ProgramCut {
        ProgramCut {
            layer: self.layer.name.clone(),
            program: program.name.clone(),
            promises: program.promises,
            control: self.layer.control,
            named: self.layer.named,
            ..ProgramCut::default()
        }
    }

    /// Programs that were not run, because the layer could not be set up.
    pub(super) fn uncut_programs(&self, why: &str) -> Vec<ProgramCut> {
        let of = |program| ProgramCut {
            uncut: Some(why.into()),
            ..self.about(program)
        };
        self.request.programs.iter().map(of).collect()
    }

    fn run_program(
        &self,
        program: &CutProgram,
        disk: &PowerCutBase,
        place: &dyn Place,
        probe: &mut ProbeClient,
        run: &mut ProgramRun,
    ) -> Result<(), LayerFailure> {
        if let Programs::None(why) = self.kind()?.describe(&self.layer.spec)?.programs {
            run.cut.uncut = Some(why.into());
            return Ok(());
        }
        let dir = dir_of(place, run.number);
        if let Err(why) = self.ask_program(probe, ProgramAsk::Make { dir: dir.clone() })? {
            run.cut.uncut = Some(why);
            return Ok(());
        }
        // Its directory is there, whatever the layer does with a flush of one.
        flush_all(disk)?;
        let start = ProgramAsk::Start {
            dir: dir.clone(),
            run: program.run.clone(),
            ack: program.ack.clone(),
        };
        if let Err(why) = self.ask_program(probe, start)? {
            run.cut.uncut = Some(why);
            return Ok(());
        }
        self.await_items(program, disk, probe, run)?;
        if run.cut.uncut.is_none() {
            self.try_check(program, &dir, probe, run)?;
        }
        // The next one has the disk for itself, and nothing of this one to flush.
        for dir in [empty(&dir), dir] {
            self.ask_program(probe, ProgramAsk::Remove { dir })?.ok();
        }
        flush_all(disk)
    }

    /// Logs the items that a program acknowledges, with how much of the disk's log there is then, and kills it.
    fn await_items(
        &self,
        program: &CutProgram,
        disk: &PowerCutBase,
        probe: &mut ProbeClient,
        run: &mut ProgramRun,
    ) -> Result<(), LayerFailure> {
        let mut since = None;
        let now = |since: &mut Option<Instant>| since.get_or_insert_with(Instant::now).elapsed();
        while (run.log.len() as u64) < MOST_ITEMS && !self.stop.is_ending() {
            let left = since.map(|since: Instant| program.time().saturating_sub(since.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            let left = left.map(|left| left.min(ONE_WAIT));
            // Less than a millisecond is one: it would be asked again and again.
            let left_ms =
                left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1));
            match self.ask_program(probe, ProgramAsk::Item { left_ms })? {
                Ok(ProgramDid::TimeOver) => {}
                Ok(ProgramDid::Item { name, ahead }) => {
                    // It was acknowledged before: the mark is never too early.
                    run.marks.push(disk.mark()?);
                    if since.is_none() {
                        run.started_ms = machine::now_ms();
                    }
                    let ns = u64::try_from(now(&mut since).as_nanos()).unwrap_or(u64::MAX);
                    run.log.push(AckedItem { name, ns });
                    run.cut.ahead += u64::from(ahead);
                }
                Ok(ProgramDid::Ended(how)) => {
                    run.cut.ended = Some(how);
                    break;
                }
                Ok(_) => return Err(out_of_turn()),
                Err(why) => {
                    run.cut.uncut = Some(why);
                    break;
                }
            }
        }
        run.cut.elapsed_ns = u64::try_from(now(&mut since).as_nanos()).unwrap_or(u64::MAX);
        run.cut.items = run.log.len() as u64;
        run.end = disk.mark()?;
        if let Err(why) = self.ask_program(probe, ProgramAsk::Kill)? {
            run.cut.uncut.get_or_insert(why);
        }
        if run.log.is_empty() {
            let ended = run.cut.ended.clone();
            let ended = ended.map_or_else(String::new, |how| format!(": {how}"));
            run.cut
                .uncut
                .get_or_insert(format!("it acknowledged nothing{ended}"));
        }
        Ok(())
    }

    /// Runs the check where no power was cut, and in an empty directory: is it right to find all, and nothing?
    fn try_check(
        &self,
        program: &CutProgram,
        dir: &str,
        probe: &mut ProbeClient,
        run: &mut ProgramRun,
    ) -> Result<(), LayerFailure> {
        let uncut = self.check(program, dir, &run.log, probe)?;
        let lost = uncut.and_then(|said| judge_items(&run.log, &said));
        match lost {
            Ok(lost) => run.cut.lost_when_killed = lost.map_or(0, |l| l.lost + l.torn),
            Err(why) => {
                run.cut.uncut = Some(format!("its check failed before any power cut: {why}"));
                return Ok(());
            }
        }
        // Whatever else it does there, it may not find everything.
        let empty = self.check(program, &empty(dir), &run.log, probe)?;
        run.cut.blind = empty.is_ok_and(|said| said.is_clean());
        Ok(())
    }

    /// The check's answer, or why there is none.
    fn check(
        &self,
        program: &CutProgram,
        dir: &str,
        log: &[AckedItem],
        probe: &mut ProbeClient,
    ) -> Result<Result<ItemCheck, String>, LayerFailure> {
        let job = CheckJob {
            dir: dir.into(),
            check: program.check.clone(),
            items: log.iter().map(|item| item.name.clone()).collect(),
        };
        match self.ask_program(probe, ProgramAsk::Check(job))? {
            Ok(ProgramDid::Checked(said)) => Ok(Ok(said)),
            Ok(_) => Err(out_of_turn()),
            Err(why) => Ok(Err(why)),
        }
    }

    /// What the probe did with the program, or why it could not: that is no failure of the layer.
    fn ask_program(
        &self,
        probe: &mut ProbeClient,
        ask: ProgramAsk,
    ) -> Result<Result<ProgramDid, String>, LayerFailure> {
        match self.ask(probe, &ToProbe::Program { id: 0, ask })? {
            FromProbe::Program { did, .. } => Ok(Ok(did)),
            FromProbe::Error { message, .. } => Ok(Err(in_words(&message))),
            _ => Err(out_of_turn()),
        }
    }

    /// Cuts the power at moments while each program worked, and runs its check after each.
    pub(super) fn cut_programs(&self, disk: &CutDisk, runs: Vec<ProgramRun>) -> Vec<ProgramCut> {
        let cut = |run| self.cut_program(disk, run);
        runs.into_iter().map(cut).collect()
    }

    fn cut_program(&self, disk: &CutDisk, mut run: ProgramRun) -> ProgramCut {
        if run.cut.uncut.is_some() {
            return run.cut;
        }
        if self.stop.is_ending() {
            not_begun(&mut run.cut);
            return run.cut;
        }
        let Some(first) = run.marks.first() else {
            return run.cut;
        };
        let since = Instant::now();
        let settled = disk.settled(*first);
        let disk = settled.as_ref().unwrap_or(disk);
        let journal = disk.history.journal();
        // From the first item on: before it nothing was acknowledged that could be lost.
        let range = (journal.point(*first), journal.point(run.end));
        let step = run.marks.len().div_ceil(AFTER_ACKNOWLEDGEMENTS).max(1);
        let after = run.marks.iter().rev().step_by(step);
        let after: Vec<usize> = after.map(|mark| journal.point(*mark)).collect();
        let (seed, cuts) = (self.request.seed, self.request.cuts as usize);
        let states = states::drawn(seed ^ run.number as u64, cuts, range, after, journal);
        let mut cut_off = false;
        for states in states.chunks(AT_A_TIME) {
            let acknowledged = |at: usize| {
                let before = journal.mark(states[at].0);
                run.marks.partition_point(|mark| *mark <= before)
            };
            let look = |at: usize, stand: &Stand| {
                if self.stop.is_ending() {
                    return None;
                }
                let log = &run.log[..acknowledged(at)];
                let said = self.after_cut(disk, stand, states[at], |dir, undo| {
                    self.survived(run.number, dir, log, undo)
                });
                // It was cut off.
                (said.is_ok() || !self.stop.is_ending()).then_some(said)
            };
            let said = if self.request.programs[run.number].parallel_checks {
                disk.side_by_side(states.len(), look)
            } else {
                disk.one_by_one(states.len(), look)
            };
            for (at, said) in said.into_iter().enumerate() {
                let log = &run.log[..acknowledged(at)];
                match said {
                    None => cut_off = true,
                    Some(Ok(Ok(said))) => run.cut.add(log, &said, run.started_ms),
                    Some(Ok(Err(why))) => run.cut.add_failed(why),
                    Some(Err(why)) => add_unseen(&mut run.cut.unseen, why),
                }
            }
        }
        run.cut.cuts_ns = u64::try_from(since.elapsed().as_nanos()).ok();
        // A loss is one after however few cuts. Nothing lost in some of them is not what was asked for.
        if cut_off && !run.cut.lost_items() {
            not_begun(&mut run.cut);
        }
        run.cut
    }

    /// Sets the layer up on what is in its directory, and runs a program's check there.
    fn survived(
        &self,
        number: usize,
        dir: &Path,
        log: &[AckedItem],
        undo: &mut Undo,
    ) -> Result<Result<ItemCheck, String>, LayerFailure> {
        let program = &self.request.programs[number];
        let base = self.base(dir.into(), Content::Survived);
        let mut place = self.kind()?.open(&base, &self.layer.spec, undo)?;
        // No check can begin there: all of it is lost, as to the writers.
        if let Some(why) = damage(Path::new(&dir_of(&*place, number))) {
            return Ok(Ok(ItemCheck {
                fault: true,
                said: why.to_string(),
                ..ItemCheck::default()
            }));
        }
        let (mut probe, _) =
            session::start(place.start(End::Far), self.request.silence, self.stop)?;
        let said = self.check(program, &dir_of(&*place, number), log, &mut probe)?;
        probe.end();
        Ok(said)
    }
}

/// The run ended before the power was cut under it as often as was asked for: its row says nothing else, so that it is
/// made anew.
fn not_begun(cut: &mut ProgramCut) {
    *cut = ProgramCut {
        layer: std::mem::take(&mut cut.layer),
        program: std::mem::take(&mut cut.program),
        promises: cut.promises,
        control: cut.control,
        named: cut.named,
        uncut: Some(NOT_BEGUN.into()),
        unseen: UnseenCuts {
            not_begun: true,
            ..UnseenCuts::default()
        },
        ..ProgramCut::default()
    };
}

/// The directory of a program in a layer.
fn dir_of(place: &dyn Place, number: usize) -> String {
    let dir = place.info().dir.join(format!("program-{number}/work"));
    dir.to_string_lossy().into_owned()
}

/// An empty directory beside it.
fn empty(dir: &str) -> String {
    format!("{dir}-empty")
}

/// Why a directory cannot be read, if that is the layer's loss and not an error of this process. One that is absent is
/// made again, and its check finds nothing in it.
fn damage(dir: &Path) -> Option<io::Error> {
    let e = fs::read_dir(dir).err()?;
    (e.kind() != io::ErrorKind::NotFound && witness::is_damage(&e)).then_some(e)
}

fn out_of_turn() -> LayerFailure {
    LayerFailure::new("the probe said something out of turn")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_run_and_not_cut_is_not_begun() {
        let mut cut = ProgramCut {
            layer: "fuse".into(),
            program: "queue".into(),
            named: true,
            items: 40,
            ..ProgramCut::default()
        };
        not_begun(&mut cut);
        assert!(cut.unseen.not_begun && cut.named);
        assert_eq!(cut.uncut.as_deref(), Some(NOT_BEGUN));
        assert_eq!(
            (&*cut.layer, &*cut.program, cut.items),
            ("fuse", "queue", 0)
        );
    }

    /// What is absent, or cannot be read for another reason, is nobody's loss.
    #[test]
    fn only_a_directory_that_cannot_be_read_is_lost() {
        let home = tempfile::tempdir().unwrap();
        assert!(damage(home.path()).is_none());
        assert!(damage(&home.path().join("work")).is_none());
        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(damage(&file).unwrap().kind(), io::ErrorKind::NotADirectory);
    }
}
