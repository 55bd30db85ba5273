//! `layermark fleet run`: a shared directory under one, some and all hosts.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use layermark_fleet::storm::{self, StormBefore, StormEvent, StormRequest, USUAL_BLOCKS};
use layermark_lab::{Catalog, Stop, fleet_points};
use layermark_model::{FleetOfRun, FleetPlace, FleetRun, Plan, Point, Run, StoreOption};
use layermark_report::{FleetReport, render};
use layermark_store::Store;
use shell_words::quote;

use super::{
    LauncherArgs, OWN_DIR,
    keeper::{Keeper, flags_again},
    shared,
};
use crate::{
    commands::{
        complete, history, output, plans, programs,
        run::read_plan,
        stdout, stored,
        target::{Destination, FileOption},
    },
    common_args::{JsonArg, StoreArg},
    failure::{Code, Failure},
    say::say,
    signals,
};

const OUTPUT: FileOption = FileOption {
    name: "-o",
    elsewhere: "layermark fleet run -o ~/fleet.json",
};

#[derive(Debug, Args)]
pub struct FleetRunArgs {
    /// A plan file, or a plan that comes with layermark [default: share-storm]; its layers are not used
    #[arg(conflicts_with = "resume", add = complete::plans())]
    pub plan: Option<String>,
    #[command(flatten)]
    pub launcher: LauncherArgs,
    /// The directory that all hosts share; {host} is the host's name, where its path has it
    #[arg(long, value_name = "DIR", required_unless_present = "resume")]
    pub share: Option<String>,
    /// Go on with a run that was stopped or killed: its missing rounds, on the same hosts
    #[arg(long, value_name = "RUN", conflicts_with_all = ["seed", "scale"], add = complete::runs())]
    pub resume: Option<String>,
    /// Make this many blocks; a knee needs six [default: the plan's, or 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub blocks: Option<u32>,
    /// Seed of data and offsets [default: the plan's, or drawn]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Factor for file sizes and counts
    #[arg(long, value_name = "FACTOR")]
    pub scale: Option<f64>,
    /// Also write the JSON to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Let -o replace a file that layermark did not write
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub store: StoreArg,
    #[command(flatten)]
    pub json: JsonArg,
}

/// Trials whose verdicts are counted at the end, for lists of runs. Those of more are counted when they are listed.
const COUNTED: usize = 20_000;

/// Measures, then prints the curve of each point.
pub fn storm(args: &FleetRunArgs) -> Result<ExitCode, Failure> {
    let (mut request, before) = match &args.resume {
        Some(run) => {
            let (request, before) = again(run, args)?;
            (request, Some(before))
        }
        None => (request(args)?, None),
    };
    let file = args.output.as_ref();
    let file = file.map(|path| Destination::find(&OUTPUT, path, args.force));
    let file = file.transpose()?;
    let mut store = stored::open_store(args.store.store.as_deref())?;
    request.store = store.option();
    if let Some(before) = &before {
        store.hold(&before.run.id)?;
    }
    let stop = Stop::new();
    let _signals = signals::connect(&stop).map_err(|e| Failure::failed(format!("signals: {e}")))?;
    let mut fleet = args.launcher.start(&stop)?;
    let mut keeper = Keeper::new(&mut store, before.is_some());
    let mut told = 0;
    let mut on = |event: StormEvent<'_>| match event {
        StormEvent::Begun(run) => keeper.begin(run),
        StormEvent::Changed(run) => {
            keeper.state(run);
            Ok(())
        }
        StormEvent::Trials(run, records) => {
            keeper.trials(run, records);
            Ok(())
        }
        StormEvent::Barrier(barrier) => {
            say(format!(
                "the barrier's round trip takes {:.2} ms; the hosts' clocks are known to {:.2} ms",
                barrier.round_trip_ns as f64 / 1e6,
                barrier.clock_error_ns as f64 / 1e6
            ));
            Ok(())
        }
        StormEvent::Differs(host, how) => {
            say(format!(
                "warning: {host} is not as it was: {how}; the report has what it is now"
            ));
            Ok(())
        }
        StormEvent::Round(block, of, ..) => {
            if block > told {
                told = block;
                say(format!("block {block} of {of}"));
            }
            Ok(())
        }
    };
    let run = storm::storm(&mut fleet, (&request, before), &stop, &mut on);
    drop(fleet);
    let run = run?;
    let kept = keeper.end(&stop);
    let report = FleetReport::of(&run);
    if kept.is_ok() {
        keep_tally(&mut store, &run);
    }
    let mut json = serde_json::to_vec_pretty(&report).map_err(Failure::failed)?;
    json.push(b'\n');
    let text = if args.json.json {
        json.clone()
    } else {
        let mut text = Vec::new();
        let style = output::style(render::Unit::Ratio);
        render::print_fleet(&report, style, &mut text).map_err(Failure::failed)?;
        text
    };
    // What was measured is told, though a file may have no room.
    stdout::write(&text)?;
    if let Some(file) = &file {
        file.fill(args.force, &|out| Ok(out.open("")?.write_all(&json)?))?;
    }
    if let Err(e) = kept {
        // Standard output has its JSON.
        return Ok(e.print(false));
    }
    say(format!(
        "run {0}: layermark report {0}{1}",
        run.id, request.store
    ));
    Ok(ended(&report, &args.launcher, &store, &stop))
}

