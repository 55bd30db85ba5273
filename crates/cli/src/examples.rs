//! Two examples for the help of each command; those of a workload's command are declared by the workload. The short help
//! (`-h`) of a command has what they use.

use clap::{Arg, Command};
use layermark_probe::workloads;

/// What a user types, by command.
const EXAMPLES: &[(&str, [&str; 2])] = &[
    (
        "run",
        [
            "layermark run -l overlay:upper -l fuse --budget 60s -o report.html",
            "layermark run buffer-size --scale 0.1",
        ],
    ),
    (
        "safe",
        [
            "layermark safe /mnt/nas",
            "layermark safe /mnt/nas --other /mnt/nas2 --only locks,coherence",
        ],
    ),
    (
        "why",
        [
            "layermark why 'git status' --tree . -l overlay:upper -l fuse",
            "layermark why 'tar xf small.tar' --material archive -l overlay:upper -l fuse",
        ],
    ),
    (
        "fleet",
        [
            "layermark fleet check --launcher slurm --hosts 16 --share /shared",
            "layermark fleet run --launcher 'ssh {host}' --hosts n1,n2,n3 --share /shared",
        ],
    ),
    (
        "fleet check",
        [
            "layermark fleet check --launcher slurm --hosts 16 --share /shared",
            "layermark fleet check --launcher 'ssh {host}' --hosts n1,n2,n3",
        ],
    ),
    (
        "fleet run",
        [
            "layermark fleet run --launcher slurm --hosts 16 --share /shared",
            "layermark fleet run --launcher 'ssh {host}' --hosts n1,n2,n3 --share /shared",
        ],
    ),
    ("plans", ["layermark plans", "layermark plans daily"]),
    ("layers", ["layermark layers", "layermark layers overlay"]),
    (
        "compare",
        [
            "layermark compare old.json new.json --fail-if slower=10%",
            "layermark compare a.lm b.lm c.lm d.lm",
        ],
    ),
    (
        "report",
        [
            "layermark report last --full",
            "layermark report last~1 -o report.html -o results.csv",
        ],
    ),
    (
        "import",
        [
            "layermark import fio.json",
            "layermark import iozone.txt --beside last -o report.html",
        ],
    ),
    (
        "record",
        [
            "layermark record -o status.lmrec -- git status",
            "layermark record --private -- make -j2",
        ],
    ),
    (
        "history",
        [
            "layermark history --since 7d --layer fuse",
            "layermark history --trend 'small read, warm' fuse -o trend.html",
        ],
    ),
    (
        "serve",
        ["layermark serve", "layermark serve 127.0.0.1:8080"],
    ),
    (
        "schema",
        ["layermark schema plan", "layermark schema report"],
    ),
    (
        "completions",
        ["layermark completions bash", "layermark completions fish"],
    ),
    ("config", ["layermark config", "layermark config --json"]),
    ("docs", ["layermark docs", "layermark docs tutorial"]),
    ("man", ["layermark man", "layermark man man1"]),
    (
        "durability",
        [
            "layermark durability --sequences 1 -l overlay:volatile -l vm:cache=unsafe",
            "layermark durability record --to host2.log /mnt/data",
        ],
    ),
    (
        "selftest",
        [
            "layermark selftest durability",
            "layermark selftest durability --json",
        ],
    ),
];

/// Options that the short help of each command has, where the command has them.
const USUAL: [&str; 7] = [
    "layers", "dir", "budget", "output", "json", "help", "version",
];
/// A command with at most so many options has all of them in its short help.
const FEW: usize = 12;

/// The command with its examples before its options. The short help has those that the examples use and the usual ones.
pub fn with(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let command = command.mut_subcommands(|sub| {
        let name = format!("{name} {}", sub.get_name());
        named(sub, &name)
    });
    named(command, &name)
}

fn named(command: Command, name: &str) -> Command {
    let Some(lines) = of(name) else {
        return command;
    };
    let all = command.get_arguments().count();
    let text = lines.map(|line| format!("  {line}\n")).concat();
    let command = command
        .before_help(format!("Examples:\n{text}"))
        .help_template(
            "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}",
        );
    if all <= FEW {
        return command;
    }
    command
        .after_help(format!("All {all} options: layermark {name} --help"))
        .after_long_help("")
        .mut_args(|arg| {
            let usual = arg.is_positional() || USUAL.contains(&arg.get_id().as_str());
            let hidden = !usual && !lines.iter().any(|line| uses(line, &arg));
            arg.hide_short_help(hidden)
        })
}

/// Whether a command line has this option.
fn uses(line: &str, option: &Arg) -> bool {
    let long = option.get_long().map(|name| format!("--{name}"));
    let short = option.get_short().map(|name| format!("-{name}"));
    let mut words = line.split(' ');
    words.any(|word| Some(word) == long.as_deref() || Some(word) == short.as_deref())
}

/// The examples of a command.
pub fn of(name: &str) -> Option<&'static [&'static str; 2]> {
    if let Some(workload) = workloads::find(name) {
        return Some(&workload.info().examples);
    }
    let found = EXAMPLES.iter().find(|(known, _)| *known == name);
    found.map(|(_, lines)| lines)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::args;

    #[test]
    fn each_command_has_examples_that_are_understood() {
        let all = args::command();
        let names: Vec<&str> = all.get_subcommands().map(Command::get_name).collect();
        for (name, _) in EXAMPLES {
            let mut words = name.split(' ');
            let found = words.try_fold(&all, |found, word| found.find_subcommand(word));
            assert!(found.is_some(), "there is no command `{name}`");
        }
        for name in EXAMPLES.iter().map(|(name, _)| name).chain(&names) {
            let lines = of(name).unwrap_or_else(|| panic!("write two examples for `{name}`"));
            for line in lines {
                assert!(
                    line.starts_with(&format!("layermark {name}")),
                    "{name}: {line}"
                );
                // It is indented by two, and what is broken into two lines cannot be pasted.
                assert!(line.len() + 2 < 80, "{name}: {line}");
                let words = shell_words::split(line).unwrap();
                let words = words.into_iter().map(OsString::from);
                if let Err(failure) = args::parse(words) {
                    panic!("{line}: {}", failure.message);
                }
            }
        }
    }

    #[test]
    fn flags_of_a_workload_stand_before_those_of_every_command() {
        let mut all = args::command();
        let file = all.find_subcommand_mut("file").unwrap();
        let help = file.render_help().to_string();
        let at = |text: &str| help.find(text).expect(text);
        assert!(at("Examples:") < at("--record") && at("--record") < at("--budget"));
    }

    #[test]
    fn the_short_help_fits_a_screen_and_the_long_one_has_all() {
        fn every(command: Command) -> Vec<Command> {
            let subs: Vec<Command> = command.get_subcommands().cloned().collect();
            let subs = subs.into_iter().flat_map(every);
            std::iter::once(command).chain(subs).collect()
        }
        let all = args::command();
        for command in all.get_subcommands().cloned().flat_map(every) {
            let (name, count) = (
                command.get_name().to_owned(),
                command.get_arguments().count(),
            );
            let mut command = command.term_width(80);
            let short = command.render_help().to_string();
            assert!(
                short.lines().count() <= 40,
                "{name} has {} lines:\n{short}",
                short.lines().count()
            );
            assert!(
                short.lines().all(|line| line.chars().count() <= 80),
                "{short}"
            );
            let long = command.render_long_help().to_string();
            let options = long
                .lines()
                .filter(|line| line.trim_start().starts_with('-'))
                .count();
            assert!(options + 2 >= count, "{name}: {options} of {count}\n{long}");
        }
    }
}
