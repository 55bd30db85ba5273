//! Time to the first trial, peak memory and size of the binary.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use layermark_sys::process;
use serde_json::Value;

use crate::results::Claim;

const LAYERS: [&str; 3] = ["tmpfs", "overlay:upper", "fuse"];

/// A short run over layers without a VM.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as f64;
    let mut command = Command::new(binary);
    command.args([
        "file",
        "--op",
        "rand-read",
        "--record",
        "4K",
        "--file-size",
        "16M",
        "--budget",
        "5s",
        "--json",
    ]);
    for layer in LAYERS {
        command.args(["-l", layer]);
    }
    command
        .arg("--dir")
        .arg(dir.path())
        .arg("--store")
        .arg(dir.path().join("store.db"));
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("layermark file")?;
    let peaks = watch(&mut child)?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("layermark file ended with {}", output.status);
    }
    let report: Value = serde_json::from_slice(&output.stdout).context("the report's JSON")?;
    let first = report["trials"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|t| t["at_ms"].as_f64())
        .fold(f64::MAX, f64::min);
    let started = started_ms(binary, dir.path())?;
    let largest = |lab: bool| {
        peaks
            .values()
            .filter(|(is_lab, _)| *is_lab == lab)
            .map(|(_, kib)| *kib)
            .max()
            .unwrap_or(0)
    };
    Ok(vec![
        limit(
            "seconds from start to the first trial, 5 layers",
            (started + first - began) / 1000.0,
            0.5,
        ),
        limit(
            "peak memory of the lab, MiB",
            largest(true) as f64 / 1024.0,
            64.0,
        ),
        limit(
            "peak memory of the largest probe, MiB",
            largest(false) as f64 / 1024.0,
            64.0,
        ),
        limit(
            "size of the binary, MB",
            fs::metadata(binary)?.len() as f64 / 1e6,
            20.0,
        ),
    ])
}

/// When the run was stored, milliseconds. The report has only whole seconds.
fn started_ms(binary: &Path, dir: &Path) -> Result<f64> {
    let store = dir.join("store.db");
    let output = Command::new(binary)
        .args(["history", "--json", "--store"])
        .arg(store)
        .output()?;
    let history: Value = serde_json::from_slice(&output.stdout).context("the history's JSON")?;
    history["runs"][0]["started_ms"]
        .as_f64()
        .context("started_ms")
}

fn limit(what: &str, value: f64, at_most: f64) -> Claim {
    Claim {
        what: what.into(),
        value,
        interval: None,
        at_most: Some(at_most),
    }
}

/// Peak resident memory (`VmHWM`, KiB) of the lab and of the processes it starts, until it ends.
fn watch(child: &mut std::process::Child) -> Result<BTreeMap<u32, (bool, u64)>> {
    let lab = child.id();
    let mut peaks = BTreeMap::new();
    // The report is larger than a pipe's buffer, so the trials have ended when the lab has no more
    // children.
    let mut quiet = 0;
    while child.try_wait()?.is_none() && quiet < 100 {
        let pids = process::children_of_first_thread(lab);
        quiet = if pids.iter().any(|pid| is_probe(*pid)) {
            0
        } else {
            quiet + 1
        };
        let probes = pids.into_iter().filter(|pid| is_probe(*pid));
        for pid in probes.chain([lab]) {
            let kib = process::peak_memory(pid) / 1024;
            if kib > 0 {
                let entry = peaks.entry(pid).or_insert((pid == lab, 0));
                entry.1 = entry.1.max(kib);
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(peaks)
}

fn is_probe(pid: u32) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|b| *b == 0).nth(1) == Some(b"probe")
}
