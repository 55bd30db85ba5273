//! Parameters of the workload `file`: what they are, what they may be, what they are called.

use layermark_model::{Param, ParamKind, Point, PointError, Settings};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use super::op::{Cache, Op, Sync};
use super::{
    check::check,
    label::{full_label, parts},
    matrix,
};
use crate::{
    data::Pattern,
    engines::{self, Seek},
    params,
};

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)] // switches that a user sets one by one
pub struct FileParams {
    pub op: Op,
    pub record: u64,
    pub file_size: u64,
    pub threads: u64,
    /// Files that one thread goes over once each, where a second time would find them changed.
    #[serde(default = "one")]
    pub files: u64,
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
    /// Records from one read to the next, for `stride-read`; else 0.
    #[serde(default)]
    pub stride: u64,
    /// Bytes from one read to the next, for `seek-read`; else 0.
    #[serde(default)]
    pub distance: u64,
    /// Percent of the threads that read, for `mix`; else 0.
    #[serde(default)]
    pub read_share: u64,
    /// Records of one call, for the engine `preadv`; else 0.
    #[serde(default)]
    pub vectors: u64,
    /// Milliseconds that a trial's passes last at least; 0: what the lab thinks right.
    #[serde(default)]
    pub min_ms: u64,
    /// A file that is overwritten stays for later trials of its size.
    #[serde(default)]
    pub keep: bool,
    /// What is left to be written is not counted. A new file goes as it is.
    #[serde(default)]
    pub no_debt: bool,
    /// Bytes of one write that makes the file, of operations that overwrite one; 0: those of one
    /// operation.
    #[serde(default)]
    pub fill_record: u64,
    /// The kernel is not told of the order. Points that were stored before it could be, were not.
    #[serde(default = "yes")]
    pub no_advice: bool,
}

impl FileParams {
    /// Bytes of one operation: a record, or several where a call takes them.
    pub fn unit(&self) -> u64 {
        self.record.saturating_mul(self.vectors.max(1))
    }

    /// The same work, whether its debt is waited for or not.
    pub fn is_like(&self, other: &Self) -> bool {
        // Most differ in these, which cost no copy.
        let cell = |p: &Self| (p.op, p.record, p.file_size);
        cell(self) == cell(other)
            && Self {
                no_debt: other.no_debt,
                ..self.clone()
            } == *other
    }

    /// Whether what it leaves to be written is waited for and counted.
    pub fn owes(&self) -> bool {
        self.op.writes() && self.sync.leaves_debt() && !self.no_debt
    }

    /// Bytes of one write that makes the file, where the point overwrites one. The pages of a file
    /// are as large as the writes that made it, but never smaller than a page.
    pub fn filled_with(&self) -> Option<u64> {
        let asked = if self.fill_record > 0 {
            self.fill_record
        } else {
            self.unit()
        };
        let page = rustix::param::page_size() as u64;
        let some = self.op.overwrites();
        some.then(|| asked.max(page).min(self.file_size))
    }

    /// Operations of once over a file.
    pub fn ops(&self) -> u64 {
        let units = self.file_size / self.unit();
        match self.op {
            Op::FirstWrite => 1,
            Op::SeekRead => Seek::new(self.distance / self.unit()).ops(units),
            _ => units,
        }
    }

    /// What one thread does. Of a mix the first one reads, then they take turns by the share.
    pub fn role(&self, thread: u64) -> Op {
        if self.op != Op::Mix {
            return self.op;
        }
        let readers = |threads: u64| threads.saturating_mul(self.read_share).div_ceil(100);
        if readers(thread + 1) > readers(thread) {
            Op::RandRead
        } else {
            Op::RandWrite
        }
    }

    /// Files that there are: one for each thread, or several for one.
    pub fn files_in_all(&self) -> u64 {
        self.threads.max(self.files)
    }

    /// Threads that write.
    pub fn writers(&self) -> u64 {
        (0..self.threads)
            .filter(|thread| self.role(*thread).writes())
            .count() as u64
    }
}

fn one() -> u64 {
    1
}

fn yes() -> bool {
    true
}

