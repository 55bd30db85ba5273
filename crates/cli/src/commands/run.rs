//! `layermark run` and the workload commands: turn flags and plans into a measurement.

use std::{
    env,
    fs::File,
    io::{self, Read},
    path::Path,
    process::ExitCode,
};

use clap::Args;
use layermark_fd::{is_open_to_others, is_trusted};
use layermark_lab::Request;
use layermark_model::{Environment, MOST_TEXT, Plan, Profile, Run, Settings, WrongParam, nearest};
use layermark_probe::{
    UsualBlocks, Workload,
    workloads::{self, fio_job},
};
use layermark_store::Store;

use super::{
    complete,
    measure::{COMMAND_BUDGET, Order, exe, go},
    plans::{self, PLANS},
    programs, stored, target,
};
use crate::{common_args::CommonArgs, failure::Failure, say::say, workload_args};

/// Flags that conflict with `--resume` and `--replay`: the earlier run has already fixed them.
const KEPT: [&str; 12] = [
    "layers",
    "baseline",
    "dir",
    "profile",
    "precision",
    "blocks",
    "sessions",
    "turn",
    "delta",
    "seed",
    "scale",
    "no_control",
];

#[derive(Debug, Args)]
pub struct RunArgs {
    // Its help names the plans: `args::command`.
    #[arg(conflicts_with_all = ["resume", "replay"], add = complete::plans())]
    pub plan: Option<String>,
    /// Continue a run that was stopped or interrupted; with --budget, a total for all of it, also
    /// one that has finished
    #[arg(long, value_name = "RUN", conflicts_with_all = ["replay", "allow_tmpfs"], conflicts_with_all = KEPT, add = complete::runs())]
    pub resume: Option<String>,
    /// Repeat an earlier run's plan, seed and order as a new run; that of a file x.lm in the current directory. Leaves out the layers that its
    /// budget left out; with --budget, takes those that fit the new one
    #[arg(long, value_name = "RUN", conflicts_with_all = KEPT, add = complete::runs_and_files())]
    pub replay: Option<String>,
    /// An environment variable of launched programs that the plan or the earlier run names:
    /// NAME=VALUE, or NAME to copy it from layermark's own environment; repeatable
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Allow what a plan or a store that other users can change, or a run that was sent, reaches beyond the run's
    /// directory: programs, kernels, other files, addresses, secrets
    #[arg(long)]
    pub allow_programs: bool,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// `layermark run`
pub fn plan(args: RunArgs) -> Result<ExitCode, Failure> {
    let mut common = args.common;
    let env = environment(&args.env)?;
    let order = match (args.resume, args.replay) {
        (Some(run), _) if layermark_store::is_archive(Path::new(&run)) => {
            return Err(not_begun_here(&shell_words::quote(&run)));
        }
        (Some(run), _) => {
            let mut store = stored::read_store(common.out.store.store.as_deref())?;
            let found = stored::load(&mut store, &run)?.0;
            if found.sent {
                let failure = not_begun_here(&format!("{run}{}", store.option()));
                return Err(match found.fleet {
                    Some(_) => failure.hint(new_fleet()),
                    None => failure,
                });
            }
            if found.fleet.is_some() {
                let theirs = store.is_shared();
                return Err(of_a_fleet(("--resume", &run), &found, theirs));
            }
            let theirs = store.is_shared() && !args.allow_programs;
            let seen = theirs.then(|| stored(&store, found, false)).transpose()?;
            let run = seen.as_ref().map_or(run, |seen| seen.id.clone());
            Order::Resume(run, seen.map(Box::new), env)
        }
        (_, Some(run)) => {
            let store = common.out.store.store.as_deref();
            let run = replayed(&run, store, args.allow_programs)?;
            let mut request = Request::replay(&run, exe()?);
            if run.sent {
                // What could not be done there may be done here.
                request.left_out = None;
            }
            if common.budget.is_some() {
                request.plan.budget.clone_from(&common.budget);
                request.left_out = None;
            } else {
                request.usual_budget = request.plan.budget.as_deref() == Some(COMMAND_BUDGET);
            }
            if common.drop {
                request.plan.keep.clear();
            }
            Order::Replay(Box::new(Request {
                env,
                silence: common.silence,
                allow_tmpfs: common.allow_tmpfs,
                label: common.label.clone(),
                ..request
            }))
        }
        _ => {
            let name = args.plan.as_deref().unwrap_or("card");
            let (mut plan, shared) = read_plan(name)?;
            if plan.layers.is_empty() {
                plan.layers.clone_from(&common.usual.layers);
            }
            // A budget that nobody has asked for.
            let ours =
                PLANS.iter().any(|(known, _)| *known == name) || fio_job::is_job_file(name, "");
            if ours {
                common.usual_budget();
            }
            let theirs = (shared && !args.allow_programs).then(|| plan.clone());
            let plan = with_flags(plan, &common)?;
            if let Some(theirs) = theirs {
                let mut theirs = without_flags(theirs, &common);
                theirs.scale = plan.scale;
                programs::refuse_plan(&format!("plan {name}"), &theirs)?;
            }
            let request = request(plan, &common)?;
            Order::New(Box::new(Request {
                env,
                usual_budget: ours && common.budget.is_none(),
                ..request
            }))
        }
    };
    go(order, &common, None)
}

/// The run that is made again: of a file that was sent, or of a store. Refuses what it reaches if others can change that,
/// unless `allowed`.
fn replayed(name: &str, store: Option<&Path>, allowed: bool) -> Result<Run, Failure> {
    let path = Path::new(name);
    let (run, store) = if layermark_store::is_archive(path) {
        (stored::sent(path)?.run, None)
    } else {
        let mut store = stored::read_store(store)?;
        (stored::load(&mut store, name)?.0, Some(store))
    };
    if run.fleet.is_some() {
        let theirs = store.as_ref().is_none_or(Store::is_shared);
        return Err(of_a_fleet(("--replay", &run.id), &run, theirs));
    }
    match store {
        Some(store) => stored(&store, run, allowed),
        None => sent(run, name, allowed),
    }
}

/// A run of this store. Refuses what it reaches if other users can change the store, unless `allowed`.
fn stored(store: &Store, run: Run, allowed: bool) -> Result<Run, Failure> {
    if run.sent {
        let name = format!("run {}", run.id);
        return sent(run, &name, allowed);
    }
    if store.is_shared() && !allowed {
        run.plan.check().map_err(Failure::usage)?;
        let what = format!("run {} in the store {}", run.id, store.path().display());
        programs::refuse_run(&what, &run)?;
    }
    Ok(run)
}

/// A run that somebody has sent, to be made in the current directory. Refuses what it reaches, unless `allowed`.
fn sent(mut run: Run, name: &str, allowed: bool) -> Result<Run, Failure> {
    run.plan.check().map_err(Failure::usage)?;
    if !allowed {
        programs::refuse_sent(name, &run)?;
    }
    ".".clone_into(&mut run.dir);
    Ok(run)
}

/// One machine makes no run of a fleet. `theirs`: others could have written it.
fn of_a_fleet((flag, name): (&str, &str), run: &Run, theirs: bool) -> Failure {
    let failure = Failure::usage(format!("{flag} {name}: it is a run of a fleet"));
    if run.sent {
        return failure.hint(new_fleet());
    }
    failure.hint(format!("with its hosts: {}", stored::go_on(run, theirs)))
}

/// What to do with a fleet's run that was sent: it cannot go on here.
fn new_fleet() -> String {
    let hosts = stored::OWN_HOSTS;
    format!("make one of its plan, with your hosts: layermark fleet run PLAN --share DIR {hosts}")
}

/// A run that was sent cannot be continued.
fn not_begun_here(run: &str) -> Failure {
    let text = format!("--resume {run}: a run continues in the store where it was begun");
    Failure::usage(text).hint(format!("make it anew: layermark run --replay {run}"))
}

/// Environment variables of launched programs. Those copied from layermark's own environment need
/// no entry.
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

/// `layermark file`, `layermark meta`, ...
pub fn workload(settings: Settings, common: &CommonArgs) -> Result<ExitCode, Failure> {
    let workload = workloads::find(&settings.workload);
    let done = new_order(settings, common).and_then(|order| go(order, common, None));
    done.map_err(|failure| typed(workload, failure))
}

/// `layermark replay --check`: a program and its replay, in turn.
pub fn checked(work: Vec<Settings>, common: &CommonArgs) -> Result<ExitCode, Failure> {
    /// How long it may take, unless the user says otherwise: both in two or three layers.
    const BUDGET: &str = "60s";
    let replay = work.last().and_then(|own| workloads::find(&own.workload));
    let plan = Plan {
        about: "A program and its replay, in turn.".into(),
        ..of_work("replay", work)
    };
    let done = ordered(plan, BUDGET, common).and_then(|order| go(order, common, None));
    done.map_err(|failure| typed(replay, failure.of_param(flag_of_check)))
}

/// The flag of `replay` that sets a parameter of the program's steps.
fn flag_of_check(of: &WrongParam) -> Option<String> {
    let flag = match (of.workload.as_str(), of.name.as_str()) {
        ("steps", "run") => "check",
        ("steps", "tree") => "tree",
        ("steps", "timeout") => "timeout",
        _ => return None,
    };
    Some(format!("replay: `--{flag}`"))
}

/// Rewrites a failure to name flags instead of parameters.
fn typed(workload: Option<&'static dyn Workload>, failure: Failure) -> Failure {
    match workload {
        Some(workload) => workload_args::as_flags(workload, failure),
        None => failure,
    }
}

/// A plan with one workload.
pub fn new_order(settings: Settings, common: &CommonArgs) -> Result<Order, Failure> {
    let name = settings.workload.clone();
    ordered(of_work(&name, vec![settings]), COMMAND_BUDGET, common)
}

/// The plan of a command, which has this budget unless the user or its last work says otherwise.
fn ordered(plan: Plan, budget: &str, common: &CommonArgs) -> Result<Order, Failure> {
    let own = plan.work.last();
    let usual = own.and_then(|own| (workloads::find(&own.workload)?.info().usual_blocks)(own));
    let whole = matches!(usual, Some(UsualBlocks::Whole(_)));
    let timeless = common.budget.is_none() && common.precision.is_none();
    let free = timeless && common.profile.is_none();
    let plan = Plan {
        budget: (free && !whole && common.blocks.is_none()).then(|| budget.into()),
        blocks: match usual {
            Some(UsualBlocks::Most(blocks)) if timeless => Some(blocks),
            Some(UsualBlocks::Whole(blocks)) if free => Some(blocks),
            _ => None,
        },
        ..plan
    };
    let usual_budget = plan.budget.is_some() && common.budget.is_none();
    let request = request(with_flags(plan, common)?, common)?;
    Ok(Order::New(Box::new(Request {
        usual_budget,
        ..request
    })))
}

/// A plan of this work, with nothing else said.
pub fn of_work(name: &str, work: Vec<Settings>) -> Plan {
    Plan {
        name: name.into(),
        about: String::new(),
        study: None,
        layers: Vec::new(),
        baseline: None,
        keep: Vec::new(),
        profile: Profile::default(),
        budget: None,
        layer_budget: None,
        precision: None,
        blocks: None,
        sessions: None,
        turn: None,
        confirm: Vec::new(),
        delta: 0.05,
        control: true,
        seed: None,
        scale: 1.0,
        power_cuts: None,
        claim: Vec::new(),
        work,
    }
}

/// `layermark launch`: like every workload, plus the times in hyperfine's format.
pub fn launch(
    settings: Settings,
    common: &CommonArgs,
    times: Option<&Path>,
) -> Result<ExitCode, Failure> {
    let targets = times
        .map(|path| target::times_target(path, common.out.force))
        .transpose()?;
    let workload = workloads::find(&settings.workload);
    let done = new_order(settings, common).and_then(|order| go(order, common, targets));
    done.map_err(|failure| typed(workload, failure))
}

/// Reads a built-in plan or a file. Also returns whether other users can change it.
pub(super) fn read_plan(name: &str) -> Result<(Plan, bool), Failure> {
    let (text, shared) = match PLANS.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => ((*text).to_owned(), false),
        None => read_file(name).map_err(|e| {
            let near = nearest(name, PLANS.iter().map(|(known, _)| *known));
            let near = near.map(|near| format!("did you mean `{near}`? "));
            let why = match e.kind() {
                io::ErrorKind::NotFound => "not found".to_owned(),
                _ => e.to_string(),
            };
            Failure::usage(format!("plan {name}: {why}")).hint(format!(
                "{}plans that come with layermark: {}",
                near.unwrap_or_default(),
                plans::names()
            ))
        })?,
    };
    if fio_job::is_job_file(name, &text) {
        return Ok((fio_plan(name, &text)?, shared));
    }
    let plan = Plan::from_toml(&text).map_err(|e| {
        Failure::usage(format!("plan {name}: {e}"))
            .hint("keys and their meaning: layermark schema plan")
    })?;
    Ok((plan, shared))
}

