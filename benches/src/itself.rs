//! Native against itself, and against itself with a planted difference: how often the words are wrong.

use std::path::Path;

use anyhow::{Context, Result};
use layermark_stats::{Pair, Verdict, compare_all, judge};
use serde_json::Value;

use crate::{report::report, results::Claim};

/// Runs of the default plan's points.
const RUNS: u32 = 20;
/// Native under another name: a bind mount, below which the kernel uses the same file system.
const LAYER: &str = "bind:rw";
/// Enough for the fewest blocks, eight, and some more.
const BUDGET: &str = "25s";
/// The layer does so many times the work: its times are multiplied, so the truth is exact.
const PLANTED: f64 = 1.08;
/// A point whose data is in memory, one on the disk, and one that commits.
const PLANTED_IN: [&str; 3] = [
    "small read, warm",
    "small read, cold",
    "random write, fsync each",
];
/// Level of intervals, and the difference that matters, as in reports.
const LEVEL: f64 = 0.95;
const DELTA: f64 = 0.05;

/// Words that are wrong, over all runs.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let (mut called, mut missed) = (0, [0; PLANTED_IN.len()]);
    for run in 1..=RUNS {
        let seed = run.to_string();
        let layers = ["-l", LAYER, "--no-control"];
        let arguments = [&layers[..], &["--budget", BUDGET, "--seed", &seed]].concat();
        let report = report(binary, dir.path(), "run", &arguments)?;
        called += wrong_words(&report)?;
        let words = planted(&report)?;
        for (missed, at) in missed.iter_mut().zip(PLANTED_IN) {
            let word = words.iter().find(|(point, _)| point == at);
            let (_, word) = word.with_context(|| format!("`{at}` was not measured"))?;
            *missed += u32::from(*word != Verdict::Slower);
        }
    }
    let mut claims = vec![Claim {
        what: format!("native against itself: words `slower` and `faster` in {RUNS} runs"),
        value: f64::from(called),
        interval: None,
        at_most: Some(0.0),
    }];
    claims.extend(PLANTED_IN.iter().zip(missed).map(|(at, missed)| Claim {
        what: format!("{at}: runs of {RUNS} that do not call a planted 8 % slower"),
        value: f64::from(missed),
        interval: None,
        at_most: Some(1.0),
    }));
    Ok(claims)
}

fn rows<'a>(report: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    report[key]
        .as_array()
        .with_context(|| format!("a report without {key}"))
}

/// Cells that the report calls slower or faster.
fn wrong_words(report: &Value) -> Result<u32> {
    let called = |r: &&Value| {
        r["layer"] == LAYER && matches!(r["verdict"].as_str(), Some("slower" | "faster"))
    };
    let wrong = rows(report, "results")?.iter().filter(called);
    Ok(wrong
        .inspect(|r| eprintln!("{}: {} {}", r["label"], r["verdict"], r["ratio"]))
        .count() as u32)
}

/// The words of each point, had the layer done [`PLANTED`] times the work in each block.
fn planted(report: &Value) -> Result<Vec<(String, Verdict)>> {
    let trials = rows(report, "trials")?;
    let time = |t: &Value| t["op_us"].as_f64().filter(|us| *us > 0.0);
    let at = |t: &Value| Some((t["session"].as_u64()? as u32, t["block"].as_u64()? as u32));
    let mut points: Vec<String> = Vec::new();
    let mut cells: Vec<Vec<Pair>> = Vec::new();
    for native in trials.iter().filter(|t| t["layer"] == "native") {
        let same = |t: &&Value| t["layer"] == LAYER && t["point"] == native["point"];
        let layer = trials.iter().filter(same).find(|t| at(t) == at(native));
        let both = layer.and_then(|l| Some((at(native)?, time(l)?, time(native)?)));
        let Some(((at, layer_us, native_us), point)) = both.zip(native["point"].as_str()) else {
            continue;
        };
        let place = points.iter().position(|p| p == point).unwrap_or_else(|| {
            points.push(point.to_owned());
            cells.push(Vec::new());
            points.len() - 1
        });
        cells[place].push(Pair::new(at, layer_us * PLANTED, native_us));
    }
    let words = judge(&compare_all(&cells, LEVEL, 1), DELTA);
    let words = words.iter().map(|j| j.verdict);
    Ok(points.into_iter().zip(words).collect())
}
