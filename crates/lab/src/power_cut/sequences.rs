//! Sequences of a few operations under power cuts, each in a directory of its own. What must be there after a cut is said
//! by [`Oracle`], which looks at no file.

use std::{fmt, path::Path, sync::OnceLock, time::Instant};

use layermark_layers::{
    Content, End, Place, Undo,
    volatile::{Mark, PowerCutBase},
};
use layermark_model::{
    PlanSequences,
    protocol::{FromProbe, SequenceAsk, SequenceDid, ToProbe},
    witness::{
        NOT_BEGUN, SequenceCut, UnseenCuts,
        sequence::{Basis, LostSequence, Moment, Oracle, Seen, Sequence, SequenceState},
    },
};
use rand::{SeedableRng, seq::index};
use rand_chacha::ChaCha8Rng;

use super::{CutDisk, Cutter, PowerCuts, Stand, after_cut::add_unseen, flush_all, states};
use crate::execute::{layer_failure::LayerFailure, probe_client::ProbeClient, session};

/// The directory of their directories.
const DIRS: &str = "sequences";
/// Fewest power cuts under a sequence.
const CUTS: usize = 4;

/// A sequence that was done.
pub(super) struct SequenceRun {
    sequence: Sequence,
    oracle: Oracle,
    /// Names its directory.
    number: usize,
    /// Before its first operation.
    begun: Mark,
    /// After each acknowledgement.
    marks: Vec<Mark>,
}

/// What the cuts of one sequence did.
#[derive(Default)]
struct CutResult {
    /// All were tried, or one took what POSIX promises.
    is_whole: bool,
    cuts: u64,
    unseen: UnseenCuts,
    /// The first cut that took what POSIX promises, or else the first that took anything.
    lost: Option<LostSequence>,
}

/// All sequences of a layer.
pub(super) struct SequenceRuns {
    done: Vec<SequenceRun>,
    cut: SequenceCut,
}

impl SequenceRuns {
    /// None could be done.
    pub(super) fn is_empty(&self) -> bool {
        self.done.is_empty()
    }
}

impl fmt::Display for SequenceRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = if self.done.len() == 1 { "" } else { "s" };
        write!(f, "power cuts under {} sequence{many}", self.done.len())
    }
}

/// The sequences that a plan asks for.
pub fn planned(plan: &PlanSequences, seed: u64) -> Vec<Sequence> {
    let named = plan.only.iter().flat_map(|text| text.parse());
    let mut all: Vec<Sequence> = named.collect();
    if !all.is_empty() {
        return all;
    }
    all = Sequence::all_of_one();
    if plan.operations > 1 {
        let two = Sequence::all_of_two();
        let many = (plan.sample as usize).min(two.len());
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut drawn = index::sample(&mut random, two.len(), many).into_vec();
        drawn.sort_unstable();
        all.extend(drawn.into_iter().map(|at| two[at].clone()));
    }
    all
}

