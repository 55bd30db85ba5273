//! iozone: where it comes from.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// As [`find`]; says so when there is none to compare with.
pub fn found(dir: &Path) -> Option<PathBuf> {
    find(dir)
        .inspect_err(|e| eprintln!("skipped: no iozone to compare with: {e:#}"))
        .ok()
}

/// The installed one, or Debian's package from `non-free`, fetched into `dir` by apt with lists of
/// its own, so that nothing of the system changes.
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

/// What a program printed. An error has what it complained of.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| command.get_program().display().to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}", command.get_program().display(), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
