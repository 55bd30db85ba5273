//! Runs an experiment: sets layers up, gives them turns in an order drawn from a seed, and decides
//! when enough is known. The trials of a point are stored when its rounds have ended. Short trials
//! are stored while the next ones are prepared.
//!
//! The rules are those of `docs/src/method.md`.

mod check;
mod cpus;
mod decide;
mod driven;
mod ends;
mod environment;
mod error;
mod event;
mod execute;
mod machine;
pub mod power_cut;
mod request;
mod resolve;
mod stop;

use layermark_layers::{served, workdir::WorkDir};
use layermark_model::{LayerStatus, Machine, Plan, Point, Run, RunStatus, TrialRecord, random};
use layermark_probe::workloads;
use layermark_store::Store;

use decide::{
    budget,
    fewer::{self, ForecastInput},
    guess::Speed,
    skips,
};
use execute::{drive::Lab, fixed::Setup, rehearse};

pub use check::other_machine;
pub use decide::{schedule::Schedule, stop::MAX_BLOCKS};
pub use driven::{DrivenHost, DrivenLayer, DrivenTrial, StepError};
pub use error::LabError;
pub use event::{Ended, Event, Outcome, Ratio};
pub use machine::{now_ms, read as machine};
pub use request::{Catalog, LookEvents, Request, Resume, SILENCE};
pub use stop::Stop;

/// A new id of a run or an import. Ids sort by creation time, `now_ms`: milliseconds since 1970
/// UTC.
pub fn new_id(now_ms: i64) -> String {
    let high = u128::from(random()) << 64;
    ulid::Ulid::from_parts(now_ms.unsigned_abs(), high | u128::from(random())).to_string()
}

/// The points of a plan.
///
/// # Errors
///
/// If its settings are not possible.
pub fn points(plan: &Plan, catalog: Catalog) -> Result<Vec<Point>, LabError> {
    resolve::points(plan, catalog)
}

/// The points of a plan for a fleet.
///
/// # Errors
///
/// If its settings are not possible, or hosts of a fleet cannot do the work.
pub fn fleet_points(plan: &Plan, catalog: Catalog) -> Result<Vec<Point>, LabError> {
    resolve::fleet_points(plan, catalog)
}

