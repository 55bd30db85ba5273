//! Arguments of `layermark steps` beyond the flags of its parameters: the commands.

use clap::{Arg, ArgMatches, Command};
use layermark_model::Settings;
use layermark_probe::workloads::steps::presets;
use serde_json::{Value, json};

use crate::{
    failure::Failure,
    launch::{texts, words},
};

/// Adds the arguments for the commands.
pub fn augment(command: Command) -> Command {
    let own = |arg: Arg| arg.help_heading("Workload");
    command
        .mut_arg("layers", |arg| {
            arg.help("A layer to compare with the baseline; repeatable [default: the baseline alone]")
        })
        .arg(own(Arg::new("preset").long("preset").value_name("NAMES").help(presets::help())))
        .arg(own(Arg::new("command").num_args(0..).value_name("COMMAND").help(
            "A command in one argument, split into words without running a shell; each is a step of its own",
        )))
        .arg(own(Arg::new("argv").last(true).num_args(1..).value_name("PROGRAM").help(
            "After --: one program and its arguments, as they are; or a command in one argument",
        )))
}

/// Adds the argument for the one command of `why`.
pub fn augment_one(command: Command) -> Command {
    let own = |arg: Arg| arg.help_heading("Workload");
    command
        .mut_arg("layers", |arg| {
            arg.help("A layer in which to measure it; repeatable")
        })
        .arg(own(Arg::new("command").value_name("COMMAND").help(
            "The command in one argument, split into words without running a shell",
        )))
        .arg(own(Arg::new("argv")
            .last(true)
            .num_args(1..)
            .value_name("PROGRAM")
            .help(
                "After --: the program and its arguments, as they are",
            )))
}

/// Adds the command of `why` to the parameters' settings.
pub fn one(matches: &ArgMatches, settings: &mut Settings) -> Result<(), Failure> {
    let argv: Vec<String> = texts(matches, "argv").collect();
    let run = texts(matches, "command").next();
    let run = run.or_else(|| match argv.as_slice() {
        [] => None,
        [line] => Some(line.clone()),
        program => Some(words(program)),
    });
    let run = run.ok_or_else(|| {
        Failure::usage("why: no command").hint("layermark why 'git status' -l overlay:upper")
    })?;
    settings.params.insert("run".into(), run.into());
    Ok(())
}

/// Adds the commands to the parameters' settings.
pub fn settings(matches: &ArgMatches, settings: &mut Settings) -> Result<(), Failure> {
    let mut commands: Vec<String> = texts(matches, "command").collect();
    let argv: Vec<String> = texts(matches, "argv").collect();
    match argv.as_slice() {
        [] => {}
        [line] => commands.push(line.clone()),
        words_of_one => commands.push(words(words_of_one)),
    }
    let preset = matches.get_one::<String>("preset");
    if let Some(names) = preset {
        settings
            .params
            .insert("preset".into(), names.as_str().into());
    }
    if commands.is_empty() {
        if preset.is_some() {
            return Ok(());
        }
        return Err(
            Failure::usage("steps: no command").hint("layermark steps -- PROGRAM [ARGUMENT]...")
        );
    }
    let steps: Vec<Value> = commands.iter().map(|run| json!({"run": run})).collect();
    settings.params.insert("steps".into(), steps.into());
    Ok(())
}
