//! pgbench: what it prints at the end.

use std::fmt::Write as _;

use layermark_model::ImportedPoint;

use super::{Format, Found, short_lines, some};
use crate::{
    lines::{self, Section},
    values,
};

pub struct Pgbench;

/// The first line of a result in every version.
const FIRST: &str = "transaction type:";

/// The rate without the time that connections take: since `PostgreSQL` 14, and before; with `-C`, which
/// connects for each transaction, there is only the one with it.
const RATES: &[&str] = &[
    "(without initial connection time)",
    "(excluding connections establishing)",
    "(including reconnection times)",
];

impl Format for Pgbench {
    fn id(&self) -> &'static str {
        "pgbench"
    }

    fn about(&self) -> &'static str {
        "pgbench: the text that it prints"
    }

    fn example(&self) -> &'static str {
        "pgbench -c 4 -T 60 DATABASE > FILE"
    }

    fn knows(&self, text: &str) -> bool {
        text.lines().any(|l| l.trim().starts_with(FIRST)) && text.contains("tps = ")
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        short_lines(text)?;
        let mut found = Found {
            tool: "pgbench".into(),
            ..Found::default()
        };
        let mut version = text.lines().filter_map(|l| {
            let version = l.trim().strip_prefix("pgbench (")?;
            version.split([' ', ')']).next()
        });
        if let Some(version) = version.next_back() {
            found.tool = format!("pgbench {}", values::clean(version));
        }
        for run in lines::sections(text, |l| l.starts_with(FIRST)) {
            found_in(&run, &mut found)?;
        }
        some(found, "result of pgbench")
    }
}

fn found_in(run: &Section, found: &mut Found) -> Result<(), String> {
    let name = name(run)?;
    let limited = run.after("rate limit schedule lag:").is_some();
    if limited {
        found.note(format!(
            "`{name}` is not compared: --rate limits its rate, and the file does not say to what"
        ));
    }
    let failed = run.after("number of failed transactions:");
    if let Some(failed) = failed.and_then(lines::number).filter(|n| *n > 0.0) {
        found.note(format!("`{name}`: {failed} transactions failed"));
    }
    let rate = run
        .all("tps = ")
        .find(|rest| RATES.iter().any(|words| rest.contains(words)))
        .and_then(lines::number)
        .ok_or_else(|| {
            format!(
                "the result in line {} has no line `tps = `: it is cut off",
                run.first
            )
        })?;
    let latency = run
        .after("latency average = ")
        .or_else(|| run.after("latency average: "))
        .and_then(lines::number)
        .filter(|ms| *ms > 0.0);
    let op_us = latency.map(|ms| values::micros("latency average", ms * 1e3));
    found.point(ImportedPoint {
        op: (!limited).then(|| "transaction".into()),
        queue_depth: Some(run.number("number of clients:")? as u64),
        ops_per_s: Some(values::rate("tps", rate)?),
        op_us: op_us.transpose()?,
        name,
        ..ImportedPoint::default()
    })
}

/// The script or the scripts with their weights, the scale and how queries are sent.
fn name(run: &Section) -> Result<String, String> {
    let plain = |text: &str| {
        let text = text.trim_start_matches("<builtin: ").trim_end_matches('>');
        values::clean(text)
    };
    let mut name = plain(run.need(FIRST)?);
    if name == "multiple scripts" {
        let scripts = run
            .lines
            .iter()
            .filter_map(|l| l.strip_prefix("SQL script "));
        let scripts = scripts.filter_map(|l| Some(plain(l.split_once(": ")?.1)));
        let weights: Vec<&str> = run.all("- weight: ").collect();
        let shares = weights.iter().filter_map(|l| {
            let (_, share) = l.split_once("targets ")?;
            lines::number(share)
        });
        if (shares.sum::<f64>() - 100.0).abs() > 1.0 {
            return Err(format!(
                "the result that begins in line {} has not all of its scripts: it is cut off",
                run.first
            ));
        }
        let weights = weights
            .iter()
            .map(|l| l.split(' ').next().unwrap_or_default());
        let all: Vec<String> = scripts
            .zip(weights)
            .map(|(script, weight)| format!("{script} x {weight}"))
            .collect();
        name = all.join(" and ");
    }
    // Writing to a string does not fail.
    let _ = write!(
        name,
        ", scale {}",
        values::clean(run.need("scaling factor:")?)
    );
    if let Some(mode) = run.after("query mode:") {
        let _ = write!(name, ", {} queries", values::clean(mode));
    }
    if run
        .lines
        .iter()
        .any(|l| l.contains("(including reconnection times)"))
    {
        name.push_str(", a connection each");
    }
    Ok(name)
}
