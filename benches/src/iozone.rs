//! Finds iozone.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// Like [`find`]; prints a message when iozone is not available.
pub fn found(dir: &Path) -> Option<PathBuf> {
    find(dir)
        .inspect_err(|e| eprintln!("skipped: no iozone to compare with: {e:#}"))
        .ok()
}

/// The installed iozone, or Debian's package from `non-free`. apt fetches it into `dir` with
/// separate package lists, so that the system does not change.
fn find(dir: &Path) -> Result<PathBuf> {
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
        output(
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
    output(
        Command::new("dpkg-deb")
            .arg("-x")
            .arg(&package)
            .arg(at.join("x")),
    )?;
    Ok(at.join("x/usr/bin/iozone"))
}

/// Output of a program. An error has its error messages.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| command.get_program().display().to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}", command.get_program().display(), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
