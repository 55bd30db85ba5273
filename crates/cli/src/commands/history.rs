//! `layermark history`: the runs and imports made so far.

use std::process::ExitCode;

use jiff::{Timestamp, tz::TimeZone};
use layermark_model::RunStatus;
use layermark_store::{ImportSummary, Summary};
use serde_json::json;

use super::output;
use crate::{args::StoreArg, failure::Failure, say::say};

/// Prints the newest runs first.
pub fn show(limit: u32, store: &StoreArg, json: bool) -> Result<ExitCode, Failure> {
    let mut store = output::read_store(store.store.as_deref())?;
    let runs = store.list(limit as usize)?;
    let imports = store.list_imports(limit as usize)?;
    if json {
        let runs: Vec<_> = runs
            .iter()
            .map(|r| {
                json!({
                    "run": r.id, "plan": r.name, "started_ms": r.started_ms, "ended_ms": r.ended_ms, "status": r.status,
                    "layers": r.layers, "points": r.points, "trials": r.trials,
                })
            })
            .collect();
        let imports: Vec<_> = imports
            .iter()
            .map(|i| {
                json!({
                    "import": i.id, "imported_ms": i.imported_ms, "file": i.file, "tool": i.tool, "points": i.points,
                })
            })
            .collect();
        let text = serde_json::to_string_pretty(
            &json!({ "schema": "layermark.history/1", "runs": runs, "imports": imports }),
        );
        output::print(&(text.map_err(Failure::failed)? + "\n"))?;
    } else if runs.is_empty() && imports.is_empty() {
        say("no runs yet\nhint: layermark run");
    } else {
        let mut text = String::new();
        if !runs.is_empty() {
            let head = format!(
                "{:<26}  {:<16}  {:<11}  {:>7}  {:>6}  layers\n",
                "run", "started", "status", "trials", "points"
            );
            text += &head;
            text.extend(runs.iter().map(|run| line(run) + "\n"));
        }
        if !imports.is_empty() {
            let gap = if runs.is_empty() { "" } else { "\n" };
            let head = format!(
                "{gap}{:<26}  {:<16}  {:<18}  {:>6}  file\n",
                "import", "imported", "tool", "points"
            );
            text += &head;
            text.extend(imports.iter().map(import_line));
        }
        output::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn import_line(import: &ImportSummary) -> String {
    let (id, tool, points, file) = (&import.id, &import.tool, import.points, &import.file);
    let imported = time(import.imported_ms);
    format!("{id:<26}  {imported:<16}  {tool:<18}  {points:>6}  {file}\n")
}

/// A moment of this machine's time zone.
fn time(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(
        |_| ms.to_string(),
        |t| {
            t.to_zoned(TimeZone::system())
                .strftime("%Y-%m-%d %H:%M")
                .to_string()
        },
    )
}

fn line(run: &Summary) -> String {
    let started = time(run.started_ms);
    let status = match run.status {
        RunStatus::Running => "running",
        RunStatus::Interrupted => "interrupted",
        RunStatus::Done => "done",
        RunStatus::Stopped => "stopped",
        RunStatus::Failed => "failed",
    };
    let (id, trials, points) = (&run.id, run.trials, run.points);
    format!(
        "{id:<26}  {started:<16}  {status:<11}  {trials:>7}  {points:>6}  {}",
        run.layers.join(" ")
    )
}
