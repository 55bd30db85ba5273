//! The command line. A workload's own flags come from its parameters.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use layermark_model::Settings;
use layermark_probe::{Workload, workloads};

use crate::{
    commands::{
        compare::{self, CompareArgs},
        config::ConfigArgs,
        docs::DocsArgs,
        durability::{DurabilityArgs, selftest::SelftestArgs},
        extras::SchemaOf,
        fleet::FleetArgs,
        history::HistoryArgs,
        import::ImportArgs,
        layers::LayersArgs,
        plans::{self, PlansArgs},
        record::RecordArgs,
        report::ReportArgs,
        run::RunArgs,
        safe::SafeArgs,
        serve::ServeArgs,
    },
    common_args::{CommonArgs, output_help_of},
    config, examples,
    failure::Failure,
    groups, launch,
    refused::{help_of, refused},
    replay, steps, workload_args,
};

/// What does a virtual layer cost an application's I/O, and can its answers be trusted?
#[derive(Debug, Parser)]
#[command(name = "layermark", version, propagate_version = true)]
#[command(
    after_long_help = "A layer is written name[:variant][,key=value]...: overlay:writecopy, loop:xfs,direct-io=off.\n\
    A path between two of them, for the workload `net`: client..server, such as vm:nic=e1000..vm.\n\
    `layermark layers` lists them.\n\
    Exit codes: 0 done; 1 a gate failed, acknowledged data was lost, or an error; 2 usage; 3 a layer could not be set up; 4 the result is not trustworthy;\n130 stopped."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Cmd,
}

#[derive(Debug, Subcommand)]
pub enum Cmd {
    /// Compare layers with this machine itself: as a plan says, or without one by fifteen everyday operations in two to three minutes
    Run(Box<RunArgs>),
    /// Ask whether a directory can be relied on: locks, shared mappings, fsync, names, changes of others
    Safe(SafeArgs),
    /// Many hosts, on Slurm, MPI or behind a command: which one is odd, and what a shared directory gives to all of them
    Fleet(Box<FleetArgs>),
    /// List the plans that come with layermark, and what each answers
    Plans(PlansArgs),
    /// List what can be set up here; what is missing, and the command that installs it
    Layers(LayersArgs),
    /// Compare two runs, and fail where something became slower
    Compare(Box<CompareArgs>),
    /// Report a run again, in any format
    Report(Box<ReportArgs>),
    /// Store results of fio, pgbench, wrk, iperf3 or another program, for comparison with ours
    Import(Box<ImportArgs>),
    /// Record what a program does with files, to replay it in any layer
    Record(Box<RecordArgs>),
    /// Runs and imports made so far, newest first
    History(HistoryArgs),
    /// Browse stored and running runs in a browser
    Serve(ServeArgs),
    /// Find out whether layers keep what fsync acknowledged, up to a power cut
    Durability(Box<DurabilityArgs>),
    /// Show that layermark's own checks catch what they have to
    Selftest(SelftestArgs),
    /// Show what your configuration file says: the usual directory, budget and layers
    Config(ConfigArgs),
    /// Print a JSON schema
    Schema { what: SchemaOf },
    /// Print a shell's completions
    Completions { shell: clap_complete::Shell },
    /// Show the documentation, page by page
    Docs(DocsArgs),
    /// Print the manual page, or write all pages into a directory
    Man {
        dir: Option<PathBuf>,
        /// Replace pages that layermark did not write, or that were changed
        #[arg(long, requires = "dir")]
        force: bool,
    },
}

/// The parsed command line.
pub enum Parsed {
    /// A command of [`Cli`].
    Cli(Box<Cli>),
    /// One workload with its own flags.
    Workload(Settings, Box<CommonArgs>),
    /// `layermark replay --check`: the program as a step, and its replay.
    Checked([Settings; 2], Box<CommonArgs>),
    /// `layermark why`: the command as a step.
    Why(Settings, Box<CommonArgs>),
    /// `layermark launch`, and the file for its times in hyperfine's format.
    Launch(Settings, Box<CommonArgs>, Option<PathBuf>),
}

