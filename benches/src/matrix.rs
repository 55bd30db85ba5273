//! Wall time of the iozone matrix up to 64 MB in one layer, compared with iozone's own pass.

use std::{path::Path, process::Command, time::Instant};

use anyhow::{Context, Result};

use crate::{
    iozone::{self, output},
    results::Claim,
};

/// Number of rounds, in turn. The minimum and maximum of six rounds are an interval of 97 % for the
/// median (sign test).
const ROUNDS: usize = 6;
/// Number of repeats: passes of iozone, or our blocks, whose default number for a matrix this is.
const REPEATS: usize = 3;

/// Seconds per repeat over 99 cells of 13 tests. Empty without iozone.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let Some(iozone) = iozone::found(dir.path()) else {
        return Ok(Vec::new());
    };
    let (mut theirs, mut once, mut usual) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut sum = 0.0;
        for _ in 0..REPEATS {
            sum += seconds(
                Command::new(&iozone)
                    .args(["-Rac", "-g", "64M", "-f"])
                    .arg(dir.path().join("iozone.tmp")),
            )?;
        }
        theirs.push(sum);
        // As in iozone, and with our default: short files are covered repeatedly until a
        // millisecond has passed.
        once.push(seconds(ours(binary, dir.path()).args(["--passes", "1"]))?);
        usual.push(seconds(&mut ours(binary, dir.path()))?);
    }
    let each = |all: &[f64]| {
        let divided: Vec<f64> = all.iter().map(|s| s / REPEATS as f64).collect();
        layermark_stats::median(&divided).context("no round")
    };
    let ratio = |all: &[f64]| {
        let rounds: Vec<f64> = all.iter().zip(&theirs).map(|(a, b)| a / b).collect();
        let range = (
            rounds.iter().copied().fold(f64::INFINITY, f64::min),
            rounds.iter().copied().fold(0.0, f64::max),
        );
        let middle = layermark_stats::median(&rounds).context("no round")?;
        anyhow::Ok((middle, Some(range)))
    };
    let told = |what: &str, (value, interval), at_most| Claim {
        what: what.to_owned(),
        value,
        interval,
        at_most,
    };
    Ok(vec![
        told(
            "iozone -Rac -g 64M, seconds a pass",
            (each(&theirs)?, None),
            None,
        ),
        told(
            "the same matrix, native alone, seconds a block of 3",
            (each(&once)?, None),
            None,
        ),
        told(
            "time of the matrix / time of iozone, 3 repeats of either",
            ratio(&once)?,
            Some(1.0),
        ),
        told(
            "the same with short files gone over for 1 ms",
            ratio(&usual)?,
            None,
        ),
    ])
}

fn ours(binary: &Path, dir: &Path) -> Command {
    let mut command = Command::new(binary);
    command
        .args(["file", "--like", "-Rac -g 64M", "--no-control"])
        .args(["--blocks", &REPEATS.to_string(), "-l", "native", "--dir"])
        .arg(dir)
        .arg("--store")
        .arg(dir.join("store.db"))
        .arg("-o")
        .arg(dir.join("iozone.txt"));
    command
}

fn seconds(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    output(command)?;
    Ok(start.elapsed().as_secs_f64())
}
