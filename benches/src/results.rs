//! A claim with its measurement, and the file in which it is stored.

use std::{fmt, fs, path::Path, process::Command};

use anyhow::{Context, Result};
use layermark_model::Missing;
use serde_json::json;

/// A claim, and the value measured for it.
pub struct Claim {
    /// The claim, with its unit.
    pub what: String,
    /// The measured value.
    pub value: f64,
    /// 95 % interval, if the value is an estimate.
    pub interval: Option<(f64, f64)>,
    /// Claimed upper limit. `None`: only reported.
    pub at_most: Option<f64>,
}

/// Outcome of a claim.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The estimate is within the limit.
    Held,
    /// The estimate is above the limit, but its interval reaches it.
    Open,
    /// The whole interval is above the limit.
    NotHeld,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Open => "open",
            Self::NotHeld => "NOT HELD",
        }
    }
}

impl Claim {
    /// Outcome of the claim; `None` without a limit.
    pub fn verdict(&self) -> Option<Verdict> {
        let limit = self.at_most?;
        let low = self.interval.map_or(self.value, |(low, _)| low);
        Some(if self.value <= limit {
            Verdict::Held
        } else if low <= limit {
            Verdict::Open
        } else {
            Verdict::NotHeld
        })
    }

    /// Whether the claim was shown to be wrong.
    pub fn broken(&self) -> bool {
        self.verdict() == Some(Verdict::NotHeld)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<66} {:>9.3}", self.what, self.value)?;
        if let Some((low, high)) = self.interval {
            write!(f, "  [{low:.3}, {high:.3}]")?;
        }
        match (self.at_most, self.verdict()) {
            (Some(limit), Some(verdict)) => write!(f, "  at most {limit}: {}", verdict.word()),
            _ => Ok(()),
        }
    }
}

fn first_match(path: &str, key: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text
        .lines()
        .find(|l| l.starts_with(key))
        .unwrap_or_default();
    line.split([':', '='])
        .nth(1)
        .unwrap_or_default()
        .trim()
        .trim_matches('"')
        .to_owned()
}

/// Whether programs or rights are missing, each of which is printed.
pub fn lacks(what: &str, missing: &[Missing]) -> bool {
    for m in missing {
        eprintln!("skipped: {what}: {} is missing ({})", m.what, m.hint);
    }
    !missing.is_empty()
}

/// Writes `benches/results/NAME.json`.
pub fn write(name: &str, binary: &Path, claims: &[Claim]) -> Result<()> {
    let version = Command::new(binary)
        .arg("--version")
        .output()
        .context("layermark --version")?;
    let file = json!({
        "benchmark": name,
        "command": format!("make bench{}", if name == "overhead" { "-overhead" } else { "" }),
        "layermark": String::from_utf8_lossy(&version.stdout).trim(),
        "machine": {
            "cpu": first_match("/proc/cpuinfo", "model name"),
            "cpus": std::thread::available_parallelism().map_or(0, usize::from),
            "memory": first_match("/proc/meminfo", "MemTotal"),
            "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
            "os": first_match("/etc/os-release", "PRETTY_NAME"),
        },
        "claims": claims.iter().map(|c| json!({
            "what": c.what, "value": c.value, "interval": c.interval, "at_most": c.at_most, "verdict": c.verdict().map(Verdict::word),
        })).collect::<Vec<_>>(),
    });
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("results")
        .join(format!("{name}.json"));
    fs::write(&path, serde_json::to_string_pretty(&file)? + "\n")
        .with_context(|| path.display().to_string())
}
