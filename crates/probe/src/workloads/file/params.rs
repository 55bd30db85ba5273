//! Parameters of the workload `file`.

use layermark_model::{Pattern, Quantity, format_size};
use serde::{Deserialize, Serialize};

pub use super::op::{Op, Sync};
pub use crate::param::Cache;
use crate::{
    engines::{self, MOST_VECTORS, Seek},
    limits,
    param::{self, Title},
};

type Row = param::Row<FileParams>;

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)] // switches that a user sets one by one
pub struct FileParams {
    pub op: Op,
    pub record: u64,
    pub file_size: u64,
    pub threads: u64,
    /// Number of files that one thread covers once each, for operations after which a second pass
    /// would find them changed.
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
    /// Distance between two reads in records, for `stride-read`; else 0.
    #[serde(default)]
    pub stride: u64,
    /// Distance between two reads in bytes, for `seek-read`; else 0.
    #[serde(default)]
    pub distance: u64,
    /// Percent of the threads that read, for `mix`; else 0.
    #[serde(default)]
    pub read_share: u64,
    /// Records per call, for the engine `preadv`; else 0.
    #[serde(default)]
    pub vectors: u64,
    /// Minimum duration of a trial's passes, milliseconds; 0: the lab decides.
    #[serde(default)]
    pub min_ms: u64,
    /// Whether an overwritten file is kept for later trials of its size.
    #[serde(default)]
    pub keep: bool,
    /// Whether debt is ignored. A new file is removed without a flush.
    #[serde(default)]
    pub no_debt: bool,
    /// Size of the writes that make a file to be overwritten, bytes; 0: the size of one operation.
    #[serde(default)]
    pub fill_record: u64,
    /// Whether the kernel gets no advice. Points stored before the parameter existed had none.
    #[serde(default = "yes")]
    pub no_advice: bool,
}

fn one() -> u64 {
    1
}

fn yes() -> bool {
    true
}

const OVERWRITES: &str = "an operation that overwrites a file";

