//! `layermark run` and the workload commands: measure, store, report.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use layermark_lab::{Ended, Event, LabError, Outcome, Request, Resume, Stop};
use layermark_layers::{LayerError, janitor, sandbox};
use layermark_model::{Environment, Plan, Profile, Settings, nearest};
use layermark_probe::{UsualBlocks, Workload, workloads};
use layermark_report::Report;
use layermark_store::Store;
use signal_hook::iterator::Handle;

use super::{gate, output, serve::Server, target};
use crate::{
    args::{CommonArgs, RunArgs},
    failure::{Code, Failure},
    progress::Progress,
    say::say,
    signals, workload_args,
};

/// Plans that come with the binary.
pub const PLANS: [(&str, &str); 7] = [
    ("card", include_str!("../../../../plans/card.toml")),
    (
        "fileio-appvirt",
        include_str!("../../../../plans/fileio-appvirt.toml"),
    ),
    (
        "iozone-vm",
        include_str!("../../../../plans/iozone-vm.toml"),
    ),
    (
        "buffer-size",
        include_str!("../../../../plans/buffer-size.toml"),
    ),
    (
        "virtual-io-stack",
        include_str!("../../../../plans/virtual-io-stack.toml"),
    ),
    ("iops", include_str!("../../../../plans/iops.toml")),
    (
        "launch-share",
        include_str!("../../../../plans/launch-share.toml"),
    ),
];

fn plan_names() -> String {
    PLANS.map(|(name, _)| name).join(", ")
}

/// What to do, once the flags are understood.
enum RunMode {
    New(Box<Request>),
    Replay(Box<Request>),
    Resume(String, Environment),
}

/// `layermark run`
pub fn plan(args: RunArgs) -> Result<ExitCode, Failure> {
    let common = args.common;
    let env = environment(&args.env)?;
    let order = match (args.resume, args.replay) {
        (Some(run), _) => {
            let gates = gate::read(&common.gates)?;
            if !gates.is_empty() {
                let mut store = output::read_store(common.out.store.store.as_deref())?;
                gate::check(&gates, &store.load(&run)?.0)?;
            }
            RunMode::Resume(run, env)
        }
        (_, Some(run)) => {
            let (run, _) = output::read_store(common.out.store.store.as_deref())?.load(&run)?;
            let mut request = Request::replay(&run, exe()?);
            if common.budget.is_some() {
                request.plan.budget.clone_from(&common.budget);
                request.left_out = None;
            }
            RunMode::Replay(Box::new(Request {
                gates: gate::read(&common.gates)?,
                env,
                silence: common.silence,
                allow_tmpfs: common.allow_tmpfs,
                ..request
            }))
        }
        _ => {
            let plan = with_flags(read_plan(args.plan.as_deref().unwrap_or("card"))?, &common)?;
            let request = request(plan, &common)?;
            RunMode::New(Box::new(Request { env, ..request }))
        }
    };
    go(order, &common)
}

/// Variables of launched programs. Those taken from our own environment need no entry.
fn environment(flags: &[String]) -> Result<Environment, Failure> {
    let mut env = Environment::new();
    for flag in flags {
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag.as_str(), env::var(flag).ok()),
        };
        let Some(value) = value.filter(|_| !name.is_empty()) else {
            let lacks = if name.is_empty() { "name" } else { "value" };
            return Err(
                Failure::usage(format!("`--env` = {flag}: it has no {lacks}"))
                    .hint("layermark run --env NAME=VALUE, or NAME=VALUE layermark run --env NAME"),
            );
        };
        env.insert(name.to_owned(), value);
    }
    Ok(env)
}

/// Budget of a command for one workload without a time limit. A budget may be exceeded by half, so
/// the command ends within 20 s, unless eight blocks of native and one layer take longer.
const COMMAND_BUDGET: &str = "13s";

/// `layermark file`, `layermark meta`, ...
pub fn workload(settings: Settings, common: &CommonArgs) -> Result<ExitCode, Failure> {
    let workload = workloads::find(&settings.workload);
    let done = new_order(settings, common).and_then(|order| go(order, common));
    done.map_err(|failure| typed(workload, failure))
}

