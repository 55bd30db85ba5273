//! One file per command.

pub mod compare;
pub mod complete;
pub mod config;
mod dir_journal;
pub mod docs;
pub mod durability;
pub mod extras;
pub mod fleet;
mod gate;
mod help;
pub mod history;
pub mod import;
pub mod inner;
pub mod layers;
mod measure;
mod output;
pub mod plans;
mod programs;
pub mod record;
pub mod report;
pub mod run;
pub mod safe;
pub mod serve;
mod stdout;
mod stored;
pub mod target;
pub mod why;
mod written;

use std::{env, process::ExitCode};

use layermark_layers::keeper;

use crate::{
    args::{self, Cmd, Parsed},
    limits,
};

/// Parses the arguments and runs the command.
pub fn main() -> ExitCode {
    complete::answer(args::command);
    let line: Vec<_> = env::args_os().collect();
    if let Some(help) = help::asked(&line, args::command) {
        let printed = help.and_then(|text| stdout::print(&(text + "\n")));
        return printed.map_or_else(|failure| failure.print(true), |()| ExitCode::SUCCESS);
    }
    let parsed = match args::parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(failure) => {
            let json = env::args_os().any(|a| a == "--json");
            return args::with_help(failure, asked().as_deref()).print(json);
        }
    };
    // Only a measurement may leave a blocked thread behind; all other commands end by themselves.
    match &parsed {
        Parsed::Cli(cli) if !measures(&cli.command) => carry_out(parsed),
        _ => match limits::few_processes() {
            Some(failure) => failure.print(env::args_os().any(|a| a == "--json")),
            None => keeper::keep(|| carry_out(parsed)),
        },
    }
}

/// Whether a command sets layers up.
fn measures(command: &Cmd) -> bool {
    match command {
        Cmd::Run(_) | Cmd::Safe(_) | Cmd::Selftest(_) => true,
        Cmd::Durability(args) => args.by_hand.is_none(),
        _ => false,
    }
}

fn carry_out(parsed: Parsed) -> ExitCode {
    let (json, result) = match parsed {
        Parsed::Workload(settings, common) => {
            (common.out.json.json, run::workload(settings, &common))
        }
        Parsed::Checked(work, common) => {
            (common.out.json.json, run::checked(work.to_vec(), &common))
        }
        Parsed::Why(settings, common) => (common.out.json.json, why::command(settings, &common)),
        Parsed::Launch(settings, common, times) => (
            common.out.json.json,
            run::launch(settings, &common, times.as_deref()),
        ),
        Parsed::Cli(cli) => match cli.command {
            Cmd::Run(args) => (args.common.out.json.json, run::plan(*args)),
            Cmd::Fleet(args) => (fleet::wants_json(&args), fleet::main(&args)),
            Cmd::Safe(args) => (args.json.json, safe::directory(&args)),
            Cmd::Plans(args) => (args.json.json, plans::show(&args)),
            Cmd::Layers(args) => (args.json.json, layers::show(&args)),
            Cmd::Compare(args) => (args.out.json.json, compare::runs(&args)),
            Cmd::Report(args) => (args.out.json.json, report::again(&args)),
            Cmd::Import(args) => (args.out.json.json, import::keep(&args)),
            Cmd::Record(args) => (false, record::record(&args)),
            Cmd::History(args) => (args.json.json, history::show(&args)),
            Cmd::Serve(args) => (false, serve::forever(&args)),
            Cmd::Durability(args) => (durability::wants_json(&args), durability::main(&args)),
            Cmd::Selftest(args) => (args.json.json, durability::selftest::run(&args)),
            Cmd::Schema { what } => (false, extras::schema(what)),
            Cmd::Completions { shell } => (false, extras::completions(shell)),
            Cmd::Config(args) => (args.json.json, config::show(&args)),
            Cmd::Docs(args) => (false, docs::show(&args)),
            Cmd::Man { dir, force } => (false, extras::man(args::command(), dir.as_deref(), force)),
        },
    };
    result.unwrap_or_else(|failure| args::with_help(failure, asked().as_deref()).print(json))
}

/// The name of the command, as typed.
fn asked() -> Option<String> {
    let word = env::args_os().nth(1)?;
    Some(word.to_string_lossy().into_owned())
}
