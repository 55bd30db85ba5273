//! Rounds: one turn in each layer that is ready, repeated.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use layermark_model::{BASELINE, RestedTurn};

use crate::{
    decide::share::{FULL_NS, LEAST_ROUNDS},
    execute::{
        active_trial::ActiveTrial,
        background::{ControlWindows, REST},
        block::Block,
        fixed::Fixed,
        machine::Machine,
        pin::OneCpu,
        progress::Progress,
        rested::RestedRounds,
        session::RunningLayer,
        turn::Length,
        waited::Waited,
    },
};

/// The pauses of all rested rounds take at most this part of the budget.
const RESTED_PART: u32 = 2;
/// Rounds end, whatever the minimum, after this many full shares, including the time between turns.
const MOST_SHARES: u64 = 3;

/// Turns move to another CPU where they wait for one in so many parts of their time.
const MOVES: u64 = 10;

/// Step of a trial, in words.
const TURN: &str = "it had its turn";

/// Rounds that were made.
pub(crate) struct RoundsMade {
    /// Number of the next round.
    pub next: u32,
    /// Whether all rounds were done: the user may have asked to stop.
    pub whole: bool,
    /// What turns waited for a CPU.
    pub waited: Waited,
    /// In a rested round: flushes after the turn of each layer.
    pub rested: Option<BTreeMap<usize, u64>>,
}

