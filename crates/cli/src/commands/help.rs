//! `layermark help --json`: commands, options, values and examples, for programs that drive layermark.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};
use layermark_import::formats;
use layermark_report::render;
use serde_json::{Value, json};

use super::plans::PLANS;
use crate::{
    examples,
    failure::{CODES, Failure},
};

/// What `layermark help --help` prints: clap's own command `help` has no help.
const USAGE: &str = "Print the help of a command, or of all commands as data\n\n\
                     Usage: layermark help [COMMAND] [--json]\n\n\
                     Options:\n      --json  Print commands, options, values, examples and exit codes as JSON\n\n\
                     Examples:\n  layermark help file\n  layermark help --json";

/// The JSON, if the command line asks for it: of all commands, or of those that are named. `command` is called only then:
/// it takes most of the time of a start.
pub fn asked(line: &[OsString], command: fn() -> Command) -> Option<Result<String, Failure>> {
    let words: Vec<&str> = line.iter().skip(1).filter_map(|w| w.to_str()).collect();
    let (first, rest) = words.split_first()?;
    if *first != "help" {
        return None;
    }
    if rest.iter().any(|w| ["--help", "-h"].contains(w)) {
        return Some(Ok(USAGE.into()));
    }
    if !rest.contains(&"--json") {
        return None;
    }
    let named: Vec<&str> = rest.iter().copied().filter(|w| *w != "--json").collect();
    Some(of(command(), &named))
}

fn of(mut command: Command, named: &[&str]) -> Result<String, Failure> {
    // Global options and derived values are there once it is built.
    command.build();
    let all = || command.get_subcommands().filter(|c| c.get_name() != "help");
    if let Some(unknown) = named
        .iter()
        .find(|name| all().all(|c| c.get_name() != **name))
    {
        let text = format!("help --json: there is no command `{unknown}`");
        return Err(Failure::usage(text).hint("layermark help --json"));
    }
    let wanted = all().filter(|c| named.is_empty() || named.contains(&c.get_name()));
    let codes: Vec<Value> = CODES
        .iter()
        .map(|(code, means)| json!({ "code": code, "means": means }))
        .collect();
    let exports: Vec<Value> = render::ALL
        .iter()
        .map(|e| json!({ "id": e.id(), "endings": e.extensions() }))
        .collect();
    let imports: Vec<Value> = formats::ALL
        .iter()
        .map(|f| json!({ "id": f.id(), "about": f.about(), "made_by": f.example() }))
        .collect();
    let text = serde_json::to_string_pretty(&json!({
        "schema": "layermark.help/1",
        "version": env!("CARGO_PKG_VERSION"),
        "commands": wanted.map(one).collect::<Vec<_>>(),
        "plans": PLANS.map(|(name, _)| name),
        "layers": layermark_layers::ALL.iter().map(|l| l.id()).collect::<Vec<_>>(),
        "export_formats": exports,
        "import_formats": imports,
        "exit_codes": codes,
    }));
    text.map_err(Failure::failed)
}

fn one(command: &Command) -> Value {
    let shown =
        |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let (places, options): (Vec<&Arg>, Vec<&Arg>) = command
        .get_arguments()
        .filter(shown)
        .partition(|arg| arg.is_positional());
    let examples = examples::of(command.get_name())
        .map(|all| all.to_vec())
        .unwrap_or_default();
    let about = command.get_about().map(ToString::to_string);
    json!({
        "name": command.get_name(),
        "about": about.unwrap_or_default(),
        "arguments": places.into_iter().map(argument).collect::<Vec<_>>(),
        "options": options.into_iter().map(argument).collect::<Vec<_>>(),
        "examples": examples,
    })
}

fn argument(arg: &Arg) -> Value {
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .map(|v| v.get_name().to_owned())
        .collect();
    let defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|v| v.to_string_lossy().into_owned())
        .collect();
    let takes = arg.get_action().takes_values();
    let value_names = arg.get_value_names().unwrap_or_default();
    let name = value_names.first().map(ToString::to_string);
    let help = arg
        .get_long_help()
        .or(arg.get_help())
        .map(ToString::to_string);
    json!({
        "name": arg.get_id().as_str(),
        "long": arg.get_long().map(|l| format!("--{l}")),
        "aliases": arg.get_visible_aliases().unwrap_or_default(),
        "short": arg.get_short().map(|s| format!("-{s}")),
        "takes_value": takes,
        "value": name.filter(|_| takes),
        "values": if takes { values } else { Vec::new() },
        "default": if takes { defaults.first() } else { None },
        "repeatable": matches!(arg.get_action(), ArgAction::Append),
        "required": arg.is_required_set(),
        "help": help.unwrap_or_default(),
    })
}
