//! Rounds: one turn in each layer that is ready, repeated.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use layermark_model::{BASELINE, RestedTurn};

use crate::{
    decide::guess::MIN_MS,
    execute::{
        background::{ControlWindows, REST},
        drive::Lab,
        pin::OneCpu,
        rested::RestedRounds,
        session::RunningLayer,
        trial::Attempt,
        trial_request::{Failure, TrialRequest},
        turn::Length,
        watch::Watch,
    },
};

/// The turns of a block last at least this long, times the number of layers.
const SHARE_NS: u64 = MIN_MS * 1_000_000;
/// A block has at least this many rounds, unless its turn length allows fewer.
const LEAST_ROUNDS: u32 = 8;
/// The pauses of all rested rounds take at most this part of the budget.
const RESTED_PART: u32 = 2;
/// Rounds end, whatever the minimum, after this many shares, including the time between turns.
const MOST_SHARES: u64 = 3;

/// See [`ActiveTrial::cut_in`].
const TURN: &str = "it had its turn";

/// Options of the rounds: how layers take turns.
#[derive(Clone, Copy)]
pub(crate) struct RoundOptions {
    pub length: Length,
    /// Whether all layers run on one CPU.
    pub one_cpu: bool,
}

impl RoundOptions {
    /// One uninterrupted stretch.
    pub(crate) const WHOLE: Self = Self {
        length: Length::WHOLE,
        one_cpu: false,
    };
}

/// A trial in progress.
pub(crate) struct ActiveTrial<'a> {
    pub layer: usize,
    pub request: TrialRequest<'a>,
    pub attempt: Attempt,
    /// The step in which it was cut off, in words.
    pub cut_in: Option<&'static str>,
}

impl ActiveTrial<'_> {
    pub(crate) fn is_cut_off(&self) -> bool {
        self.attempt.failure == Some(Failure::CutOff)
    }

    /// Does a step of the trial. The processes that serve the layer are watched meanwhile.
    pub(crate) fn step(
        &mut self,
        what: &'static str,
        watch: &Watch,
        running: &mut [Option<RunningLayer>],
        step: impl FnOnce(&mut Attempt, &mut RunningLayer, &TrialRequest<'_>) -> Result<(), Failure>,
    ) {
        if self.request.stop.at_once() {
            self.attempt.failure = Some(Failure::CutOff);
        }
        let (begun, before) = (self.request.stop.now(), self.is_cut_off());
        if let Some(up) = &mut running[self.layer] {
            let request = &self.request;
            let watching = watch.over(&up.info().helpers);
            self.attempt
                .step(up, |attempt, up| step(attempt, up, request));
            if let Err(lost) = watching.judge(Ok(())) {
                self.attempt.lose(lost);
            }
        }
        self.attempt.took += self.request.stop.now() - begun;
        if !before && self.is_cut_off() {
            self.cut_in = Some(what);
        }
    }
}