/// Runs rounds of turns until the block's share of time is spent, with a control window after
/// each round.
pub(crate) fn rounds(
    fixed: &Fixed<'_>,
    machine: &mut Machine,
    block: &Block<'_>,
    trials: &mut [ActiveTrial<'_>],
    windows: &mut ControlWindows,
) -> RoundsMade {
    let layers: Vec<usize> = block.requests.iter().map(|r| r.layer).collect();
    let length = block.options.length;
    let mut one_cpu = block.options.one_cpu.then(|| {
        let up = layers.iter().filter_map(|layer| machine.up(*layer));
        let mut one_cpu = OneCpu::with(up.filter_map(|up| up.probe.pid()));
        if block.options.cpu_per_round {
            one_cpu.begin(block.number);
        }
        one_cpu
    });
    let count = layers.len() as u64;
    let shares = Shares {
        share: block.options.share_ns * count,
        most: MOST_SHARES * FULL_NS * count,
    };
    windows.watch(Duration::ZERO);
    let (mut moment, mut begun) = (machine.meter.moment(), Instant::now());
    let (mut round, mut waited) = (block.first_round, Waited::default());
    loop {
        let round_begun = Instant::now();
        let made = round - block.first_round;
        let order = fixed
            .schedule
            .round(block.number, block.point, &layers, made);
        for layer in order {
            let Some(this) = trials.iter_mut().find(|t| t.request.layer == layer) else {
                continue;
            };
            let asked = Instant::now();
            this.turn(TURN, machine, (round, length), &mut moment);
            if !this.is_well() {
                // A turn may have been waited for. That time is not taken from the share of the
                // others.
                moment = machine.meter.moment();
                begun += asked.elapsed();
            }
        }
        let turns = trials.iter().filter_map(|t| t.attempt.last);
        let this = Waited::of(turns.filter(|turn| turn.round == round));
        if let Some(one_cpu) = one_cpu.as_mut().filter(|_| block.options.cpu_per_round) {
            one_cpu.next(this.is_over(MOVES));
        }
        waited = waited.and(this);
        round += 1;
        let paused = windows.watch(round_begun.elapsed());
        if !paused.is_zero() {
            begun += paused;
            moment = machine.meter.moment();
        }
        let whole = are_done(trials, (made + 1, length), shares, begun.elapsed());
        if whole || fixed.stop.asked() {
            let rests = whole && may_rest(fixed, block, trials, windows);
            let rested =
                rests.then(|| rested_round(fixed, machine, trials, (round, length), windows));
            return RoundsMade {
                next: round + u32::from(rests),
                whole,
                waited,
                rested: rested.flatten(),
            };
        }
    }
}

/// Nanoseconds of all layers together.
#[derive(Clone, Copy)]
struct Shares {
    /// The block's share of time.
    share: u64,
    /// The time after which it ends in any case.
    most: u64,
}

/// Whether this many rounds are enough: they took the block's share of time, or there is no more to do.
fn are_done(
    trials: &[ActiveTrial<'_>],
    (made, length): (u32, Length),
    shares: Shares,
    took: Duration,
) -> bool {
    let mut left = trials.iter().filter(|t| t.is_well());
    let spent: u64 = trials.iter().map(|t| t.attempt.elapsed_ns).sum();
    let enough = made >= LEAST_ROUNDS && spent >= shares.share;
    let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    // There is no round without the baseline, or once a layer is finished.
    let none = left.clone().next().is_none()
        || left.any(|t| !t.attempt.more)
        || trials
            .iter()
            .any(|t| t.request.layer == BASELINE && !t.is_well());
    enough || made >= length.most_rounds || spent.max(took) >= shares.most || none
}

/// Whether a rested round follows: devices flushed in the control windows, and there is time for the pauses.
fn may_rest(
    fixed: &Fixed<'_>,
    block: &Block<'_>,
    trials: &[ActiveTrial<'_>],
    windows: &ControlWindows,
) -> bool {
    // The pauses are in no trial's time, and a block that is cut is lost.
    let pauses = pauses(trials.len());
    block.may_rest
        && windows.saw_flushes()
        && fixed.stop.left().is_none_or(|left| pauses * 2 <= left)
        && !fixed.stop.is_ending()
        && trials.iter().all(|t| t.is_well() && t.attempt.more)
}

/// One more round, in which all layers rest before and after each turn. The control's would show what
/// the baseline's do. Returns the flushes after each layer's turn; `None` if the run ends meanwhile.
fn rested_round(
    fixed: &Fixed<'_>,
    machine: &mut Machine,
    trials: &mut [ActiveTrial<'_>],
    round: (u32, Length),
    windows: &ControlWindows,
) -> Option<BTreeMap<usize, u64>> {
    thread::sleep(REST);
    for this in trials.iter_mut() {
        if this.request.control {
            continue;
        }
        if fixed.stop.is_ending() {
            return None;
        }
        let mut moment = machine.meter.moment();
        this.turn(TURN, machine, round, &mut moment);
        let devices = machine.up(this.request.layer).map(RunningLayer::physical);
        let counted = this
            .attempt
            .flushed
            .zip(windows.rest(&devices.unwrap_or_default()));
        this.attempt.rested =
            counted.map(|(flushes, (later, ns))| RestedTurn { flushes, later, ns });
    }
    let later = |t: &ActiveTrial<'_>| Some((t.request.layer, t.attempt.rested?.later));
    Some(trials.iter().filter_map(later).collect())
}

/// Duration of the pauses of a rested round of this many layers.
fn pauses(layers: usize) -> Duration {
    REST * (layers as u32 + 1)
}

impl Progress {
    /// Whether a rested round of these layers may show something: earlier ones leave a suspect at a point
    /// that flushes, and the pauses take little of the budget.
    pub(crate) fn may_rest(&self, layers: &[usize], point: usize) -> bool {
        let Some(key) = rested_key(layers, point) else {
            return false;
        };
        let all: u32 = self.rested.values().map(RestedRounds::made).sum();
        let budget = self.clock.budget().unwrap_or(Duration::MAX);
        self.run.points[point].meaning.flushes
            && self.rested.get(&key).is_none_or(RestedRounds::go_on)
            && pauses(layers.len()) * (all + 1) <= budget / RESTED_PART
    }

    /// Adds a rested round of these layers: the flushes after the turn of each.
    pub(crate) fn add_rested(
        &mut self,
        layers: &[usize],
        point: usize,
        later: &BTreeMap<usize, u64>,
    ) {
        if let Some(key) = rested_key(layers, point) {
            self.rested.entry(key).or_default().add(later);
        }
    }
}

/// The point, and a layer beside the baseline that tells the parts of a block apart. `None` where a layer
/// works alone.
fn rested_key(layers: &[usize], point: usize) -> Option<(usize, usize)> {
    // Not the first one: the order is drawn for each block.
    let beside = layers.iter().filter(|l| **l != BASELINE).min()?;
    layers.contains(&BASELINE).then_some((point, *beside))
}
