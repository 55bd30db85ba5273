//! Runs layermark and reads its report.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The report of `layermark COMMAND ARGUMENTS`, whose files and store are in `dir`. An error has
/// layermark's error messages. A report with exit code 4 (not trustworthy) is an error, too.
pub fn report(binary: &Path, dir: &Path, command: &str, arguments: &[&str]) -> Result<Value> {
    let output = Command::new(binary)
        .args([command, "--json", "--dir"])
        .arg(dir)
        .arg("--store")
        .arg(store(dir))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| binary.display().to_string())?;
    let said = || {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("layermark {command}, {}: {}", output.status, said.trim())
    };
    match output.status.code() {
        Some(0) => {}
        Some(4) => eprintln!("{}", said()),
        _ => bail!(said()),
    }
    serde_json::from_slice(&output.stdout).with_context(said)
}

/// The store of reports whose files are in `dir`.
pub fn store(dir: &Path) -> PathBuf {
    dir.join("store.db")
}
