//! A block at one point: the layers that are ready at the same time prepare it, take turns, flush
//! and prove it.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use layermark_layers::{drop_kernel_caches, spread};
use layermark_model::{Divided, Priority, Turn, TurnCost};
use rustix::process::Pid;

use crate::{
    LabError,
    execute::{
        active_trial::ActiveTrial,
        background::ControlWindows,
        block::Block,
        cpu::{Kernel, Used},
        fixed::Fixed,
        machine::Machine,
        outcome::{BlockOutcome, TrialOutcome},
        priority::{Raised, way_after},
        rounds::rounds,
        session::RunningLayer,
        trial::{Attempt, ask_to_end, ask_to_prepare, settle},
        trial_request::{Failure, TrialRequest},
        turn::Length,
    },
};

/// Steps of a trial, in words: what was done when it was cut.
const MAKING: &str = "its files were made";
const COOLING: &str = "its caches were emptied";
const SETTLING: &str = "its files were flushed";
const ENDING: &str = "its results were read";

/// How long answers of several probes are looked for without one.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval of these looks.
const MOMENT: Duration = Duration::from_millis(1);

/// Runs a block at one point. Probes prepare and prove their work beside each other where [`at_once`] permits it, and
/// `meanwhile` runs while they do. In a turn, and while files are flushed, only one of them works.
pub(crate) fn run_block(
    fixed: &Fixed<'_>,
    machine: &mut Machine,
    block: &Block<'_>,
    meanwhile: &mut dyn FnMut() -> Result<(), LabError>,
) -> Result<BlockOutcome, LabError> {
    let mut trials: Vec<_> = block.requests.iter().map(ActiveTrial::new).collect();
    let raised = raised(machine, block);
    prepare(fixed, machine, block, &mut trials, meanwhile)?;
    let kernel = machine.meter.kernel();
    let mut windows = control_windows(machine, block);
    let made = rounds(fixed, machine, block, &mut trials, &mut windows);
    if let Some(raised) = &raised {
        if raised.way == Priority::Nice {
            machine.turns = machine.turns.and(made.waited);
        }
        for this in &mut trials {
            this.attempt.priority = Some(raised.way);
        }
    }
    if !made.whole && trials.iter().all(ActiveTrial::is_well) {
        // Too few rounds for a decision: no outcome, so that `--resume` runs all of them again.
        return Ok(BlockOutcome {
            point: block.point,
            next_round: made.next,
            rested: made.rested,
            trials: Vec::new(),
        });
    }
    let all = used_together(machine, &kernel, &mut trials);
    let recent = machine.recent.with(all);
    machine.beside_others = recent.is_contaminated();
    for this in &mut trials {
        this.attempt.recent = recent;
        if let Some(up) = machine.up(this.request.layer) {
            this.attempt.background = windows.of(&up.physical());
            this.attempt.end_of_turns(up);
        }
    }
    for this in &mut trials {
        this.step(SETTLING, machine, |_, up, request| settle(up, request));
    }
    for trials in trials.chunks_mut(at_once(block)) {
        let steps = AskAndWait {
            what: ENDING,
            ask: ask_to_end,
            wait: Attempt::ended,
        };
        beside_each_other(fixed, machine, trials, &steps, &mut || Ok(()))?;
    }
    for this in &mut trials {
        if let Some(made) = &mut this.attempt.made.trial {
            made.restarted = block.restarted;
        }
    }
    Ok(BlockOutcome {
        point: block.point,
        next_round: made.next,
        rested: made.rested,
        trials: trials.into_iter().map(|this| this.attempt.made).collect(),
    })
}

/// The threads that work in a block, this one among them, with a higher priority, if the block has that.
fn raised(machine: &Machine, block: &Block<'_>) -> Option<Raised> {
    if !block.options.raised {
        return None;
    }
    let layers = block.requests.iter().map(|request| request.layer);
    let up = layers.filter_map(|layer| machine.up(layer));
    let pids = up.filter_map(|up| up.probe.pid());
    let probes = pids.filter_map(|pid| Pid::from_raw(pid.cast_signed()).map(Some));
    let all: Vec<Option<Pid>> = [None].into_iter().chain(probes).collect();
    Raised::with(way_after(machine.turns), &all)
}

