//! Time until every interval of a comparison of two layers is narrow enough.

use std::{path::Path, time::Instant};

use anyhow::{Result, bail};

use crate::{report::report, results::Claim};

/// Twelve cells: two operations on six record sizes, cached, native against an overlay.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let start = Instant::now();
    let cells = ["--op", "read,rand-read", "--record", "1K..32K"];
    let layers = ["--file-size", "16M", "-l", "overlay:upper"];
    let until = ["--precision", "5%", "--no-control", "--seed", "1"];
    let arguments = [&cells[..], &layers, &until].concat();
    let report = report(binary, dir.path(), "file", &arguments)?;
    let seconds = start.elapsed().as_secs_f64();
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
