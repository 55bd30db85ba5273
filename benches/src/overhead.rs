//! CPU time of an operation that is timed and recorded, compared with a bare C loop and with fio.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow};
use layermark_model::Trial;
use layermark_stats::{Pair, compare};
use serde_json::{Value, json};

use crate::{
    c_loop::{self, Loop, word_in},
    probe::Probe,
    results::Claim,
};

/// Small enough for the second-level cache to matter equally, large enough for a long pass.
const FILE_SIZE: u64 = 4 << 20;
/// Duration of a stretch of fio, and of the C loops of engines, ms.
const MILLISECONDS: u64 = 120;
/// Number of rounds, each with new processes on both sides: the pages of memory that a process gets
/// change its speed by several per cent.
const ROUNDS: u32 = 32;
/// Number of turns of either in a round, in alternating order.
const TURNS: u32 = 20;
/// Duration of a turn and of its uncounted lead-in, nanoseconds.
const TURN: (u64, u64) = (4_000_000, 1_000_000);
/// fio runs in one of this many rounds. It takes longer to start than to measure, and differs
/// enough to need fewer rounds.
const FIO_EVERY: u32 = 4;

/// The comparisons: record size, and maximum cost relative to the C loop.
const READS: [(u64, f64); 2] = [(4096, 1.05), (32, 1.10)];
const WRITES: [(&str, &str, u64); 4] = [
    ("rewrite", "in order", 4096),
    ("rand-write", "at random", 4096),
    ("rewrite", "in order", 65536),
    ("rand-write", "at random", 65536),
];
const WRITES_AT_MOST: f64 = 1.05;

/// CPU time per operation of the programs, ns, in turn, by round.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    pin()?;
    // /dev/shm is a tmpfs, so the file is always in memory, and no device is involved.
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in("/dev/shm")?;
    let bare = build_bare(dir.path())?;
    let mut claims = Vec::new();
    for (record, limit) in READS {
        claims.extend(reads(binary, &bare, dir.path(), record, limit)?);
    }
    for (op, order, record) in WRITES {
        let settings = json!({
            "workload": "file", "op": [op], "record": record, "file_size": FILE_SIZE,
        });
        let mut probe = Probe::start(binary, dir.path(), &settings, MILLISECONDS)?;
        let file = dir.path().join("bare-file");
        // Made in the same way as ours, because the pages of a file are as large as the writes that
        // made it.
        let (mut made, data) = (fs::File::create(&file)?, vec![1; record as usize]);
        for _ in 0..FILE_SIZE / record {
            made.write_all(&data)?;
        }
        let way = if op == "rewrite" { "write" } else { op };
        let mut pairs = Vec::new();
        for round in 0..ROUNDS {
            let c = start_c(&bare, &file, record, way)?;
            pairs.push(in_turns(round, &mut probe, c)?);
        }
        let (value, interval) = ratio(&pairs)?;
        claims.push(Claim {
            what: format!(
                "CPU of a recorded pwrite of {record} B {order} / a bare loop in C of one buffer"
            ),
            value,
            interval,
            at_most: Some(WRITES_AT_MOST),
        });
    }
    Ok(claims)
}

/// Sequential reads of a cached file.
fn reads(binary: &Path, bare: &Path, dir: &Path, record: u64, limit: f64) -> Result<[Claim; 3]> {
    let mut probe = start(binary, dir, record, "pread")?;
    let file = probe.file.clone();
    let (mut ours, mut fios) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let c = start_c(bare, &file, record, "read")?;
        let pair = in_turns(round, &mut probe, c)?;
        if round % FIO_EVERY == 0 {
            let fio = run_fio(&file, record)?;
            fios.push(Pair::new((0, round), fio, pair.native));
        }
        ours.push(pair);
    }
    let (ours, fios) = (ratio(&ours)?, ratio(&fios)?);
    Ok([
        Claim {
            what: format!(
                "CPU of a recorded pread of {record} B / a bare loop of system calls in C"
            ),
            value: ours.0,
            interval: ours.1,
            at_most: Some(limit),
        },
        Claim {
            what: format!("the same for fio's psync engine at {record} B"),
            value: fios.0,
            interval: fios.1,
            at_most: None,
        },
        Claim {
            what: format!("layermark's cost over fio's at {record} B"),
            value: ours.0 / fios.0,
            interval: None,
            at_most: Some(1.0),
        },
    ])
}

/// Name of the CPU time per operation in the output of the C loops.
const CPU: &str = "cpu_ns=";

/// Starts the C loop over a file, which takes turns.
fn start_c(bare: &Path, file: &Path, record: u64, way: &str) -> Result<Loop> {
    let mut command = Command::new(bare);
    Loop::start(command.arg(file).args([&record.to_string(), "turns", way]))
}

/// A round: a new process of ours and a new one in C take turns.
fn in_turns(round: u32, probe: &mut Probe, mut c: Loop) -> Result<Pair> {
    probe.restart()?;
    probe.begin()?;
    let mut costs = Vec::new();
    for turn in 0..TURNS {
        // The order alternates, so that a drift of the machine's clock favours neither.
        let (us, them) = if (round + turn).is_multiple_of(2) {
            let us = probe.turn(turn, TURN.1, TURN.0)?;
            (us, c.turn(TURN, CPU)?)
        } else {
            let them = c.turn(TURN, CPU)?;
            (probe.turn(turn, TURN.1, TURN.0)?, them)
        };
        costs.push([us, them]);
    }
    Ok(Pair::of_rounds((0, round), &costs, &[]))
}

/// Keeps all programs on the same CPU.
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

pub type Estimate = (f64, Option<(f64, f64)>);

pub fn ratio(pairs: &[Pair]) -> Result<Estimate> {
    let comparison = compare(pairs, 0.95, 1).ok_or_else(|| anyhow!("too few rounds"))?;
    Ok((
        comparison.ratio,
        comparison.ratio_interval.map(|i| (i.low, i.high)),
    ))
}

/// Builds the C loops over files.
pub fn build_bare(dir: &Path) -> Result<PathBuf> {
    c_loop::build(dir, "bare")
}

/// CPU time per operation of the C loop in one of its modes, ns.
pub fn run_bare(bare: &Path, file: &Path, record: u64, way: Option<&str>) -> Result<f64> {
    let seconds = (MILLISECONDS as f64 / 1000.0).to_string();
    let output = Command::new(bare)
        .arg(file)
        .args([record.to_string(), seconds])
        .args(way)
        .output()
        .context("bare")?;
    word_in(&String::from_utf8_lossy(&output.stdout), CPU)
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

/// CPU time per operation, ns.
pub fn cpu_per_op(trial: &Trial) -> f64 {
    (trial.cpu.user_ns + trial.cpu.sys_ns) as f64 / trial.ops() as f64
}
