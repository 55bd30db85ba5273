//! The lines above the results of a run: its version, unit and modes.

use layermark_model::ImportedPoint;

use crate::values;

pub struct Head {
    pub tool: String,
    pub measured: Option<String>,
    direct: bool,
    sync: &'static str,
    engine: Option<&'static str>,
    unit: Unit,
}

#[derive(Clone, Copy, PartialEq)]
enum Unit {
    KiBs,
    Ops,
    Micros,
}

impl Head {
    pub fn read(lines: &[&str]) -> Self {
        let has = |words: &str| lines.iter().any(|line| line.contains(words));
        let after = |words: &str| {
            let line = lines.iter().find_map(|l| l.trim().strip_prefix(words))?;
            Some(values::clean(line.trim_matches([' ', '$', ':'])))
        };
        let tool = after("Version $Revision").map_or("iozone".into(), |v| format!("iozone {v}"));
        Self {
            tool,
            measured: after("Run began"),
            direct: has("O_DIRECT feature enabled"),
            sync: if has("SYNC Mode") {
                "osync"
            } else if has("Include fsync in write timing") {
                "fsync"
            } else if has("Include close in write timing") {
                "close"
            } else {
                "none"
            },
            engine: has("Using mmap files").then_some("mmap").or(Some("sync")),
            unit: if has("Output is in ops/sec") || has("OPS Mode") {
                Unit::Ops
            } else if has("Microseconds/op Mode") || has("Output is in microseconds") {
                Unit::Micros
            } else {
                Unit::KiBs
            },
        }
    }

    /// Bytes per second and operations per second.
    pub fn rates(&self, what: &str, value: f64, record: u64) -> Result<(f64, f64), String> {
        let record = record as f64;
        let ops = match self.unit {
            Unit::KiBs => value * 1024.0 / record,
            Unit::Ops => value,
            Unit::Micros => 1e6 / value,
        };
        Ok((values::rate(what, ops * record)?, values::rate(what, ops)?))
    }

    /// What is the same of all points of the run.
    pub fn point(&self, engine: Option<&'static str>) -> ImportedPoint {
        ImportedPoint {
            queue_depth: Some(1),
            direct: Some(self.direct),
            sync: Some(self.sync.into()),
            engine: engine.or(self.engine).map(str::to_owned),
            ..ImportedPoint::default()
        }
    }
}
