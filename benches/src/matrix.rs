//! Wall time of the iozone matrix to 64 MB in one layer, against iozone's own pass.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, bail};

use crate::results::Claim;

/// Times that either makes its repeats, in turn. The least and the most of six rounds are an
/// interval of 97 % for the median (sign test).
const ROUNDS: usize = 6;
/// Repeats: passes of iozone, blocks of ours. A matrix has so many when it is not told.
const REPEATS: usize = 3;

/// Seconds of a repeat over 99 cells of 13 tests. Without iozone there is nothing to compare with.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let iozone = match iozone(dir.path()) {
        Ok(path) => path,
        Err(e) => {
            eprintln!("skipped: no iozone to compare with: {e:#}");
            return Ok(Vec::new());
        }
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
        // As iozone does it, and as we do: short files are gone over until a millisecond is full.
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
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| command.get_program().display().to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}", command.get_program().display(), said.trim());
    }
    Ok(start.elapsed().as_secs_f64())
}

/// The installed one, or Debian's package from `non-free`, fetched into `dir` by apt with lists of
/// its own, so that nothing of the system changes.
fn iozone(dir: &Path) -> Result<PathBuf> {
    if Command::new("iozone").arg("-v").output().is_ok() {
        return Ok("iozone".into());
    }
    let at = dir.canonicalize()?.join("apt");
    for sub in ["lists/partial", "cache/archives/partial", "parts"] {
        std::fs::create_dir_all(at.join(sub))?;
    }
    let release = std::fs::read_to_string("/etc/os-release")?;
    let name = release
        .lines()
        .find_map(|l| l.strip_prefix("VERSION_CODENAME="))
        .context("/etc/os-release has no VERSION_CODENAME")?;
    let list = at.join("sources.list");
    std::fs::write(
        &list,
        format!("deb http://deb.debian.org/debian {name} non-free\n"),
    )?;
    for step in [["update", "-q"], ["download", "iozone3"]] {
        seconds(
            Command::new("apt-get")
                .arg("-o")
                .arg(format!("Dir::Etc::sourcelist={}", list.display()))
                .arg("-o")
                .arg(format!("Dir::Etc::sourceparts={}/parts", at.display()))
                .arg("-o")
                .arg(format!("Dir::State::lists={}/lists", at.display()))
                .arg("-o")
                .arg(format!("Dir::Cache={}/cache", at.display()))
                .args(step)
                .current_dir(&at),
        )?;
    }
    let package = std::fs::read_dir(&at)?
        .filter_map(|e| Some(e.ok()?.path()))
        .find(|p| p.extension().is_some_and(|e| e == "deb"))
        .context("apt-get download left no package")?;
    seconds(
        Command::new("dpkg-deb")
            .arg("-x")
            .arg(&package)
            .arg(at.join("x")),
    )?;
    Ok(at.join("x/usr/bin/iozone"))
}
