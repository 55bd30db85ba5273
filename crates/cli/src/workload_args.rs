//! Flags of a workload, made from its parameters.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches};
use layermark_model::{Param, ParamKind, Settings, Spec};
use layermark_probe::{Workload, workloads};
use serde_json::{Map, Value};

use crate::{common_args::CommonArgs, failure::Failure, launch};

/// The parameter given without a flag, as for ab and wrk.
const URL: &str = "url";

/// The workload's own parameters, and those common to all.
fn params(workload: &'static dyn Workload) -> impl Iterator<Item = Param> {
    workload
        .params()
        .into_iter()
        .chain(workloads::COMMON.iter().copied())
}

/// A flag for each parameter, except the command after `--`.
pub fn flags(workload: &'static dyn Workload) -> impl Iterator<Item = Arg> {
    params(workload)
        .filter(|p| p.kind != ParamKind::Command)
        .map(|p| flag(&p))
}

/// `file_size` in a plan is `--file-size` here. Leaked, because clap needs it until the process
/// ends.
fn kebab(name: &str) -> &'static str {
    name.replace('_', "-").leak()
}

fn flag(param: &Param) -> Arg {
    let arg = Arg::new(param.name).help_heading("Workload");
    if param.name == URL {
        return arg
            .value_name("URL")
            .help(param.help)
            .num_args(0..)
            .action(ArgAction::Append);
    }
    let mut arg = arg.long(kebab(param.name));
    if let Some(letter) = launch::short(param.name) {
        arg = arg.short(letter);
    }
    if is_flag(param) {
        return arg.help(param.help).action(ArgAction::SetTrue);
    }
    let help = if param.default.is_empty() {
        param.help.to_owned()
    } else {
        // A line may be broken at a space.
        let default = param.default.replace(',', ", ");
        let default = if param.list { &default } else { param.default };
        format!("{} [default: {default}]", param.help)
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
        // Accept `-4K` and report it as negative, instead of as an unknown option.
        ParamKind::Size => arg.value_name("SIZE").allow_hyphen_values(true),
        ParamKind::Count => arg.value_name("N").allow_hyphen_values(true),
        ParamKind::Duration => arg.value_name("TIME").allow_hyphen_values(true),
        ParamKind::Text => arg.value_name("TEXT").allow_hyphen_values(true),
        ParamKind::Texts => arg.value_name("TEXT"),
        ParamKind::Env => arg.value_name("NAME[=VALUE]"),
        // `--latency` alone means the default (unchanged for compatibility).
        ParamKind::Switch => arg
            .value_parser(["true", "false"])
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        ParamKind::Command => arg,
    }
}

/// Refuses a flag without a value, which would take the next flag as its value. Values may start
/// with `-`, but must not be the name of another flag.
pub fn check_values(workload: &'static dyn Workload, line: &[OsString]) -> Result<(), Failure> {
    let flags: Vec<Arg> = flags(workload).collect();
    let named = |word: &OsString| {
        let long = word.to_str()?.strip_prefix("--")?;
        flags.iter().find(|arg| arg.get_long() == Some(long))
    };
    let ours = line.iter().take_while(|word| *word != "--");
    let ours: Vec<Option<&Arg>> = ours.map(named).collect();
    let pair = ours.windows(2).find_map(|pair| match pair {
        [Some(flag), Some(_)] if flag.is_allow_hyphen_values_set() => flag.get_long(),
        _ => None,
    });
    pair.map_or(Ok(()), |flag| {
        Err(Failure::usage(format!("`--{flag}` has no value"))
            .hint(format!("layermark {} --help", workload.id())))
    })
}

/// Replaces parameter names with the flags as typed: `file_size` of a plan is `--file-size`. Errors
/// about a layer are left as they are, because layers have options of the same names, such as
/// `cache`.
pub fn as_flags(workload: &'static dyn Workload, failure: Failure) -> Failure {
    if !failure.message.starts_with(&format!("{}: ", workload.id())) {
        return failure;
    }
    let named = params(workload).filter(|p| p.kind != ParamKind::Command && p.name != URL);
    failure.with_flags(named.map(|p| p.name))
}

