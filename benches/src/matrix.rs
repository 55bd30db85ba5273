//! Wall time of the iozone matrix to 64 MB in one layer, against iozone's own pass.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, bail};

use crate::results::Claim;

/// Passes of each, in turn.
const ROUNDS: usize = 3;

/// Seconds of a pass over 99 cells of 13 tests. Without iozone there is nothing to compare with.
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
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let file = dir.path().join("iozone.tmp");
        theirs.push(seconds(
            Command::new(&iozone)
                .args(["-Rac", "-g", "64M", "-f"])
                .arg(&file),
        )?);
        ours.push(seconds(
            Command::new(binary)
                .args(["file", "--like", "-Rac -g 64M", "--blocks", "1"])
                .args(["--no-control", "-l", "native", "--dir"])
                .arg(dir.path())
                .arg("--store")
                .arg(dir.path().join("store.db"))
                .arg("-o")
                .arg(dir.path().join("iozone.txt")),
        )?);
    }
    let middle = |seconds: &[f64]| layermark_stats::median(seconds).context("no pass");
    let (ours, theirs) = (middle(&ours)?, middle(&theirs)?);
    let told = |what: &str, value, at_most| Claim {
        what: what.to_owned(),
        value,
        interval: None,
        at_most,
    };
    Ok(vec![
        told("iozone -Rac -g 64M, seconds", theirs, None),
        told(
            "the same matrix, one block, native alone, seconds",
            ours,
            None,
        ),
        told(
            "time of the matrix / time of iozone",
            ours / theirs,
            Some(1.0),
        ),
    ])
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
