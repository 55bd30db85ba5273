//! `uring` at queue depth 32 against fio's `io_uring` engine with the same settings, in turn: I/Os
//! per second, and CPU time of each.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, anyhow};
use layermark_stats::{Pair, compare};
use serde_json::{Value, json};

use crate::{probe::Probe, results::Claim};

const FILE_SIZE: u64 = 64 << 20;
const DEPTH: u64 = 32;
const MILLISECONDS: u64 = 500;
const ROUNDS: u32 = 15;

/// Time and CPU time of each I/O, ns.
struct Cost {
    wall: f64,
    cpu: f64,
}

pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let mut claims = Vec::new();
    for direct in [false, true] {
        // Cached files are also tested on the disk that holds the build. On tmpfs the kernel cannot
        // know that a read will not wait, so its own threads do it, whose CPU time fio does not
        // count.
        let dir = tempfile::Builder::new()
            .prefix("layermark-bench-")
            .tempdir_in(env!("CARGO_MANIFEST_DIR"))?;
        let mut probe = start(binary, dir.path(), direct)?;
        let (mut walls, mut cpus) = (Vec::new(), Vec::new());
        for block in 0..ROUNDS {
            let (us, fio) = if block % 2 == 0 {
                let us = trial(&mut probe)?;
                (us, run_fio(&probe.file, direct)?)
            } else {
                let fio = run_fio(&probe.file, direct)?;
                (trial(&mut probe)?, fio)
            };
            let pair = |layer, native| Pair::new((0, block), layer, native);
            walls.push(pair(us.wall, fio.wall));
            cpus.push(pair(us.cpu, fio.cpu));
        }
        let how = if direct { "O_DIRECT" } else { "cached" };
        claims.push(claim(
            &walls,
            format!("time of a 4 KiB random read, {how}, queue depth {DEPTH} / fio's io_uring"),
        )?);
        claims.push(claim(&cpus, format!("CPU of the same, {how} / fio's"))?);
    }
    Ok(claims)
}

/// A claim: at most as much as fio, within the interval.
fn claim(pairs: &[Pair], what: String) -> Result<Claim> {
    let ratio = compare(pairs, 0.95, 1).ok_or_else(|| anyhow!("too few rounds"))?;
    Ok(Claim {
        what,
        value: ratio.ratio,
        interval: ratio.ratio_interval.map(|i| (i.low, i.high)),
        at_most: Some(1.0),
    })
}

fn start(binary: &Path, dir: &Path, direct: bool) -> Result<Probe> {
    let settings = json!({
        "workload": "iops", "spec": "4k-rand-read", "iodepth": DEPTH, "file_size": FILE_SIZE,
        "direct": direct, "time": format!("{MILLISECONDS}ms"), "ramp": "50ms",
    });
    Probe::start(binary, dir, &settings, MILLISECONDS)
}

fn trial(probe: &mut Probe) -> Result<Cost> {
    let trial = probe.trial()?;
    let ops = trial.ops() as f64;
    Ok(Cost {
        wall: trial.elapsed_ns() as f64 / ops,
        cpu: (trial.cpu.user_ns + trial.cpu.sys_ns) as f64 / ops,
    })
}

fn run_fio(file: &Path, direct: bool) -> Result<Cost> {
    let output = Command::new("fio")
        .args([
            "--name=bench",
            "--rw=randread",
            "--bs=4k",
            "--ioengine=io_uring",
            "--fixedbufs=1",
            "--registerfiles=1",
            "--norandommap=1",
            "--invalidate=0",
            "--iomem_align=4096",
            "--thread",
            "--time_based",
            "--output-format=json",
        ])
        .args([
            format!("--iodepth={DEPTH}"),
            format!("--size={FILE_SIZE}"),
            format!("--runtime={MILLISECONDS}ms"),
            format!("--direct={}", u8::from(direct)),
        ])
        .arg(format!("--filename={}", file.display()))
        .output()
        .context("fio")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_str(&text[text.find('{').unwrap_or(0)..])
        .with_context(|| format!("fio's JSON: {}", String::from_utf8_lossy(&output.stderr)))?;
    let job = &report["jobs"][0];
    let number = |v: &Value| {
        v.as_f64()
            .ok_or_else(|| anyhow!("fio's JSON lacks a number"))
    };
    let busy = (number(&job["usr_cpu"])? + number(&job["sys_cpu"])?) / 100.0;
    let wall = number(&job["job_runtime"])? * 1e6 / number(&job["read"]["total_ios"])?;
    Ok(Cost {
        wall,
        cpu: busy * wall,
    })
}
