//! The user's own program under power cuts: `--run CMD --check CMD`, or a preset.

use std::{collections::BTreeSet, time::Duration};

use clap::Args;
use layermark_model::{
    nearest, parse_duration,
    witness::{CutProgram, Promise, acknowledges},
};

use super::presets;
use crate::failure::Failure;

const BOTH: &str = "layermark durability --run 'i=0; while i=$((i+1)); do echo $i > $i; sync $i .; echo ack $i; done' \
    --check 'while read i; do [ -s $i ] || echo lost $i; done' -l overlay:upper";

#[derive(Debug, Args)]
pub struct ProgramArgs {
    /// Cut the power under this command as well: it works in a directory of the layer, alone, and prints `ack ITEM`
    /// for each item that it has acknowledged, to its standard output; for `sh -c`
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "check",
        conflicts_with = "presets"
    )]
    pub run: Option<String>,
    /// Looks for the items after a cut: it reads them, a line each, prints `lost ITEM` or `torn ITEM`, and ends with 0,
    /// or with 1 if anything is wrong
    #[arg(long, value_name = "COMMAND", requires = "run")]
    pub check: Option<String>,
    /// Lines of the command that acknowledge an item: a regular expression whose first group, or all that matches, is
    /// the item [default: ^ack (\S+)]
    #[arg(long, value_name = "REGEX", requires = "run")]
    pub ack: Option<String>,
    /// A program whose promises are known; repeatable
    #[arg(long = "preset", value_name = "NAME", value_parser = presets::names())]
    pub presets: Vec<String>,
    /// Of the presets' programs only the one of this name, as the report has it; repeatable
    #[arg(
        long = "only",
        value_name = "PROGRAM",
        requires = "presets",
        conflicts_with = "run"
    )]
    pub of_presets: Vec<String>,
    /// How long each program works before it is killed [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub time: Option<Duration>,
}

fn time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|e| e.to_string())?;
    if time.is_zero() || time > Duration::from_millis(CutProgram::MOST_TIME_MS) {
        return Err("it must be above 0 and up to 10m".into());
    }
    Ok(time)
}

impl ProgramArgs {
    /// The programs to cut.
    pub fn programs(&self) -> Result<Vec<CutProgram>, Failure> {
        let time_ms = self.time.map_or(CutProgram::TIME_MS, |time| {
            u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
        });
        let mut all = Vec::new();
        for name in self.presets.iter().collect::<BTreeSet<_>>() {
            all.extend(presets::programs(name, time_ms)?);
        }
        let names: Vec<String> = all.iter().map(|p| p.name.clone()).collect();
        if let Some(unknown) = self.of_presets.iter().find(|only| !names.contains(only)) {
            return Err(no_such_program(unknown, &names));
        }
        all.retain(|p| self.of_presets.is_empty() || self.of_presets.contains(&p.name));
        if let (Some(run), Some(check)) = (&self.run, &self.check) {
            if run.trim().is_empty() || check.trim().is_empty() {
                return Err(Failure::usage("`--run` and `--check` need a command").hint(BOTH));
            }
            let ack = self.ack.clone().unwrap_or_else(|| CutProgram::ACK.into());
            acknowledges(&ack).map_err(|why| {
                Failure::usage(format!("`--ack` = {ack}: {why}")).hint(r"--ack '^ack (\S+)'")
            })?;
            all.push(CutProgram {
                name: named(run),
                run: run.clone(),
                check: check.clone(),
                ack,
                time_ms,
                promises: Promise::Kept,
                parallel_checks: false,
            });
        } else if self.presets.is_empty() && self.time.is_some() {
            return Err(Failure::usage("`--time` is for a program").hint(BOTH));
        }
        Ok(all)
    }
}

fn no_such_program(name: &str, names: &[String]) -> Failure {
    let near = nearest(name, names.iter().map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    Failure::usage(format!("`--only` = {name}: not a program of the presets"))
        .hint(format!("{near}their programs: {}", names.join("; ")))
}

/// Characters of a command that name it.
const NAME: usize = 48;

/// The beginning of a command's first line.
fn named(run: &str) -> String {
    let line = run.trim().lines().next().unwrap_or_default().trim();
    match line.char_indices().nth(NAME) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line.to_owned(),
    }
}
