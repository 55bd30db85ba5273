//! `layermark fleet check`: which host is odd.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use layermark_fleet::check::{self, CheckEvent, CheckRequest};
use layermark_lab::{Catalog, Stop, points};
use layermark_model::{Plan, Point, Run, TrialRecord, nearest, random};
use layermark_report::{FleetCheck, HostOfCheck, Report, render};
use layermark_store::StoreError;

use super::{LauncherArgs, keeper::Keeper, shared};
use crate::{
    commands::{
        complete, output, plans, stdout, stored,
        target::{Destination, FileOption},
    },
    common_args::{JsonArg, StoreArg, share},
    failure::{Code, Failure},
    signals,
};

const JUNIT: FileOption = FileOption {
    name: "--junit",
    elsewhere: "layermark fleet check --junit ~/hosts.xml",
};

#[derive(Debug, Args)]
pub struct FleetCheckArgs {
    #[command(flatten)]
    pub launcher: LauncherArgs,
    /// A directory that all hosts share: each uses it in turn, beside its own; {host} is the host's name
    #[arg(long, value_name = "DIR")]
    pub share: Option<String>,
    /// Only these points of the card; repeatable [default: all that take turns and start no program]
    #[arg(long, value_name = "POINT")]
    pub point: Vec<String>,
    /// Aim for all of it; six blocks are made in any case
    #[arg(long, default_value = "25s", value_name = "TIME", value_parser = budget)]
    pub budget: Duration,
    /// An earlier run of a host that was well, to be compared with the hosts as one of them
    #[arg(long, value_name = "RUN", add = complete::runs())]
    pub baseline: Option<String>,
    /// Differences below this do not matter
    #[arg(long, default_value = "10%", value_name = "SHARE", value_parser = share)]
    pub delta: f64,
    /// Also write the words as XML in the format of junit: a test case for each host
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Let --junit replace a file that layermark did not write
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub store: StoreArg,
    #[command(flatten)]
    pub json: JsonArg,
}

fn budget(text: &str) -> Result<Duration, String> {
    layermark_model::parse_duration(text).map_err(|e| e.to_string())
}

/// The plan of a check, and those of its points that were asked for.
fn plan(asked: &[String]) -> Result<(Plan, Vec<Point>), Failure> {
    let card = plans::builtin("card")?;
    let all: Vec<Point> = points(&card, Catalog::default())?
        .into_iter()
        .filter(check::is_for_check)
        .collect();
    let labels: Vec<String> = all.iter().map(|p| p.label.clone()).collect();
    for name in asked {
        if !labels.contains(name) {
            let text = format!("--point `{name}`: a check has no such point");
            let near = nearest(name, labels.iter().map(String::as_str));
            return Err(Failure::usage(text).hint(match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known are: {}", labels.join("; ")),
            }));
        }
    }
    let wanted = all
        .into_iter()
        .filter(|p| asked.is_empty() || asked.contains(&p.label));
    let wanted: Vec<Point> = wanted.collect();
    let plan = Plan {
        name: "fleet-check".into(),
        about: "Everyday file operations on each host of a fleet.".into(),
        keep: Vec::new(),
        budget: None,
        layer_budget: None,
        control: false,
        ..card
    };
    Ok((plan, wanted))
}

/// Checks, then prints a line for each host.
pub fn hosts(args: &FleetCheckArgs) -> Result<ExitCode, Failure> {
    let (plan, points) = plan(&args.point)?;
    let share = args.share.as_deref().map(shared).transpose()?;
    let junit = args.junit.as_ref();
    let junit = junit.map(|path| Destination::find(&JUNIT, path, args.force));
    let junit = junit.transpose()?;
    let mut store = stored::open_store(args.store.store.as_deref())?;
    let baseline = args.baseline.as_deref();
    let baseline = baseline.map(|run| Ok::<_, Failure>((run, stored::report(&mut store, run)?)));
    let baseline = baseline.transpose()?;
    let stop = Stop::new();
    let _signals = signals::connect(&stop).map_err(|e| Failure::failed(format!("signals: {e}")))?;
    let mut fleet = args.launcher.start(&stop)?;
    let request = CheckRequest {
        plan,
        points,
        dir: args.launcher.own_dir(),
        share,
        budget: args.budget,
        seed: random(),
        silence: args.launcher.silence,
        store: store.option(),
    };
    let mut keeper = Keeper::new(&mut store, false);
    // The words are found without the store, which may be gone.
    let mut trials = BTreeMap::<String, Vec<TrialRecord>>::new();
    let runs = check::check(&mut fleet, &request, &stop, &mut |event| {
        match event {
            CheckEvent::Run(run) if trials.contains_key(&run.id) => keeper.state(run),
            CheckEvent::Run(run) => {
                trials.insert(run.id.clone(), Vec::new());
                keeper.begin(run)?;
            }
            CheckEvent::Trial(run, record) => {
                trials
                    .entry(run.to_owned())
                    .or_default()
                    .push(record.clone());
                keeper.trials(run, std::slice::from_ref(record));
            }
        }
        Ok::<(), StoreError>(())
    })?;
    let hosts: Vec<_> = fleet
        .hosts
        .iter()
        .map(|host| (host.name.clone(), host.fault().cloned()))
        .collect();
    drop(fleet);
    let kept = keeper.end(&stop);
    let report = |run: &Option<Run>| {
        let run = run.as_ref()?;
        let trials = trials.remove(&run.id).unwrap_or_default();
        Some(stored::build(run, &trials))
    };
    let reports: Vec<Option<Report>> = runs.iter().map(report).collect();
    let each: Vec<HostOfCheck> = hosts
        .iter()
        .zip(&reports)
        .map(|((name, lost), report)| HostOfCheck {
            name,
            lost: lost.as_ref(),
            report: report.as_ref(),
        })
        .collect();
    let baseline = baseline.as_ref().map(|(name, report)| (*name, report));
    let found = FleetCheck::of(&each, baseline, args.delta);
    print(&found, junit.as_ref(), args)?;
    if let Err(e) = kept {
        let again = "check again when the store takes trials, or keep them in a file: --store FILE";
        // Standard output has its JSON.
        return Ok(e.hint(again).print(false));
    }
    Ok(match () {
        () if stop.asked() => Code::Stopped.into(),
        () if found.failed() => Code::Failed.into(),
        () => ExitCode::SUCCESS,
    })
}

fn print(
    found: &FleetCheck,
    junit: Option<&Destination>,
    args: &FleetCheckArgs,
) -> Result<(), Failure> {
    let mut text = Vec::new();
    if args.json.json {
        serde_json::to_writer_pretty(&mut text, found).map_err(Failure::failed)?;
        text.push(b'\n');
    } else {
        let style = output::style(render::Unit::Ratio);
        render::print_fleet_check(found, style, &mut text).map_err(Failure::failed)?;
    }
    stdout::write(&text)?;
    if let Some(file) = junit {
        file.fill(args.force, &|out| {
            render::fleet_junit(found, &mut *out.open("")?)
        })?;
    }
    Ok(())
}