/// What all turns used, the kernel's threads since `kernel` included, by which each trial tells whether others disturbed it.
fn used_together(machine: &Machine, kernel: &Kernel, trials: &mut [ActiveTrial<'_>]) -> Used {
    let each = trials.iter().map(|this| &this.attempt.used);
    let all = machine.meter.total(each, kernel);
    for this in trials {
        this.attempt.beside = all;
    }
    all
}

/// How many layers prepare and prove their work beside each other.
///
/// One, where it would change what is measured: work with two ends times itself while it prepares, programs of the user
/// may use the same home or port, and files that are read from the disk would lie between those of other layers.
fn at_once(block: &Block<'_>) -> usize {
    let meaning = &block.meaning;
    let has_two_ends = |request: &TrialRequest<'_>| request.point.needs.near.has_two();
    let alone = meaning.runs_programs()
        || meaning.is_cold()
        || meaning.is_direct()
        || block.requests.iter().any(has_two_ends);
    if alone {
        1
    } else {
        block.requests.len().max(1)
    }
}

/// Whether turns make and remove files, which takes longer where others were just removed. A program may: `git status` makes
/// a lock each time. Where no lead-in reads the program itself again, the caches stay as they are.
fn may_make_files(divided: Option<Divided>, length: Length) -> bool {
    divided.is_some_and(|divided| match divided.cost {
        TurnCost::Files => true,
        TurnCost::Execution => length.lead_in_ns > 0,
        TurnCost::Nothing | TurnCost::Threads => false,
    })
}

/// Everything before the first turn.
fn prepare(
    fixed: &Fixed<'_>,
    machine: &mut Machine,
    block: &Block<'_>,
    trials: &mut [ActiveTrial<'_>],
    meanwhile: &mut dyn FnMut() -> Result<(), LabError>,
) -> Result<(), LabError> {
    if may_make_files(block.meaning.divided, block.options.length)
        && let Some(request) = block.requests.first()
    {
        spread::reuse_deleted(Path::new(&request.base));
    }
    for trials in trials.chunks_mut(at_once(block)) {
        let steps = AskAndWait {
            what: MAKING,
            ask: ask_to_prepare,
            wait: Attempt::prepared,
        };
        beside_each_other(fixed, machine, trials, &steps, meanwhile)?;
    }
    if block.meaning.is_cold() {
        for this in &mut *trials {
            this.step(COOLING, machine, Attempt::cool);
        }
        drop_kernel_caches(trials.iter_mut().map(|this| &mut this.attempt.cooled));
    }
    for this in trials {
        this.step(MAKING, machine, |attempt, up, _| attempt.begin(up));
    }
    Ok(())
}

/// A step in two halves: what is asked of a probe, and the wait for its answer.
struct AskAndWait {
    /// What it is, in words.
    what: &'static str,
    ask: fn(&mut RunningLayer, &TrialRequest<'_>) -> Result<(), Failure>,
    wait: fn(&mut Attempt, &mut RunningLayer, &TrialRequest<'_>) -> Result<(), Failure>,
}

/// Asks all probes for a step, does something else, and takes the answers in the order in which they come. The time of all is
/// divided among the layers.
fn beside_each_other(
    fixed: &Fixed<'_>,
    machine: &mut Machine,
    trials: &mut [ActiveTrial<'_>],
    steps: &AskAndWait,
    meanwhile: &mut dyn FnMut() -> Result<(), LabError>,
) -> Result<(), LabError> {
    let begun = fixed.stop.now();
    for this in &mut *trials {
        this.beside = true;
        this.step(steps.what, machine, |_, up, request| {
            (steps.ask)(up, request)
        });
        this.asked = this.is_well();
    }
    meanwhile()?;
    let mut left: Vec<usize> = (0..trials.len()).collect();
    let mut took = vec![Duration::ZERO; trials.len()];
    while !left.is_empty() {
        let at = left.remove(first_answer(fixed, machine, trials, &left));
        let this = &mut trials[at];
        this.step(steps.what, machine, steps.wait);
        this.asked = false;
        took[at] = fixed.stop.now() - begun;
    }
    for (this, charge) in trials.iter_mut().zip(charges(&took)) {
        this.beside = false;
        this.attempt.made.took += charge;
    }
    Ok(())
}

/// Index in `left` of a trial whose probe has answered, or has failed before; of the first one if no other answers for
/// [`PATIENCE`]: that one is waited for with all limits of a wait.
fn first_answer(
    fixed: &Fixed<'_>,
    machine: &mut Machine,
    trials: &[ActiveTrial<'_>],
    left: &[usize],
) -> usize {
    let begun = Instant::now();
    let patience = PATIENCE.min(fixed.setup.silence);
    while left.len() > 1 && begun.elapsed() < patience && !fixed.stop.at_once() {
        for (place, at) in left.iter().enumerate() {
            let this = &trials[*at];
            let up = machine.layers[this.request.layer].as_mut();
            let Some(up) = up.filter(|_| this.is_well()) else {
                return place;
            };
            // The first one is waited for a moment, so that this does not spin.
            let limit = if place == 0 { MOMENT } else { Duration::ZERO };
            if up.probes(this.request.end()).0.has_answered(limit) {
                return place;
            }
        }
    }
    0
}

/// What each layer is charged for work that layers did beside each other and that took each of them so long: a part of the
/// time of all in proportion. What was done beside slow work costs the run little.
fn charges(took: &[Duration]) -> Vec<Duration> {
    let all = took.iter().copied().max().unwrap_or_default();
    let sum: Duration = took.iter().sum();
    let part = |of: &Duration| {
        if sum.is_zero() {
            Duration::ZERO
        } else {
            all.mul_f64(of.as_secs_f64() / sum.as_secs_f64())
        }
    };
    took.iter().map(part).collect()
}

/// Control windows: after each round where flushes are counted, at points that flush and of launched
/// programs, which may flush.
fn control_windows(machine: &Machine, block: &Block<'_>) -> ControlWindows {
    let flushes = block.meaning.flushes || block.meaning.runs_programs();
    let layers = block.requests.iter().map(|request| request.layer);
    let up = layers.filter_map(|layer| machine.up(layer));
    ControlWindows::over(up.map(RunningLayer::physical), flushes)
}

/// Runs up to this many turns of this length in each layer, one layer after the other, without pauses for others, while
/// one more is wanted after the last ones. Nothing is stored meanwhile.
pub(crate) fn run_stretches(
    machine: &mut Machine,
    block: &Block<'_>,
    stretches: u32,
    more: &dyn Fn(&BTreeMap<usize, Turn>) -> bool,
    what: &'static str,
) -> Vec<TrialOutcome> {
    let mut trials: Vec<_> = block.requests.iter().map(ActiveTrial::new).collect();
    for this in &mut trials {
        this.step(what, machine, |attempt, up, request| {
            attempt.prepare(up, request)?;
            attempt.begin(up)
        });
    }
    let kernel = machine.meter.kernel();
    for round in 0..stretches {
        for this in &mut trials {
            let mut moment = machine.meter.moment();
            this.turn(what, machine, (round, block.options.length), &mut moment);
        }
        let last = trials
            .iter()
            .filter_map(|t| Some((t.request.layer, t.attempt.last?)));
        if !more(&last.collect()) {
            break;
        }
    }
    used_together(machine, &kernel, &mut trials);
    for this in &mut trials {
        this.step(what, machine, |attempt, up, request| {
            settle(up, request)?;
            attempt.end(up, request)
        });
    }
    trials.into_iter().map(|this| this.attempt.made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of it was charged to the layer that was waited for first.
    #[test]
    fn work_beside_each_other_is_charged_to_the_slow_layer() {
        let ms = Duration::from_millis;
        let charged = charges(&[ms(100), ms(900), ms(1000)]);
        assert_eq!(charged, [ms(50), ms(450), ms(500)]);
        assert_eq!(charged.iter().sum::<Duration>(), ms(1000));
        assert_eq!(charges(&[ms(7)]), [ms(7)]);
        assert_eq!(charges(&[Duration::ZERO; 2]), [Duration::ZERO; 2]);
        assert!(charges(&[]).is_empty());
    }

    #[test]
    fn what_was_removed_is_used_again_where_turns_make_files_and_nothing_else_is_colder() {
        let made = |cost, uses_up| {
            let divided = Divided {
                in_memory: false,
                uses_up,
                working_set: 0,
                cost,
                under_way: 0,
            };
            may_make_files(Some(divided), Length::of(divided, false, None))
        };
        assert!(made(TurnCost::Files, false) && made(TurnCost::Files, true));
        assert!(made(TurnCost::Execution, false), "a lead-in comes first");
        assert!(!made(TurnCost::Execution, true));
        assert!(!made(TurnCost::Nothing, false) && !made(TurnCost::Threads, false));
        assert!(!may_make_files(None, Length::WHOLE));
    }
}