/// The exit code, and how a run that is not whole goes on.
fn ended(report: &FleetReport, launcher: &LauncherArgs, store: &Store, stop: &Stop) -> ExitCode {
    let run = &report.run;
    let whole = !run.stopped && run.hosts.iter().any(|h| h.lost.is_none());
    if !whole {
        let fleet = FleetOfRun {
            share: run.share.clone().unwrap_or_default(),
            ..launcher.of_run()
        };
        let (id, option) = (&run.id, store.option());
        let flags = flags_again(&run.dir, &fleet, &option);
        say(format!(
            "hint: go on: layermark fleet run --resume {id} {flags}{option}"
        ));
    }
    let failed = report.found.points.iter().all(|p| {
        let mut shared = p.steps.iter().filter(|s| s.place == FleetPlace::Share);
        shared.all(|s| s.rounds == 0)
    });
    match () {
        () if stop.asked() => Code::Stopped.into(),
        () if failed || !whole => Code::Failed.into(),
        () => ExitCode::SUCCESS,
    }
}

/// Counts the run's verdicts for lists of runs.
fn keep_tally(store: &mut Store, run: &FleetRun) {
    let trials: usize = run.rounds.iter().map(|round| round.turns.len()).sum();
    if trials > COUNTED {
        return;
    }
    if let Ok((run, trials)) = stored::load(store, &run.id) {
        let report = stored::build(&run, &trials);
        history::keep_tally(store, &run, &trials, &report.headline);
    }
}

/// A new run.
fn request(args: &FleetRunArgs) -> Result<StormRequest, Failure> {
    let name = args.plan.as_deref().unwrap_or("share-storm");
    let (mut plan, changeable) = read_plan(name)?;
    plan.layers.clear();
    plan.baseline = None;
    if changeable {
        programs::refuse_plan(&format!("plan {name}"), &plan)?;
    }
    plan.scale = args.scale.unwrap_or(plan.scale);
    plan.seed = args.seed.or(plan.seed);
    plan.check()
        .map_err(|e| Failure::usage(format!("plan: {e}")))?;
    let share = shared(args.share.as_deref().unwrap_or_default())?;
    Ok(StormRequest {
        points: fleet_points(&plan, Catalog::default())?,
        blocks: args.blocks.or(plan.blocks).unwrap_or(USUAL_BLOCKS),
        dir: args.launcher.own_dir(),
        share,
        ..asked(args, plan)
    })
}

/// What the flags say of a run with this plan.
fn asked(args: &FleetRunArgs, plan: Plan) -> StormRequest {
    let started = args.launcher.of_run();
    StormRequest {
        plan,
        points: Vec::new(),
        launcher: started.launcher,
        asked: started.asked,
        exe: started.exe,
        sbcast: started.sbcast,
        dir: String::new(),
        share: String::new(),
        blocks: 0,
        silence: args.launcher.silence,
        store: StoreOption::default(),
    }
}

/// How a run like this one is made on the hosts of the command line.
fn make_again(run: &Run, fleet: &FleetOfRun, args: &FleetRunArgs) -> String {
    let started = args.launcher.of_run();
    let flags = started.launcher_flags(|word| quote(word).into_owned());
    let name = run.plan.name.as_str();
    let plan = plans::builtin(name).map_or("PLAN", |_| name);
    let (dir, share) = (quote(&run.dir), quote(&fleet.share));
    format!("make it again: layermark fleet run {plan} {flags} --dir {dir} --share {share}")
}

/// A run that goes on. Its plan, seed and directories are those of the store; how hosts are started is said again.
fn again(name: &str, args: &FleetRunArgs) -> Result<(StormRequest, StormBefore), Failure> {
    let mut store = stored::read_store(args.store.store.as_deref())?;
    let (run, trials) = stored::load(&mut store, name)?;
    let (id, option) = (run.id.clone(), store.option());
    let refuse = |why: &str, hint: String| {
        let text = format!("--resume {name}: run {id} {why}");
        Err(Failure::usage(text).hint(hint))
    };
    let Some(fleet) = run.fleet.as_deref() else {
        let hint = format!("go on with it: layermark run --resume {id}{option}");
        return refuse("is not a fleet's", hint);
    };
    if run.sent {
        let hint = format!("see it: layermark report {id}{option}");
        return refuse("was made by somebody else", hint);
    }
    if store.is_shared() {
        programs::refuse_plan(&format!("run {id}"), &run.plan)?;
    }
    // Another user of the store could have written other directories.
    let theirs = store.is_shared();
    let own = args.launcher.dir.as_deref();
    let same_dir = own.map_or(!theirs || run.dir == OWN_DIR, |dir| dir == run.dir);
    let same_share = args
        .share
        .as_deref()
        .map_or(!theirs, |share| share == fleet.share);
    if !same_dir || !same_share {
        let (dir, share) = (quote(&run.dir), quote(&fleet.share));
        return refuse(
            "has the directories of its store",
            format!("if they are yours, name them: --dir {dir} --share {share}"),
        );
    }
    let points = fleet_points(&run.plan, Catalog::default())?;
    let is_same = |a: &Point, b: &Point| a.label == b.label && a.params == b.params;
    let same = points.len() == run.points.len()
        && points.iter().zip(&run.points).all(|(a, b)| is_same(a, b));
    if !same {
        return refuse(
            "has other work in this version",
            make_again(&run, fleet, args),
        );
    }
    let blocks = args.blocks.or(run.plan.blocks).unwrap_or(USUAL_BLOCKS);
    if fleet.groups >= u64::from(blocks) * points.len() as u64 {
        // It may have more blocks than were asked for now.
        let done = fleet.groups.div_ceil(points.len().max(1) as u64);
        let more = done.saturating_add(u64::from(blocks));
        let hint = format!("make more of it: --blocks {more}");
        return refuse("is finished: nothing is missing", hint);
    }
    let request = StormRequest {
        points,
        blocks,
        dir: run.dir.clone(),
        share: shared(&fleet.share)?,
        ..asked(args, run.plan.clone())
    };
    Ok((request, StormBefore { run, trials }))
}