/// The whole command line, with a subcommand for each workload.
pub fn command() -> Command {
    let workloads = workloads::ALL.iter().map(|w| workload_command(*w));
    let of_two = output_help_of(|id| compare::FORMATS.contains(&id));
    let plan = format!(
        "A plan file, a job file of fio, or a plan that comes with layermark: {}",
        plans::names()
    );
    let command = Cli::command()
        .mut_subcommand("compare", |c| {
            c.mut_arg("output", |arg| arg.help(of_two.clone()).long_help(of_two))
        })
        .mut_subcommand("run", |c| c.mut_arg("plan", |arg| arg.help(plan)))
        .subcommands(workloads)
        .subcommand(why_command())
        .mut_subcommands(examples::with);
    groups::with(command)
}

/// Parses the arguments. For help and versions, clap prints them and ends the process.
pub fn parse(line: impl IntoIterator<Item = OsString>) -> Result<Parsed, Failure> {
    let line: Vec<OsString> = line.into_iter().collect();
    let asked = line.get(1).map(|word| word.to_string_lossy());
    if let Some(workload) = asked.as_deref().and_then(workloads::find) {
        workload_args::check_values(workload, &line[2..])?;
    }
    let matches = command()
        .try_get_matches_from(&line)
        .map_err(|e| refused(&e, &command(), asked.as_deref(), &line))?;
    if let Some((name, sub)) = matches.subcommand()
        && let Some(workload) = workloads::find(name)
    {
        let mut common = CommonArgs::from_arg_matches(sub)
            .map_err(|e| refused(&e, &command(), Some(name), &line))?;
        let here = sub.try_get_many::<String>("url").ok().flatten().is_some();
        common.usual_from(config::load()?, sub, !here);
        if name == "launch" {
            let mut made = workload_args::settings(workload, sub);
            launch::settings(sub, &mut made)?;
            launch::defaults(&mut common);
            let times = sub.get_one::<String>("export-json").map(PathBuf::from);
            return Ok(Parsed::Launch(made, Box::new(common), times));
        }
        let mut settings = workload_args::settings(workload, sub);
        if name == "steps" {
            steps::settings(sub, &mut settings)?;
            launch::defaults(&mut common);
        }
        if name == "replay" {
            let program = replay::settings(sub, &mut settings)?;
            launch::defaults(&mut common);
            if let Some(program) = program {
                return Ok(Parsed::Checked([program, settings], Box::new(common)));
            }
        }
        workload_args::of_url(&settings, &mut common)?;
        return Ok(Parsed::Workload(settings, Box::new(common)));
    }
    if let Some((WHY, sub)) = matches.subcommand() {
        let mut common = CommonArgs::from_arg_matches(sub)
            .map_err(|e| refused(&e, &command(), Some(WHY), &line))?;
        common.usual_from(config::load()?, sub, true);
        let mut settings = workload_args::settings(&workloads::steps::WORKLOAD, sub);
        steps::one(sub, &mut settings)?;
        return Ok(Parsed::Why(settings, Box::new(common)));
    }
    let mut cli =
        Cli::from_arg_matches(&matches).map_err(|e| refused(&e, &command(), None, &line))?;
    let sub = matches.subcommand().map(|(_, sub)| sub);
    match (&mut cli.command, sub) {
        // A plan has layers of its own.
        (Cmd::Run(args), Some(sub)) => args.common.usual_dir(config::load()?, sub),
        (Cmd::Durability(args), Some(sub)) if args.by_hand.is_none() => {
            let layers = args.servers.is_empty();
            args.common.usual_from(config::load()?, sub, layers);
        }
        _ => {}
    }
    Ok(Parsed::Cli(Box::new(cli)))
}

/// Adds a hint to the help of a command, as typed, if a usage error has no hint.
pub fn with_help(failure: Failure, asked: Option<&str>) -> Failure {
    failure.or_hint(|| help_of(&command(), asked))
}

/// The command `why`.
const WHY: &str = "why";

/// `layermark why` has the flags of `steps`, of which it measures one.
fn why_command() -> Command {
    let command = Command::new(WHY)
        .about("Why a command is slow in a layer, and in which it is not: its time, and that of the calls it makes")
        .args(workload_args::flags(&workloads::steps::WORKLOAD))
        .next_help_heading("Measuring and reporting");
    let command = CommonArgs::augment_args(command);
    steps::augment_one(command)
}

fn workload_command(workload: &'static dyn Workload) -> Command {
    let command = Command::new(workload.id())
        .about(workload.info().about)
        .args(workload_args::flags(workload))
        .next_help_heading("Measuring and reporting");
    let command = CommonArgs::augment_args(command);
    match workload.id() {
        "launch" => launch::augment(command),
        "steps" => steps::augment(command),
        "replay" => replay::augment(command),
        _ => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }
}
