//! The outcome of a block at one point: what the store, the events and every decision are made from.

use std::{collections::BTreeMap, time::Duration};

use layermark_model::{BASELINE, Cell, Trial, TrialRecord};

use crate::execute::{cpu::Usage, progress::Progress, trial_request::Failure};

/// The outcome of a block at one point.
pub(crate) struct BlockOutcome {
    pub point: usize,
    /// Number of the next round, if more layers follow at the point.
    pub next_round: u32,
    /// In a rested round: flushes after the turn of each layer.
    pub rested: Option<BTreeMap<usize, u64>>,
    /// None of them, if the run was stopped before there were enough rounds.
    pub trials: Vec<TrialOutcome>,
}

/// The outcome of a layer's trial.
#[derive(Default)]
pub(crate) struct TrialOutcome {
    pub layer: usize,
    /// Start of the first turn, milliseconds since 1970.
    pub started_ms: i64,
    /// Time spent, without that of other layers.
    pub took: Duration,
    pub trial: Option<Trial>,
    pub usage: Usage,
    pub backing: Option<f64>,
    pub flags: Vec<String>,
    pub failure: Option<Failure>,
    /// The step in which it was cut off, in words.
    pub cut_in: Option<&'static str>,
}

impl BlockOutcome {
    /// Whether a trial was cut off. What is left of the others is not a result then.
    pub(crate) fn is_cut_off(&self) -> bool {
        let mut failures = self.trials.iter().filter_map(|t| t.failure.as_ref());
        failures.any(|failure| *failure == Failure::CutOff)
    }

    /// The layer that was at work when its trial was cut, and in which step.
    pub(crate) fn cut_in(&self) -> Option<(usize, &'static str)> {
        self.trials.iter().find_map(|t| Some((t.layer, t.cut_in?)))
    }
}

/// What is to be done after a block.
#[derive(Default)]
pub(crate) struct Counted {
    /// Failed layers, with the reason.
    pub failures: Vec<(usize, Failure)>,
    /// Time of all trials.
    pub took: Duration,
}

impl Progress {
    /// Counts the trials of a block; they are owed to the store from now on.
    pub(crate) fn count(&mut self, mut outcome: BlockOutcome) -> Counted {
        let (point, trials) = (outcome.point, &mut outcome.trials);
        // The others are compared with the baseline.
        for is_baseline in [true, false] {
            let now = trials.iter_mut();
            for this in now.filter(|t| (t.layer == BASELINE) == is_baseline) {
                self.same_outcome(point, this);
            }
        }
        let mut counted = Counted::default();
        for trial in outcome.trials {
            let (layer, took) = (trial.layer, trial.took);
            let (record, failure) = self.record(point, trial);
            self.tally.add(&record);
            self.clock.note(layer, point, took);
            counted.took += took;
            self.seq += 1;
            self.owed.push(record);
            counted
                .failures
                .extend(failure.map(|failure| (layer, failure)));
        }
        counted
    }