/// The plan of a job file of fio. What is different here, or was not honoured, is printed, and is in the
/// report's head.
fn fio_plan(path: &str, text: &str) -> Result<Plan, Failure> {
    let jobs = fio_job::jobs(text)
        .map_err(|e| Failure::usage(format!("job file {path}: {e}")).hint(e.hint))?;
    let notes: Vec<String> = jobs.iter().flat_map(|job| job.notes.clone()).collect();
    for note in &notes {
        say(format!("note: {note}"));
    }
    let differs = match notes.as_slice() {
        [] => String::new(),
        notes => format!(" What differs from fio: {}.", notes.join("; ")),
    };
    let stem = Path::new(path).file_stem().and_then(|stem| stem.to_str());
    let settings: Vec<Settings> = jobs.into_iter().map(|job| job.settings).collect();
    let mut plan = of_work(stem.unwrap_or("fio"), settings);
    plan.about = format!("The jobs of fio in {path}.{differs}");
    // As long as a command for each of them.
    let seconds = COMMAND_BUDGET
        .trim_end_matches('s')
        .parse::<usize>()
        .unwrap_or(13)
        * plan.work.len();
    plan.budget = Some(format!("{seconds}s"));
    Ok(plan)
}

/// Reads a file up to the largest size of a plan. Also returns whether other users can change it.
fn read_file(name: &str) -> io::Result<(String, bool)> {
    let file = File::open(name)?;
    let stat = rustix::fs::fstat(&file)?;
    let mut text = String::new();
    file.take(MOST_TEXT + 1).read_to_string(&mut text)?;
    Ok((text, !is_trusted(&stat) || is_open_to_others(&stat)))
}