/// Whether the flag takes no value: it is off by default.
fn is_flag(param: &Param) -> bool {
    param.kind == ParamKind::Switch && param.default == "false"
}

/// The given flags, in the form of a plan's `[[work]]` table.
pub fn settings(workload: &'static dyn Workload, matches: &ArgMatches) -> Settings {
    let mut given = Map::new();
    for param in params(workload) {
        if param.kind == ParamKind::Command {
            continue;
        }
        if is_flag(&param) {
            if matches.get_flag(param.name) {
                given.insert(param.name.into(), Value::Bool(true));
            }
        } else if let Some(values) = matches.get_many::<String>(param.name) {
            let values: Vec<Value> = values.cloned().map(Value::String).collect();
            let all = matches!(param.kind, ParamKind::Texts | ParamKind::Env);
            let value = if let ([one], false) = (values.as_slice(), all) {
                one.clone()
            } else {
                Value::Array(values)
            };
            given.insert(param.name.into(), value);
        }
    }
    Settings {
        workload: workload.id().into(),
        label: None,
        params: given,
    }
}

/// With a URL, requests are sent from this host, and there is nothing to compare with.
pub fn of_url(settings: &Settings, common: &mut CommonArgs) -> Result<(), Failure> {
    if !settings.params.contains_key(URL) {
        return Ok(());
    }
    let mut named = common.layers.iter().chain(&common.baseline);
    if let Some(other) = named.find(|layer| !layer.is_native()) {
        return Err(Failure::usage(format!(
            "{}: layer {other} cannot be combined with a URL, which is requested from this host",
            settings.workload
        ))
        .hint("leave -l and --baseline out; without a URL a server is started in each layer"));
    }
    if common.layers.is_empty() {
        common.layers = vec![Spec::bare("native")];
    }
    common.no_control = true;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Command;
    use layermark_probe::workloads::{ALL, file::WORKLOAD};

    use super::*;

    fn given(args: &[&str]) -> Map<String, Value> {
        let command = Command::new("file").args(flags(&WORKLOAD));
        let matches = command.try_get_matches_from([&["file"], args].concat());
        settings(&WORKLOAD, &matches.unwrap()).params
    }

    #[test]
    fn what_is_on_by_default_can_be_turned_off() {
        let off = given(&["--op", "read", "--latency=false"]);
        assert_eq!(off["latency"], "false");
        let settings = Settings {
            workload: "file".into(),
            label: None,
            params: off,
        };
        let points = WORKLOAD.points(&settings, 1.0).unwrap();
        assert!(
            points[0].label.contains("no latency"),
            "{}",
            points[0].label
        );
        assert_eq!(given(&["--latency"])["latency"], "true");
        assert_eq!(given(&["--verify"])["verify"], true);
        assert!(given(&[]).is_empty());
    }

    #[test]
    fn a_flag_is_no_value_of_another() {
        let check = |line: &[&str]| {
            let line: Vec<OsString> = line.iter().map(OsString::from).collect();
            check_values(&WORKLOAD, &line).map_err(|e| e.message)
        };
        let missing = Err("`--record` has no value".to_owned());
        assert_eq!(check(&["--record", "--file-size", "4K"]), missing);
        for line in [
            &["--record", "4K", "--file-size", "4K"][..],
            &["--like", "-Rac", "--latency", "--verify"],
            &["--record", "-4K", "--", "--record", "--file-size"],
        ] {
            assert_eq!(check(line), Ok(()), "{line:?}");
        }
    }

    /// A switch that defaults to on needs a flag to turn it off, and the reverse.
    #[test]
    fn each_switch_can_be_turned_from_its_default() {
        for workload in ALL {
            let switches = workload.params().into_iter();
            for param in switches.filter(|p| p.kind == ParamKind::Switch) {
                let takes_value = flag(&param).get_action().takes_values();
                assert_eq!(takes_value, param.default == "true", "{}", param.name);
            }
        }
    }
}
