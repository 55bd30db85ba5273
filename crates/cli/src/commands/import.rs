//! `layermark import`: results of another program, stored for comparison with ours.

use std::{fmt::Write as _, path::Path, process::ExitCode};

use jiff::Timestamp;
use layermark_import::ImportError;
use layermark_model::{Import, ImportedPoint, format_size};

use super::{output, target};
use crate::{args::OutArgs, failure::Failure, say::say};

/// Reads, stores and prints an import. With `beside`, reports that run together with the import.
pub fn keep(
    file: &Path,
    format: Option<&str>,
    beside: Option<&str>,
    out: &OutArgs,
) -> Result<ExitCode, Failure> {
    if beside.is_none() && !out.output.is_empty() {
        let text = "-o writes a report, which an import alone is not";
        return Err(Failure::usage(text).hint("layermark import FILE --beside last -o report.html"));
    }
    let targets = target::targets(out)?;
    let mut store = output::open_store(out.store.store.as_deref())?;
    // First, so that nothing is stored when the run does not exist.
    let report = beside
        .map(|run| output::report(&mut store, run))
        .transpose()?;
    let now = Timestamp::now().as_millisecond();
    let import = Import {
        id: layermark_lab::new_id(now),
        imported_ms: now,
        ..layermark_import::read(file, format)?
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
    match report {
        Some(mut report) => {
            report.set_beside(&import);
            output::deliver(&report, &targets, out.stdout(), false)?;
        }
        None if out.json.json => {
            let text = serde_json::to_string_pretty(&import).map_err(Failure::failed)?;
            output::print(&(text + "\n"))?;
        }
        None => output::print(&table(&import))?,
    }
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