impl Lab<'_> {
    /// Runs rounds of turns until the block's share of time is spent, with a control window after
    /// each round. Returns the number of the next round, and whether all rounds were done: the user
    /// may have asked to stop.
    pub(crate) fn rounds(
        &mut self,
        trials: &mut [ActiveTrial<'_>],
        point: usize,
        options: RoundOptions,
        first_round: u32,
        windows: &mut ControlWindows,
    ) -> (u32, bool) {
        let _one_cpu = options.one_cpu.then(|| {
            let running = trials
                .iter()
                .filter_map(|this| self.running[this.layer].as_ref());
            OneCpu::with(running.filter_map(|up| up.probe.pid()))
        });
        let layers: Vec<usize> = trials.iter().map(|t| t.layer).collect();
        let share = SHARE_NS * layers.len() as u64;
        windows.watch(Duration::ZERO);
        let (mut moment, mut begun) = (self.meter.moment(), Instant::now());
        let mut round = first_round;
        loop {
            let round_begun = Instant::now();
            let order = self
                .schedule
                .round(self.block, point, &layers, round - first_round);
            for layer in order {
                let Some(this) = trials.iter_mut().find(|t| t.layer == layer) else {
                    continue;
                };
                let (meter, asked) = (&self.meter, Instant::now());
                this.step(
                    TURN,
                    &self.watch,
                    &mut self.running,
                    |attempt, up, request| {
                        attempt.turn(up, request, (round, options.length), (meter, &mut moment))
                    },
                );
                if this.attempt.failure.is_some() {
                    // A turn may have been waited for. That time is not taken from the share of the
                    // others.
                    moment = self.meter.moment();
                    begun += asked.elapsed();
                }
            }
            round += 1;
            let paused = windows.watch(round_begun.elapsed());
            if !paused.is_zero() {
                begun += paused;
                moment = self.meter.moment();
            }
            let mut left = trials.iter().filter(|t| t.attempt.failure.is_none());
            let spent: u64 = trials.iter().map(|t| t.attempt.elapsed_ns).sum();
            let made = round - first_round;
            let enough = made >= LEAST_ROUNDS && spent >= share;
            let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            // There is no round without the baseline, or once a layer is finished.
            let none = layers.is_empty()
                || left.clone().next().is_none()
                || left.any(|t| !t.attempt.more)
                || trials
                    .iter()
                    .any(|t| t.layer == BASELINE && t.attempt.failure.is_some());
            let whole = enough
                || made >= options.length.most_rounds
                || spent.max(took) >= MOST_SHARES * share
                || none;
            if whole || self.stop.asked() {
                let rests = whole && self.may_rest(trials, point, windows);
                if rests {
                    self.rested_round(trials, point, (round, options.length), windows);
                }
                return (round + u32::from(rests), whole);
            }
        }
    }

    /// Whether a rested round follows: devices flushed in the control windows of a point that flushes,
    /// earlier rested rounds leave a suspect, and the pauses take little of the budget.
    fn may_rest(&self, trials: &[ActiveTrial<'_>], point: usize, windows: &ControlWindows) -> bool {
        let Some(key) = rested_key(trials, point) else {
            return false;
        };
        let pauses = REST * (trials.len() as u32 + 1);
        let all: u32 = self.rested.values().map(RestedRounds::made).sum();
        let budget = self.clock.budget().unwrap_or(Duration::MAX);
        let able = |t: &ActiveTrial<'_>| t.attempt.failure.is_none() && t.attempt.more;
        // The pauses are in no trial's time, and a block that is cut is lost.
        let in_time = self.stop.left().is_none_or(|left| pauses * 2 <= left);
        self.run.points[point].meaning.flushes
            && windows.saw_flushes()
            && in_time
            && !self.stop.is_ending()
            && self.rested.get(&key).is_none_or(RestedRounds::go_on)
            && pauses * (all + 1) <= budget / RESTED_PART
            && trials.iter().all(able)
    }

    /// One more round, in which all layers rest before and after each turn. The control's would show what
    /// the baseline's do.
    fn rested_round(
        &mut self,
        trials: &mut [ActiveTrial<'_>],
        point: usize,
        (round, length): (u32, Length),
        windows: &ControlWindows,
    ) {
        thread::sleep(REST);
        for this in trials.iter_mut() {
            if self.run.layers[this.layer].control {
                continue;
            }
            if self.stop.is_ending() {
                return;
            }
            let (meter, mut moment) = (&self.meter, self.meter.moment());
            this.step(
                TURN,
                &self.watch,
                &mut self.running,
                |attempt, up, request| {
                    attempt.turn(up, request, (round, length), (meter, &mut moment))
                },
            );
            let devices = self.running[this.layer].as_ref();
            let devices = devices.map(RunningLayer::physical).unwrap_or_default();
            let counted = this.attempt.flushed.zip(windows.rest(&devices));
            this.attempt.rested =
                counted.map(|(flushes, (later, ns))| RestedTurn { flushes, later, ns });
        }
        let later = |t: &ActiveTrial<'_>| Some((t.layer, t.attempt.rested?.later));
        let later: BTreeMap<usize, u64> = trials.iter().filter_map(later).collect();
        if let Some(key) = rested_key(trials, point) {
            self.rested.entry(key).or_default().add(&later);
        }
    }
}

/// The point, and a layer beside the baseline that tells the parts of a block apart. `None` where a layer
/// works alone.
fn rested_key(trials: &[ActiveTrial<'_>], point: usize) -> Option<(usize, usize)> {
    let mut layers = trials.iter().map(|t| t.layer);
    // Not the first one: the order is drawn for each block.
    let beside = layers.clone().filter(|l| *l != BASELINE).min()?;
    layers.any(|l| l == BASELINE).then_some((point, beside))
}