/// The plan without what flags replace.
fn without_flags(mut plan: Plan, common: &CommonArgs) -> Plan {
    if !common.layers.is_empty() {
        plan.layers.clear();
        plan.keep.clear();
        if let Some(cuts) = &mut plan.power_cuts {
            cuts.also.clear();
        }
    }
    if common.baseline.is_some() {
        plan.baseline = None;
    }
    plan
}

/// Applies the flags to the plan. Flags win.
pub fn with_flags(plan: Plan, common: &CommonArgs) -> Result<Plan, Failure> {
    let mut plan = without_flags(plan, common);
    plan.layers.extend(common.layers.iter().cloned());
    // What the user has named stays, unless they say otherwise.
    plan.keep.extend(common.layers.iter().cloned());
    if common.drop {
        // The user's own order says which layers come first.
        plan.keep.clear();
    }
    plan.baseline = plan.baseline.or_else(|| common.baseline.clone());
    if let Some(profile) = common.profile {
        plan.profile = profile.into();
    }
    if let Some(scale) = common.scale {
        plan.scale = scale;
    }
    if common.budget.is_some() {
        plan.budget.clone_from(&common.budget);
        plan.layer_budget = None;
    }
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
    for spec in plan.power_cuts.iter().flat_map(|cuts| &cuts.also) {
        layermark_layers::check(spec)?;
    }
    Ok(plan)
}

pub fn request(plan: Plan, common: &CommonArgs) -> Result<Request, Failure> {
    let mut request = Request::new(plan, &common.dir, exe()?);
    request.allow_tmpfs = common.allow_tmpfs;
    request.silence = common.silence;
    request.label.clone_from(&common.label);
    Ok(request)
}

#[cfg(test)]
mod tests;
