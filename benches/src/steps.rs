//! Cost of `layermark steps` itself: a step of `true` compared with a loop in C that runs it, and
//! `git status` compared with hyperfine.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, bail};
use layermark_stats::{Pair, median, quantile};
use serde_json::{Value, json};

use crate::{
    c_loop::{self, Loop},
    overhead,
    probe::Probe,
    report::report,
    results::Claim,
};

const TRUE: &str = "/bin/true";
/// Number of rounds, each with a new job of the probe.
const ROUNDS: u32 = 20;
/// Executions on either side in a round, in turn.
const TURNS: u32 = 40;
/// Number of rounds in which the time to hyperfine's width is measured.
const GIT_ROUNDS: usize = 3;
/// Files of the repository, in a quarter as many commits.
const FILES: usize = 2000;
/// The requested half-width.
const PRECISION: &str = "5%";

/// Every claim about steps.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let dir = dir.path().canonicalize()?;
    let mut claims = own_cost(binary, &dir)?;
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("skipped: git status: git is not installed");
        return Ok(claims);
    }
    claims.extend(git_status(binary, &dir)?);
    Ok(claims)
}

/// A step of `true` and a C loop that runs it, in turn.
fn own_cost(binary: &Path, dir: &Path) -> Result<Vec<Claim>> {
    let mut bare = Loop::start(Command::new(c_loop::build(dir, "spawn")?).arg(TRUE))?;
    let settings = json!({"workload": "steps", "run": TRUE});
    let mut probe = Probe::start(binary, dir, &settings, 1)?;
    let (mut bare_ms, mut step_ms, mut beside_ms) = (vec![], vec![], vec![]);
    let mut pairs = Vec::new();
    for round in 0..ROUNDS {
        probe.begin()?;
        let mut costs = Vec::new();
        for turn in 0..TURNS {
            let (mut bare_now, mut step_now) = (0.0, 0.0);
            for step in [turn % 2 == 0, turn % 2 != 0] {
                if step {
                    let begun = Instant::now();
                    let (turned, _) = probe.turned(turn, 0, 1)?;
                    step_now = turned.elapsed_ns as f64 / 1e6;
                    beside_ms.push(begun.elapsed().as_secs_f64() * 1e3 - step_now);
                } else {
                    bare_now = bare.turn((0, 0), "ns=")? / 1e6;
                }
            }
            costs.push([step_now, bare_now]);
            bare_ms.push(bare_now);
            step_ms.push(step_now);
        }
        pairs.push(Pair::of_rounds((0, round), &costs, &[]));
    }
    let (ratio, interval) = overhead::ratio(&pairs)?;
    let (more, more_interval) =
        layermark_stats::shift(&bare_ms, &step_ms, 0.95).context("executions")?;
    Ok(vec![
        Claim {
            what: "time of a step of true over a bare spawn, exec and wait in C".into(),
            value: ratio,
            interval,
            at_most: None,
        },
        Claim {
            what: "the same: ms more".into(),
            value: more,
            interval: more_interval.map(|i| (i.low, i.high)),
            at_most: Some(0.3),
        },
        Claim {
            what: "ms that a turn takes outside the clock (median, quartiles)".into(),
            value: median(&beside_ms).context("turns")?,
            interval: quantile(&beside_ms, 0.25).zip(quantile(&beside_ms, 0.75)),
            at_most: None,
        },
    ])
}