/// Starts a new run.
pub fn run(
    request: Request,
    store: &mut Store,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<Outcome, LabError> {
    let mut resolved = resolve::resolve(&request)?;
    let (begun, budget) = (stop.now(), resolved.plan.budget()?);
    let promised = budget.filter(|_| !request.usual_budget);
    let dir = served::ask(&request.dir, || check::dir(&request.dir))?;
    served::work_in(&dir);
    let mut notes = check::possible(&mut resolved, request.catalog)?;
    notes.extend(check::all(
        &dir,
        &resolved,
        request.allow_tmpfs,
        request.catalog,
    )?);
    // Detects another run in this directory before this one is stored.
    let work = WorkDir::create(&dir)?;
    // It takes some tenths of a second, and only a promise needs it.
    let measured = promised.filter(|_| request.rehearse);
    let measured = measured.and_then(|_| rehearse::speed(work.path()).ok());
    let speed = measured.unwrap_or_default();
    let known = ForecastInput {
        plan: &resolved.plan,
        layers: &resolved.layers,
        points: &resolved.points,
        packaged: &check::packaged(&resolved.points),
        catalog: request.catalog,
        speed,
        usual: request.usual_budget,
    };
    let for_work = fewer::check(&known, request.left_out.is_none())?;
    let left = for_work.map(|all| all.saturating_sub(stop.now() - begun));
    let limited = left
        .filter(|_| !request.usual_budget)
        .map(|left| stop.within(left));
    let stop = limited.as_ref().unwrap_or(stop);
    notes.extend(skips::notes(&resolved.layers));
    notes.extend(cpus::notes(&resolved.points));
    resolve::leave_out(&mut resolved.layers, request.left_out.as_deref());
    let in_layers = resolve::in_layers(&resolved.layers, &resolved.points, request.catalog)?;
    let run = Run {
        id: new_id(machine::now_ms()),
        version: env!("CARGO_PKG_VERSION").into(),
        started_ms: machine::now_ms(),
        ended_ms: None,
        status: RunStatus::Running,
        seed: resolved.seed,
        dir: dir.to_string_lossy().into_owned(),
        plan: resolved.plan,
        machine: Machine {
            label: request.label,
            ..machine::read(&dir)
        },
        layers: resolved.layers,
        points: resolved.points,
        cut: None,
        sustained: Vec::new(),
        fleet: None,
        sent: false,
        store: store.option(),
    };
    store.begin(&run)?;
    let setup = Setup {
        exe: request.exe,
        silence: request.silence,
        catalog: request.catalog,
        notes,
        env: resolved.env,
        lacking: resolved.lacking,
        placed: resolved.placed,
        in_layers,
        may_leave_out: request.left_out.is_none(),
        begun,
        speed,
        usual_budget: request.usual_budget,
        looks: request.looks == LookEvents::Emitted,
    };
    Lab::new(run, Vec::new(), setup, work, store, stop, on_event)?.go()
}

/// Continues a run that was stopped or cut off, or, given another budget, one that had spent its
/// budget. A run that has ended, but for its power cuts, is returned as it is. Plan, seed and order stay the same. It starts with the first incomplete block, with the
/// layers set up again.
pub fn resume(
    again: Resume,
    store: &mut Store,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<Outcome, LabError> {
    let (mut run, trials) = store.load(&again.run)?;
    workloads::complete(&mut run.points);
    if again.seen.is_some_and(|seen| !seen.asks_the_same(&run)) {
        return Err(LabError::CannotResume {
            run: run.id,
            store: run.store,
            why: "it was changed after it was looked at".into(),
        });
    }
    resolve::possible(&run, &trials)?;
    // More time adds nothing once a fixed number of blocks is complete.
    let made = trials.iter().map(|t| t.cell.block + 1).max();
    let whole = run.plan.blocks.is_some_and(|n| made >= Some(n));
    let is_measured = run.status == RunStatus::Done && (again.budget.is_none() || whole);
    if is_measured && !(again.cuts_left)(&run) {
        return Err(LabError::Finished {
            run: run.id,
            store: run.store,
        });
    }
    // Whether a stored budget was the usual one of a command is not known: it is an aim.
    let named = again.budget.is_some();
    if named {
        run.plan.budget = again.budget;
        run.plan.check()?;
    }
    let dir = served::ask(run.dir.as_ref(), || check::dir(run.dir.as_ref()))?;
    served::work_in(&dir);
    check::same_machine(&run, &machine::read(&dir))?;
    resolve::known(&run, again.catalog)?;
    if is_measured {
        return measured(run, &trials, again.catalog, store, on_event);
    }
    resolve::attach_needs(&mut run.points, again.catalog)?;
    let env = environment::take(&mut run.plan, &again.env, again.catalog)?;
    run.status = RunStatus::Running;
    (run.ended_ms, run.cut) = (None, None);
    let budget = run.plan.budget()?;
    let left = budget.filter(|_| named);
    let left = left.map(|all| all.saturating_sub(budget::spent_by(&trials)));
    let limited = left.map(|left| stop.within(left));
    let stop = limited.as_ref().unwrap_or(stop);
    let lacking = resolve::look_again(&mut run, again.catalog)?;
    let placed = check::placed(&run.points, &env, again.catalog)?;
    let in_layers = resolve::in_layers(&run.layers, &run.points, again.catalog)?;
    store.hold(&run.id)?;
    let work = WorkDir::create(&dir)?;
    store.update(&run)?;
    let setup = Setup {
        exe: again.exe,
        silence: again.silence,
        catalog: again.catalog,
        notes: Vec::new(),
        env,
        lacking,
        placed,
        in_layers,
        may_leave_out: true,
        begun: stop.now(),
        speed: Speed::default(),
        usual_budget: !named,
        looks: again.looks == LookEvents::Emitted,
    };
    Lab::new(run, trials, setup, work, store, stop, on_event)?.go()
}

/// A run whose measurement has ended, and whose power cuts are left to the caller.
fn measured(
    run: Run,
    trials: &[TrialRecord],
    catalog: Catalog,
    store: &mut Store,
    on_event: &mut dyn FnMut(Event),
) -> Result<Outcome, LabError> {
    store.hold(&run.id)?;
    let lacking = resolve::look_again(&mut run.clone(), catalog)?;
    let lost = run.layers.iter();
    let lost = lost.filter(|l| l.status == LayerStatus::Failed && !lacking.contains(&l.name));
    let lost = lost.map(|l| l.name.clone()).collect();
    let trials = trials.len() as u64;
    on_event(Event::started(&run, true));
    on_event(Event::RunEnded {
        id: run.id.clone(),
        status: run.status,
        trials,
    });
    Ok(Outcome {
        run,
        ended: Ended::Before,
        trials,
        lost,
    })
}
