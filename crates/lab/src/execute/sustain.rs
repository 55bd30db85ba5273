//! Work without pauses, at the end of a run. Limits refill while a layer rests between its turns: quotas and rates
//! of control groups, credits of cloud disks, caches of devices.

use std::{collections::BTreeMap, time::Duration};

use layermark_model::{BASELINE, LayerStatus, Sustained, Turn};
use layermark_stats::Pair;

use crate::{
    Ended,
    decide::tally::Tally,
    execute::{
        block::RoundOptions, drive::Lab, outcome::TrialOutcome, run_block::run_stretches,
        turn::Length,
    },
};

/// Length of a stretch: some periods of a CPU quota (100 ms by default), and more than devices and servers keep.
const STRETCH: Duration = Duration::from_millis(500);
/// Stretches of each layer, if a first one suggests anything. It may have been disturbed.
const STRETCHES: u32 = 2;
/// A first stretch suggests something if it takes this many times what the turns took, on average. A report calls it a finding
/// from a larger multiple on.
const SUGGESTS: f64 = 1.2;
/// What preparing and settling a trial of stretches takes, as assumed.
const OVERHEAD: Duration = Duration::from_millis(300);
/// All stretches take at most this part of the time that the run took, or what was kept for them, and no longer
/// than this.
const PART: u32 = 4;
const LONGEST: Duration = Duration::from_mins(1);
/// From this on, the user is told what is going on.
const NOTICED: Duration = Duration::from_secs(5);
/// Step of a trial, in words.
const STRETCHING: &str = "it worked without pauses";

impl Lab<'_> {
    /// Keeps time of the budget for stretches of layers with a known limit.
    pub(crate) fn reserve_for_stretches(&mut self) {
        let limited = self.stretched().filter(|layer| self.is_limited(*layer));
        let trials = match limited.count() {
            _ if !self.progress.run.sustained.is_empty() => 0,
            0 => 0,
            n => (n + 1) * self.lasting_points().count(),
        };
        self.progress.clock.reserve(cost(trials).min(LONGEST));
    }

    /// Measures the points that wait for a device without pauses: in layers with a known limit, and in all
    /// if that takes little time. What fails here is left out, and fails nothing else.
    pub(crate) fn sustain(&mut self, ended: Ended) {
        self.tick();
        let spent = self.progress.clock.spent();
        let kept = self.progress.clock.kept_for_the_end().max(spent / PART);
        let allowed = kept.min(LONGEST).min(self.progress.clock.left_at_the_end());
        let points: Vec<usize> = self.lasting_points().collect();
        let mut layers: Vec<usize> = self.stretched().collect();
        if cost((layers.len() + 1) * points.len()) > allowed {
            layers.retain(|layer| self.is_limited(*layer));
        }
        if ended == Ended::Stopped || layers.is_empty() {
            return;
        }
        let seq = self.progress.seq;
        let (mut took, mut noticed) = (Duration::ZERO, false);
        for point in points {
            let known = self.progress.run.sustained.iter().any(|s| s.point == point);
            let able = |layer: &usize| {
                self.progress.can(*layer, point)
                    && !self.progress.stopping.known(*layer, point).given_up
            };
            let here: Vec<usize> = [BASELINE]
                .iter()
                .chain(&layers)
                .copied()
                .filter(able)
                .collect();
            if known || here.first() != Some(&BASELINE) || here.len() < 2 {
                continue;
            }
            let longest = took + cost(here.len());
            if longest > allowed || self.fixed.stop.asked() || self.fixed.stop.is_spent() {
                break;
            }
            if longest >= NOTICED && !std::mem::replace(&mut noticed, true) {
                self.out.note("work without pauses is measured at the end");
            }
            let begun = self.fixed.stop.now();
            let failed = self.stretch(&here, point);
            took += self.fixed.stop.now() - begun;
            if failed.contains(&BASELINE) {
                break;
            }
            layers.retain(|layer| !failed.contains(layer));
        }
        // Stretches are no trials.
        self.progress.seq = seq;
    }

    /// The layers that are compared and up.
    fn stretched(&self) -> impl Iterator<Item = usize> {
        let compared = self.progress.compared().filter(|layer| *layer != BASELINE);
        compared.filter(|layer| {
            let of = &self.progress.run.layers[*layer];
            !of.control && of.status == LayerStatus::Ready && self.machine.layers[*layer].is_some()
        })
    }

    fn is_limited(&self, layer: usize) -> bool {
        !self.progress.run.layers[layer].facts.limits.is_empty()
    }

    /// Points whose operations wait for what is below: flushed and direct ones.
    fn lasting_points(&self) -> impl Iterator<Item = usize> {
        let lasts = |point: &usize| {
            let meaning = &self.progress.run.points[*point].meaning;
            let divided = meaning
                .divided
                .is_some_and(|d| !d.uses_up && !d.cost.has_tasks());
            divided && (meaning.flushes || meaning.is_direct())
        };
        (0..self.progress.run.points.len()).filter(lasts)
    }

    /// The stretches of a point, by which nothing is decided. Returns the layers that failed.
    fn stretch(&mut self, layers: &[usize], point: usize) -> Vec<usize> {
        let length = Length {
            ns: STRETCH.as_nanos() as u64,
            ..Length::WHOLE
        };
        let options = RoundOptions {
            length,
            ..RoundOptions::WHOLE
        };
        let progress = &mut self.progress;
        let block = progress.plan_block(&self.fixed, &self.machine, layers, point, options);
        // The probes tell jobs apart by it.
        progress.seq += block.requests.len() as u64;
        let mut failed = Vec::new();
        let tally = &self.progress.tally;
        let more = |last: &BTreeMap<usize, Turn>| suggests(tally, point, last);
        let all = run_stretches(&mut self.machine, &block, STRETCHES, &more, STRETCHING);
        let progress = &mut self.progress;
        for TrialOutcome {
            layer,
            trial,
            failure,
            ..
        } in all
        {
            let made = trial.filter(|_| failure.is_none());
            match made {
                Some(made) => progress.run.sustained.push(Sustained {
                    layer,
                    point,
                    apart: made.waiting.is_some_and(|waiting| waiting.apart),
                    disturbed: made.waiting.is_some_and(|waiting| waiting.disturbed),
                    throttled: made.throttled,
                    stretches: made.turns,
                }),
                None => failed.push(layer),
            }
        }
        failed
    }
}