/// `git status` of one repository natively and in a tmpfs, by hyperfine and by layermark in turn.
fn git_status(binary: &Path, dir: &Path) -> Result<Vec<Claim>> {
    let memory = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in("/dev/shm")?;
    let places = [dir.join("repository"), memory.path().join("repository")];
    for place in &places {
        repository(place)?;
    }
    let has_hyperfine = Command::new("hyperfine").arg("--version").output().is_ok();
    if !has_hyperfine {
        eprintln!("skipped: hyperfine is not installed");
    }
    let (mut halves, mut times, mut relative) = (vec![], vec![], vec![]);
    for _ in 0..GIT_ROUNDS {
        let begun = Instant::now();
        let half = our_half_width(binary, dir, &places[0])?;
        let seconds = begun.elapsed().as_secs_f64();
        halves.push(half * 100.0);
        times.push(seconds);
        if has_hyperfine {
            relative.push(seconds / their_seconds(dir, &places, half)?);
        }
    }
    let claim = |what: &str, all: &[f64], at_most| {
        let ends = (
            all.iter().copied().fold(f64::INFINITY, f64::min),
            all.iter().copied().fold(0.0, f64::max),
        );
        median(all).map(|value| Claim {
            what: what.into(),
            value,
            interval: Some(ends),
            at_most,
        })
    };
    Ok([
        claim(
            "git status in two layers: half-width of the ratio, %",
            &halves,
            Some(5.0),
        ),
        claim("the same: seconds", &times, Some(20.0)),
        claim(
            "the same: seconds over hyperfine's to that width",
            &relative,
            Some(0.5),
        ),
    ]
    .into_iter()
    .flatten()
    .collect())
}

/// Half-width of layermark's ratio of `git status` in a tmpfs and natively.
fn our_half_width(binary: &Path, dir: &Path, tree: &Path) -> Result<f64> {
    let tree = tree.to_string_lossy();
    let flags = ["--tree", &tree, "--setup", "git status", "--precision"];
    let layers = ["-l", "native", "-l", "tmpfs", "--no-control"];
    let arguments = [&flags[..], &[PRECISION], &layers, &["--", "git", "status"]].concat();
    let report = report(binary, dir, "steps", &arguments)?;
    let rows = report["results"].as_array().context("results")?;
    let row = rows.iter().find(|row| row["layer"] == "tmpfs");
    let ratio = &row.context("no tmpfs")?["ratio"];
    let end = |n: usize| ratio["interval"][n].as_f64();
    match (end(0), end(1)) {
        (Some(low), Some(high)) => Ok((high / low).ln() / 2.0),
        _ => bail!("no interval of the ratio: {ratio}"),
    }
}

/// Seconds after which hyperfine would have this half-width. It has a minimum time of its own.
fn their_seconds(dir: &Path, places: &[PathBuf; 2], half: f64) -> Result<f64> {
    let json = dir.join("hyperfine.json");
    let begun = Instant::now();
    let status = Command::new("hyperfine")
        .args(["-N", "--style", "none", "--export-json"])
        .arg(&json)
        .args(
            places
                .each_ref()
                .map(|place| format!("git -C {} status", place.display())),
        )
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    let seconds = begun.elapsed().as_secs_f64();
    if !status.success() {
        bail!("hyperfine ended with {status}");
    }
    let found: Value = serde_json::from_str(&fs::read_to_string(&json)?)?;
    let of = |n: usize, key: &str| found["results"][n][key].as_f64().context("a number");
    let mut variance = 0.0;
    for n in 0..places.len() {
        let runs = found["results"][n]["times"].as_array().context("times")?;
        variance += (of(n, "stddev")? / of(n, "mean")?).powi(2) / runs.len() as f64;
    }
    let their_half = 1.96 * variance.sqrt();
    Ok(seconds * (their_half / half).powi(2).max(1.0))
}

/// A repository of small files with one commit.
fn repository(at: &Path) -> Result<()> {
    for n in 0..FILES {
        let file = at.join(format!("d{:02}/f{n:04}.txt", n / 50));
        fs::create_dir_all(file.parent().context("a parent")?)?;
        fs::write(file, format!("file {n}\n").repeat(100))?;
    }
    let me = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
    for words in [
        &["init", "-q"][..],
        &["add", "."],
        &["commit", "-q", "-m", "all"],
        &["status"],
    ] {
        let git = Command::new("git")
            .arg("-C")
            .arg(at)
            .args(me)
            .args(words)
            .stdout(Stdio::null())
            .status()?;
        if !git.success() {
            bail!("git {} ended with {git}", words.join(" "));
        }
    }
    Ok(())
}
