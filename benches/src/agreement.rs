//! Compares our throughput with fio's: the same points on tmpfs and on the disk, in turn.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow, bail};
use layermark_stats::{Interval, Pair, Trimmed, compare};
use serde_json::{Value, json};

use crate::{overhead::pin, probe::Probe, results::Claim};

/// Turns of each program at each point.
const ROUNDS: u32 = 11;
/// Share of points that may disagree: some intervals at 95 % miss by chance.
const MAY_MISS: f64 = 0.10;

/// Approximate duration of a run of either, ms: fio reports times in milliseconds.
const MILLISECONDS: u64 = 600;

/// A point that both programs run.
struct Case {
    /// Our operation, and fio's name for it.
    op: (&'static str, &'static str),
    record: u64,
    file_size: u64,
    /// Whether both do an `fsync` at the end, inside the clock.
    fsync: bool,
    direct: bool,
}

const fn case(op: (&'static str, &'static str), record: u64, file_size: u64) -> Case {
    Case {
        op,
        record,
        file_size,
        fsync: false,
        direct: false,
    }
}

const READ: (&str, &str) = ("read", "read");
const RAND_READ: (&str, &str) = ("rand-read", "randread");
const WRITE: (&str, &str) = ("write", "write");
const RAND_WRITE: (&str, &str) = ("rand-write", "randwrite");
const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

/// Records so large that a clock read and fio's own bookkeeping do not matter.
const IN_MEMORY: [Case; 6] = [
    case(READ, M, 256 * M),
    case(READ, 128 * K, 256 * M),
    case(RAND_READ, M, 256 * M),
    case(WRITE, M, 512 * M),
    case(RAND_WRITE, M, 256 * M),
    case(RAND_WRITE, 128 * K, 256 * M),
];

const fn direct(op: (&'static str, &'static str), record: u64, file_size: u64) -> Case {
    Case {
        direct: true,
        ..case(op, record, file_size)
    }
}

const ON_DISK: [Case; 6] = [
    direct(READ, 64 * K, 64 * M),
    direct(READ, M, 256 * M),
    direct(RAND_READ, 4 * K, 16 * M),
    direct(RAND_READ, 64 * K, 64 * M),
    direct(RAND_WRITE, 4 * K, 16 * M),
    Case {
        fsync: true,
        ..case(WRITE, M, 256 * M)
    },
];

/// Compares the throughput of both at each point. Most intervals have to overlap.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    pin()?;
    let mut claims = Vec::new();
    let mut apart = 0.0;
    let places = [("tmpfs", "/dev/shm", &IN_MEMORY), ("disk", ".", &ON_DISK)];
    for (place, parent, cases) in places {
        for case in cases {
            let dir = tempfile::Builder::new()
                .prefix("layermark-bench-")
                .tempdir_in(parent)?;
            let both = turns(binary, dir.path(), case)?;
            let overlap = overlap(&both).context("too few rounds")?;
            apart += f64::from(u8::from(!overlap));
            claims.push(claim(place, case, &both, overlap)?);
        }
    }
    let points = claims.len();
    claims.push(Claim {
        what: format!("share of {points} points where our interval and fio's are apart"),
        value: apart / points as f64,
        interval: None,
        at_most: Some(MAY_MISS),
    });
    Ok(claims)
}

/// Bytes per second, by round: ours and fio's.
fn turns(binary: &Path, dir: &Path, case: &Case) -> Result<Vec<[f64; 2]>> {
    let params = json!({
        "workload": "file", "op": case.op.0, "record": case.record, "file_size": case.file_size, "direct": case.direct,
        "sync": if case.fsync { "fsync" } else { "none" }, "engine": "pread", "latency": true,
    });
    let mut probe = Probe::start(binary, dir, &params, MILLISECONDS)?;
    let file = probe.file.clone();
    let mut all = Vec::new();
    for round in 0..ROUNDS {
        // A new process per round, as with fio. The pages of memory that a process gets change its
        // throughput by up to a fifth. One process for all rounds would make that look like a
        // difference between the programs.
        let mut ours = || -> Result<f64> {
            probe.restart()?;
            let trial = probe.trial()?;
            // All bytes over the total time, as in fio: not the median of passes.
            Ok(trial.bytes() as f64 * 1e9 / trial.elapsed_ns() as f64)
        };
        all.push(if round % 2 == 0 {
            let ours = ours()?;
            [ours, fio(&file, case)?]
        } else {
            let fio = fio(&file, case)?;
            [ours()?, fio]
        });
    }
    Ok(all)
}

