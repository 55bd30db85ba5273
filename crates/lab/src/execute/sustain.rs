//! Work without pauses, at the end of a run. Limits refill while a layer rests between its turns: quotas and rates
//! of control groups, credits of cloud disks, caches of devices.

use std::time::Duration;

use layermark_model::{BASELINE, LayerStatus, Sustained};

use crate::{
    Ended,
    execute::{
        block::RoundOptions, drive::Lab, outcome::TrialOutcome, run_block::run_stretches,
        turn::Length,
    },
};

/// Length of a stretch: some periods of a CPU quota (100 ms by default), and more than devices and servers keep.
const STRETCH: Duration = Duration::from_millis(500);
/// Stretches of each layer. One alone may have been disturbed.
const STRETCHES: u32 = 2;
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
        let mut took = Duration::ZERO;
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
            let before = took;
            took += cost(here.len());
            if took > allowed || self.fixed.stop.asked() || self.fixed.stop.is_spent() {
                break;
            }
            if (before..took).contains(&NOTICED) {
                self.out.note("work without pauses is measured at the end");
            }
            let failed = self.stretch(&here, point);
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
        let all = run_stretches(&mut self.machine, &block, STRETCHES, STRETCHING);
        for TrialOutcome {
            layer,
            trial,
            failure,
            ..
        } in all
        {
            let made = trial.filter(|_| failure.is_none());
            match made.filter(|made| made.turns.len() == STRETCHES as usize) {
                Some(made) => progress.run.sustained.push(Sustained {
                    layer,
                    point,
                    apart: made.waiting.is_some_and(|waiting| waiting.apart),
                    throttled: made.throttled,
                    stretches: made.turns,
                }),
                None => failed.push(layer),
            }
        }
        failed
    }
}

/// About how long this many trials of stretches take.
fn cost(trials: usize) -> Duration {
    (STRETCH * STRETCHES + OVERHEAD).saturating_mul(u32::try_from(trials).unwrap_or(u32::MAX))
}