/// In the order of labels and help.
pub const TABLE: &[Row] = &[
    Row::word("op", Op::WORDS, "write,rewrite,read,reread,rand-read,rand-write")
        .list()
        .help("what is done to the file; first-write opens a packaged file for writing and writes one record")
        .says(|p| Some(p.op.id().into()))
        .title(|p| Some(p.title())),
    Row::size("record", "4K")
        .list()
        .range(1, limits::RECORD)
        .help("bytes of one read or write")
        .label(|p| Some(format_size(p.record)))
        .part(|p| Some(format!("{} records", format_size(p.record))))
        .axis(Quantity::RequestSize, |p| p.record),
    Row::size("file_size", "64M")
        .list()
        .range(1, limits::FILE_SIZE)
        .help("bytes of the file of each thread")
        .label(|p| Some(format!("file {}", format_size(p.file_size))))
        .part(|p| Some(format!("{} file", format_size(p.file_size))))
        .axis(Quantity::DataSize, |p| p.file_size),
    Row::word("cache", Cache::WORDS, "warm")
        .list()
        .only("an operation on a file that may be cached: not write, append, reread", |p| p.op.cacheable())
        .help("state of the cache before the clock starts")
        .label(|p| {
            let said = p.cache == Cache::Cold || (!p.op.makes() && !p.direct);
            said.then(|| p.cache.id().into())
        })
        .part(|p| (!p.op.writes()).then(|| p.cache.id().into())),
    Row::word("sync", Sync::WORDS, "none")
        .list()
        .only("an operation that writes", |p| p.op.writes())
        .help("how durable a write is when its clock stops; fsync and fdatasync are one flush at the end, fsync-close is both inside the clock, each an fsync after every record, each-data an fdatasync")
        .says(|p| (p.sync != Sync::None).then(|| p.flush_words())),
    Row::count("threads", "1")
        .list()
        .range(1, limits::THREADS)
        .help("threads, each with a file of its own; with more than one, a short pass covers the files several times")
        .says(|p| (p.threads > 1).then(|| format!("{} threads", p.threads)))
        .axis(Quantity::Threads, |p| p.threads),
    Row::count("files", "1")
        .range(1, limits::THREADS)
        .help("first-write, and sequential cold reads: files that a trial covers one after the other, each in its own turn")
        .label(|p| (p.files > 1).then(|| format!("{} files", p.files))),
    Row::switch("direct", "false")
        .help("O_DIRECT: bypass the page cache, tried and proved")
        .says(|p| p.direct.then(|| "O_DIRECT".into())),
    Row::word("engine", engines::IDS, "pread")
        .list()
        .alternative(|_| true)
        .help("how a record is read or written")
        .label(|p| (p.engine != "pread").then(|| format!("engine {}", p.engine)))
        .part(|p| Some(p.engine.clone())),
    Row::count("iodepth", "1")
        .list()
        .range(1, limits::DEPTH)
        .help("operations in flight in each thread; more than one only with engine uring")
        .says(|p| (p.iodepth > 1).then(|| format!("iodepth {}", p.iodepth)))
        .axis(Quantity::QueueDepth, |p| p.iodepth),
    Row::count("vectors", "16")
        .list()
        .range(1, MOST_VECTORS as u64)
        .only("`engine` = preadv", |p| p.engine == "preadv")
        .help("engine preadv: records of one call, which is one operation")
        .label(|p| (![0, 16].contains(&p.vectors)).then(|| format!("{} records a call", p.vectors)))
        .part(|p| (p.vectors > 0).then(|| format!("{} records a call", p.vectors))),
    Row::count("stride", "17")
        .list()
        .range(1, u64::MAX)
        .only("`op` = stride-read", |p| p.op == Op::StrideRead)
        .help("stride-read: records from one read to the next")
        .label(|p| (![0, 17].contains(&p.stride)).then(|| format!("stride {}", p.stride)))
        .part(|p| (p.stride > 0).then(|| format!("{} records a stride", p.stride))),
    Row::size("distance", "64K")
        .list()
        .only("`op` = seek-read", |p| p.op == Op::SeekRead)
        .help("seek-read: bytes from one read to the next, back and forth; at most half of the file")
        .says(|p| (p.distance > 0).then(|| format!("distance {}", format_size(p.distance))))
        .axis(Quantity::Distance, |p| p.distance),
    Row::count("read_share", "50")
        .list()
        .range(0, 100)
        .only("`op` = mix", |p| p.op == Op::Mix)
        .help("mix: percent of the threads that read")
        .label(|p| (![0, 50].contains(&p.read_share)).then(|| format!("{} % readers", p.read_share)))
        .part(|p| (p.read_share > 0).then(|| format!("{} % of threads read", p.read_share))),
    Row::count("passes", "0")
        .range(0, limits::PASSES)
        .help("passes over the file; 0 repeats until the trial is long enough")
        .label(|p| (p.passes > 0 && p.op != Op::FirstWrite).then(|| format!("{} passes", p.passes))),
    Row::size("fill_record", "0")
        .only(OVERWRITES, |p| p.op.overwrites())
        .help("rewrite, rand-write, record-rewrite, mix: bytes of each write that makes the file, at least a page; 0: the size of one operation. Large writes make large pages, which are faster to overwrite")
        .label(|p| (p.fill_record > 0).then(|| format!("made with {}", format_size(p.fill_record)))),
    Row::switch("no_advice", "false")
        .only("an operation in sequential or random order", |p| p.op.advice().is_some())
        .help("do not tell the kernel whether access is sequential or random, as fio does with fadvise [in a matrix: true, as iozone]")
        .label(|p| p.no_advice.then(|| "no advice".into())),
    Row::switch("verify", "false")
        .help("check the data: writes after the clock has stopped; reads record by record while the clock is paused, and the whole file again at the end; parts of a 4K block only at the end")
        .label(|p| p.verify.then(|| "verified".into())),
    Row::switch("latency", "true")
        .help("time every operation; false leaves the clock out of the loop")
        .label(|p| (!p.latency).then(|| "no latency".into())),
    Row::word("pattern", Pattern::WORDS, "random")
        .help("data of the files, with --verify under a header in each block: random cannot be compressed; a-crlf is the letter A with a line end after each record")
        .label(|p| match p.pattern {
            Pattern::Random => None,
            Pattern::A => Some("letter A".into()),
            Pattern::ACrlf => Some("letter A and line ends".into()),
            Pattern::Zeros | Pattern::Text => Some(p.pattern.id().into()),
        }),
    Row::count("min_ms", "0")
        .range(0, limits::TRIAL_MS)
        .help("repeat short passes for this many milliseconds; 0: for 50, and 200 operations [in a matrix: 1]"),
    Row::switch("keep", "false")
        .only(OVERWRITES, |p| p.op.overwrites())
        .help("rewrite, rand-write, record-rewrite, mix: overwrite a file that is kept for later trials of its size, instead of making a new one for each trial [in a matrix: true]"),
    Row::switch("no_debt", "false")
        .only("a write, an append or an overwrite without a flush", |p| {
            (p.op.makes() || p.op.overwrites()) && p.sync.leaves_debt()
        })
        .help("writes without a flush: do not count the time until dirty data is on disk; a new file is removed first, an existing one is flushed [in a matrix: true, except with the largest record of each file]"),
];

