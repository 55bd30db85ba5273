//! `layermark fleet run`: a shared directory under one, some and all hosts.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use layermark_fleet::storm::{self, StormEvent, StormRequest, USUAL_BLOCKS};
use layermark_lab::{Catalog, Stop, points};
use layermark_model::FleetPlace;
use layermark_report::{FleetReport, render};

use super::{LauncherArgs, shared};
use crate::{
    commands::{
        complete, output, programs,
        run::read_plan,
        stdout,
        target::{Destination, FileOption},
    },
    common_args::JsonArg,
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
    /// A plan file, or a plan that comes with layermark; its layers are not used
    #[arg(default_value = "share-storm", add = complete::plans())]
    pub plan: String,
    #[command(flatten)]
    pub launcher: LauncherArgs,
    /// The directory that all hosts share; {host} is the host's name, where its path has it
    #[arg(long, value_name = "DIR")]
    pub share: String,
    /// Make this many blocks; a knee needs six [default: the plan's, or 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub blocks: Option<u32>,
    /// Seed of data and offsets [default: the plan's, or drawn]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Factor for file sizes and counts
    #[arg(long, value_name = "FACTOR")]
    pub scale: Option<f64>,
    /// Also write the JSON to this file: a fleet's run is in no store
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Let -o replace a file that layermark did not write
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub json: JsonArg,
}

/// Measures, then prints the curve of each point.
pub fn storm(args: &FleetRunArgs) -> Result<ExitCode, Failure> {
    let (mut plan, changeable) = read_plan(&args.plan)?;
    plan.layers.clear();
    plan.baseline = None;
    if changeable {
        programs::refuse_plan(&format!("plan {}", args.plan), &plan)?;
    }
    plan.scale = args.scale.unwrap_or(plan.scale);
    plan.seed = args.seed.or(plan.seed);
    plan.check()
        .map_err(|e| Failure::usage(format!("plan: {e}")))?;
    let points = points(&plan, Catalog::default())?;
    let share = shared(&args.share)?;
    let file = args.output.as_ref();
    let file = file.map(|path| Destination::find(&OUTPUT, path, args.force));
    let file = file.transpose()?;
    let stop = Stop::new();
    let _signals = signals::connect(&stop).map_err(|e| Failure::failed(format!("signals: {e}")))?;
    let mut fleet = args.launcher.start(&stop)?;
    let blocks = args.blocks.or(plan.blocks).unwrap_or(USUAL_BLOCKS);
    let request = StormRequest {
        plan,
        points,
        launcher: args.launcher.launcher.clone(),
        dir: args.launcher.dir.clone(),
        share,
        blocks,
        silence: args.launcher.silence,
    };
    let mut told = 0;
    let run = storm::storm(&mut fleet, &request, &stop, &mut |event| match event {
        StormEvent::Barrier(barrier) => say(format!(
            "the barrier's round trip takes {:.2} ms; the hosts' clocks are known to {:.2} ms",
            barrier.round_trip_ns as f64 / 1e6,
            barrier.clock_error_ns as f64 / 1e6
        )),
        StormEvent::Round(block, of, ..) if block > told => {
            told = block;
            say(format!("block {block} of {of}"));
        }
        StormEvent::Round(..) => {}
    });
    drop(fleet);
    let report = FleetReport::of(&run);
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
    let failed = report.points.iter().all(|p| {
        let mut shared = p.steps.iter().filter(|s| s.place == FleetPlace::Share);
        shared.all(|s| s.rounds == 0)
    });
    Ok(match () {
        () if stop.asked() => Code::Stopped.into(),
        () if failed => Code::Failed.into(),
        () => ExitCode::SUCCESS,
    })
}