/// A failure in the words of the command line, where parameters are flags.
fn typed(workload: Option<&'static dyn Workload>, failure: Failure) -> Failure {
    match workload {
        Some(workload) => workload_args::as_flags(workload, failure),
        None => failure,
    }
}

/// A plan with one workload.
fn new_order(settings: Settings, common: &CommonArgs) -> Result<RunMode, Failure> {
    let workload = workloads::find(&settings.workload);
    let usual = workload.and_then(|w| w.usual_blocks(&settings));
    let whole = matches!(usual, Some(UsualBlocks::Whole(_)));
    let timeless = common.budget.is_none() && common.precision.is_none();
    let free = timeless && common.profile.is_none();
    let plan = Plan {
        name: settings.workload.clone(),
        about: String::new(),
        study: None,
        layers: Vec::new(),
        profile: Profile::default(),
        budget: (free && !whole && common.blocks.is_none()).then(|| COMMAND_BUDGET.into()),
        precision: None,
        blocks: match usual {
            Some(UsualBlocks::Most(blocks)) if timeless => Some(blocks),
            Some(UsualBlocks::Whole(blocks)) if free => Some(blocks),
            _ => None,
        },
        sessions: None,
        turn: None,
        confirm: Vec::new(),
        delta: 0.05,
        control: true,
        seed: None,
        scale: 1.0,
        work: vec![settings],
    };
    let request = request(with_flags(plan, common)?, common)?;
    Ok(RunMode::New(Box::new(request)))
}

/// `layermark launch`: as every workload, and the times in hyperfine's format.
pub fn launch(
    settings: Settings,
    common: &CommonArgs,
    times: Option<&Path>,
) -> Result<ExitCode, Failure> {
    let targets = times
        .map(|path| target::times_target(path, common.out.force))
        .transpose()?;
    let workload = workloads::find(&settings.workload);
    let done = new_order(settings, common).and_then(|order| go_with(order, common, targets));
    done.map_err(|failure| typed(workload, failure))
}

/// A plan that comes with the binary, or a file.
fn read_plan(name: &str) -> Result<Plan, Failure> {
    let text = match PLANS.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => (*text).to_owned(),
        None => fs::read_to_string(name).map_err(|e| {
            let near = nearest(name, PLANS.iter().map(|(known, _)| *known));
            let near = near.map(|near| format!("did you mean `{near}`? "));
            let why = match e.kind() {
                io::ErrorKind::NotFound => "not found".to_owned(),
                _ => e.to_string(),
            };
            Failure::usage(format!("plan {name}: {why}")).hint(format!(
                "{}plans that come with layermark: {}",
                near.unwrap_or_default(),
                plan_names()
            ))
        })?,
    };
    Plan::from_toml(&text).map_err(|e| {
        Failure::usage(format!("plan {name}: {e}"))
            .hint("keys and their meaning: layermark schema plan")
    })
}

/// Flags win over the plan.
fn with_flags(mut plan: Plan, common: &CommonArgs) -> Result<Plan, Failure> {
    if !common.layers.is_empty() {
        plan.layers.clone_from(&common.layers);
    }
    if let Some(profile) = common.profile {
        plan.profile = profile.into();
    }
    if let Some(scale) = common.scale {
        plan.scale = scale;
    }
    plan.budget = common.budget.clone().or(plan.budget);
    plan.precision = common.precision.or(plan.precision);
    plan.blocks = common.blocks.or(plan.blocks);
    plan.sessions = common.sessions.or(plan.sessions);
    plan.turn = common.turn.clone().or(plan.turn);
    plan.delta = common.delta.unwrap_or(plan.delta);
    plan.seed = common.seed.or(plan.seed);
    plan.control &= !common.no_control;
    let flags = [
        ("budget", common.budget.is_some()),
        ("blocks", common.blocks.is_some()),
        ("sessions", common.sessions.is_some()),
        ("turn", common.turn.is_some()),
        ("scale", common.scale.is_some()),
    ];
    let given = flags.iter().filter(|(_, given)| *given);
    plan.check()
        .map_err(|e| Failure::usage(e).with_flags(given.map(|(key, _)| *key)))?;
    Ok(plan)
}

