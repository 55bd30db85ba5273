//! `--like` with iozone's letters compared with iozone itself, in turn: MiB/s of each test.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, anyhow};
use layermark_stats::Pair;

use crate::{
    iozone::{self, output},
    overhead::{Estimate, ratio},
    report::report,
    results::Claim,
};

/// One file and one record, with close(2) inside the clock.
const LETTERS: &str = "-Rac -s 16m -r 64k -i 0 -i 1 -i 2";
/// Number of rounds. Either program takes less than half a second.
const ROUNDS: u32 = 24;
/// iozone's tests are one sample of 2 to 10 ms each, so it repeats them this many times for our
/// three blocks.
const REPEATS: usize = 3;
/// Largest accepted ratio in either direction.
const APART: f64 = 1.05;

/// iozone's title of each table, with our operation.
const TESTS: [(&str, &str); 6] = [
    ("Writer report", "write"),
    ("Re-writer report", "rewrite"),
    ("Reader report", "read"),
    ("Re-Reader report", "reread"),
    ("Random read report", "rand-read"),
    ("Random write report", "rand-write"),
];

/// Ratios of ours over iozone's. Empty without iozone.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let Some(iozone) = iozone::found(dir.path()) else {
        return Ok(Vec::new());
    };
    let mut pairs: [Vec<Pair>; TESTS.len()] = Default::default();
    for round in 0..ROUNDS {
        // The order alternates, so that files left by one program favour neither.
        let (us, them) = if round % 2 == 0 {
            let us = ours(binary, dir.path())?;
            (us, theirs(&iozone, dir.path())?)
        } else {
            let them = theirs(&iozone, dir.path())?;
            (ours(binary, dir.path())?, them)
        };
        for ((pairs, us), them) in pairs.iter_mut().zip(us).zip(them) {
            pairs.push(Pair::new((0, round), us, them));
        }
    }
    let ratios: Vec<Estimate> = pairs.iter().map(|p| ratio(p)).collect::<Result<_>>()?;
    let mut claims: Vec<Claim> = TESTS
        .iter()
        .zip(&ratios)
        .map(|((_, op), (value, interval))| Claim {
            what: format!("{op} of 64 KiB records, 16 MiB: MiB/s over iozone's"),
            value: *value,
            interval: *interval,
            at_most: None,
        })
        .collect();
    let apart = ratios.iter().map(apart).max_by(|a, b| a.0.total_cmp(&b.0));
    let (value, interval) = apart.context("no test")?;
    claims.push(Claim {
        what: "the test that is furthest off: the faster program's MiB/s over the other's".into(),
        value,
        interval,
        at_most: Some(APART),
    });
    Ok(claims)
}

/// The ratio with the faster program as the reference.
fn apart(&(value, interval): &Estimate) -> Estimate {
    if value >= 1.0 {
        (value, interval)
    } else {
        let turned = |(low, high): (f64, f64)| (1.0 / high, 1.0 / low);
        (1.0 / value, interval.map(turned))
    }
}

/// Bytes per second of each test.
fn ours(binary: &Path, dir: &Path) -> Result<[f64; TESTS.len()]> {
    let blocks = REPEATS.to_string();
    let work = ["--like", LETTERS, "--no-control", "-l", "native"];
    let arguments = [&work[..], &["--blocks", &blocks]].concat();
    let report = report(binary, dir, "file", &arguments)?;
    let rows = report["results"].as_array().context("no results")?;
    let mut all = [0.0; TESTS.len()];
    for ((_, op), value) in TESTS.iter().zip(&mut all) {
        let row = rows.iter().find(|row| row["point"]["op"] == *op);
        let row = row.with_context(|| format!("layermark did not measure {op}"))?;
        *value = row["value"].as_f64().context("a result has no number")?;
    }
    Ok(all)
}

/// Bytes per second of each test of iozone: the median of its repeats.
fn theirs(iozone: &Path, dir: &Path) -> Result<[f64; TESTS.len()]> {
    let mut repeats: [Vec<f64>; TESTS.len()] = Default::default();
    for _ in 0..REPEATS {
        let text = output(
            Command::new(iozone)
                .args(LETTERS.split(' '))
                .arg("-f")
                .arg(dir.join("iozone.tmp")),
        )?;
        for ((title, _), values) in TESTS.iter().zip(&mut repeats) {
            values.push(table(&text, title)? * 1024.0);
        }
    }
    let mut all = [0.0; TESTS.len()];
    for (value, repeats) in all.iter_mut().zip(&repeats) {
        *value = layermark_stats::median(repeats).context("no repeat")?;
    }
    Ok(all)
}

/// The only number of a table: kB/s in its third line, after the size of the file.
fn table(text: &str, title: &str) -> Result<f64> {
    let mut lines = text.lines().skip_while(|line| !line.contains(title));
    let figure = lines.nth(2).and_then(|line| line.split_whitespace().nth(1));
    figure
        .and_then(|kb| kb.parse().ok())
        .ok_or_else(|| anyhow!("iozone printed no `{title}`: {text}"))
}
