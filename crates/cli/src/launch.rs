//! Arguments of `layermark launch` beyond the flags of its parameters: the command, and options
//! that hyperfine's users know.

use clap::{Arg, ArgAction, ArgMatches, Command};
use layermark_model::{Settings, Spec};
use serde_json::Value;

use crate::{common_args::CommonArgs, failure::Failure};

/// Most values of a scan.
const MOST_VALUES: usize = 10_000;

/// Adds the arguments for the command, and the other flags.
pub fn augment(command: Command) -> Command {
    let own = |arg: Arg| arg.help_heading("Workload");
    command
        .mut_arg("layers", |arg| {
            arg.help("A layer to compare with the baseline; repeatable [default: the baseline alone]")
        })
        .arg(own(Arg::new("command").num_args(0..).value_name("COMMAND").help(
            "A command in one argument, split into words without running a shell; several are compared with each other",
        )))
        .arg(own(Arg::new("argv").last(true).num_args(1..).value_name("PROGRAM").help(
            "After --: one program and its arguments, as they are",
        )))
        .arg(own(Arg::new("scan").short('P').long("parameter-scan").num_args(3).value_names(["VAR", "MIN", "MAX"])
            .action(ArgAction::Append)
            .allow_negative_numbers(true)
            .help("A point for each number from MIN to MAX, which replaces {VAR} in the commands; a command without it is launched once")))
        .arg(own(Arg::new("step").short('D').long("parameter-step-size").value_name("DELTA").requires("scan")
            .help("Step of --parameter-scan [default: 1]")))
        .arg(own(Arg::new("list").short('L').long("parameter-list").num_args(2).value_names(["VAR", "VALUES"])
            .action(ArgAction::Append)
            .help("A point for each of VALUES, separated by commas, which replaces {VAR} in the commands; a command without it is launched once")))
        .arg(own(Arg::new("reference").long("reference").value_name("N|COMMAND")
            .help("The command that the others are compared with: its number, or the command itself, which is also launched if it is not given [default: 1]")))
        .arg(own(Arg::new("no-shell").short('N').action(ArgAction::SetTrue)
            .help("Accepted for hyperfine's users: there is never a shell")))
        .arg(own(Arg::new("export-json").long("export-json").value_name("FILE")
            .help("Write the times in hyperfine's JSON format as well")))
}

/// The single-letter flags of hyperfine for our parameters.
pub fn short(param: &str) -> Option<char> {
    match param {
        "warmup" => Some('w'),
        "prepare" => Some('p'),
        "conclude" => Some('C'),
        "ignore_failure" => Some('i'),
        _ => None,
    }
}

/// Adds the command and the other arguments to the parameters' settings.
pub fn settings(matches: &ArgMatches, settings: &mut Settings) -> Result<(), Failure> {
    let mut commands: Vec<Value> = texts(matches, "command").map(Value::String).collect();
    let argv: Vec<String> = texts(matches, "argv").collect();
    if !argv.is_empty() {
        commands.push(Value::String(words(&argv)));
    }
    if let Some(reference) = matches.get_one::<String>("reference") {
        put_first(&mut commands, reference)?;
    }
    match commands.len() {
        0 if settings.params.contains_key("cmd") => {}
        0 => {
            return Err(Failure::usage("launch: no command")
                .hint("layermark launch -- PROGRAM [ARGUMENT]..."));
        }
        1 => {
            settings.params.insert("command".into(), commands.remove(0));
        }
        _ => {
            settings
                .params
                .insert("command".into(), Value::Array(commands));
        }
    }
    let mut values: Vec<String> = texts(matches, "list")
        .collect::<Vec<_>>()
        .chunks(2)
        .map(|pair| pair.join("="))
        .collect();
    let step = matches
        .get_one::<String>("step")
        .map_or("1", String::as_str);
    for scan in texts(matches, "scan").collect::<Vec<_>>().chunks(3) {
        values.push(format!(
            "{}={}",
            scan[0],
            scanned(&scan[1], &scan[2], step)?
        ));
    }
    if let Some(Value::Array(more)) = settings.params.get("parameters") {
        values.extend(more.iter().filter_map(Value::as_str).map(str::to_owned));
    }
    if !values.is_empty() {
        settings.params.insert("parameters".into(), values.into());
    }
    Ok(())
}

