//! Work without pauses, at the end of a run. Limits refill while a layer rests between its turns: quotas and rates
//! of control groups, credits of cloud disks, caches of devices.

use std::time::Duration;

use layermark_model::{BASELINE, LayerStatus, Sustained, Trial};

use crate::{
    Ended,
    execute::{drive::Lab, rounds::ActiveTrial, trial, turn::Length},
};

/// Length of a stretch: some periods of a CPU quota (100 ms by default), and more than devices and servers keep.
const STRETCH: Duration = Duration::from_millis(500);
/// Stretches of each layer. One alone may have been disturbed.
const STRETCHES: u32 = 2;
/// What preparing and settling a trial of stretches takes, as assumed.
const OVERHEAD: Duration = Duration::from_millis(300);
/// Where no limit is known, all stretches take at most this part of the time that the run took.
const PART: u32 = 4;
/// Step of a trial, in words.
const STRETCHING: &str = "it worked without pauses";

impl Lab<'_> {
    /// Keeps time of the budget for stretches of layers with a known limit.
    pub(crate) fn reserve_for_stretches(&mut self) {
        let limited = self.stretched().filter(|layer| self.is_limited(*layer));
        let trials = match limited.count() {
            0 => 0,
            n => (n + 1) * self.lasting_points().count(),
        };
        self.clock.reserve(cost(trials));
    }

    /// Measures the points that wait for a device without pauses: in layers with a known limit, and in all
    /// if that takes little time.
    pub(crate) fn sustain(&mut self, ended: Ended) {
        if matches!(ended, Ended::Stopped) || !self.run.sustained.is_empty() {
            return;
        }
        let stretched: Vec<usize> = self.stretched().collect();
        let points: Vec<usize> = self.lasting_points().collect();
        let all = cost((stretched.len() + 1) * points.len());
        let affordable = self.clock.spent() / PART;
        let chosen = |layer: &usize| all <= affordable || self.is_limited(*layer);
        let chosen: Vec<usize> = stretched.into_iter().filter(chosen).collect();
        for point in points {
            let able = |layer: &usize| self.can(*layer, point);
            let mut layers: Vec<usize> = chosen.iter().copied().filter(able).collect();
            if layers.is_empty() || !self.can(BASELINE, point) {
                continue;
            }
            layers.insert(0, BASELINE);
            let in_time = |left| cost(layers.len()) <= left;
            if self.stop.asked() || !self.stop.left().is_none_or(in_time) {
                return;
            }
            self.stretch(&layers, point);
        }
    }

    /// The layers that are compared and up.
    fn stretched(&self) -> impl Iterator<Item = usize> {
        let compared = self.compared().filter(|layer| *layer != BASELINE);
        compared.filter(|layer| {
            let of = &self.run.layers[*layer];
            !of.control && of.status == LayerStatus::Ready && self.running[*layer].is_some()
        })
    }

    fn is_limited(&self, layer: usize) -> bool {
        !self.run.layers[layer].facts.limits.is_empty()
    }

    /// Points whose operations wait for what is below: flushed and direct ones.
    fn lasting_points(&self) -> impl Iterator<Item = usize> {
        let lasts = |point: &usize| {
            let meaning = &self.run.points[*point].meaning;
            let divided = meaning
                .divided
                .is_some_and(|d| !d.uses_up && !d.cost.has_tasks());
            divided && (meaning.flushes || meaning.is_direct())
        };
        (0..self.run.points.len()).filter(lasts)
    }

    /// The stretches of a point, which are no trials: nothing is decided by them. What fails is left out.
    fn stretch(&mut self, layers: &[usize], point: usize) {
        let Ok(mut trials) = self.start_trials(layers, point) else {
            return;
        };
        let length = Length {
            ns: STRETCH.as_nanos() as u64,
            ..Length::WHOLE
        };
        let (watch, running) = (&self.watch, &mut self.running);
        for this in &mut trials {
            this.step(STRETCHING, watch, running, |attempt, up, request| {
                attempt.prepare(up, request, &mut || {})?;
                attempt.begin(up)
            });
        }
        for round in 0..STRETCHES {
            for this in &mut trials {
                let (meter, mut moment) = (&self.meter, self.meter.moment());
                this.step(STRETCHING, watch, running, |attempt, up, request| {
                    attempt.turn(up, request, (round, length), (meter, &mut moment))
                });
            }
        }
        for this in &mut trials {
            this.step(STRETCHING, watch, running, |attempt, up, request| {
                trial::settle(up, request)?;
                attempt.end(up, request)
            });
        }
        for ActiveTrial { layer, attempt, .. } in trials {
            let whole = |made: &Trial| made.turns.len() == STRETCHES as usize;
            let made = attempt.trial.filter(|_| attempt.failure.is_none());
            let sustained = made.filter(whole).map(|made| Sustained {
                layer,
                point,
                apart: made.waiting.is_some_and(|waiting| waiting.apart),
                stretches: made.turns,
            });
            self.run.sustained.extend(sustained);
        }
    }
}

/// About how long this many trials of stretches take.
fn cost(trials: usize) -> Duration {
    (STRETCH * STRETCHES + OVERHEAD).saturating_mul(u32::try_from(trials).unwrap_or(u32::MAX))
}