/// Rows in the order of a description.
pub const DESCRIPTION: &[&str] = &[
    "op",
    "file_size",
    "record",
    "threads",
    "cache",
    "sync",
    "engine",
    "iodepth",
    "distance",
    "stride",
    "vectors",
    "read_share",
    "direct",
];

impl FileParams {
    /// First words of a label.
    fn title(&self) -> Title {
        let (record, size) = (format_size(self.record), format_size(self.file_size));
        let title = format!("{} {record} of {size}", self.op.id());
        (title, &["op", "record", "file_size"])
    }

    /// How durable a write is, and how many records one flush covers.
    pub fn flush_words(&self) -> String {
        let of_all = !self.sync.leaves_debt() && !self.sync.is_each() && self.ops() > 1;
        let of = if of_all {
            format!(" of {} records", self.ops())
        } else {
            String::new()
        };
        format!("{}{of}", self.sync.id())
    }

    /// Bytes of one operation: a record, or several if a call takes them.
    pub fn unit(&self) -> u64 {
        self.record.saturating_mul(self.vectors.max(1))
    }

    /// The same work, apart from `no_debt`.
    pub fn is_like(&self, other: &Self) -> bool {
        // Most points differ in these, which need no copy.
        let cell = |p: &Self| (p.op, p.record, p.file_size);
        cell(self) == cell(other)
            && Self {
                no_debt: other.no_debt,
                ..self.clone()
            } == *other
    }

    /// Whether its debt is waited for and counted.
    pub fn owes(&self) -> bool {
        self.op.writes() && self.sync.leaves_debt() && !self.no_debt
    }

    /// Size of the writes that make the file, for points that overwrite one. The pages of a file
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

    /// Whether a second pass would find its files changed.
    pub fn once(&self) -> bool {
        self.op == Op::FirstWrite || (self.cache == Cache::Cold && self.op.cacheable())
    }

    /// Whether a pass makes its file while that of the pass before is there, so that layers take turns in the same places on the
    /// disk. A large file has many places, and may not fit twice.
    pub fn changes_places(&self) -> bool {
        const MOST: u64 = 64 << 20;
        let on_disk = self.direct || !self.sync.leaves_debt();
        on_disk && self.op.makes() && !self.keep && self.file_size <= MOST
    }

    /// Whether the engine touches files at all.
    pub fn touches(&self) -> bool {
        engines::find(&self.engine).is_some_and(engines::Engine::needs_file)
    }

    /// Path, below the layer's directory, of the file that trials of one size overwrite in turn.
    pub fn kept_name(&self, thread: u64) -> String {
        format!("kept/data-{}-{thread}", self.file_size)
    }

    /// Path below `packaged/` of a thread's file. Points of one size share it; first writes have
    /// their own, since they change it.
    pub fn packaged_name(&self, thread: u64) -> String {
        let kind = if self.op == Op::FirstWrite {
            "first"
        } else {
            "data"
        };
        let plain = if self.stamps_packaged() { "" } else { "-plain" };
        let pattern = match self.pattern {
            Pattern::Random => String::new(),
            // It depends on the records.
            Pattern::ACrlf => format!("-{}-{}{plain}", self.pattern.id(), self.unit()),
            other => format!("-{}{plain}", other.id()),
        };
        format!("{kind}-{}-{thread}{pattern}", self.file_size)
    }

    /// Whether blocks of packaged files have headers. Data that was asked for has them only to be
    /// verified.
    pub fn stamps_packaged(&self) -> bool {
        self.pattern == Pattern::Random || self.verify
    }

    /// Operations of one pass over a file.
    pub fn ops(&self) -> u64 {
        let units = self.file_size / self.unit();
        match self.op {
            Op::FirstWrite => 1,
            Op::SeekRead => Seek::new(self.distance / self.unit()).ops(units),
            _ => units,
        }
    }

    /// What one thread does. In a mix the first thread reads, and the others are assigned by the
    /// share.
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

    /// Number of files: one per thread, or several for one thread.
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