fn fio(file: &PathBuf, case: &Case) -> Result<f64> {
    let new = case.op == WRITE;
    let mut command = Command::new("fio");
    command
        .args([
            "--name=bench",
            "--ioengine=psync",
            "--invalidate=0",
            // Changing each buffer before it is written is not part of the comparison.
            "--scramble_buffers=0",
            // As in ours. fio's default is 16 bytes off a page boundary, which slows copies of 1
            // MiB.
            "--iomem_align=4096",
            "--thread",
        ])
        .arg(format!("--rw={}", case.op.1))
        .arg(format!("--bs={}", case.record))
        .arg(format!("--size={}", case.file_size))
        .arg(format!("--direct={}", u8::from(case.direct)))
        .arg(format!("--end_fsync={}", u8::from(case.fsync)))
        .arg(format!("--filename={}", file.display()))
        .arg("--output-format=json");
    if new {
        // As in ours: a new file, written once from start to end. By default fio allocates it
        // before its clock starts.
        command.arg("--fallocate=none");
        let _ = fs::remove_file(file);
    } else {
        command.args(["--time_based", "--overwrite=1"]);
        command.arg(format!("--runtime={MILLISECONDS}ms"));
    }
    let output = command.output().context("fio")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_str(&text[text.find('{').unwrap_or(0)..])
        .with_context(|| format!("fio's JSON: {}", String::from_utf8_lossy(&output.stderr)))?;
    let side = if case.op.0.ends_with("read") {
        "read"
    } else {
        "write"
    };
    let job = &report["jobs"][0];
    if job["error"] != 0 {
        bail!("fio ended with error {}", job["error"]);
    }
    job[side]["bw_bytes"]
        .as_f64()
        .filter(|rate| *rate > 0.0)
        .ok_or_else(|| anyhow!("fio's JSON lacks a rate"))
}

fn interval(rates: impl Iterator<Item = f64>) -> Option<Interval> {
    let logs: Vec<f64> = rates.map(f64::ln).collect();
    Trimmed::of(&logs)?.interval(0.95)
}

/// Whether the 95 % intervals of the two medians overlap.
fn overlap(both: &[[f64; 2]]) -> Option<bool> {
    let ours = interval(both.iter().map(|b| b[0]))?;
    let fio = interval(both.iter().map(|b| b[1]))?;
    Some(ours.low <= fio.high && fio.low <= ours.high)
}

fn claim(place: &str, case: &Case, both: &[[f64; 2]], overlap: bool) -> Result<Claim> {
    let pairs: Vec<Pair> = (0u32..)
        .zip(both)
        .map(|(block, [ours, fio])| Pair::new((0, block), *ours, *fio))
        .collect();
    let ratio = compare(&pairs, 0.95, 1).ok_or_else(|| anyhow!("too few rounds"))?;
    let how = if case.direct {
        ", O_DIRECT"
    } else if case.fsync {
        ", fsync"
    } else {
        ""
    };
    let word = if overlap { "overlap" } else { "APART" };
    Ok(Claim {
        what: format!(
            "{place}: {} of {} KiB{how}: our throughput / fio's ({word})",
            case.op.0,
            case.record >> 10
        ),
        value: ratio.ratio,
        interval: ratio.ratio_interval.map(|i| (i.low, i.high)),
        at_most: None,
    })
}
