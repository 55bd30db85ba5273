//! The help of layermark itself: commands by what one wants, not by the alphabet.

use std::fmt::Write as _;

use clap::Command;
use layermark_probe::workloads;

/// Commands in the order in which they are shown. Workloads that are in none of these groups have one of their own.
const GROUPS: [(&str, &[&str]); 3] = [
    (
        "Ask a question",
        &[
            "run",
            "why",
            "safe",
            "fleet",
            "plans",
            "layers",
            "steps",
            "record",
            "replay",
            "launch",
            "durability",
            "docs",
        ],
    ),
    (
        "Look at results",
        &["report", "compare", "history", "serve", "import"],
    ),
    ("Expert workloads: measure one kind of work", &[]),
];
/// Commands that answer no question. They are named in one line.
const ALSO: [&str; 6] = ["config", "man", "help", "schema", "completions", "selftest"];
/// Columns of a command's name.
const NAME: usize = 14;
/// Columns of a line.
const WIDTH: usize = 100;

/// The command with its help in groups.
pub fn with(command: Command) -> Command {
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (title, names) in GROUPS {
        let _ = writeln!(text, "\n{title}:");
        for name in members(names) {
            let found = command.get_subcommands().find(|c| c.get_name() == name);
            let about = found.and_then(Command::get_about).map(ToString::to_string);
            text += &entry(name, &about.unwrap_or_default());
        }
    }
    let _ = writeln!(text, "\nAlso: {}", ALSO.join(", "));
    command.help_template(text + "\nOptions:\n{options}{after-help}")
}

/// The commands of a group.
fn members(names: &'static [&'static str]) -> Vec<&'static str> {
    if !names.is_empty() {
        return names.to_vec();
    }
    let elsewhere = |id: &str| GROUPS.iter().any(|(_, names)| names.contains(&id));
    let rest = workloads::ALL.iter().map(|w| w.info().id);
    rest.filter(|id| !elsewhere(id)).collect()
}

/// The line of a command, and more below it where its text is longer.
fn entry(name: &str, about: &str) -> String {
    let (mut text, mut line) = (String::new(), format!("  {name:<NAME$}"));
    let mut about = about.to_owned();
    if let Some(first) = about.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    for word in about.split_whitespace() {
        if line.len() + word.len() > WIDTH {
            let _ = writeln!(text, "{}", line.trim_end());
            line = " ".repeat(NAME + 2);
        }
        let _ = write!(line, "{word} ");
    }
    let _ = writeln!(text, "{}", line.trim_end());
    text
}

#[cfg(test)]
mod tests {
    use crate::args;

    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut all = args::command();
        all.build();
        let mut names: Vec<&str> = all.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| members(names))
            .collect();
        grouped.extend(ALSO);
        names.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, names);
        let help = args::command().render_help().to_string();
        assert!(help.lines().all(|line| line.len() <= WIDTH), "{help}");
        let also = help.lines().find_map(|line| line.strip_prefix("Also: "));
        let also: Vec<&str> = also.expect(&help).split(", ").collect();
        assert_eq!(also, ALSO);
        for name in names {
            let has_line = help.contains(&format!("\n  {name} "));
            assert_eq!(has_line, !also.contains(&name), "{name}: {help}");
        }
        let shown = help.split("\nAlso: ").next().unwrap_or_default().lines();
        let shown = shown.filter(|line| !line.starts_with(' '));
        let shown: Vec<&str> = shown.filter_map(|line| line.strip_suffix(':')).collect();
        assert_eq!(shown, GROUPS.map(|(title, _)| title), "{help}");
    }
}
