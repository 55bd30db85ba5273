//! How long a comparison of two layers takes until every interval is narrow enough.

use std::{path::Path, process::Command, time::Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::results::Claim;

/// Twelve cells: two operations on six record sizes, cached, native against an overlay.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let start = Instant::now();
    let output = Command::new(binary)
        .args([
            "file",
            "--op",
            "read,rand-read",
            "--record",
            "1K..32K",
            "--file-size",
            "16M",
            "-l",
            "overlay:upper",
        ])
        .args(["--precision", "5%", "--no-control", "--json", "--seed", "1"])
        .arg("--dir")
        .arg(dir.path())
        .arg("--store")
        .arg(dir.path().join("store.db"))
        .output()
        .context("layermark file")?;
    let seconds = start.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!(
            "layermark file: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let report: Value = serde_json::from_slice(&output.stdout).context("the report's JSON")?;
    let widths: Vec<f64> = report["results"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|r| r["layer"] == "overlay:upper")
        .filter_map(|r| {
            Some((
                r["ratio"]["interval"][0].as_f64()?,
                r["ratio"]["interval"][1].as_f64()?,
            ))
        })
        .map(|(low, high)| ((high / low).ln() / 2.0).exp() - 1.0)
        .collect();
    if widths.len() != 12 {
        bail!("{} of 12 cells have an interval", widths.len());
    }
    Ok(vec![
        Claim {
            what: "12 cached cells, two layers: seconds until done".into(),
            value: seconds,
            interval: None,
            at_most: Some(120.0),
        },
        Claim {
            what: "the same: widest half-width of a ratio's interval".into(),
            value: widths.into_iter().fold(0.0, f64::max),
            interval: None,
            at_most: Some(0.05),
        },
    ])
}
