//! `layermark docs`: the book, which is in the binary.

use std::{
    env,
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    process::{Command, ExitCode, Stdio},
};

use clap::Args;
use layermark_model::nearest;

use super::stdout;
use crate::failure::Failure;

#[derive(Debug, Args)]
pub struct DocsArgs {
    /// A page: its name, or the last part of it
    page: Option<String>,
}

macro_rules! pages {
    ($($name:literal),* $(,)?) => {
        /// The pages of the book in its order: name and Markdown.
        const PAGES: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../../../docs/src/", $name, ".md")))),*
        ];
    };
}

pages![
    "introduction",
    "tutorial",
    "install",
    "howto/safe",
    "howto/why",
    "howto/share",
    "howto/places",
    "howto/database",
    "howto/file-systems",
    "howto/container",
    "howto/durability",
    "howto/package",
    "howto/replay",
    "compare",
    "serve",
    "howto/team",
    "howto/fleet",
    "howto/from-fio",
    "howto/from-iozone",
    "howto/from-hyperfine",
    "troubleshooting",
    "faq",
    "report",
    "layers",
    "vm",
    "plans",
    "file",
    "iozone",
    "iops",
    "db",
    "launch",
    "steps",
    "coherence",
    "net",
    "ftp",
    "http",
    "devload",
    "exporters",
    "import",
    "reference",
    "agents",
    "glossary",
    "method",
    "cache",
    "security",
    "accuracy",
    "studies/published-claims",
    "studies/fileio-appvirt",
    "studies/launch-share",
    "studies/buffer-size",
    "studies/iozone-vm",
    "studies/virtual-io-stack",
    "add-a-layer",
    "add-a-workload",
    "add-an-exporter",
];

/// Lists the pages, or shows one: on a terminal with the user's pager.
pub fn show(args: &DocsArgs) -> Result<ExitCode, Failure> {
    let Some(name) = &args.page else {
        stdout::print(&contents())?;
        return Ok(ExitCode::SUCCESS);
    };
    let text = find(name)?;
    if !io::stdout().is_terminal() || page(text).is_err() {
        stdout::print(text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The page of this name, or of this last part of a name.
fn find(name: &str) -> Result<&'static str, Failure> {
    let name = name.trim_end_matches(".md");
    let whole = PAGES.iter().find(|(known, _)| *known == name);
    let part = || {
        PAGES
            .iter()
            .find(|(known, _)| known.rsplit('/').next() == Some(name))
    };
    if let Some((_, text)) = whole.or_else(part) {
        return Ok(text);
    }
    let near = nearest(name, PAGES.iter().map(|(known, _)| *known));
    // A page about it: `fio` is `howto/from-fio`.
    let of_it = || {
        PAGES
            .iter()
            .find(|(known, _)| known.split(['/', '-']).any(|word| word == name))
    };
    let near = near.or_else(|| Some(of_it()?.0));
    let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    Err(Failure::usage(format!("docs: there is no page `{name}`"))
        .hint(format!("{near}all pages: layermark docs")))
}

/// A page a line, with its title.
fn contents() -> String {
    let widest = PAGES.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    for (name, page) in PAGES {
        let title = page.lines().next().unwrap_or_default();
        let _ = writeln!(text, "{name:<widest$}{}", title.trim_start_matches("# "));
    }
    text + "\nlayermark docs PAGE shows one; every flag: layermark COMMAND --help; layers with their options: \
            layermark layers; keys of a plan: layermark schema plan\n"
}

/// Shows a text with the user's pager.
///
/// # Errors
/// If it cannot be started.
fn page(text: &str) -> io::Result<()> {
    let pager = env::var("PAGER")
        .ok()
        .filter(|pager| !pager.trim().is_empty());
    let words = shell_words::split(pager.as_deref().unwrap_or("less")).map_err(io::Error::other)?;
    let (program, flags) = words.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut pager = Command::new(program)
        .args(flags)
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = pager.stdin.take() {
        // A reader may quit before the end, so a closed pipe is no error.
        let _ = input.write_all(text.as_bytes());
    }
    pager.wait().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_page_finds_its_name() {
        let hint = |name: &str| find(name).unwrap_err().hint.unwrap_or_default();
        assert!(hint("fio").contains("did you mean `howto/from-fio`?"));
        assert!(hint("tutroial").contains("did you mean `tutorial`?"));
        assert_eq!(hint("weather"), "all pages: layermark docs");
    }

    #[test]
    fn the_binary_has_the_pages_of_the_summary_in_its_order() {
        let summary = include_str!("../../../../docs/src/SUMMARY.md");
        let linked = summary
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(".md)"));
        // What `make docs` makes is not in the sources.
        let linked = linked
            .map(|(name, _)| name)
            .filter(|name| !name.starts_with("made/"));
        let linked: Vec<&str> = linked.collect();
        let pages: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        assert_eq!(pages, linked);
        assert!(
            PAGES
                .iter()
                .all(|(name, text)| text.starts_with("# ") && contents().contains(name))
        );
    }

    #[test]
    fn a_page_is_found_by_its_name_or_the_end_of_it() {
        let share = find("howto/share").unwrap();
        assert_eq!(find("share").unwrap(), share);
        assert_eq!(find("share.md").unwrap(), share);
        let failure = find("tutorail").unwrap_err();
        assert!(failure.hint.unwrap().contains("did you mean `tutorial`"));
    }
}
