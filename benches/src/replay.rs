//! What a replay adds to each call of a recording: its time beside that of a bare C loop of the same calls.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use layermark_stats::{Pair, compare};
use serde_json::Value;

use crate::{
    c_loop::{self, Loop},
    results::Claim,
};

/// Calls of the recording: a replay takes some tens of milliseconds.
const CALLS: u64 = 100_000;
const RECORD: u64 = 4096;
/// Records of the file.
const RECORDS: u64 = 1024;
/// Rounds, each with a new process of ours and turns of the C loop before and after it.
const ROUNDS: u32 = 12;
/// Duration of a turn of the C loop and of its uncounted lead-in, nanoseconds.
const TURN: (u64, u64) = (40_000_000, 5_000_000);
/// Nanoseconds that a replay may add to a call.
const AT_MOST: f64 = 1000.0;

/// Wall time of a call, in turn.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    // A tmpfs: the file is always in memory.
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in("/dev/shm")?;
    let bare = c_loop::build(dir.path(), "bare")?;
    let file = dir.path().join("file");
    fs::write(&file, vec![1; (RECORD * RECORDS) as usize])?;
    let recording = recorded(binary, dir.path())?;
    let mut command = Command::new(&bare);
    let words = [&RECORD.to_string(), "turns", "read"];
    let mut bare = Loop::start(command.arg(&file).args(words))?;
    let mut pairs = Vec::new();
    for round in 0..ROUNDS {
        let before = bare.turn(TURN, "wall_ns=")?;
        let ours = replayed(binary, dir.path(), &recording)?;
        let after = bare.turn(TURN, "wall_ns=")?;
        pairs.push(Pair::new((0, round), ours, f64::midpoint(before, after)));
    }
    let found = compare(&pairs, 0.95, 1).context("no comparison")?;
    Ok(vec![Claim {
        what: format!(
            "ns that a replay adds to each of {CALLS} recorded preads of {RECORD} B, beyond a bare loop in C"
        ),
        value: found.diff,
        interval: found.diff_interval.map(|i| (i.low, i.high)),
        at_most: Some(AT_MOST),
    }])
}

/// Makes the recording, from what strace would have said.
fn recorded(binary: &Path, dir: &Path) -> Result<PathBuf> {
    let mut log = String::from("7 openat(AT_FDCWD</srv/x>, \"file\", O_RDONLY) = 3</srv/x/file>\n");
    for call in 0..CALLS {
        let offset = call % RECORDS * RECORD;
        writeln!(
            log,
            "7 pread64(3</srv/x/file>, \"\"..., {RECORD}, {offset}) = {RECORD}"
        )?;
    }
    let (from, to) = (dir.join("trace.log"), dir.join("app.lmrec"));
    fs::write(&from, log)?;
    let done = Command::new(binary)
        .args(["record", "--tree", "/srv/x", "--from-strace"])
        .arg(&from)
        .arg("-o")
        .arg(&to)
        .env("TMPDIR", dir)
        .output()
        .context("layermark record")?;
    if !done.status.success() {
        bail!(
            "layermark record: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    Ok(to)
}

/// Nanoseconds of a call in a replay.
fn replayed(binary: &Path, dir: &Path, recording: &Path) -> Result<f64> {
    let done = Command::new(binary)
        .arg("replay")
        .arg(recording)
        .args(["--time", "io", "--blocks", "1", "--json", "--allow-tmpfs"])
        .args(["--no-control", "--dir"])
        .arg(dir)
        .arg("--store")
        .arg(dir.join("store.db"))
        .output()
        .context("layermark replay")?;
    let report: Value = serde_json::from_slice(&done.stdout).with_context(|| {
        format!(
            "layermark replay: {}",
            String::from_utf8_lossy(&done.stderr)
        )
    })?;
    let us = report["results"][0]["op_us"].as_f64();
    Ok(us.context("the time of a replay")? * 1e3 / CALLS as f64)
}
