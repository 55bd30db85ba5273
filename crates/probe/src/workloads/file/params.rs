//! Parameters of the workload `file`: what they are, what they may be, what they are called.

use layermark_model::{Param, ParamKind, Point, PointError, Settings, format_size};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use super::words::{Cache, Op, Sync};
use crate::{
    data::{HEADER, Pattern},
    engines, limits, params,
};

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileParams {
    pub op: Op,
    pub record: u64,
    pub file_size: u64,
    pub threads: u64,
    pub sync: Sync,
    pub cache: Cache,
    pub direct: bool,
    pub engine: String,
    #[serde(default = "one")]
    pub iodepth: u64,
    pub passes: u64,
    pub verify: bool,
    pub latency: bool,
    pub pattern: Pattern,
}

fn one() -> u64 {
    1
}

const OPS: &[&str] = &[
    "write",
    "rewrite",
    "read",
    "reread",
    "rand-read",
    "rand-write",
    "first-write",
];
const SYNCS: &[&str] = &[
    "none",
    "close",
    "fsync",
    "fdatasync",
    "each",
    "osync",
    "odsync",
];

pub const PARAMS: &[Param] = &[
    Param::new(
        "op",
        ParamKind::Word(OPS),
        "write,rewrite,read,reread,rand-read,rand-write",
        true,
        "what is done to the file; first-write opens a packaged file for writing and writes one record",
    ),
    Param::new(
        "record",
        ParamKind::Size,
        "4K",
        true,
        "bytes of one read or write",
    ),
    Param::new(
        "file_size",
        ParamKind::Size,
        "64M",
        true,
        "bytes of the file, of each thread's own",
    ),
    Param::new(
        "threads",
        ParamKind::Count,
        "1",
        true,
        "threads, each with a file of its own; with more than one, short passes go over the files several times",
    ),
    Param::new(
        "sync",
        ParamKind::Word(SYNCS),
        "none",
        true,
        "how durable a write is when its clock stops; each is an fsync after every record",
    ),
    Param::new(
        "cache",
        ParamKind::Word(&["warm", "cold"]),
        "warm",
        true,
        "state of the cache before the clock starts",
    ),
    Param::new(
        "direct",
        ParamKind::Switch,
        "false",
        false,
        "O_DIRECT: past the page cache, tried and proved",
    ),
    Param::new(
        "engine",
        ParamKind::Word(engines::IDS),
        "pread",
        false,
        "how a record is read or written",
    ),
    Param::new(
        "iodepth",
        ParamKind::Count,
        "1",
        true,
        "operations under way at once in each thread; only engine uring has more than one",
    ),
    Param::new(
        "passes",
        ParamKind::Count,
        "0",
        false,
        "times over the file; 0 repeats until the trial is long enough",
    ),
    Param::new(
        "verify",
        ParamKind::Switch,
        "false",
        false,
        "check the data: writes after the clock has stopped, reads record by record with the clock paused and the whole file once more at the end; a part of a 4K block only at the end",
    ),
    Param::new(
        "latency",
        ParamKind::Switch,
        "true",
        false,
        "time every operation; false leaves the clock out of the loop",
    ),
    Param::new(
        "pattern",
        ParamKind::Word(&["random", "zeros", "a", "text"]),
        "random",
        false,
        "what is written: random cannot be compressed",
    ),
];

/// Settings expanded to points, in the order of the parameters.
pub fn points(settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
    let values = params::read(PARAMS, settings)?;
    let mut all: Vec<FileParams> = Vec::new();
    for map in values.combinations(PARAMS)? {
        let mut p: FileParams = serde_json::from_value(Value::Object(map))
            .map_err(|e| PointError::new(format!("file: {e}")))?;
        check(&p)?;
        if !p.op.writes() {
            p.sync = Sync::None;
        }
        if !p.op.cacheable() {
            p.cache = Cache::Warm;
        }
        if p.op == Op::FirstWrite {
            p.passes = 1;
        }
        scale_file(&mut p, scale, values.all("record"))?;
        if !all.contains(&p) {
            all.push(p);
        }
    }
    all_have_effect(&values, &all)?;
    let labels = params::labels(settings, &all, full_label, parts);
    labels
        .into_iter()
        .zip(&all)
        .map(|(label, p)| Point::new("file", label, p))
        .collect()
}