impl Cutter<'_> {
    fn about_sequences(&self) -> SequenceCut {
        SequenceCut {
            layer: self.layer.name.clone(),
            control: self.layer.control,
            named: self.layer.named,
            ..SequenceCut::default()
        }
    }

    /// Sequences that were not done, because the layer could not be set up.
    pub(super) fn uncut_sequences(&self, why: &str) -> Option<SequenceCut> {
        (!self.request.sequences.is_empty()).then(|| SequenceCut {
            uncut: Some(why.into()),
            ..self.about_sequences()
        })
    }

    /// Does all sequences. What fails is a result: what the writers have written is there.
    pub(super) fn run_sequences(
        &self,
        disk: &PowerCutBase,
        place: &dyn Place,
        probe: &mut ProbeClient,
    ) -> Option<SequenceRuns> {
        if self.request.sequences.is_empty() {
            return None;
        }
        let mut runs = SequenceRuns {
            done: Vec::new(),
            cut: self.about_sequences(),
        };
        if let Err(e) = self.do_sequences(disk, place, probe, &mut runs) {
            let (done, all) = (runs.done.len(), self.request.sequences.len());
            runs.cut.uncut = Some(uncut(done, all, &e.reason));
        }
        Some(runs)
    }

    fn do_sequences(
        &self,
        disk: &PowerCutBase,
        place: &dyn Place,
        probe: &mut ProbeClient,
        runs: &mut SequenceRuns,
    ) -> Result<(), LayerFailure> {
        let all = &self.request.sequences;
        for number in 0..all.len() {
            let dir = dir_of(place, number);
            self.must(probe, SequenceAsk::Make { dir })?;
            if self.stop.is_ending() {
                return Ok(());
            }
        }
        // All that they begin with was asked for with fsync, and is on the disk whatever the layer does with a flush.
        let dir = place.info().dir.join(DIRS).to_string_lossy().into_owned();
        self.must(probe, SequenceAsk::Settle { dir })?;
        flush_all(disk)?;
        for (number, sequence) in all.iter().enumerate() {
            if self.stop.is_ending() {
                break;
            }
            let dir = dir_of(place, number);
            match self.do_sequence(disk, probe, sequence, number, &dir)? {
                Ok(run) => runs.done.push(run),
                Err(why) => {
                    runs.cut.left_out += 1;
                    runs.cut
                        .left_out_why
                        .get_or_insert_with(|| format!("`{sequence}`: {why}"));
                }
            }
        }
        Ok(())
    }

    /// Does one; the inner error is why nothing can be said of it.
    fn do_sequence(
        &self,
        disk: &PowerCutBase,
        probe: &mut ProbeClient,
        sequence: &Sequence,
        number: usize,
        dir: &str,
    ) -> Result<Result<SequenceRun, String>, LayerFailure> {
        let oracle = Oracle::of(sequence).map_err(LayerFailure::new)?;
        let mut run = SequenceRun {
            sequence: sequence.clone(),
            oracle,
            number,
            begun: disk.mark()?,
            marks: Vec::new(),
        };
        for at in 0..sequence.0.len() {
            let step = SequenceAsk::Step {
                dir: dir.into(),
                sequence: sequence.to_string(),
                at,
            };
            match self.ask_sequence(probe, step)? {
                Ok(SequenceDid::Done) => run.marks.push(disk.mark()?),
                Ok(SequenceDid::Refused(why)) => return Ok(Err(why)),
                Err(why) => return Ok(Err(why.reason)),
                Ok(SequenceDid::Seen(_)) => return Err(out_of_turn()),
            }
        }
        let seen = match self.ask_sequence(probe, SequenceAsk::Look { dir: dir.into() })? {
            Ok(SequenceDid::Seen(seen)) => seen,
            Ok(_) => return Err(out_of_turn()),
            Err(why) => return Ok(Err(why.reason)),
        };
        Ok(match run.oracle.differs(&seen) {
            None => Ok(run),
            Some(thing) => Err(format!(
                "before any power cut {} is {} and not {}",
                thing.path, thing.found, thing.expected
            )),
        })
    }

    fn must(&self, probe: &mut ProbeClient, ask: SequenceAsk) -> Result<(), LayerFailure> {
        match self.ask_sequence(probe, ask)? {
            Ok(SequenceDid::Done) => Ok(()),
            Ok(_) => Err(out_of_turn()),
            Err(why) => Err(why),
        }
    }

    /// What the probe did, or why it could not: that is not a failure of the layer.
    fn ask_sequence(
        &self,
        probe: &mut ProbeClient,
        ask: SequenceAsk,
    ) -> Result<Result<SequenceDid, LayerFailure>, LayerFailure> {
        match self.ask(probe, &ToProbe::Sequence { id: 0, ask })? {
            FromProbe::Sequence { did, .. } => Ok(Ok(did)),
            FromProbe::Error { message, errno, .. } => {
                Ok(Err(LayerFailure::of_probe(message, errno)))
            }
            _ => Err(out_of_turn()),
        }
    }

    /// Cuts the power at moments while each sequence was done, and looks at its files after each. A sequence that was
    /// begun is cut to its end, unless the run has to end at once.
    pub(super) fn cut_sequences(&self, disk: &CutDisk, runs: SequenceRuns) -> SequenceCut {
        let SequenceRuns { done, mut cut } = runs;
        let since = Instant::now();
        let settled = done.first().and_then(|run| disk.settled(run.begun).ok());
        let disk = settled.as_ref().unwrap_or(disk);
        let results = disk.side_by_side(done.len(), |at, stand| {
            (!self.stop.is_ending()).then(|| self.cut_sequence(disk, stand, &done[at]))
        });
        for result in results.into_iter().flatten() {
            cut.cuts += result.cuts;
            cut.unseen.add(result.unseen);
            cut.sequences += u64::from(result.is_whole);
            // What was lost is lost, though further cuts were left out.
            cut.lost.extend(result.lost);
        }
        let asked = self.request.sequences.len() as u64;
        cut.unfinished = asked.saturating_sub(cut.sequences + cut.left_out);
        cut.elapsed_ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        cut.smallest = smallest(&cut.lost).cloned();
        let tried = cut.cuts + cut.unseen.count();
        if self.stop.is_ending() && tried == 0 && cut.unfinished > 0 && cut.uncut.is_none() {
            cut.uncut = Some(NOT_BEGUN.into());
            cut.unseen.not_begun = true;
        }
        cut
    }

    /// Tries the cuts of one sequence until one took what POSIX promises.
    fn cut_sequence(&self, disk: &CutDisk, stand: &Stand, run: &SequenceRun) -> CutResult {
        let journal = disk.history.journal();
        let points: Vec<usize> = run.marks.iter().map(|m| journal.point(*m)).collect();
        let mut result = CutResult::default();
        let Some(end) = points.last() else {
            return result;
        };
        let range = (journal.point(run.begun), *end);
        let own = self.request.seed ^ run.number as u64;
        let most = cuts(points.len());
        for state in states::drawn(own, most, range, points.iter().copied(), journal) {
            if self.stop.at_once() {
                return result;
            }
            let acknowledged = points.partition_point(|point| *point <= state.0);
            // Just after an acknowledgement the next operation has not begun.
            let idle = points[..acknowledged].last() == Some(&state.0);
            let begun = if idle { acknowledged } else { acknowledged + 1 };
            let moment = Moment {
                acknowledged,
                begun: begun.min(run.marks.len()),
            };
            let looked = self.after_cut(disk, stand, state, |dir, undo| {
                self.seen_after_cut(run.number, dir, undo)
            });
            let seen = match looked {
                Ok(seen) => seen,
                // It was cut off.
                Err(_) if self.stop.at_once() => return result,
                Err(why) => {
                    add_unseen(&mut result.unseen, why);
                    continue;
                }
            };
            result.cuts += 1;
            let things = run.oracle.lost(moment, &seen);
            if things.is_empty() {
                continue;
            }
            let lost = LostSequence {
                sequence: run.sequence.to_string(),
                state: SequenceState {
                    acknowledged: acknowledged as u64,
                    survives: state.1.to_string(),
                },
                things,
            };
            if lost.basis() == Basis::Posix {
                result.lost = Some(lost);
                break;
            }
            result.lost.get_or_insert(lost);
        }
        result.is_whole = true;
        result
    }

    /// Sets the layer up on what is in its directory, and looks at a sequence's files.
    fn seen_after_cut(
        &self,
        number: usize,
        dir: &Path,
        undo: &mut Undo,
    ) -> Result<Seen, LayerFailure> {
        let base = self.base(dir.into(), Content::Survived);
        let mut place = self.kind()?.open(&base, &self.layer.spec, undo)?;
        let (mut probe, _) =
            session::start(place.start(End::Far), self.request.silence, self.stop)?;
        let dir = dir_of(&*place, number);
        let seen = match self.ask_sequence(&mut probe, SequenceAsk::Look { dir })? {
            Ok(SequenceDid::Seen(seen)) => seen,
            Ok(_) => return Err(out_of_turn()),
            Err(why) => return Err(why),
        };
        probe.end();
        Ok(seen)
    }

    /// Leaves parts out of the smallest sequence that lost something, as long as what is left loses as much. Each try
    /// sets the layer up anew on a disk of its own.
    pub(super) fn shrink(&self, cut: &mut SequenceCut) {
        for round in 0.. {
            let Some(known) = cut.smallest.clone() else {
                return;
            };
            let sequence = known.sequence.parse::<Sequence>();
            let smaller = sequence.map(|s| s.smaller()).unwrap_or_default();
            if smaller.is_empty() || self.stop.is_ending() {
                return;
            }
            let request = PowerCuts {
                cuts: 0,
                records: 0,
                programs: Vec::new(),
                sequences: smaller,
                ..self.request.clone()
            };
            let home = self.home.join(format!("shrink-{round}"));
            let again = Cutter {
                request: &request,
                layer: self.layer,
                home: &home,
                stop: self.stop,
                // It is no further cut of the layer.
                tell: &|_| {},
                silent: OnceLock::new(),
            };
            let found = again
                .once()
                .ok()
                .and_then(|cuts| cuts.sequences.into_iter().next());
            let found = found.and_then(|found| found.smallest);
            match found.filter(|found| found.basis() <= known.basis()) {
                Some(found) => cut.smallest = Some(found),
                None => return,
            }
        }
    }
}