    /// Makes a trial an error if the work has left something else than in the baseline.
    fn same_outcome(&mut self, point: usize, this: &mut TrialOutcome) {
        let made = this.trial.as_ref();
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
            let why = format!("the outcome is wrong: {outcome}; in {baseline} {expected}");
            this.failure = Some(Failure::work(why));
            this.trial = None;
        }
    }

    fn record(&self, point: usize, of: TrialOutcome) -> (TrialRecord, Option<Failure>) {
        let record = TrialRecord {
            seq: self.seq,
            cell: Cell {
                session: self.session,
                block: self.block,
                layer: of.layer,
                point,
            },
            host: None,
            at_ms: u64::try_from(of.started_ms - self.run.started_ms).unwrap_or(0),
            trial: of.trial,
            error: of.failure.as_ref().map(|f| f.text().into_owned()),
            defect: of.failure.as_ref().and_then(Failure::defect),
            upkeep_ns: of.usage.upkeep_ns,
            foreign_cpu: of.usage.foreign,
            steal: of.usage.steal,
            backing_resident: of.backing,
            flags: of.flags,
        };
        (record, of.failure)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use layermark_model::{Defect, Run};
    use layermark_testkit::sample::Sample;

    use super::*;
    use crate::{Catalog, decide::guess::Speed, execute::fixed::Setup};

    /// A run of native and `fuse` at one point, before its first block, and a trial of it.
    fn fresh() -> (Progress, Trial) {
        fresh_of(vec!["open and stat"])
    }

    fn fresh_of(points: Vec<&'static str>) -> (Progress, Trial) {
        let (run, trials): (Run, Vec<TrialRecord>) = Sample {
            layers: vec!["fuse"],
            points,
            control: false,
            ..Sample::default()
        }
        .build();
        let setup = Setup {
            exe: "/".into(),
            silence: Duration::from_secs(1),
            catalog: Catalog::default(),
            notes: Vec::new(),
            env: layermark_model::Environment::new(),
            lacking: Vec::new(),
            placed: Vec::new(),
            in_layers: BTreeMap::new(),
            may_leave_out: true,
            begun: Instant::now(),
            speed: Speed::default(),
            usual_budget: true,
            looks: false,
        };
        let trial = trials.into_iter().find_map(|record| record.trial).unwrap();
        (Progress::new(run, &setup).unwrap(), trial)
    }

    /// The layers' trials, in which the work left these outcomes.
    fn outcome(trial: &Trial, left: &[(usize, &str)]) -> BlockOutcome {
        let made = |(layer, left): &(usize, &str)| TrialOutcome {
            layer: *layer,
            took: Duration::from_millis(20),
            trial: Some(Trial {
                outcome: Some((*left).to_owned()),
                ..trial.clone()
            }),
            ..TrialOutcome::default()
        };
        BlockOutcome {
            point: 0,
            next_round: 8,
            rested: None,
            trials: left.iter().map(made).collect(),
        }
    }

    #[test]
    fn trials_of_a_block_are_counted_and_owed_to_the_store() {
        let (mut progress, trial) = fresh();
        let counted = progress.count(outcome(&trial, &[(1, "a"), (0, "a")]));
        assert_eq!(counted.took, Duration::from_millis(40));
        assert_eq!(counted.failures, []);
        assert_eq!(progress.tally.tried(0, 0), [0, 1]);
        assert!(progress.clock.has_timed(0, 0) && progress.clock.has_timed(1, 0));
        let owed = progress.owed.iter().map(|t| (t.seq, t.cell.layer));
        assert_eq!(owed.collect::<Vec<_>>(), [(0, 1), (1, 0)]);
        assert_eq!(progress.seq, 2, "the next trial");
    }

    /// The share was that of the run's block, so that a point that had fallen behind never had short first blocks.
    #[test]
    fn the_share_of_a_point_depends_on_its_own_blocks() {
        let (mut progress, trial) = fresh_of(vec!["open and stat", "large read, warm"]);
        let shares = |progress: &Progress| [0, 1].map(|point| progress.share_ns(point));
        let first = shares(&progress)[0];
        for block in 0..8 {
            progress.block = block;
            assert_eq!(shares(&progress), [first; 2]);
            progress.count(outcome(&trial, &[(0, "a"), (1, "a")]));
        }
        progress.block = 8;
        let [behind, ahead] = [shares(&progress)[1], shares(&progress)[0]];
        assert!(behind == first && ahead > first, "{behind} {ahead}");
        progress.run.plan.blocks = Some(9);
        assert_eq!(shares(&progress), [ahead; 2], "a number was asked for");
    }

    /// The number of blocks was the fewest of any layer, so that one that failed each time kept all turns short for ever.
    #[test]
    fn a_layer_that_always_fails_does_not_keep_blocks_short() {
        let (mut progress, trial) = fresh();
        let (first, failing) = (progress.share_ns(0), progress.run.layers.len());
        let mut other = progress.run.layers[1].clone();
        other.name = "always fails".into();
        progress.run.layers.push(other);
        for block in 0..8 {
            progress.block = block;
            assert_eq!(progress.share_ns(0), first, "{block}");
            let mut made = outcome(&trial, &[(0, "a"), (1, "a"), (failing, "a")]);
            made.trials[2].trial = None;
            made.trials[2].failure = Some(Failure::Work {
                message: "no locks".into(),
                hint: None,
                errno: Some(37),
                defect: None,
            });
            progress.count(made);
        }
        assert_eq!(progress.tally.failures(failing, 0), 8);
        assert!(progress.can(failing, 0), "it is still tried");
        let later = progress.share_ns(0);
        assert!(later > first, "{later} {first}");
    }

    /// With its hint, and what it shows about the layer.
    #[test]
    fn the_error_of_a_trial_is_stored_whole() {
        let (mut progress, trial) = fresh();
        let mut failed = outcome(&trial, &[(0, "a"), (1, "a")]);
        failed.trials[1].trial = None;
        failed.trials[1].failure = Some(Failure::Work {
            message: "no locks".into(),
            hint: Some("try another".into()),
            errno: Some(37),
            defect: Some(Defect::Lacks),
        });
        progress.count(failed);
        let stored = &progress.owed[1];
        assert_eq!(stored.error.as_deref(), Some("no locks; hint: try another"));
        assert_eq!(stored.defect, Some(Defect::Lacks));
        assert_eq!(progress.owed[0].defect, None);
    }

    #[test]
    fn a_layer_whose_work_leaves_something_else_than_the_baseline_has_failed() {
        let (mut progress, trial) = fresh();
        // The layer's turn was first; it is judged by the baseline all the same.
        let counted = progress.count(outcome(&trial, &[(1, "b"), (0, "a")]));
        let [
            (
                1,
                Failure::Work {
                    message,
                    errno: None,
                    ..
                },
            ),
        ] = &counted.failures[..]
        else {
            panic!("{:?}", counted.failures);
        };
        assert_eq!(message, "the outcome is wrong: b; in native a");
        assert!(progress.owed[0].trial.is_none() && progress.owed[1].trial.is_some());
        assert_eq!(progress.owed[0].error.as_ref(), Some(message));
        // Later blocks are judged by the first one.
        let counted = progress.count(outcome(&trial, &[(0, "c"), (1, "a")]));
        let failed: Vec<usize> = counted.failures.iter().map(|(layer, _)| *layer).collect();
        assert_eq!(failed, [0]);
    }

    #[test]
    fn the_layer_that_was_at_work_when_a_block_was_cut_is_known() {
        let (_, trial) = fresh();
        let mut cut = outcome(&trial, &[(0, "a"), (1, "a")]);
        assert!(!cut.is_cut_off() && cut.cut_in().is_none());
        cut.trials[1].failure = Some(Failure::CutOff);
        assert!(
            cut.is_cut_off() && cut.cut_in().is_none(),
            "it waited for another"
        );
        cut.trials[1].cut_in = Some("it had its turn");
        assert_eq!(cut.cut_in(), Some((1, "it had its turn")));
    }
}
