//! Benchmarks of layermark's claims about itself. Programs are compared in turn in one run. Results
//! are ratios with intervals, written to `benches/results/` with the machine's description.
//!
//! usage: `layermark-bench BENCH|all LAYERMARK`, where the benchmarks are those of [`BENCHES`].

mod agreement;
mod answer;
mod c_loop;
mod card;
mod durability;
mod engines;
mod footprint;
mod ftp;
mod http;
mod iops;
mod iozone;
mod itself;
mod launch;
mod like;
mod matrix;
mod net;
mod opened;
mod overhead;
mod places;
mod probe;
mod replay;
mod report;
mod results;
mod steps;
mod turns;
mod vm;

use std::{path::Path, process::ExitCode};

use anyhow::{Result, bail};
use results::Claim;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, ready, log] = arguments.as_slice()
        && word == "become"
    {
        return match launch::become_ready(ready, log) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("error: {e:#}");
                ExitCode::FAILURE
            }
        };
    }
    let [what, binary] = arguments.as_slice() else {
        eprintln!("usage: layermark-bench {}|all LAYERMARK", names("|"));
        return ExitCode::from(2);
    };
    match measure(what, Path::new(binary)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::from(2)
        }
    }
}

type Bench = fn(&Path) -> Result<Vec<Claim>>;

const BENCHES: [(&str, Bench); 20] = [
    ("overhead", overhead::measure),
    ("agreement", agreement::measure),
    ("answer", answer::measure),
    ("card", card::measure),
    ("durability", durability::measure),
    ("engines", engines::measure),
    ("footprint", footprint::measure),
    ("ftp", ftp::measure),
    ("http", http::measure),
    ("iops", iops::measure),
    ("itself", itself::measure),
    ("launch", launch::measure),
    ("like", like::measure),
    ("matrix", matrix::measure),
    ("net", net::measure),
    ("steps", steps::measure),
    ("replay", replay::measure),
    ("turns", turns::measure),
    ("vm", vm::measure),
    // Last, because it stays in a mount namespace of its own.
    ("places", places::measure),
];

fn names(between: &str) -> String {
    BENCHES.map(|(name, _)| name).join(between)
}

/// Runs a benchmark. Returns whether every claim held.
fn measure(what: &str, binary: &Path) -> Result<bool> {
    let chosen: Vec<_> = BENCHES
        .iter()
        .filter(|(name, _)| what == "all" || what == *name)
        .collect();
    if chosen.is_empty() {
        bail!("there is no benchmark `{what}`: {}, all", names(", "));
    }
    let mut held = true;
    for (name, bench) in chosen {
        let claims = bench(binary)?;
        for claim in &claims {
            println!("{claim}");
        }
        held &= !claims.iter().any(Claim::broken);
        results::write(name, binary, &claims)?;
    }
    Ok(held)
}
