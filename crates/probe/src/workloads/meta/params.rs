//! Parameters of the workload `meta`.

use layermark_model::{Param, ParamKind, Point, PointError, Settings, format_size};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{limits, params};

/// What is done to each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// open, fstat, close.
    OpenStat,
    /// open, read the whole file, close.
    SmallRead,
    /// Create, write the whole file, (sync), close.
    SmallWrite,
    /// Create an empty file, (sync), close.
    Create,
    /// Remove a file.
    Unlink,
}

impl Op {
    pub fn writes(self) -> bool {
        matches!(self, Self::SmallWrite | Self::Create | Self::Unlink)
    }
    /// Bytes that one operation moves, with files of `size` bytes.
    pub fn moves(self, size: u64) -> u64 {
        match self {
            Self::SmallRead | Self::SmallWrite => size,
            Self::OpenStat | Self::Create | Self::Unlink => 0,
        }
    }
    pub fn id(self) -> &'static str {
        match self {
            Self::OpenStat => "open-stat",
            Self::SmallRead => "small-read",
            Self::SmallWrite => "small-write",
            Self::Create => "create",
            Self::Unlink => "unlink",
        }
    }
    /// Has a file descriptor that could be synced.
    pub fn syncs(self) -> bool {
        matches!(self, Self::SmallWrite | Self::Create)
    }
}

/// How durable a file is when it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// Not at all.
    None,
    /// fsync(2) of each file before its close.
    Fsync,
}

/// State of the cache before the clock starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// Everything was opened and read once before.
    Warm,
    /// Emptied by the lab; nothing is touched after that.
    Cold,
}

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetaParams {
    pub op: Op,
    pub files: u64,
    pub file_size: u64,
    pub cache: Cache,
    pub sync: Sync,
    pub passes: u64,
    pub latency: bool,
}

const OPS: &[&str] = &["open-stat", "small-read", "small-write", "create", "unlink"];

pub const PARAMS: &[Param] = &[
    Param::new(
        "op",
        ParamKind::Word(OPS),
        "open-stat,small-read,small-write,create,unlink",
        true,
        "what is done to each file",
    ),
    Param::new(
        "files",
        ParamKind::Count,
        "200",
        true,
        "number of files, 100 in a directory",
    ),
    Param::new(
        "file_size",
        ParamKind::Size,
        "16K",
        true,
        "bytes of each file that is read or written",
    ),
    Param::new(
        "cache",
        ParamKind::Word(&["warm", "cold"]),
        "warm",
        true,
        "state of the cache before a reading operation",
    ),
    Param::new(
        "sync",
        ParamKind::Word(&["none", "fsync"]),
        "none",
        true,
        "fsync each new file before it is closed",
    ),
    Param::new(
        "passes",
        ParamKind::Count,
        "0",
        false,
        "times over the files; 0 repeats until the trial is long enough",
    ),
    Param::new(
        "latency",
        ParamKind::Switch,
        "true",
        false,
        "time every operation; false leaves the clock out of the loop",
    ),
];

pub fn points(settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
    let values = params::read(PARAMS, settings)?;
    let mut all: Vec<MetaParams> = Vec::new();
    for map in values.combinations(PARAMS)? {
        let mut p: MetaParams = serde_json::from_value(Value::Object(map))
            .map_err(|e| PointError::new(format!("meta: {e}")))?;
        if p.op.writes() {
            p.cache = Cache::Warm;
        }
        if p.op == Op::Create {
            p.file_size = 0; // they are empty
        }
        if !p.op.syncs() {
            p.sync = Sync::None;
        }
        check(&p)?;
        if (scale - 1.0).abs() > f64::EPSILON {
            p.files = params::scaled(p.files, scale);
            check(&p)?;
        }
        if !all.contains(&p) {
            all.push(p);
        }
    }
    all_have_effect(&values, &all)?;
    let labels = params::labels(settings, &all, full_label, parts);
    labels
        .into_iter()
        .zip(&all)
        .map(|(label, p)| Point::new("meta", label, p))
        .collect()
}

fn all_have_effect(values: &params::Values, points: &[MetaParams]) -> Result<(), PointError> {
    let gave = |name, word| values.given(name) && values.all(name).iter().any(|v| v == word);
    if gave("sync", "fsync") && points.iter().all(|p| p.sync == Sync::None) {
        return Err(
            PointError::new("meta: `sync` = fsync has no effect on these operations")
                .hint("small-write and create can be synced"),
        );
    }
    if gave("cache", "cold") && points.iter().all(|p| p.cache == Cache::Warm) {
        return Err(
            PointError::new("meta: `cache` = cold has no effect on these operations")
                .hint("open-stat and small-read can be cold"),
        );
    }
    Ok(())
}

/// What a point may be. Asked when a plan is read, and again in the probe.
pub fn check(p: &MetaParams) -> Result<(), PointError> {
    let error = |name: &str, value: String, must: &str| {
        Err(PointError::new(format!(
            "meta: {}: `{name}` = {value}: {must}",
            p.op.id()
        )))
    };
    if p.files == 0 || p.files > limits::FILES {
        return error("files", p.files.to_string(), "between 1 and 1000000 files");
    }
    if p.file_size > 16 << 20 {
        return error(
            "file_size",
            format_size(p.file_size),
            "a small file has up to 16M; the workload `file` has larger ones",
        );
    }
    if p.file_size == 0 && matches!(p.op, Op::SmallRead | Op::SmallWrite) {
        return error(
            "file_size",
            "0".into(),
            "there would be nothing to read or write",
        );
    }
    if p.passes > limits::PASSES {
        return error("passes", p.passes.to_string(), "up to 1000000 passes");
    }
    if p.cache == Cache::Cold && p.passes > 1 {
        return error(
            "passes",
            p.passes.to_string(),
            "a cold point is made in one pass: a second one would be warm",
        );
    }
    Ok(())
}

fn full_label(p: &MetaParams) -> String {
    let parts = parts(p);
    let mut label = format!("{} {} {}", parts[0], parts[1], parts[2])
        .trim_end()
        .to_owned();
    for part in parts[3..].iter().filter(|p| !p.is_empty()) {
        label.push_str(", ");
        label.push_str(part);
    }
    label
}

fn parts(p: &MetaParams) -> Vec<String> {
    let when = |on: bool, text: &str| if on { text.to_owned() } else { String::new() };
    vec![
        p.op.id().into(),
        format!("{} files", p.files),
        when(
            p.op != Op::Create,
            &format!("of {}", format_size(p.file_size)),
        ),
        when(
            !p.op.writes(),
            if p.cache == Cache::Cold {
                "cold"
            } else {
                "warm"
            },
        ),
        when(p.sync == Sync::Fsync, "fsync"),
        when(p.passes > 0, &format!("{} passes", p.passes)),
        when(!p.latency, "no latency"),
    ]
}