/// A smaller file keeps whole records and at least one of them. Where it can, it keeps whole ones
/// of the table's largest record too, so that what differed in the record alone still does.
fn scale_file(p: &mut FileParams, scale: f64, records: &[Value]) -> Result<(), PointError> {
    if (scale - 1.0).abs() > f64::EPSILON {
        let size = params::scaled(p.file_size, scale);
        let fits = |r: &u64| *r <= size && r.is_multiple_of(p.record);
        let all = records.iter().filter_map(Value::as_u64);
        let unit = all.filter(fits).max().unwrap_or(p.record);
        p.file_size = (size / unit).max(1) * unit;
        check(p)?;
    }
    Ok(())
}

/// A value that the user gave and no point obeys would be a silent lie.
fn all_have_effect(values: &params::Values, points: &[FileParams]) -> Result<(), PointError> {
    let unused = |name: &'static str, of: &dyn Fn(&FileParams) -> &'static str| {
        let used: Vec<&str> = points.iter().map(of).collect();
        let given = if values.given(name) {
            values.all(name)
        } else {
            &[]
        };
        given
            .iter()
            .filter_map(Value::as_str)
            .find(|v| !used.contains(v))
            .map(str::to_owned)
    };
    let cache = |p: &FileParams| {
        if p.cache == Cache::Warm {
            "warm"
        } else {
            "cold"
        }
    };
    if let Some(v) = unused("sync", &|p| p.sync.id()) {
        return Err(PointError::new(format!(
            "file: `sync` = {v} has no effect on operations that only read"
        ))
        .hint("leave `sync` out, or add an operation that writes"));
    }
    if let Some(v) = unused("cache", &cache) {
        return Err(PointError::new(format!("file: `cache` = {v} has no effect on write and reread"))
            .hint("a new file is in no cache yet and a second read is always warm: use read, rand-read or rewrite"));
    }
    Ok(())
}

fn error(p: &FileParams, name: &str, value: &str, must: &str) -> PointError {
    PointError::new(format!("file: {}: `{name}` = {value}: {must}", p.op.id()))
}

/// What a point may be. Asked when a plan is read, and again in the probe.
pub fn check(p: &FileParams) -> Result<(), PointError> {
    let size = |name, bytes, must: &str| Err(error(p, name, &format_size(bytes), must));
    if p.record == 0 {
        return Err(
            error(p, "record", "0", "a record has at least 1 byte").hint("write a size such as 4K")
        );
    }
    if p.file_size > limits::FILE_SIZE {
        return size("file_size", p.file_size, "a file may have up to 16T");
    }
    if p.record > p.file_size {
        let must = format!(
            "a record cannot be larger than its file ({})",
            format_size(p.file_size)
        );
        return size("record", p.record, &must)
            .map_err(|e| e.hint("make `record` smaller or `file_size` larger"));
    }
    if p.threads == 0 || p.threads > limits::THREADS {
        return Err(error(
            p,
            "threads",
            &p.threads.to_string(),
            "between 1 and 256 threads",
        ));
    }
    check_depth(p)?;
    if p.record > limits::RECORD || p.record * p.threads * p.iodepth > limits::BUFFERS {
        return size(
            "record",
            p.record,
            "up to 256M a record and 1G for all threads together, with all that they have under way",
        )
        .map_err(|e| e.hint("use a smaller `record`, `iodepth` or fewer `threads`"));
    }
    if p.passes > limits::PASSES {
        return Err(error(
            p,
            "passes",
            &p.passes.to_string(),
            "up to 1000000 passes",
        ));
    }
    check_mixed(p)
}