/// The sequence with the fewest operations, of those that lost most certainly what was promised.
fn smallest(lost: &[LostSequence]) -> Option<&LostSequence> {
    let size = |l: &&LostSequence| {
        let steps = l.sequence.parse::<Sequence>().map_or(0, |s| s.0.len());
        // Where all that was not flushed is gone, nothing else matters of the state.
        (
            l.basis(),
            steps,
            l.state.survives != "none",
            l.sequence.len(),
        )
    };
    lost.iter().min_by_key(size)
}

/// Power cuts under a sequence of so many operations: nothing survives after each, all survives the end, and one more.
fn cuts(operations: usize) -> usize {
    CUTS.max(operations + 2)
}

/// The directory of a sequence in a layer.
fn dir_of(place: &dyn Place, number: usize) -> String {
    let dir = place.info().dir.join(format!("{DIRS}/{number}"));
    dir.to_string_lossy().into_owned()
}

/// Why the power was not cut under all sequences. It is cut under those that were done.
fn uncut(done: usize, all: usize, why: &str) -> String {
    match done {
        0 => why.to_owned(),
        _ => format!("after {done} of {all} sequences: {why}"),
    }
}

fn out_of_turn() -> LayerFailure {
    LayerFailure::new("the probe said something out of turn")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use layermark_layers::volatile::{Choice, Journal};
    use layermark_testkit::sample;

    use super::*;

    #[test]
    fn a_sample_of_two_is_drawn_from_the_seed() {
        let plan = |operations, sample| PlanSequences {
            operations,
            sample,
            only: Vec::new(),
        };
        let one = planned(&plan(1, 200), 7);
        assert_eq!(one, Sequence::all_of_one());
        let drawn = planned(&plan(2, 200), 7);
        assert_eq!(drawn.len(), one.len() + 200);
        assert_eq!(drawn, planned(&plan(2, 200), 7));
        assert_ne!(drawn, planned(&plan(2, 200), 8));
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), drawn.len());
        let only = PlanSequences {
            only: vec!["create a/g; fsync a".into()],
            ..plan(2, 200)
        };
        assert_eq!(planned(&only, 7).len(), 1);
    }

    /// Of four operations or more all cuts were just after an acknowledgement, and none had all survive.
    #[test]
    fn all_survives_the_end_of_a_sequence_of_any_length() {
        let journal = Journal::default();
        for operations in 1..=9 {
            let states = states::drawn(3, cuts(operations), (0, 90), 1..=operations, &journal);
            assert!(
                states.contains(&(90, Choice::All)),
                "{operations}: {states:?}"
            );
            let certain = (1..operations).all(|point| states.contains(&(point, Choice::None)));
            assert!(certain && states.len() >= CUTS, "{operations}: {states:?}");
        }
        assert_eq!((cuts(1), cuts(2), cuts(9)), (4, 4, 11));
    }

    #[test]
    fn a_probe_that_breaks_says_after_how_many() {
        assert_eq!(uncut(0, 179, "it ended"), "it ended");
        let late = uncut(119, 179, "it ended");
        assert_eq!(late, "after 119 of 179 sequences: it ended");
    }

    #[test]
    fn the_smallest_is_of_the_broken_promise_with_the_fewest_operations() {
        let lost = sample::lost_sequence;
        let all = [
            lost("create a/g; fsync a/g", Basis::Linux),
            lost("create a/g; create b/g; fsync b", Basis::Posix),
            lost("mkdir a/d; fsync a", Basis::Posix),
            lost("create a/g; fsync a", Basis::Posix),
        ];
        assert_eq!(smallest(&all).unwrap().sequence, "mkdir a/d; fsync a");
        assert_eq!(smallest(&[]), None);
    }
}