/// Whether the last stretch took longer than the turns in any layer, or that is not known. Waiting for a CPU may be what a
/// quota does to the layer, and counts as its time; native's does not.
fn suggests(tally: &Tally, point: usize, last: &BTreeMap<usize, Turn>) -> bool {
    let own = |turn: &Turn| turn.net_ns().unwrap_or(turn.elapsed_ns);
    let native = last.get(&BASELINE);
    let Some(native) = native.and_then(|turn| ns_per_op(turn, own(turn))) else {
        return true;
    };
    let longer = |(layer, turn): (&usize, &Turn)| {
        let pairs = tally.pairs(*layer, point);
        let sum = |of: fn(&Pair) -> f64| pairs.iter().map(of).sum::<f64>();
        let usual = sum(|p| p.layer) / sum(|p| p.native);
        let is_usual = |ns: f64| ns / native <= SUGGESTS * usual;
        // Without any pair `usual` is no number, and nothing is as usual.
        !ns_per_op(turn, turn.elapsed_ns).is_some_and(is_usual)
    };
    let mut others = last.iter().filter(|(layer, _)| **layer != BASELINE);
    others.any(longer)
}

fn ns_per_op(turn: &Turn, ns: u64) -> Option<f64> {
    (turn.ops > 0 && ns > 0).then(|| ns as f64 / turn.ops as f64)
}

/// At most so long do this many trials of stretches take.
fn cost(trials: usize) -> Duration {
    (STRETCH * STRETCHES + OVERHEAD).saturating_mul(u32::try_from(trials).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use layermark_model::{Cell, Pass, Trial, TrialRecord};

    use super::*;

    fn record(layer: usize, ns: u64) -> TrialRecord {
        let pass = Pass {
            elapsed_ns: ns,
            ops: 1,
            ..Pass::default()
        };
        TrialRecord {
            cell: Cell {
                layer,
                ..Cell::default()
            },
            trial: Some(Trial {
                passes: vec![pass],
                ..Trial::default()
            }),
            ..TrialRecord::default()
        }
    }

    /// A layer that took twice native's time in its turns.
    #[test]
    fn a_second_stretch_follows_what_took_longer_than_the_turns() {
        let mut tally = Tally::default();
        tally.add(&record(BASELINE, 100));
        tally.add(&record(1, 200));
        let turn = |us: u64, waited: Option<u64>| Turn {
            round: 0,
            elapsed_ns: us * 1000,
            ops: 1000,
            bytes: 0,
            waited_ns: waited.map(|us| us * 1000),
            kernel_waited_ns: None,
        };
        let of = |native, layer| suggests(&tally, 0, &[(0, native), (1, layer)].into());
        assert!(!of(turn(100, None), turn(230, None)));
        assert!(of(turn(100, None), turn(250, None)));
        assert!(!of(turn(200, None), turn(230, None)), "both are slower");
        // A quota makes the layer wait for a CPU; that native waits is no reason not to look.
        assert!(of(turn(200, Some(100)), turn(250, Some(240))));
        let no_turn = Turn {
            ops: 0,
            ..turn(100, None)
        };
        assert!(of(no_turn, turn(100, None)) && of(turn(100, None), no_turn));
        assert!(suggests(
            &tally,
            1,
            &[(0, no_turn), (1, turn(1, None))].into()
        ));
        assert!(suggests(
            &tally,
            1,
            &[(0, turn(1, None)), (1, turn(1, None))].into()
        ));
    }
}
