//! `layermark durability`: does a layer keep what it acknowledged?

mod check;
pub mod cuts;
mod log;
mod presets;
mod programs;
mod record;
pub mod selftest;
mod sequences;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use layermark_model::{PlanCuts, Settings, Spec};
use serde_json::{Map, Value};

use self::{
    check::CheckArgs,
    programs::ProgramArgs,
    record::RecordArgs,
    sequences::{ReproducerArgs, SequenceArgs},
};
use super::{
    measure::{Order, Special, go_on},
    run::new_order,
};
use crate::{common_args::CommonArgs, failure::Failure};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DurabilityArgs {
    #[command(subcommand)]
    pub by_hand: Option<ByHand>,
    /// Power cuts of each layer; 0 counts flushes only
    #[arg(long, value_name = "N", default_value_t = 38, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub cuts: u32,
    /// Records that each writer writes before the cuts
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub records: u64,
    /// A file system in user space to cut as well: its command without the directory that it serves and the
    /// mount point, which are added; it has to stay in the foreground, as `bindfs -f` does; repeatable
    #[arg(long = "server", value_name = "COMMAND")]
    pub servers: Vec<String>,
    #[command(flatten)]
    pub program: ProgramArgs,
    #[command(flatten)]
    pub sequences: SequenceArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// The halves of a power cut that is made by hand, and what another person needs to see a loss.
#[derive(Debug, Subcommand)]
pub enum ByHand {
    /// Write records below a directory until the power is cut, and log each one that was acknowledged
    Record(RecordArgs),
    /// After the power cut, look for every record that the log has
    Check(CheckArgs),
    /// Print a sequence that lost something as a script for a shell, or as a plan
    Reproducer(ReproducerArgs),
}

pub fn wants_json(args: &DurabilityArgs) -> bool {
    match &args.by_hand {
        Some(ByHand::Check(check)) => check.json.json,
        Some(ByHand::Record(_) | ByHand::Reproducer(_)) => false,
        None => args.common.out.json.json,
    }
}

pub fn main(args: &DurabilityArgs) -> Result<ExitCode, Failure> {
    match &args.by_hand {
        Some(ByHand::Record(args)) => record::until_the_power_is_cut(args),
        Some(ByHand::Check(args)) => check::after_the_power_cut(args),
        Some(ByHand::Reproducer(args)) => sequences::print_reproducer(args),
        None => of_layers(args),
    }
}

/// Counts flushes, then cuts the power.
fn of_layers(args: &DurabilityArgs) -> Result<ExitCode, Failure> {
    let servers = servers(&args.servers)?;
    let programs = args.program.programs()?;
    let sequences = args.sequences.planned()?;
    if args.cuts == 0 && !(programs.is_empty() && sequences.is_none()) {
        return Err(
            Failure::usage("`--cuts 0` cuts no power under a program or a sequence")
                .hint("leave out --cuts, or the program and the sequences"),
        );
    }
    if args.common.layers.is_empty() && servers.is_empty() {
        return Err(Failure::usage("durability: no layer").hint(
            "layermark durability -l overlay:upper; all that can be set up: layermark layers",
        ));
    }
    let mut order = new_order(appends(), &args.common)?;
    if let Order::New(request) = &mut order {
        if args.common.layers.is_empty() {
            request.plan.layers = vec![Spec::bare("native")];
        }
        request.plan.power_cuts = (args.cuts > 0).then_some(PlanCuts {
            cuts: args.cuts,
            records: args.records,
            also: Vec::new(),
            programs,
            sequences,
        });
    }
    let special = Special {
        servers: &servers,
        ..Special::default()
    };
    go_on(order, &args.common, None, &special)
}

/// The words of each command.
fn servers(commands: &[String]) -> Result<Vec<Vec<String>>, Failure> {
    let words = |command: &String| {
        let words = shell_words::split(command).ok().filter(|w| !w.is_empty());
        words.ok_or_else(|| {
            Failure::usage(format!("`--server` = {command}: not a command"))
                .hint("layermark durability --server 'bindfs -f'")
        })
    };
    commands.iter().map(words).collect()
}

/// Writes of 4 KiB at the end of a file, each followed by fsync.
fn appends() -> Settings {
    let params = [("op", "append"), ("record", "4K"), ("sync", "each")];
    let params = params.map(|(key, value)| (key.to_owned(), Value::from(value)));
    Settings {
        workload: "file".into(),
        label: None,
        params: Map::from_iter(params),
    }
}