const OPS: &[&str] = &[
    "write",
    "rewrite",
    "read",
    "reread",
    "rand-read",
    "rand-write",
    "first-write",
    "backward-read",
    "stride-read",
    "seek-read",
    "record-rewrite",
    "append",
    "mix",
];
const SYNCS: &[&str] = &[
    "none",
    "close",
    "fsync",
    "fdatasync",
    "fsync-close",
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
        "files",
        ParamKind::Count,
        "1",
        false,
        "first-write, and cold reads in order: files that a trial takes one after the other, each in a turn of its own",
    ),
    Param::new(
        "sync",
        ParamKind::Word(SYNCS),
        "none",
        true,
        "how durable a write is when its clock stops; fsync-close is both inside the clock, each an fsync after every record",
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
        true,
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
        ParamKind::Word(&["random", "zeros", "a", "a-crlf", "text"]),
        "random",
        false,
        "what is written: random cannot be compressed; a-crlf is the letter A, each record ended as a line",
    ),
    Param::new(
        "stride",
        ParamKind::Count,
        "17",
        true,
        "stride-read: records from one read to the next",
    ),
    Param::new(
        "distance",
        ParamKind::Size,
        "64K",
        true,
        "seek-read: bytes from one read to the next, there and back; up to half of the file",
    ),
    Param::new(
        "read_share",
        ParamKind::Count,
        "50",
        true,
        "mix: percent of the threads that read",
    ),
    Param::new(
        "vectors",
        ParamKind::Count,
        "16",
        true,
        "engine preadv: records of one call, which is one operation",
    ),
    Param::new(
        "min_ms",
        ParamKind::Count,
        "0",
        false,
        "repeat short passes for so many milliseconds; 0: for 50, and 200 operations [in a matrix: 1]",
    ),
    Param::new(
        "keep",
        ParamKind::Switch,
        "false",
        false,
        "rewrite, rand-write, record-rewrite, mix: go over a file that stays for later trials of its size, instead of making one for each [in a matrix: true]",
    ),
    Param::new(
        "no_debt",
        ParamKind::Switch,
        "false",
        false,
        "writes without a flush: what was left to write is not counted; a new file goes before it reaches the disk, another is flushed [in a matrix: true, but with the largest record of each file]",
    ),
    Param::new(
        "fill_record",
        ParamKind::Size,
        "0",
        false,
        "rewrite, rand-write, record-rewrite, mix: bytes of one write that makes the file, a page at least; 0: as many as an operation has. Large ones make large pages, which are quicker to write",
    ),
    Param::new(
        "no_advice",
        ParamKind::Switch,
        "false",
        false,
        "do not tell the kernel whether the file is gone over in order or at random, as fio does (fadvise) [in a matrix: true, as iozone]",
    ),
    Param::new(
        "matrix",
        ParamKind::Word(&["none", "iozone"]),
        "none",
        false,
        "iozone: every file size with every record size and test, as `iozone -a`; on the command line 3 blocks of it, unless --blocks, --budget, --precision or --profile says otherwise",
    ),
    Param::new(
        "tests",
        ParamKind::Word(matrix::IDS),
        "usual",
        true,
        "matrix: its tests; usual is write to fread, of iozone's 0 to 7",
    ),
    Param::new(
        "min_file_size",
        ParamKind::Size,
        "64K",
        false,
        "matrix: smallest file",
    ),
    Param::new(
        "max_file_size",
        ParamKind::Size,
        "512M",
        false,
        "matrix: largest file",
    ),
    Param::new(
        "no_cut_off",
        ParamKind::Switch,
        "false",
        false,
        "matrix: records below 64K for files above 16M too",
    ),
    Param::new(
        "no_retest",
        ParamKind::Switch,
        "false",
        false,
        "matrix: no rewrite and no reread",
    ),
    Param::new(
        "like",
        ParamKind::Text,
        "",
        false,
        "iozone's own letters, such as \"-Racb -g 64M\"; docs/src/iozone.md has them",
    ),
];

/// Settings expanded to points, in the order of the parameters.
pub fn points(settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
    let (settings, matrix) = matrix::read(settings)?;
    let values = params::read(PARAMS, &settings)?;
    let all = match matrix {
        Some(matrix) => matrix.expand(&values, scale)?,
        None => expand(&values, scale)?,
    };
    all_have_effect(&values, &all)?;
    let labels = params::labels(&settings, &all, full_label, parts);
    labels
        .into_iter()
        .zip(&all)
        .map(|(label, p)| Point::new("file", label, p))
        .collect()
}

