//! Checks that short turns do not change results. The ratio in turns of layermark's own length is
//! divided by the ratio in turns of 50 ms. In addition, a known delay must be measured correctly.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{report::report, results::Claim};

/// The long turns for comparison.
const LONG: &str = "50ms";
/// A block of long turns has three rounds, and where a process serves the layer, such blocks differ by 10 to 20 %.
const BLOCKS: &str = "36";
/// Maximum change of a ratio.
const BIAS: f64 = 1.01;
/// Delay of each request of the FUSE file system, microseconds.
const DELAY_US: f64 = 200.0;

/// A comparison in turns of two lengths.
struct Case {
    what: &'static str,
    args: &'static [&'static str],
    layer: &'static str,
}

const READ: &[&str] = &["file", "--op", "rand-read", "--record", "4K"];
const CASES: [Case; 5] = [
    Case {
        what: "cached reads of 64 KiB, overlay",
        args: &["--file-size", "64K"],
        layer: "overlay:upper",
    },
    Case {
        what: "cached reads of 16 MiB, overlay",
        args: &["--file-size", "16M"],
        layer: "overlay:upper",
    },
    Case {
        what: "reads through FUSE",
        args: &["--file-size", "64K"],
        layer: "fuse:cache=none",
    },
    Case {
        what: "fsynced writes, FUSE",
        args: &["--op", "rand-write", "--file-size", "1M", "--sync", "each"],
        layer: "fuse",
    },
    Case {
        what: "cached reads in a guest",
        args: &["--file-size", "64K"],
        layer: "vm",
    },
];

/// Each case in turns of both lengths, then the delay.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let mut claims = Vec::new();
    for case in &CASES {
        let args = if case.args[0] == "--op" {
            [&["file", "--record", "4K"], case.args].concat()
        } else {
            [READ, case.args].concat()
        };
        let of = |turn: &[&str]| ratio(binary, dir.path(), &args, &[case.layer], turn);
        let (Some(short), Some(long)) = (of(&[])?, of(&["--turn", LONG])?) else {
            eprintln!("skipped: {}: {} is not available", case.what, case.layer);
            continue;
        };
        claims.push(beside(case.what, &short[0], &long[0]));
    }
    let delayed = format!("fuse:cache=none,delay={DELAY_US}us");
    let layers = ["fuse:cache=none", &delayed];
    let args = ["meta", "--op", "open-stat", "--files", "20"];
    if let Some(rows) = ratio(binary, dir.path(), &args, &layers, &[])? {
        // A file that is not cached takes several requests. The time with twice the delay shows how
        // many.
        let twice = format!("fuse:cache=none,delay={}us", 2.0 * DELAY_US);
        if let Some(more) = ratio(binary, dir.path(), &args, &[&delayed, &twice], &[])? {
            let added = more[1].us - more[0].us;
            claims.push(Claim {
                what: "delay of 200 us a request: what it adds over what another 200 us add".into(),
                value: (rows[1].us - rows[0].us) / added,
                interval: None,
                at_most: Some(1.02),
            });
        }
    }
    if claims.is_empty() {
        bail!("no layer to try turns with");
    }
    Ok(claims)
}

/// A layer compared with native.
struct Row {
    ratio: f64,
    interval: (f64, f64),
    /// Time per operation, microseconds.
    us: f64,
}

/// Bias of the short turns.
fn beside(what: &str, short: &Row, long: &Row) -> Claim {
    let ln = (short.ratio / long.ratio).ln();
    let half = |row: &Row| (row.interval.1 / row.interval.0).ln() / 2.0;
    let half = half(short).hypot(half(long));
    // In either direction: a ratio that is too small is as wrong as one that is too large.
    let value = ln.abs().exp();
    Claim {
        what: format!(
            "{what}: ratio {:.3}, in turns of {LONG} {:.3}; off by",
            short.ratio, long.ratio
        ),
        value,
        interval: Some(((ln.abs() - half).max(0.0).exp(), (ln.abs() + half).exp())),
        at_most: Some(BIAS),
    }
}

/// The only point in each of these layers; `None` if one could not be set up.
fn ratio(
    binary: &Path,
    dir: &Path,
    args: &[&str],
    layers: &[&str],
    turn: &[&str],
) -> Result<Option<Vec<Row>>> {
    let (command, args) = args.split_first().context("no command")?;
    let layers_of = layers.iter().flat_map(|layer| ["-l", layer]);
    let fixed = ["--blocks", BLOCKS, "--no-control"];
    let args: Vec<&str> = args
        .iter()
        .chain(turn)
        .chain(&fixed)
        .copied()
        .chain(layers_of)
        .collect();
    let report = report(binary, dir, command, &args);
    let Ok(report) = report.inspect_err(|e| eprintln!("{e:#}")) else {
        return Ok(None);
    };
    let rows = report["results"].as_array().context("no results")?;
    let row = |layer: &&str| {
        let row = rows.iter().find(|row| row["layer"] == **layer)?;
        let bound = |n: usize| row["ratio"]["interval"][n].as_f64();
        Some(Row {
            ratio: row["ratio"]["estimate"].as_f64()?,
            interval: (bound(0)?, bound(1)?),
            us: row["op_us"].as_f64()?,
        })
    };
    Ok(layers.iter().map(row).collect())
}
