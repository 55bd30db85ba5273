//! `layermark import`: results of another program, stored for comparison with ours; or a run that somebody has sent.

use std::{fmt::Write as _, path::PathBuf, process::ExitCode};

use clap::Args;
use jiff::Timestamp;
use layermark_import::ImportError;
use layermark_model::{Import, ImportedPoint, RunStatus, format_size};

use super::{output, stdout, stored, target};
use crate::{common_args::OutArgs, failure::Failure, say::say};

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Output of that program, or a run in a file x.lm
    file: PathBuf,
    /// Its format [default: detected from the content]
    #[arg(long, value_name = "FORMAT", value_parser = import_format)]
    format: Option<String>,
    /// Report this run with the import: its id or the beginning of it, `last`, `last~1`, or `#12`
    #[arg(long, value_name = "RUN")]
    beside: Option<String>,
    #[command(flatten)]
    pub out: OutArgs,
}

/// Parses an `import` format. The help lists them.
fn import_format(text: &str) -> Result<String, String> {
    let mut ids = layermark_import::formats::ALL.iter().map(|f| f.id());
    if ids.clone().any(|id| id == text) {
        return Ok(text.to_owned());
    }
    let known = ids.by_ref().collect::<Vec<_>>().join(", ");
    Err(format!("known are {known}"))
}

/// Reads, stores and prints an import. With `beside`, reports that run together with the import.
pub fn keep(args: &ImportArgs) -> Result<ExitCode, Failure> {
    if layermark_store::is_archive(&args.file) {
        return keep_run(args);
    }
    let (beside, out) = (args.beside.as_deref(), &args.out);
    if beside.is_none() && !out.output.is_empty() {
        let text = "-o writes a report, which an import alone is not";
        return Err(Failure::usage(text).hint("layermark import FILE --beside last -o report.html"));
    }
    let targets = target::targets(out)?;
    let mut store = stored::open_store(out.store.store.as_deref())?;
    // First, so that nothing is stored when the run does not exist.
    let kept = beside
        .map(|run| stored::kept(&mut store, run))
        .transpose()?;
    let now = Timestamp::now().as_millisecond();
    let import = Import {
        id: layermark_lab::new_id(now),
        imported_ms: now,
        ..layermark_import::read(&args.file, args.format.as_deref())?
    };
    store.import(&import)?;
    let points = match import.points.len() {
        1 => "1 point".to_owned(),
        n => format!("{n} points"),
    };
    say(format!("import: {} ({}, {points})", import.id, import.tool));
    for note in &import.notes {
        say(format!("note: {note}"));
    }
    match kept {
        Some(mut kept) => {
            let mut report = stored::build(&kept.run, &kept.trials);
            report.set_beside(&import);
            kept.imports.push(import);
            output::deliver(&report, Some(&kept), &targets, out.stdout(), false)?;
        }
        None if out.json.json => {
            let text = serde_json::to_string_pretty(&import).map_err(Failure::failed)?;
            stdout::print(&(text + "\n"))?;
        }
        None => stdout::print(&table(&import))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Stores a run that somebody has sent, and prints its report.
fn keep_run(args: &ImportArgs) -> Result<ExitCode, Failure> {
    if args.format.is_some() || args.beside.is_some() {
        let text = format!(
            "{} is a run, not the output of a program",
            args.file.display()
        );
        let file = args.file.to_string_lossy();
        let hint = format!("layermark import {}", shell_words::quote(&file));
        return Err(Failure::usage(text).hint(hint));
    }
    let targets = target::targets(&args.out)?;
    let mut kept = stored::sent(&args.file)?;
    if kept.run.status == RunStatus::Running {
        kept.run.status = RunStatus::Interrupted;
    }
    let mut store = stored::open_store(args.out.store.store.as_deref())?;
    let kept = stored::keep(&mut store, kept)?;
    say(format!("import: {}", kept.run.id));
    let mut report = stored::build(&kept.run, &kept.trials);
    kept.imports
        .iter()
        .for_each(|import| report.set_beside(import));
    output::deliver(&report, Some(&kept), &targets, args.out.stdout(), false)?;
    Ok(ExitCode::SUCCESS)
}

fn table(import: &Import) -> String {
    let mut text = format!(
        "{:<14}  {:>7}  {:>7}  {:>5}  {:>12}  {:>12}  name\n",
        "operation", "record", "file", "depth", "MiB/s", "us/op"
    );
    for point in &import.points {
        let size = |n: Option<u64>| n.map(format_size).unwrap_or_default();
        let number = |n: Option<f64>| n.map(|n| format!("{n:.2}")).unwrap_or_default();
        let ImportedPoint { op, name, .. } = point;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:<14}  {:>7}  {:>7}  {:>5}  {:>12}  {:>12}  {name}",
            op.as_deref().unwrap_or("-"),
            size(point.record),
            size(point.file_size),
            point.queue_depth.map(|n| n.to_string()).unwrap_or_default(),
            number(point.bytes_per_s.map(|b| b / 1_048_576.0)),
            number(point.op_us),
        );
    }
    text
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        Self::usage(&error).hint(error.hint())
    }
}
