//! Compares native with itself, and with itself plus a known difference: how often the verdicts are
//! wrong.

use std::path::Path;

use anyhow::{Context, Result};
use layermark_report::{Report, ResultRow, Verdict};
use layermark_store::Store;

use crate::{report, results::Claim};

/// Number of runs of the default plan's points.
const RUNS: u32 = 20;
/// Native under another name: a bind mount, in which the kernel uses the same file system.
const LAYER: &str = "bind:rw";
/// Enough for the minimum of eight blocks, and some more.
const BUDGET: &str = "25s";
/// Known difference: the layer's times are multiplied by this, so the true ratio is exact.
const PLANTED: f64 = 1.08;
/// Points with the difference: one in memory, one on the disk, and one that commits.
const PLANTED_IN: [&str; 3] = [
    "small read, warm",
    "small read, cold",
    "random write, fsync each",
];

/// Short operations by a name. Looking it up crosses the bind mount, which takes 2 % of their time: there is a difference.
const LOOKED_UP: [&str; 3] = [
    "open and stat",
    "small read, warm",
    "first chmod of a packaged file",
];
/// Of 95 % intervals, at most so many may leave 1 out, %.
const MOST_LEFT_OUT: f64 = 7.0;

/// Number of wrong verdicts over all runs.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let (mut called, mut missed) = (0, [0; PLANTED_IN.len()]);
    let mut intervals = Vec::new();
    for run in 1..=RUNS {
        let seed = run.to_string();
        let layers = ["-l", LAYER, "--no-control"];
        let arguments = [&layers[..], &["--budget", BUDGET, "--seed", &seed]].concat();
        let report = report::report(binary, dir.path(), "run", &arguments)?;
        let run = report["run"].as_str().context("a report without run")?;
        let (run, mut trials) = Store::open_read(report::store(dir.path()))?.load(run)?;
        let report = Report::build(&run, &trials);
        called += wrong_words(&report);
        let equal = rows(&report).filter(|r| !LOOKED_UP.contains(&r.label.as_str()));
        intervals.extend(equal.filter_map(|r| r.ratio?.interval));
        let layer = run.layers.iter().position(|l| l.name == LAYER);
        let layer = layer.with_context(|| format!("a run without {LAYER}"))?;
        for record in trials.iter_mut().filter(|t| t.cell.layer == layer) {
            for turn in record.trial.iter_mut().flat_map(|t| &mut t.turns) {
                let work_ns = turn.net_ns().unwrap_or(turn.elapsed_ns) as f64;
                turn.elapsed_ns += (work_ns * (PLANTED - 1.0)).round() as u64;
            }
        }
        let planted = Report::build(&run, &trials);
        for (missed, at) in missed.iter_mut().zip(PLANTED_IN) {
            let row = rows(&planted).find(|r| r.label == at);
            let row = row.with_context(|| format!("`{at}` was not measured"))?;
            *missed += u32::from(row.verdict != Verdict::Slower);
        }
    }
    let mut claims = vec![Claim {
        what: format!("native against itself: words `slower` and `faster` in {RUNS} runs"),
        value: f64::from(called),
        interval: None,
        at_most: Some(0.0),
    }];
    let left_out = intervals
        .iter()
        .filter(|[low, high]| *low > 1.0 || *high < 1.0);
    claims.push(Claim {
        what: format!(
            "the same: of {} intervals those that leave 1 out, %",
            intervals.len()
        ),
        value: 100.0 * left_out.count() as f64 / intervals.len().max(1) as f64,
        interval: None,
        at_most: Some(MOST_LEFT_OUT),
    });
    claims.extend(PLANTED_IN.iter().zip(missed).map(|(at, missed)| Claim {
        what: format!("{at}: runs of {RUNS} that do not call a planted 8 % slower"),
        value: f64::from(missed),
        interval: None,
        at_most: Some(1.0),
    }));
    Ok(claims)
}

fn rows(report: &Report) -> impl Iterator<Item = &ResultRow> {
    report.results.iter().filter(|r| r.layer == LAYER)
}

/// Number of cells that the report calls slower or faster.
fn wrong_words(report: &Report) -> u32 {
    let called = |r: &&ResultRow| matches!(r.verdict, Verdict::Slower | Verdict::Faster);
    let wrong = rows(report).filter(called);
    wrong
        .inspect(|r| eprintln!("{}: {} {:?}", r.label, r.verdict.word(), r.ratio))
        .count() as u32
}