/// Every combination of values, each once.
pub fn expand(values: &params::Values, scale: f64) -> Result<Vec<FileParams>, PointError> {
    let mut all: Vec<FileParams> = Vec::new();
    for mut map in values.combinations(PARAMS)? {
        for key in matrix::KEYS {
            map.remove(key);
        }
        let mut p: FileParams = serde_json::from_value(Value::Object(map))
            .map_err(|e| PointError::new(format!("file: {e}")))?;
        only_its_own(&mut p);
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
    Ok(all)
}

/// Parameters that mean nothing to the point's operation or engine are as if not given, so that
/// equal work is one point.
fn only_its_own(p: &mut FileParams) {
    if p.op != Op::StrideRead {
        p.stride = 0;
    }
    if p.op != Op::SeekRead {
        p.distance = 0;
    }
    if p.op != Op::Mix {
        p.read_share = 0;
    }
    p.keep &= p.op.overwrites();
    if !p.op.overwrites() {
        p.fill_record = 0;
    }
    p.no_advice &= p.op.advice().is_some();
    p.no_debt &= (p.op.makes() || p.op.overwrites()) && p.sync.leaves_debt();
    if p.engine == "preadv" && p.record > 0 {
        // A file of fewer records makes shorter calls.
        p.vectors = p.vectors.min(p.file_size / p.record);
    } else {
        p.vectors = 0;
    }
}

/// A smaller file keeps whole records and at least one of them. Where it can, it keeps whole ones
/// of the table's largest record too, so that what differed in the record alone still does. What is
/// searched for in it is as much nearer.
fn scale_file(p: &mut FileParams, scale: f64, records: &[Value]) -> Result<(), PointError> {
    if (scale - 1.0).abs() > f64::EPSILON {
        let size = params::scaled(p.file_size, scale);
        let fits = |r: &u64| *r <= size && r.is_multiple_of(p.record);
        let all = records.iter().filter_map(Value::as_u64);
        let (unit, least) = if p.op == Op::SeekRead {
            (p.unit(), 2)
        } else {
            (all.filter(fits).max().unwrap_or(p.record), 1)
        };
        p.file_size = (size / unit).max(least) * unit;
        p.fill_record = p.fill_record.min(p.file_size);
        if p.op == Op::SeekRead {
            let distance = params::scaled(p.distance, scale).min(p.file_size / 2) / unit;
            p.distance = distance.max(1) * unit;
        }
        only_its_own(p);
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
        return Err(PointError::new(format!(
            "file: `cache` = {v} has no effect on write, append and reread"
        ))
        .hint("a new file is in no cache yet and a second read is always warm: use read, rand-read or rewrite"));
    }
    let numbers = OF_ONE.iter().map(|(name, of, number)| {
        let some = values.all(name).iter().any(|n| *n != 0);
        (name, of, some && points.iter().all(|p| number(p) == 0))
    });
    let switches = OF_SOME.iter().map(|(name, of, switch)| {
        let on = values.flag(name);
        (name, of, on && !points.iter().any(switch))
    });
    let mut idle = numbers
        .chain(switches)
        .filter(|(name, _, idle)| values.given(name) && *idle);
    match idle.next() {
        None => Ok(()),
        Some((name, belongs, _)) => Err(PointError::new(format!(
            "file: `{name}` has no effect without {belongs}"
        ))
        .hint(format!("leave `{name}` out, or add {belongs}"))),
    }
}

type Switch = fn(&FileParams) -> bool;

const OVERWRITES: &str = "an operation that overwrites a file";

/// Switches of some operations, off in the points of others.
const OF_SOME: [(&str, &str, Switch); 3] = [
    ("keep", OVERWRITES, |p| p.keep),
    (
        "no_advice",
        "an operation that goes in order or at random",
        |p| p.no_advice,
    ),
    (
        "no_debt",
        "a write, an append or what overwrites, without a flush",
        |p| p.no_debt,
    ),
];

type Number = fn(&FileParams) -> u64;

/// Parameters of one operation or engine, 0 in the points of others.
const OF_ONE: [(&str, &str, Number); 5] = [
    ("fill_record", OVERWRITES, |p| p.fill_record),
    ("stride", "`op` = stride-read", |p| p.stride),
    ("distance", "`op` = seek-read", |p| p.distance),
    ("read_share", "`op` = mix", |p| p.read_share),
    ("vectors", "`engine` = preadv", |p| p.vectors),
];
