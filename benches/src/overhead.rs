//! CPU time of an operation that is timed and recorded, against a bare C loop and against fio.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow, bail};
use layermark_model::Trial;
use layermark_stats::{Pair, compare};
use serde_json::{Value, json};

use crate::{probe::Probe, results::Claim};

/// Small enough for the second-level cache to take part equally, large enough for a pass to be long.
const FILE_SIZE: u64 = 4 << 20;
/// Short turns, many of them: the machine's speed drifts by more than what is looked for.
const MILLISECONDS: u64 = 120;
const ROUNDS: u32 = 45;
/// fio takes longer to start than to measure, and is far enough off to need fewer turns.
const FIO_EVERY: u32 = 5;

/// CPU nanoseconds an operation of the three programs, in turn, round after round.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    pin()?;
    // /dev/shm is a tmpfs: the file is in memory for certain, and no device takes part.
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in("/dev/shm")?;
    let bare = build_bare(dir.path())?;
    let mut claims = Vec::new();
    for (record, limit) in [(4096, 1.05), (32, 1.10)] {
        let mut probe = start(binary, dir.path(), record, "pread")?;
        let file = probe.file.clone();
        let (mut ours, mut fios) = (Vec::new(), Vec::new());
        for block in 0..ROUNDS {
            // The order turns, so that a drift of the machine's clock favours nobody.
            let (c, us) = if block % 2 == 0 {
                let c = run_bare(&bare, &file, record, None)?;
                (c, cpu_per_op(&probe.trial()?))
            } else {
                let us = cpu_per_op(&probe.trial()?);
                (run_bare(&bare, &file, record, None)?, us)
            };
            let pair = |layer| Pair::new((0, block), layer, c);
            ours.push(pair(us));
            if block % FIO_EVERY == 0 {
                fios.push(pair(run_fio(&file, record)?));
            }
        }
        let (ours, fios) = (ratio(&ours)?, ratio(&fios)?);
        claims.push(Claim {
            what: format!(
                "CPU of a recorded pread of {record} B / a bare loop of system calls in C"
            ),
            value: ours.0,
            interval: ours.1,
            at_most: Some(limit),
        });
        claims.push(Claim {
            what: format!("the same for fio's psync engine at {record} B"),
            value: fios.0,
            interval: fios.1,
            at_most: None,
        });
        claims.push(Claim {
            what: format!("layermark's cost over fio's at {record} B"),
            value: ours.0 / fios.0,
            interval: None,
            at_most: Some(1.0),
        });
    }
    Ok(claims)
}

/// All three on the same CPU, and nothing migrates.
pub fn pin() -> Result<()> {
    let mut cpus = rustix::thread::sched_getaffinity(None)?;
    let last = (0..rustix::thread::CpuSet::MAX_CPU)
        .rev()
        .find(|cpu| cpus.is_set(*cpu))
        .context("no CPU")?;
    cpus.clear();
    cpus.set(last);
    Ok(rustix::thread::sched_setaffinity(None, &cpus)?)
}

type Estimate = (f64, Option<(f64, f64)>);

pub fn ratio(pairs: &[Pair]) -> Result<Estimate> {
    let comparison = compare(pairs, 0.95, 1).ok_or_else(|| anyhow!("too few rounds"))?;
    Ok((
        comparison.ratio,
        comparison.ratio_interval.map(|i| (i.low, i.high)),
    ))
}

/// Builds the C loops.
pub fn build_bare(dir: &Path) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("bare.c");
    let bare = dir.join("bare");
    let status = Command::new("cc")
        .arg("-O2")
        .arg("-o")
        .arg(&bare)
        .arg(source)
        .status()
        .context("cc")?;
    if !status.success() {
        bail!("cc could not build benches/bare.c");
    }
    Ok(bare)
}

/// CPU nanoseconds an operation of the C loop, in one of its ways.
pub fn run_bare(bare: &Path, file: &Path, record: u64, way: Option<&str>) -> Result<f64> {
    let seconds = (MILLISECONDS as f64 / 1000.0).to_string();
    let output = Command::new(bare)
        .arg(file)
        .args([record.to_string(), seconds])
        .args(way)
        .output()
        .context("bare")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let cpu = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix("cpu_ns="));
    cpu.and_then(|ns| ns.parse().ok())
        .ok_or_else(|| anyhow!("the C loop said `{}`", text.trim()))
}

fn run_fio(file: &Path, record: u64) -> Result<f64> {
    let output = Command::new("fio")
        .args([
            "--name=bench",
            "--rw=read",
            "--ioengine=psync",
            "--invalidate=0",
            "--thread",
            "--time_based",
        ])
        .args([
            format!("--bs={record}"),
            format!("--size={FILE_SIZE}"),
            format!("--runtime={MILLISECONDS}ms"),
        ])
        .arg(format!("--filename={}", file.display()))
        .arg("--output-format=json")
        .output()
        .context("fio")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Value =
        serde_json::from_str(&text[text.find('{').unwrap_or(0)..]).context("fio's JSON")?;
    let job = &report["jobs"][0];
    let number = |v: &Value| {
        v.as_f64()
            .ok_or_else(|| anyhow!("fio's JSON lacks a number"))
    };
    let busy = (number(&job["usr_cpu"])? + number(&job["sys_cpu"])?) / 100.0;
    Ok(busy * number(&job["job_runtime"])? * 1e6 / number(&job["read"]["total_ios"])?)
}

/// A probe that reads a cached file with this engine.
pub fn start(binary: &Path, dir: &Path, record: u64, engine: &str) -> Result<Probe> {
    let settings = json!({
        "workload": "file", "op": ["read"], "record": record, "file_size": FILE_SIZE, "engine": engine,
    });
    Probe::start(binary, dir, &settings, MILLISECONDS)
}

/// CPU nanoseconds an operation.
pub fn cpu_per_op(trial: &Trial) -> f64 {
    (trial.cpu.user_ns + trial.cpu.sys_ns) as f64 / trial.ops() as f64
}
