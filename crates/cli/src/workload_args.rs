//! Flags of a workload, made from its parameters.

use clap::{Arg, ArgAction, ArgMatches};
use layermark_model::{Param, ParamKind, Settings};
use layermark_probe::Workload;
use serde_json::{Map, Value};

use crate::launch;

/// A flag for each parameter, except the command that follows `--`.
pub fn flags(workload: &'static dyn Workload) -> impl Iterator<Item = Arg> {
    let params = workload.params().iter();
    params.filter(|p| p.kind != ParamKind::Command).map(flag)
}

/// `file_size` in a plan is `--file-size` here. Leaked, because clap needs it as long as the process
/// lives.
fn kebab(name: &str) -> &'static str {
    name.replace('_', "-").leak()
}

fn flag(param: &Param) -> Arg {
    let mut arg = Arg::new(param.name)
        .long(kebab(param.name))
        .help_heading("Workload");
    if let Some(letter) = launch::short(param.name) {
        arg = arg.short(letter);
    }
    let help = match param.kind {
        ParamKind::Switch => return arg.help(param.help).action(ArgAction::SetTrue),
        _ if param.default.is_empty() => param.help.to_owned(),
        _ => format!("{} [default: {}]", param.help, param.default),
    };
    let arg = arg.help(help).action(if param.list {
        ArgAction::Append
    } else {
        ArgAction::Set
    });
    match param.kind {
        ParamKind::Word(words) => arg
            .value_parser(clap::builder::PossibleValuesParser::new(words))
            .value_delimiter(','),
        ParamKind::Size => arg.value_name("SIZE"),
        ParamKind::Count => arg.value_name("N"),
        ParamKind::Duration => arg.value_name("TIME"),
        ParamKind::Text => arg.value_name("TEXT").allow_hyphen_values(true),
        ParamKind::Texts => arg.value_name("TEXT"),
        ParamKind::Env => arg.value_name("NAME[=VALUE]"),
        ParamKind::Switch | ParamKind::Command => arg,
    }
}

/// The flags that were given, as a plan's `[[work]]` table would have them.
pub fn settings(workload: &'static dyn Workload, matches: &ArgMatches) -> Settings {
    let mut params = Map::new();
    for param in workload.params() {
        if param.kind == ParamKind::Command {
            continue;
        }
        if matches!(param.kind, ParamKind::Switch) {
            if matches.get_flag(param.name) {
                params.insert(param.name.into(), Value::Bool(true));
            }
        } else if let Some(values) = matches.get_many::<String>(param.name) {
            let values: Vec<Value> = values.cloned().map(Value::String).collect();
            let all = matches!(param.kind, ParamKind::Texts | ParamKind::Env);
            let value = if let ([one], false) = (values.as_slice(), all) {
                one.clone()
            } else {
                Value::Array(values)
            };
            params.insert(param.name.into(), value);
        }
    }
    Settings {
        workload: workload.id().into(),
        label: None,
        params,
    }
}
