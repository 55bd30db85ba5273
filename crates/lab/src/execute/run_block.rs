//! A block at one point: the layers that are ready at the same time prepare it, take turns, flush
//! and prove it.

use std::path::Path;

use layermark_layers::{drop_kernel_caches, spread};
use layermark_model::TurnCost;

use crate::{
    LabError,
    execute::{
        active_trial::ActiveTrial,
        background::ControlWindows,
        block::Block,
        fixed::Fixed,
        machine::Machine,
        outcome::{BlockOutcome, TrialOutcome},
        rounds::rounds,
        session::RunningLayer,
        trial::{Attempt, ask_to_end, ask_to_prepare, settle},
        trial_request::TrialRequest,
    },
};

/// Steps of a trial, in words: what was done when it was cut.
const MAKING: &str = "its files were made";
const COOLING: &str = "its caches were emptied";
const SETTLING: &str = "its files were flushed";
const ENDING: &str = "its results were read";

/// Runs a block at one point. Probes prepare and prove their work beside each other where [`at_once`] permits it, and
/// `meanwhile` runs while they do. In a turn, and while files are flushed, only one of them works.
pub(crate) fn run_block(
    fixed: &Fixed<'_>,
    machine: &mut Machine,
    block: &Block<'_>,
    meanwhile: &mut dyn FnMut() -> Result<(), LabError>,
) -> Result<BlockOutcome, LabError> {
    let mut trials: Vec<_> = block.requests.iter().map(ActiveTrial::new).collect();
    prepare(machine, block, &mut trials, meanwhile)?;
    let kernel = machine.meter.kernel();
    let mut windows = control_windows(machine, block);
    let made = rounds(fixed, machine, block, &mut trials, &mut windows);
    if !made.whole && trials.iter().all(ActiveTrial::is_well) {
        // Too few rounds for a decision: no outcome, so that `--resume` runs all of them again.
        return Ok(BlockOutcome {
            point: block.point,
            next_round: made.next,
            rested: made.rested,
            trials: Vec::new(),
        });
    }
    let all = trials.iter().map(|this| &this.attempt.used);
    let all = machine.meter.total(all, &kernel);
    let recent = machine.recent.with(all);
    for this in &mut trials {
        (this.attempt.beside, this.attempt.recent) = (all, recent);
        if let Some(up) = machine.up(this.request.layer) {
            this.attempt.background = windows.of(&up.physical());
            this.attempt.end_of_turns(up);
        }
    }
    for this in &mut trials {
        this.step(SETTLING, machine, |_, up, request| settle(up, request));
    }
    for trials in trials.chunks_mut(at_once(block)) {
        for this in &mut *trials {
            this.step(ENDING, machine, |_, up, request| ask_to_end(up, request));
            this.asked = this.is_well();
        }
        for this in trials {
            this.step(ENDING, machine, Attempt::ended);
            this.asked = false;
        }
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

/// Everything before the first turn.
fn prepare(
    machine: &mut Machine,
    block: &Block<'_>,
    trials: &mut [ActiveTrial<'_>],
    meanwhile: &mut dyn FnMut() -> Result<(), LabError>,
) -> Result<(), LabError> {
    if block
        .meaning
        .divided
        .is_some_and(|divided| divided.cost == TurnCost::Files)
        && let Some(request) = block.requests.first()
    {
        spread::reuse_deleted(Path::new(&request.base));
    }
    for trials in trials.chunks_mut(at_once(block)) {
        for this in &mut *trials {
            this.step(MAKING, machine, |_, up, request| {
                ask_to_prepare(up, request)
            });
            this.asked = this.is_well();
        }
        meanwhile()?;
        for this in trials {
            this.step(MAKING, machine, Attempt::prepared);
            this.asked = false;
        }
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

/// Control windows: after each round where flushes are counted, at points that flush and of launched
/// programs, which may flush.
fn control_windows(machine: &Machine, block: &Block<'_>) -> ControlWindows {
    let flushes = block.meaning.flushes || block.meaning.runs_programs();
    let layers = block.requests.iter().map(|request| request.layer);
    let up = layers.filter_map(|layer| machine.up(layer));
    ControlWindows::over(up.map(RunningLayer::physical), flushes)
}

/// Runs this many turns of this length in each layer, one layer after the other, without pauses for
/// others. Nothing is stored meanwhile.
pub(crate) fn run_stretches(
    machine: &mut Machine,
    block: &Block<'_>,
    stretches: u32,
    what: &'static str,
) -> Vec<TrialOutcome> {
    let mut trials: Vec<_> = block.requests.iter().map(ActiveTrial::new).collect();
    for this in &mut trials {
        this.step(what, machine, |attempt, up, request| {
            attempt.prepare(up, request)?;
            attempt.begin(up)
        });
    }
    for round in 0..stretches {
        for this in &mut trials {
            let mut moment = machine.meter.moment();
            this.turn(what, machine, (round, block.options.length), &mut moment);
        }
    }
    for this in &mut trials {
        this.step(what, machine, |attempt, up, request| {
            settle(up, request)?;
            attempt.end(up, request)
        });
    }
    trials.into_iter().map(|this| this.attempt.made).collect()
}
