//! Two examples for the help of each command. Those of a workload's command are declared by the workload.

use clap::Command;
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
    ("layers", ["layermark layers", "layermark layers overlay"]),
    (
        "compare",
        [
            "layermark compare last~1 last",
            "layermark compare old.json new.json --fail-if slower=10%",
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
    ("docs", ["layermark docs", "layermark man"]),
    ("man", ["layermark man", "layermark man man1"]),
    (
        "durability",
        [
            "layermark durability -l overlay:volatile -l vm:cache=unsafe",
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

/// The command with its examples at the end of its help.
pub fn with(command: Command) -> Command {
    let name = command.get_name();
    match of(name) {
        Some(lines) => {
            let lines = lines.map(|line| format!("  {line}\n"));
            command.after_help(format!("Examples:\n{}", lines.concat().trim_end()))
        }
        None => command,
    }
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
            assert!(names.contains(name), "there is no command `{name}`");
        }
        for name in &names {
            let lines = of(name).unwrap_or_else(|| panic!("write two examples for `{name}`"));
            for line in lines {
                assert!(
                    line.starts_with(&format!("layermark {name}")),
                    "{name}: {line}"
                );
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
        assert!(at("--record") < at("--budget") && at("--budget") < at("Examples:"));
    }
}
