//! Schemas, completions and manual pages, all generated.

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use clap::ValueEnum;
use clap_mangen::Man;

use super::{
    complete, stdout,
    target::{Destination, FileOption},
};
use crate::{events, failure::Failure};

/// Formats that have a JSON schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum SchemaOf {
    /// Plan files
    Plan,
    /// `--json` and `report -o x.json`
    Report,
    /// A line of `--events jsonl`
    Events,
    /// `compare IMPORT IMPORT --json`
    Imports,
    /// `compare A B C --json`
    Odd,
    /// `fleet run --json`
    Fleet,
    /// `fleet check --json`
    FleetCheck,
    /// `safe --json`
    Safe,
    /// `why --json`
    Why,
}

/// `layermark schema`
pub fn schema(what: SchemaOf) -> Result<ExitCode, Failure> {
    let schema = match what {
        SchemaOf::Plan => schemars::schema_for!(layermark_model::Plan).to_value(),
        SchemaOf::Report => layermark_report::schema(),
        SchemaOf::Events => events::schema(),
        SchemaOf::Imports => layermark_report::imports_schema(),
        SchemaOf::Odd => layermark_report::odd_schema(),
        SchemaOf::Fleet => layermark_report::fleet_schema(),
        SchemaOf::FleetCheck => layermark_report::fleet_check_schema(),
        SchemaOf::Safe => layermark_report::safe_schema(),
        SchemaOf::Why => layermark_report::why_schema(),
    };
    let text = serde_json::to_string_pretty(&schema).map_err(Failure::failed)?;
    stdout::print(&(text + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// `layermark completions`
pub fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let text = complete::script(shell).map_err(Failure::failed)?;
    stdout::print(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Shows a page with man(1). Fails if man(1) is missing.
fn show_page(roff: &[u8]) -> io::Result<()> {
    let mut man = Command::new("man");
    let mut man = man.args(["-l", "-"]).stdin(Stdio::piped()).spawn()?;
    if let Some(mut page) = man.stdin.take() {
        // A reader may quit before the end, so a closed pipe is not an error.
        let _ = page.write_all(roff);
    }
    if man.wait()?.success() {
        Ok(())
    } else {
        Err(io::ErrorKind::Other.into())
    }
}

/// `layermark man`: shows the page on a terminal, else prints its source.
pub fn man(all: clap::Command, dir: Option<&Path>, force: bool) -> Result<ExitCode, Failure> {
    if let Some(dir) = dir {
        return write_pages(all, dir, force);
    }
    let mut text = Vec::new();
    let page = Man::new(all);
    page.render(&mut text).map_err(Failure::failed)?;
    if !io::stdout().is_terminal() || show_page(&text).is_err() {
        stdout::print(&String::from_utf8_lossy(&text))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes all pages into a directory, as `-o` writes a report.
fn write_pages(all: clap::Command, dir: &Path, force: bool) -> Result<ExitCode, Failure> {
    const DIR: FileOption = FileOption {
        name: "man",
        elsewhere: "layermark man ~/man",
    };
    let mut all = all.disable_help_subcommand(true);
    all.build();
    let mut pages = Vec::new();
    add_pages(&all, &mut pages);
    let found = pages.iter().map(|page| {
        let place = Destination::find(&DIR, &dir.join(page.get_filename()), force)?;
        Ok((place, page))
    });
    let found: Vec<_> = found.collect::<Result<_, Failure>>()?;
    for (place, page) in found {
        place.fill(force, &|files| Ok(page.render(&mut files.open("")?)?))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The page of a command and those of its visible subcommands.
fn add_pages(command: &clap::Command, pages: &mut Vec<Man>) {
    for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        add_pages(below, pages);
    }
    pages.push(Man::new(command.clone()));
}