fn exe() -> Result<PathBuf, Failure> {
    env::current_exe().map_err(|e| Failure::failed(format!("the path of layermark itself: {e}")))
}

fn request(plan: Plan, common: &CommonArgs) -> Result<Request, Failure> {
    let mut request = Request::new(plan, &common.dir, exe()?);
    request.allow_tmpfs = common.allow_tmpfs;
    request.silence = common.silence;
    request.gates = gate::read(&common.gates)?;
    Ok(request)
}

/// In a user namespace we own all our files, including those that we made read-only. So the
/// permission is checked before there is one. The lab checks everything else about the directory.
fn may_write(dir: &Path) -> Result<(), Failure> {
    match rustix::fs::access(dir, rustix::fs::Access::WRITE_OK) {
        Err(rustix::io::Errno::ACCESS) => Err(Failure::usage(format!(
            "cannot work in {}: you may not write there",
            dir.display()
        ))
        .hint("name a directory you may write to with --dir")),
        _ => Ok(()),
    }
}

/// Measures, then reports the results so far, even after a failure.
fn go(order: RunMode, common: &CommonArgs) -> Result<ExitCode, Failure> {
    go_with(order, common, None)
}

fn go_with(
    order: RunMode,
    common: &CommonArgs,
    more: Option<target::Target>,
) -> Result<ExitCode, Failure> {
    let gates = gate::read(&common.gates)?;
    // Before anything is measured: a report that cannot be written later would be a pity.
    let mut targets = target::targets(&common.out)?;
    targets.extend(more);
    let serve = |at| Server::bind(at, common.out.store.store.clone());
    let server = common.serve.map(serve).transpose()?;
    // Held until the end: when we go, however we go, it removes the work directory.
    let janitor = janitor::spawn(&exe()?)
        .map_err(|e| Failure::failed(format!("the watcher that cleans up: {e}")))?;
    if matches!(order, RunMode::New(_)) {
        may_write(&common.dir)?;
    }
    sandbox::enter()?;
    let mut store = output::open_store(common.out.store.store.as_deref())?;
    let asked = store.path().to_owned();
    let stop = Stop::new();
    let signals = signals::connect(&stop).map_err(|e| Failure::failed(format!("signals: {e}")))?;
    server.as_ref().map(Server::start).transpose()?;

    let mut run_id = None;
    let result = measure(
        order,
        common,
        &mut store,
        &stop,
        server.as_ref(),
        &mut run_id,
    );
    let Some(run_id) = run_id else {
        return Err(result
            .err()
            .map_or_else(|| Failure::failed("no run"), Failure::from));
    };
    let stdout = common.out.stdout();
    let delivered = output::report(&mut store, &run_id).and_then(|mut report| {
        report.hold_to(&gates, common.gates.fail_undecided);
        output::deliver(&report, &targets, stdout, true)?;
        Ok(report)
    });
    let whole = matches!(&result, Ok(outcome) if outcome.ended != Ended::Stopped);
    let code = match (result, delivered) {
        (Ok(outcome), Ok(report)) => {
            let moved = Some(store.path()).filter(|path| *path != asked);
            Ok(ended(&outcome, &report, moved))
        }
        (Ok(_), Err(failure)) => Err(failure),
        // The report has been printed; the error still decides the exit code.
        (Err(error), Ok(_)) => Ok(Failure::from(error).print(false)),
        // The reason why the run ended matters more than why it cannot be shown.
        (Err(error), Err(failure)) => {
            say(format!("warning: no report: {}", failure.message));
            Err(Failure::from(error))
        }
    };
    drop((store, janitor));
    match server {
        Some(server) if whole => until_signal(&server, &run_id, &signals)?,
        Some(server) => server.farewell(|| stop.at_once()),
        None => {}
    }
    code
}