/// More than one operation under way, where the engine can and it means something.
fn check_depth(p: &FileParams) -> Result<(), PointError> {
    let wrong = |must: &str| Err(error(p, "iodepth", &p.iodepth.to_string(), must));
    if p.iodepth == 0 || p.iodepth > limits::DEPTH {
        return wrong("between 1 and 1024 operations under way");
    }
    if p.iodepth == 1 {
        return Ok(());
    }
    if !engines::find(&p.engine).is_some_and(engines::Engine::queues) {
        let must = format!("engine {} has one operation under way at a time", p.engine);
        return wrong(&must).map_err(|e| e.hint("use engine uring, or `threads`"));
    }
    if p.sync == Sync::Each || p.op == Op::FirstWrite {
        return wrong("a flush after every record, or a single write, leaves one under way");
    }
    if p.verify {
        return wrong("`verify` looks at each record between two operations")
            .map_err(|e| e.hint("verify at iodepth 1"));
    }
    Ok(())
}

/// Parameters that do not go together.
fn check_mixed(p: &FileParams) -> Result<(), PointError> {
    let record = format_size(p.record);
    if p.direct && !p.record.is_multiple_of(512) {
        return Err(error(
            p,
            "record",
            &record,
            "O_DIRECT needs a multiple of the device's block",
        )
        .hint("use a multiple of 4K, or 512 where the device takes it"));
    }
    if p.verify && p.record < HEADER as u64 {
        return Err(error(
            p,
            "record",
            &record,
            "`verify` needs at least 32 bytes for its header",
        ));
    }
    let null = engines::find(&p.engine).is_some_and(|e| !e.needs_file());
    if null && (p.verify || p.direct || p.op == Op::FirstWrite || p.cache == Cache::Cold) {
        return Err(error(
            p,
            "engine",
            &p.engine,
            "it touches no file, so there is nothing to verify, cool or open",
        )
        .hint("use engine pread or sync"));
    }
    if engines::find(&p.engine).is_none() {
        return Err(error(p, "engine", &p.engine, "no such engine"));
    }
    let once = p.op == Op::FirstWrite || (p.cache == Cache::Cold && p.op.cacheable());
    if once && p.passes > 1 {
        return Err(error(
            p,
            "passes",
            &p.passes.to_string(),
            "a cold point or a first write is made in one pass",
        )
        .hint(
            "leave `passes` out: a second pass would be warm, and the lab repeats trials anyway",
        ));
    }
    Ok(())
}

fn full_label(p: &FileParams) -> String {
    let parts = parts(p);
    let (head, tail) = parts.split_at(3);
    let mut label = format!(
        "{} {} of {}",
        head[0],
        head[1],
        head[2].trim_start_matches("file ")
    );
    for part in tail.iter().filter(|p| !p.is_empty()) {
        label.push_str(", ");
        label.push_str(part);
    }
    label
}

/// One text for each parameter; empty where it is the default and need not be said.
fn parts(p: &FileParams) -> Vec<String> {
    let when = |on: bool, text: &str| if on { text.to_owned() } else { String::new() };
    let cache = if p.cache == Cache::Cold {
        "cold"
    } else {
        "warm"
    };
    vec![
        p.op.id().into(),
        format_size(p.record),
        format!("file {}", format_size(p.file_size)),
        when(
            p.cache == Cache::Cold || (p.op != Op::Write && !p.direct),
            cache,
        ),
        when(p.op.writes() && p.sync != Sync::None, p.sync.id()),
        when(p.threads > 1, &format!("{} threads", p.threads)),
        when(p.direct, "O_DIRECT"),
        when(p.engine != "pread", &format!("engine {}", p.engine)),
        when(p.iodepth > 1, &format!("iodepth {}", p.iodepth)),
        when(
            p.passes > 0 && p.op != Op::FirstWrite,
            &format!("{} passes", p.passes),
        ),
        when(p.verify, "verified"),
        when(!p.latency, "no latency"),
        when(
            p.pattern != Pattern::Random,
            match p.pattern {
                Pattern::Zeros => "zeros",
                Pattern::A => "letter A",
                _ => "text",
            },
        ),
    ]
}
