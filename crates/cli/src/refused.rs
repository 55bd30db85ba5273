//! clap's errors, worded like all other errors: what is wrong with which option, then a hint.

use std::{error::Error as _, ffi::OsString};

use clap::{
    Arg, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};
use layermark_model::nearest;

use crate::failure::Failure;

/// A hint: the command that prints the flags of another one.
pub fn help_of(known: &Command, name: Option<&str>) -> String {
    let name = name.filter(|name| known.find_subcommand(name).is_some());
    name.map_or("layermark --help".into(), |name| {
        format!("layermark {name} --help")
    })
}

/// Converts a usage error of `command` (as typed) of the `known` ones. Prints help and versions itself and ends the
/// process.
pub fn refused(
    error: &clap::Error,
    known: &Command,
    command: Option<&str>,
    line: &[OsString],
) -> Failure {
    let text = error.to_string();
    let Some(text) = text.strip_prefix("error: ") else {
        error.exit();
    };
    let help = line.get(2).and_then(|second| {
        let second = second.to_str()?;
        let inner = known.find_subcommand(command?)?.find_subcommand(second)?;
        Some(format!(
            "layermark {} {} --help",
            command?,
            inner.get_name()
        ))
    });
    let help = help.unwrap_or_else(|| help_of(known, command));
    if let Some(failure) = negative(error, &help, line) {
        return failure;
    }
    let (message, near) = match error.kind() {
        ErrorKind::UnknownArgument => unknown(error, known, command, line),
        ErrorKind::InvalidSubcommand => {
            let name = value(error, ContextKind::InvalidSubcommand);
            let near = nearest(&name, known.get_subcommands().map(Command::get_name));
            (
                format!("there is no command `{name}`"),
                near.map(|near| format!("layermark {near}")),
            )
        }
        ErrorKind::InvalidValue => invalid(error),
        ErrorKind::ValueValidation => {
            let (name, value) = (option(error), value(error, ContextKind::InvalidValue));
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            let message = if why.contains(&format!("`{value}`")) {
                format!("`{name}`: {why}")
            } else if why.starts_with("invalid ") {
                // The wording of Rust's number parser.
                format!("`{name}` = {value}: not a whole number")
            } else {
                format!("`{name}` = {value}: {why}")
            };
            (message, None)
        }
        ErrorKind::ArgumentConflict => {
            let other = bare(&value(error, ContextKind::PriorArg));
            let name = option(error);
            if ["--resume", "--replay"].contains(&name.as_str()) && other.starts_with("--") {
                let text = format!("`{name}` cannot be used with `{other}`");
                let hint = format!("leave `{other}` out: the earlier run has settled it");
                return Failure::usage(text).hint(hint);
            }
            let message = if other.is_empty() || other == name {
                format!("`{name}` is given more than once, or with an option that excludes it")
            } else {
                format!("`{name}` cannot be used with `{other}`")
            };
            (message, None)
        }
        ErrorKind::WrongNumberOfValues => {
            let number = |kind| match error.get(kind) {
                Some(ContextValue::Number(n)) => *n,
                _ => 0,
            };
            let (wanted, given) = (
                number(ContextKind::ExpectedNumValues),
                number(ContextKind::ActualNumValues),
            );
            let message = format!("`{}` takes {wanted} values, not {given}", option(error));
            (message, None)
        }
        ErrorKind::MissingRequiredArgument => (format!("`{}` is missing", option(error)), None),
        _ => {
            let first = text.split("\n\n").next().unwrap_or(text);
            (first.trim_end().replace('\n', " "), None)
        }
    };
    Failure::usage(message).hint(match near {
        Some(near) => format!("did you mean `{near}`? {help}"),
        None => help,
    })
}

/// A number below zero, which clap takes for an option.
fn negative(error: &clap::Error, help: &str, line: &[OsString]) -> Option<Failure> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let name = value(error, ContextKind::InvalidArg);
    let words: Vec<&str> = line.iter().filter_map(|word| word.to_str()).collect();
    let pair = words.windows(2).find(|pair| pair[1].starts_with(&name))?;
    let number = pair[1].strip_prefix('-')?;
    if !pair[0].starts_with("--") || !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let text = format!("`{}` = {}: it must not be negative", pair[0], pair[1]);
    let command = help.strip_suffix(" --help").unwrap_or(help);
    Some(Failure::usage(text).hint(format!("{command} {} {number}", pair[0])))
}

/// The message for an unknown option, and a similar one that the command has.
fn unknown(
    error: &clap::Error,
    known: &Command,
    command: Option<&str>,
    line: &[OsString],
) -> (String, Option<String>) {
    let name = value(error, ContextKind::InvalidArg);
    let its = command
        .and_then(|c| known.find_subcommand(c))
        .unwrap_or(known);
    let Some(word) = name.strip_prefix("--") else {
        return (format!("`{name}` is not expected here"), None);
    };
    let positional = |arg: &Arg| arg.is_positional() && arg.get_id().as_str() == word;
    if its.get_arguments().any(positional) {
        let at = line.iter().position(|typed| *typed == *name);
        let typed = at.and_then(|at| line.get(at + 1)?.to_str());
        let value = typed.unwrap_or("...");
        let scheme = if word == "url" && !value.contains("://") {
            "http://"
        } else {
            ""
        };
        let command = command.unwrap_or_default();
        let meant = format!("layermark {command} {scheme}{value}");
        return (format!("unknown option `{name}`"), Some(meant));
    }
    let longs: Vec<&str> = its
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .collect();
    // An option that has this word in its name is a better match than similar letters: `--size` is
    // `--file-size`.
    let has_word = |long: &&&str| long.split('-').any(|part| part == word);
    let near = longs.iter().find(has_word).copied();
    let near = near.or_else(|| nearest(word, longs.iter().copied()));
    let near = near.map(|near| format!("--{near}"));
    let quoted = (command == Some("launch") && near.is_none())
        .then(|| format!("layermark launch 'PROGRAM {name}'"));
    (format!("unknown option `{name}`"), near.or(quoted))
}

/// The message for a value that the option does not accept.
fn invalid(error: &clap::Error) -> (String, Option<String>) {
    let (name, value) = (option(error), value(error, ContextKind::InvalidValue));
    if value.is_empty() {
        return (format!("`{name}` has no value"), None);
    }
    let known = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(known)) => known.as_slice(),
        _ => &[],
    };
    let near = nearest(&value, known.iter().map(String::as_str));
    (
        format!("`{name}` = {value}: it is not one of {}", known.join(", ")),
        near.map(str::to_owned),
    )
}

/// The option that an error is about, without its value's name.
fn option(error: &clap::Error) -> String {
    bare(&value(error, ContextKind::InvalidArg))
}

fn bare(usage: &str) -> String {
    let name = usage.split([' ', '=']).next().unwrap_or(usage);
    name.trim_matches(['<', '>', '.', '[', ']']).to_owned()
}

fn value(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(one)) => one.clone(),
        Some(ContextValue::Strings(all)) => all.join(" "),
        _ => String::new(),
    }
}
