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
const WIDTH: usize = 80;
/// What a new user types first.
const EXAMPLES: [&str; 3] = [
    "layermark run -l overlay:upper -l fuse --budget 60s -o report.html",
    "layermark safe /mnt/nas",
    "layermark why 'git status' --tree . -l overlay:upper -l fuse",
];

/// The command with its help in groups: a screen (`-h`, or no command at all), or all of it (`--help`).
pub fn with(command: Command) -> Command {
    let (short, long) = (screen(&command), whole(&command));
    command
        .before_help(short)
        .before_long_help(long)
        .help_template("{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}")
}

/// What a command is for; empty if there is no such command.
fn about(command: &Command, name: &str) -> String {
    let found = command.get_subcommands().find(|c| c.get_name() == name);
    let about = found.and_then(Command::get_about).map(ToString::to_string);
    let mut about = about.unwrap_or_default();
    if let Some(first) = about.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    about
}

/// Examples, a line for each command that is not for experts, and the names of the others.
fn screen(command: &Command) -> String {
    let examples = EXAMPLES.map(|line| format!("  {line}\n")).concat();
    let mut text = format!("Examples:\n{examples}");
    for (title, names) in GROUPS {
        let _ = writeln!(text, "\n{title}:");
        if names.is_empty() {
            let _ = writeln!(text, "  {}", members(names).join(", "));
        }
        for name in names {
            let line = beginning(&about(command, name)).to_owned();
            let _ = writeln!(text, "  {name:<NAME$}{line}");
        }
    }
    let also = ALSO.join(", ");
    text + &format!(
        "\nAlso: {also}\nAll of it, how a layer is written, and exit codes: layermark --help"
    )
}

/// The beginning of a text that fits beside a name: up to what explains it further.
fn beginning(about: &str) -> &str {
    const ROOM: usize = WIDTH - NAME - 2;
    let end = about.find([':', ';']).unwrap_or(about.len());
    let first = &about[..end];
    if first.len() <= ROOM {
        return first;
    }
    let ends = first.match_indices(", ").map(|(end, _)| end);
    let end = ends.filter(|end| *end <= ROOM).last();
    end.map_or(first, |end| &first[..end])
}

/// All commands with what they are for, and the options.
fn whole(command: &Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{title}:");
        for name in members(names) {
            text += &entry(name, &about(command, name));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "Also: {}", ALSO.join(", "));
    let after = command.get_after_long_help().map(ToString::to_string);
    text += "\nOptions:\n  -h, --help     Print help; -h is a screen of it\n  -V, --version  Print version\n\n";
    text + &after.unwrap_or_default()
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
        let long = args::command().term_width(WIDTH).render_long_help();
        let help = long.to_string();
        assert!(help.lines().all(|line| line.len() <= WIDTH), "{help}");
        assert!(
            help.contains("\n  -V, --version ") && help.contains("\nExit codes: "),
            "{help}"
        );
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

    /// What `layermark` alone prints had 66 lines, of up to 100 columns.
    #[test]
    fn the_first_help_fits_a_terminal_and_begins_with_examples() {
        let help = args::command().term_width(WIDTH).render_help().to_string();
        assert!(
            help.lines().count() < 40,
            "{}:\n{help}",
            help.lines().count()
        );
        assert!(help.lines().all(|line| line.len() <= WIDTH), "{help}");
        let at = |text: &str| help.find(text).expect(text);
        assert!(at("Examples:") < at("Ask a question:"), "{help}");
        let mut all = args::command();
        all.build();
        for command in all.get_subcommands() {
            let name = command.get_name();
            let words = help.split(|c: char| !(c.is_alphanumeric() || c == '-'));
            assert!(words.into_iter().any(|word| word == name), "{name}: {help}");
        }
        for example in EXAMPLES {
            assert!(help.contains(&format!("\n  {example}\n")), "{help}");
            let words = shell_words::split(example).expect("words");
            let words = words.into_iter().map(Into::into);
            if let Err(failure) = args::parse(words) {
                panic!("{example}: {}", failure.message);
            }
        }
    }

    #[test]
    fn a_line_of_the_first_help_ends_before_what_explains_it() {
        assert_eq!(beginning("Many hosts: which one is odd"), "Many hosts");
        assert_eq!(beginning("A plan; without one, a card"), "A plan");
        assert_eq!(beginning("Short, and whole"), "Short, and whole");
        let long = format!("One, {}, three", "two".repeat(30));
        assert_eq!(beginning(&long), "One");
    }
}