/// Moves the reference, a command or its number from 1, to the front: every command is compared
/// with the first.
fn put_first(commands: &mut Vec<Value>, reference: &str) -> Result<(), Failure> {
    let named = commands.iter().position(|c| c == reference);
    let at = match (named, reference.parse::<usize>()) {
        (Some(at), _) => at,
        (None, Ok(n)) if (1..=commands.len()).contains(&n) => n - 1,
        (None, Ok(n)) => {
            let given = match commands.len() {
                1 => "1 command is given".to_owned(),
                n => format!("{n} commands are given"),
            };
            return Err(
                Failure::usage(format!("launch: `--reference` = {n}: {given}"))
                    .hint("layermark launch --reference 2 'ls /' 'git --version'"),
            );
        }
        (None, Err(_)) => {
            commands.push(reference.into());
            commands.len() - 1
        }
    };
    commands[..=at].rotate_right(1);
    Ok(())
}

pub fn texts<'a>(matches: &'a ArgMatches, name: &str) -> impl Iterator<Item = String> + use<'a> {
    matches
        .get_many::<String>(name)
        .into_iter()
        .flatten()
        .cloned()
}

/// Joins words into one line that splits into the same words.
pub fn words(argv: &[String]) -> String {
    shell_words::join(argv)
}

/// Numbers from `min` to `max`, with as many decimals as the most precise of the three has.
fn scanned(min: &str, max: &str, step: &str) -> Result<String, Failure> {
    let wrong = |what: &str| {
        Err(
            Failure::usage(format!("--parameter-scan {min} {max}, step {step}: {what}"))
                .hint("layermark launch -P n 1 8 -D 1 'make -j {n}'"),
        )
    };
    let read = |t: &str| t.parse::<f64>().ok().filter(|x| x.is_finite());
    let (Some(from), Some(to), Some(by)) = (read(min), read(max), read(step)) else {
        return wrong("three numbers are wanted");
    };
    if by <= 0.0 || to < from {
        return wrong("the step must be above 0 and MAX not below MIN");
    }
    if [min, max, step].iter().any(|t| t.contains(['e', 'E'])) {
        return wrong("write the numbers without an exponent");
    }
    let steps = ((to - from) / by + 1e-9).floor();
    if steps >= MOST_VALUES as f64 {
        return wrong("too many values");
    }
    let count = steps as usize + 1;
    let decimals = |t: &str| t.split_once('.').map_or(0, |(_, d)| d.len());
    let digits = [min, max, step]
        .map(decimals)
        .into_iter()
        .max()
        .unwrap_or(0);
    let values: Vec<String> = (0..count)
        .map(|i| format!("{:.digits$}", by.mul_add(i as f64, from)))
        .collect();
    Ok(values.join(","))
}

/// Without `-l`, only the baseline is measured.
pub fn defaults(common: &mut CommonArgs) {
    if common.layers.is_empty() {
        let native = || Spec::bare("native");
        common.layers = vec![common.baseline.clone().unwrap_or_else(native)];
        common.no_control = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_keep_their_decimals() {
        assert_eq!(scanned("1", "3", "1").unwrap(), "1,2,3");
        assert_eq!(scanned("0", "0.3", "0.1").unwrap(), "0.0,0.1,0.2,0.3");
        assert_eq!(scanned("-1", "0", "0.5").unwrap(), "-1.0,-0.5,0.0");
        for (min, max, step) in [
            ("x", "1", "1"),
            ("2", "1", "1"),
            ("0", "1", "0"),
            ("0", "1e9", "1"),
            ("nan", "1", "1"),
            ("0", "1", "1e-1"),
            ("0", "9999999999999999999999", "0.0000001"),
        ] {
            assert!(scanned(min, max, step).is_err(), "{min} {max} {step}");
        }
    }

    #[test]
    fn the_reference_comes_first() {
        let given = || ["a", "b", "3"].map(Value::from).to_vec();
        for (reference, expected) in [
            ("1", &["a", "b", "3"][..]),
            ("2", &["b", "a", "3"]),
            ("b", &["b", "a", "3"]),
            ("3", &["3", "a", "b"]),
            ("c d", &["c d", "a", "b", "3"]),
        ] {
            let mut commands = given();
            put_first(&mut commands, reference).unwrap();
            assert_eq!(commands, expected, "{reference}");
        }
        for wrong in ["0", "4"] {
            let e = put_first(&mut given(), wrong).unwrap_err();
            assert!(e.message.contains("3 commands are given"), "{}", e.message);
        }
    }

    #[test]
    fn words_are_read_again_as_they_were() {
        let argv = ["a b", "", "it's", "$x", "--y"].map(str::to_owned);
        assert_eq!(shell_words::split(&words(&argv)).unwrap(), argv);
    }
}