/// Keeps the report of a whole run in browsers.
fn until_signal(server: &Server, run_id: &str, stopping: &Handle) -> Result<(), Failure> {
    let signals = signals::caught();
    let mut signals = signals.map_err(|e| Failure::failed(format!("signals: {e}")))?;
    stopping.close();
    let address = server.address(&format!("/run/{run_id}"));
    say(format!("the report is served until Ctrl-C: {address}"));
    signals.forever().next();
    Ok(())
}

fn measure(
    order: RunMode,
    common: &CommonArgs,
    store: &mut Store,
    stop: &Stop,
    server: Option<&Server>,
    run_id: &mut Option<String>,
) -> Result<Outcome, LabError> {
    let progress = Progress::new();
    let mut on_event = |event: Event| {
        if let Event::RunStarted { id, .. } = &event {
            *run_id = Some(id.clone());
        }
        progress.show(&event);
        if let (Event::RunStarted { id, .. }, Some(server)) = (&event, server) {
            let address = server.address(&format!("/run/{id}"));
            progress.tell(&format!("see it live: {address}"));
        }
    };
    let request = match order {
        RunMode::New(request) => {
            if common.budget.is_none() && request.plan.budget.as_deref() == Some(COMMAND_BUDGET) {
                progress.show(&Event::Note(
                    "aims to end within 20 s; for more: --budget 2m, --precision 2% or --blocks 30"
                        .into(),
                ));
            }
            *request
        }
        RunMode::Replay(request) => *request,
        RunMode::Resume(run, env) => {
            let again = Resume {
                env,
                silence: common.silence,
                budget: common.budget.clone(),
                ..Resume::new(run, exe_of_lab()?)
            };
            return layermark_lab::resume(again, store, stop, &mut on_event);
        }
    };
    layermark_lab::run(request, store, stop, &mut on_event)
}

fn exe_of_lab() -> Result<PathBuf, LabError> {
    env::current_exe().map_err(|source| LabError::Packaged {
        dir: "/proc/self/exe".into(),
        source,
    })
}

/// The exit code of a run that came to an end; `store` where it is not the one that was asked for.
fn ended(outcome: &Outcome, report: &Report, store: Option<&Path>) -> ExitCode {
    if outcome.ended == Ended::Stopped {
        let elsewhere = store.map(|s| format!(" --store {}", s.display()));
        say(format!(
            "stopped; continue: layermark run --resume {}{}",
            outcome.run.id,
            elsewhere.unwrap_or_default()
        ));
        return Code::Stopped.into();
    }
    let gates = gate::outcome(report);
    // Worse than a layer that is missing is one whose numbers may be another's.
    if !report.trustworthy() {
        return Code::Untrusted.into();
    }
    if let Some(failed) = gates {
        return failed;
    }
    if outcome.exit_code() != 0 {
        return Code::Layer.into();
    }
    if outcome.trials == 0 {
        return Failure::failed("nothing was measured: no layer can do any of what was asked")
            .hint("the report says what was left out and why; what a layer does: layermark layers")
            .print(false);
    }
    let errors: Option<Vec<&str>> = report.trials.iter().map(|t| t.error.as_deref()).collect();
    if let Some([first, ..]) = errors.as_deref() {
        let first = first.lines().next().unwrap_or_default();
        return Failure::failed(format!("every trial failed, the first because {first}"))
            .hint(format!("layermark report {}", outcome.run.id))
            .print(false);
    }
    ExitCode::SUCCESS
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let code = match error.exit_code() {
            _ if matches!(error, LabError::CutOff { .. }) => Code::Stopped,
            2 => Code::Usage,
            3 => Code::Layer,
            4 => Code::Untrusted,
            _ => Code::Failed,
        };
        let otherwise = (code == Code::Layer).then_some("what each layer needs: layermark layers");
        Self {
            message: error.to_string(),
            hint: error.hint().or(otherwise.map(str::to_owned)),
            code,
        }
    }
}

impl From<LayerError> for Failure {
    fn from(error: LayerError) -> Self {
        let code = if error.is_usage() {
            Code::Usage
        } else {
            Code::Layer
        };
        Self {
            message: error.to_string(),
            hint: error.hint(),
            code,
        }
    }
}

#[cfg(test)]
mod tests;
