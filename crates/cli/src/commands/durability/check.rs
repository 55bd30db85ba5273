//! `layermark durability check`: looks for every record that was acknowledged before the power cut.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use layermark_layers::{KeptDir, in_words, workdir};
use layermark_model::witness::{Checked, LostRecord, Outcome, WitnessTrial};
use layermark_probe::witness::{self, Site};
use serde_json::json;

use super::{
    log::{self, Log},
    record,
};
use crate::{
    commands::stdout,
    common_args::JsonArg,
    failure::{Code, Failure},
};

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The directory that was tested
    pub dir: PathBuf,
    /// The log
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    #[command(flatten)]
    pub json: JsonArg,
}

pub fn after_the_power_cut(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let log = log::read(&args.from)?;
    let dir = workdir::real_path(&args.dir).ok();
    let dir = dir.filter(|dir| dir.is_dir()).ok_or_else(|| {
        Failure::usage(format!("{} is not a directory", args.dir.display())).hint(format!(
            "mount it; it was {} when the records were written",
            log.head.dir
        ))
    })?;
    let record = usize::try_from(log.head.record).unwrap_or(usize::MAX);
    if !witness::takes(record) {
        return Err(Failure::usage(format!(
            "{}: records of {} bytes",
            args.from.display(),
            log.head.record
        ))
        .hint("name the log that `layermark durability record --to FILE DIR` has written"));
    }
    if let Some(name) = log.head.writers.iter().find(|w| witness::find(w).is_none()) {
        return Err(
            Failure::usage(format!("{}: no writer `{name}`", args.from.display()))
                .hint("check it with the version that wrote it"),
        );
    }
    record::in_dir(|| look(args, &dir, &log, record))
}

/// Looks for the records, and prints what is there.
fn look(args: &CheckArgs, dir: &Path, log: &Log, record: usize) -> Result<ExitCode, Failure> {
    let name = record::name(log.run);
    let mount = format!(
        "mount what was {} when the records were written",
        log.head.dir
    );
    let home = KeptDir::find(dir, &name, log.head.owner)
        .map_err(|e| record::unusable(e, &who_may_check(&dir.join(&name), log)))?
        .ok_or_else(|| {
            let home = dir.join(name).display().to_string();
            Failure::usage(format!("{home} is absent, so nothing can be said")).hint(mount)
        })?;
    let mut trials = Vec::new();
    for name in &log.head.writers {
        let Some(writer) = witness::find(name) else {
            continue;
        };
        let site = Site {
            dir: home.path().join(name),
            run: log.run,
            record,
        };
        let acks = log.of.get(name).map_or(&[][..], Vec::as_slice);
        let survey = witness::look(writer, &site).map_err(|e| {
            Failure::usage(in_words(&e.message))
                .hint("check as the user who recorded, on a writable mount")
        })?;
        let checked = witness::judge_by_hand(writer, log.run, acks, &survey);
        let mut trial = WitnessTrial {
            layer: args.dir.display().to_string(),
            writer: name.clone(),
            records: acks.len() as u64,
            ..WitnessTrial::default()
        };
        trial.add(&checked, acks, log.head.started_ms);
        trials.push((trial, checked));
    }
    let lied = trials.iter().any(|(t, _)| t.lied());
    let text = if args.json.json {
        let all: Vec<_> = trials
            .iter()
            .map(|(t, c)| json!({ "trial": t, "findings": c.findings }))
            .collect();
        let made = serde_json::to_string_pretty(&json!({
            "schema": "layermark.durability/1", "kept": !lied, "writers": all,
        }));
        made.map_err(Failure::failed)? + "\n"
    } else {
        words(&trials)
    };
    stdout::print(&text)?;
    Ok(if lied {
        Code::Failed.into()
    } else {
        ExitCode::SUCCESS
    })
}

/// The hint for a directory that does not belong to this user.
fn who_may_check(home: &Path, log: &Log) -> String {
    let recorder = "check as the user who recorded".to_owned();
    let us = rustix::process::geteuid().as_raw();
    let other = fs::symlink_metadata(home)
        .ok()
        .filter(|stat| stat.is_dir() && stat.uid() != us);
    match other {
        Some(stat) if log.head.owner.is_none() => format!(
            "{recorder}; if an earlier version recorded on a share with root_squash, its log does not name the owner of the files: \
             check as user {}",
            stat.uid()
        ),
        _ => recorder,
    }
}

/// One line for each writer, then the first lost record of each.
fn words(trials: &[(WitnessTrial, Checked)]) -> String {
    let mut text = String::new();
    let (mut acknowledged, mut kept) = (0, 0);
    for (trial, checked) in trials {
        acknowledged += checked.acknowledged;
        kept += checked.kept;
        let mut line = format!(
            "{:<16} {} of {} acknowledged records kept",
            trial.writer, checked.kept, checked.acknowledged
        );
        for (outcome, n) in trial.counts.iter().filter(|(o, _)| **o != Outcome::Kept) {
            let _ = write!(line, ", {n} {}", outcome.words());
        }
        if checked.is_kept() && checked.kept < checked.acknowledged {
            line += " (permitted: its directory was not synced)";
        }
        let _ = writeln!(text, "{line}");
    }
    for (trial, _) in trials {
        if let Some(first) = &trial.first {
            text += &history(&trial.writer, first);
        }
    }
    let verdict = if trials.iter().any(|(t, _)| t.lied()) {
        format!("data was lost: {kept} of {acknowledged} acknowledged records are there")
    } else {
        format!(
            "nothing was lost that was promised: {kept} of {acknowledged} acknowledged records are there"
        )
    };
    format!("{verdict}\n{text}")
}

/// The first lost record, and the acknowledged ones around it.
fn history(writer: &str, first: &LostRecord) -> String {
    let finding = &first.finding;
    let mut text = format!(
        "\n{writer}: {}, is {}: {}\n",
        finding.promised("", &time(first.at_ms)),
        finding.outcome.state(),
        finding.text
    );
    for row in &first.timeline {
        let state = if row.kept { "kept" } else { "missing" };
        let _ = writeln!(
            text,
            "  {}  record {:<8} block {:<8} {state}",
            time(row.at_ms),
            row.sequence,
            row.block
        );
    }
    text
}

/// Time of day here.
fn time(ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
    let zone = jiff::tz::TimeZone::system();
    at.to_zoned(zone).strftime("%H:%M:%S.%3f").to_string()
}
