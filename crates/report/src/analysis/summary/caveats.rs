//! Caveats for all sentences, printed next to the headline.

use layermark_model::{Run, RunStatus, TrialRecord, flags};

use crate::{
    analysis::{
        limits,
        summary::{Findings, locks},
    },
    code_span::code,
    number,
};

/// Up to this share of disturbed trials, the trimmed means exclude them.
const BORNE: f64 = 0.2;

/// The beginning of the caveat about other programs.
const BUSY: &str = "Busy machine";

/// The caveat that a run was measured on a busy machine.
pub fn busy_machine(caveats: &[String]) -> Option<&String> {
    caveats.iter().find(|c| c.starts_with(BUSY))
}

/// Whether a run with these caveats was measured on a busy machine.
pub fn is_busy(caveats: &[String]) -> bool {
    busy_machine(caveats).is_some()
}

/// All caveats of a run.
pub fn all(f: &Findings, trials: &[TrialRecord]) -> Vec<String> {
    busy(f, trials)
        .into_iter()
        .chain(limits::caveat(f.run, f.results))
        .chain(locks::caveats(f.locks))
        .chain(cut_short(f.run, trials))
        .chain(cut_by_budget(f.run))
        .collect()
}

/// What was at work when the budget was spent, and the command that continues it.
fn cut_by_budget(run: &Run) -> Option<String> {
    let cut = run.cut.as_ref()?;
    let point = cut
        .point
        .as_deref()
        .map(|point| format!("{} ", code(point)));
    let layer = cut
        .layer
        .as_deref()
        .map(|layer| format!("in {} ", code(layer)));
    let block = cut.block.map(|block| format!("in block {block} "));
    let at = [point, layer, block]
        .map(Option::unwrap_or_default)
        .concat();
    let at = if at.is_empty() { "the run " } else { &at };
    let budget = run.plan.budget.as_deref().unwrap_or_default();
    // A set-up takes as long again.
    let smaller = if cut.in_set_up() {
        format!(
            "{} makes the files that layers take in smaller, ",
            code("--scale 0.1")
        )
    } else {
        String::new()
    };
    let command = format!(
        "layermark run --resume {} --budget {}s",
        run.store.find(&run.id),
        cut.enough_s
    );
    Some(format!(
        "The budget of {budget} was spent: {at}was cut after {} s, while {}; {smaller}{} continues it",
        cut.at_s,
        cut.during,
        code(&command)
    ))
}

/// Why the run ended before its time, and the command that continues it.
fn cut_short(run: &Run, trials: &[TrialRecord]) -> Option<String> {
    let why = match run.status {
        RunStatus::Running | RunStatus::Done => return None,
        RunStatus::Stopped => "Stopped by the user",
        // A run of which every trial failed has reached its end.
        RunStatus::Failed if trials.iter().all(|t| t.trial.is_none()) && !trials.is_empty() => {
            return None;
        }
        RunStatus::Failed => "Ended by an error",
        RunStatus::Interrupted => "Interrupted",
    };
    let command = code(&format!(
        "layermark run --resume {}",
        run.store.find(&run.id)
    ));
    Some(format!("{why}: {command} continues it"))
}

/// The share of trials made while other programs, or the hypervisor, used the CPUs.
fn busy(f: &Findings, trials: &[TrialRecord]) -> Option<String> {
    let is_disturbed = |t: &&TrialRecord| t.flags.iter().any(|f| f == flags::CONTAMINATED);
    let disturbed = trials.iter().filter(is_disturbed).count();
    let share = disturbed as f64 / trials.len().max(1) as f64;
    let cells = f.measured();
    let wholly = cells.iter().filter(|r| r.disturbed()).count();
    if share <= BORNE && wholly == 0 {
        return None;
    }
    let share = number::percent(share);
    let cells = match wholly {
        0 => String::new(),
        n => format!(
            ", in {n} of {} all of them",
            number::count(cells.len(), "cell")
        ),
    };
    Some(format!(
        "{BUSY}: {share} of trials were disturbed by other programs{cells}"
    ))
}
