//! `layermark history`: the runs made so far.

use std::process::ExitCode;

use jiff::{Timestamp, tz::TimeZone};
use layermark_model::RunStatus;
use layermark_store::Summary;
use serde_json::json;

use super::output;
use crate::{args::StoreArg, failure::Failure};

/// Prints the newest runs first.
pub fn show(limit: u32, store: &StoreArg, json: bool) -> Result<ExitCode, Failure> {
    let runs = output::open_store(store.store.as_deref())?.list(limit as usize)?;
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
        let text =
            serde_json::to_string_pretty(&json!({ "schema": "layermark.history/1", "runs": runs }));
        output::print(&(text.map_err(Failure::failed)? + "\n"))?;
    } else if runs.is_empty() {
        eprintln!("no runs yet\nhint: layermark run");
    } else {
        let head = format!(
            "{:<26}  {:<16}  {:<10}  {:>7}  {:>6}  layers\n",
            "run", "started", "status", "trials", "points"
        );
        let lines = runs.iter().map(|run| line(run) + "\n");
        output::print(&(head + &lines.collect::<String>()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn line(run: &Summary) -> String {
    let started = Timestamp::from_millisecond(run.started_ms).map_or_else(
        |_| run.started_ms.to_string(),
        |t| {
            t.to_zoned(TimeZone::system())
                .strftime("%Y-%m-%d %H:%M")
                .to_string()
        },
    );
    let status = match run.status {
        RunStatus::Running => "unfinished",
        RunStatus::Done => "done",
        RunStatus::Stopped => "stopped",
        RunStatus::Failed => "failed",
    };
    let (id, trials, points) = (&run.id, run.trials, run.points);
    format!(
        "{id:<26}  {started:<16}  {status:<10}  {trials:>7}  {points:>6}  {}",
        run.layers.join(" ")
    )
}
