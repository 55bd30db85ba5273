//! Parameters of the workload `meta`.

use std::time::Duration;

use layermark_model::{ONE_DIRECTORY, PointError, Quantity, format_size, parse_duration};
use serde::{Deserialize, Serialize};

pub use crate::param::Cache;
use crate::{
    limits,
    param::{self, Params, Title, Values, words},
};

words! {
    /// The operation on each file.
    pub enum MetaOp {
        /// lstat by path.
        Stat = "stat",
        /// open, fstat, close.
        OpenStat = "open-stat",
        /// Open the file's directory, read all its names, close.
        List = "list",
        /// open, read the whole file, close.
        SmallRead = "small-read",
        /// Create, write the whole file, (sync), close.
        SmallWrite = "small-write",
        /// Create an empty file, (sync), close.
        Create = "create",
        /// Change the permissions of a file by path.
        SetAttr = "set-attr",
        /// Remove a file.
        Unlink = "unlink",
        /// Change the permissions of a packaged file for the first time.
        FirstChmod = "first-chmod",
        /// Set the owner of a packaged file for the first time, to the same one.
        FirstChown = "first-chown",
        /// Rename a packaged file that nothing has changed.
        FirstRename = "first-rename",
        /// Give a packaged file that nothing has changed another name.
        FirstLink = "first-link",
        /// Open a packaged file for writing for the first time, close.
        FirstOpen = "first-open",
    }
}

impl MetaOp {
    /// Whether it changes the directory or the file.
    pub fn writes(self) -> bool {
        matches!(self, Self::SmallWrite | Self::Create) || self.on_written() || self.first()
    }

    /// Whether it can be done once to a packaged file, and later ones are other work: a layer that
    /// keeps packaged files apart copies them at the first.
    pub fn first(self) -> bool {
        matches!(
            self,
            Self::FirstChmod
                | Self::FirstChown
                | Self::FirstRename
                | Self::FirstLink
                | Self::FirstOpen
        )
    }

    /// Whether it works on packaged files.
    pub fn packaged(self) -> bool {
        !self.writes() || self.first()
    }

    /// Whether it changes files that were made and written to the disk before.
    pub fn on_written(self) -> bool {
        matches!(self, Self::Unlink | Self::SetAttr)
    }

    /// Bytes that one operation moves, with files of `size` bytes.
    pub fn moves(self, size: u64) -> u64 {
        match self {
            Self::SmallRead | Self::SmallWrite => size,
            _ => 0,
        }
    }

    /// Whether it has a file descriptor that could be synced.
    pub fn syncs(self) -> bool {
        matches!(self, Self::SmallWrite | Self::Create)
    }
}

words! {
    /// Durability of a file when it is closed.
    pub enum MetaSync {
        /// None.
        None = "none",
        /// fsync(2) of each file before its close.
        Fsync = "fsync",
    }
}

type Row = param::Row<MetaParams>;

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetaParams {
    pub op: MetaOp,
    pub files: u64,
    pub file_size: u64,
    pub cache: Cache,
    pub sync: MetaSync,
    pub passes: u64,
    pub latency: bool,
    /// Absent where empty, so that points of older runs keep their key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rest: String,
    /// Absent where it is the default, for the same reason.
    #[serde(default = "per_directory", skip_serializing_if = "is_per_directory")]
    pub per_directory: u64,
    /// Absent where it is not set, for the same reason.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_directory: bool,
}

/// Files in one directory.
const PER_DIRECTORY: u64 = 100;

fn per_directory() -> u64 {
    PER_DIRECTORY
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_per_directory(files: &u64) -> bool {
    *files == PER_DIRECTORY
}

/// Longest time for which files rest.
const LONGEST_REST: Duration = Duration::from_secs(30);

impl MetaParams {
    /// Time for which nothing looks at the files before the clock starts.
    pub fn rest(&self) -> Duration {
        parse_duration(&self.rest).unwrap_or_default()
    }

    /// First words of a label.
    fn title(&self) -> Title {
        let (op, files) = (self.op.id(), self.files);
        let of = match self.op {
            MetaOp::Create => String::new(),
            _ => format!(" of {}", format_size(self.file_size)),
        };
        if self.op != MetaOp::List {
            let title = format!("{op} {files} files{of}");
            return (title, &["op", "files", "file_size"]);
        }
        // An operation lists one directory.
        let each = self.per_directory;
        let title = if files <= each {
            format!("{op} a directory of {files} files{of}")
        } else {
            let up_to = if files.is_multiple_of(each) {
                ""
            } else {
                "up to "
            };
            format!("{op} directories of {up_to}{each} files, {files} files{of}")
        };
        (title, &["op", "files", "file_size", "per_directory"])
    }

    /// Whether a second pass would find another state.
    pub fn once(&self) -> bool {
        let looks_once = self.cache == Cache::Cold || !self.rest().is_zero();
        self.op.first() || !self.op.writes() && looks_once
    }
}

impl Params for MetaParams {
    const ID: &'static str = "meta";
    const TABLE: &'static [Row] = &[
        Row::word(
            "op",
            MetaOp::WORDS,
            "open-stat,small-read,small-write,create,unlink",
        )
        .list()
        .help("what is done to each file; first-...: to a packaged file, once after it was put back, each in a turn of its own")
        .says(|p| Some(p.op.id().into()))
            .title(|p| Some(p.title())),
        Row::count("files", "200")
            .list()
            .range(1, limits::FILES)
            .help("number of files")
            .label(|p| Some(format!("{} files", p.files))),
        Row::size("file_size", "16K")
            .list()
            .range(0, limits::SMALL_FILE)
            .help("bytes of each file")
            .label(|p| {
                (p.op != MetaOp::Create).then(|| format!("of {}", format_size(p.file_size)))
            })
            .part(|p| (p.file_size > 0).then(|| format!("{} file", format_size(p.file_size))))
            .axis(Quantity::RequestSize, |p| p.op.moves(p.file_size)),
        Row::word("cache", Cache::WORDS, "warm")
            .list()
            .only("open-stat or small-read", |p| !p.op.writes())
            .help("state of the cache before a reading operation")
            .says(|p| (!p.op.writes()).then(|| p.cache.id().into())),
        Row::word("sync", MetaSync::WORDS, "none")
            .list()
            .only("small-write or create", |p| p.op.syncs())
            .help("fsync each new file before it is closed")
            .says(|p| (p.sync == MetaSync::Fsync).then(|| p.sync.id().into())),
        Row::count("passes", "0")
            .range(0, limits::PASSES)
            .help("passes over the files; 0 repeats until the trial is long enough")
            .label(|p| (p.passes > 0).then(|| format!("{} passes", p.passes))),
        Row::switch("latency", "true")
            .help("time every operation; false leaves the clock out of the loop")
            .label(|p| (!p.latency).then(|| "no latency".into())),
        Row::text("rest", "")
            .only("a warm reading operation", |p| !p.op.writes() && p.cache == Cache::Warm)
            .help("time for which nothing looks at the files before the clock starts, as between two commands: many layers remember names for a second")
            .says(|p| (!p.rest().is_zero()).then(|| format!("after {}", p.rest))),
        Row::count("per_directory", "100")
            .list()
            .range(1, limits::FILES)
            .help("files in one directory: `list` reads the names of one directory at a time")
            .label(|p| {
                let other = !is_per_directory(&p.per_directory);
                other.then(|| format!("{} in a directory", p.per_directory))
            }),
        Row::switch(ONE_DIRECTORY, "false")
            .only("create, small-write, set-attr or unlink", |p| !p.op.packaged())
            .help("all hosts of a fleet make their files in one directory on the share, each under names of its own")
            .says(|p| p.one_directory.then(|| "one directory of all hosts".into())),
    ];

    /// New files of `create` are empty.
    fn derive(mut self, _: &Values) -> Result<Vec<Self>, PointError> {
        if self.op == MetaOp::Create {
            self.file_size = 0;
        }
        Ok(vec![self])
    }

    fn scale(&mut self, scale: f64, _: &Values) {
        self.files = param::scaled(self.files, scale);
    }

    fn check(&self) -> Result<(), PointError> {
        let error = |name: &str, value: u64, why: &str| {
            let op = self.op.id();
            let what = format!(" = {value}: {why}");
            Err(PointError::of_operation("meta", op, name, what))
        };
        if !self.rest.is_empty() {
            let rest = parse_duration(&self.rest)
                .map_err(|e| PointError::of("meta", "rest", format!(": {e}")))?;
            if rest > LONGEST_REST {
                let what = format!(" = {}: it must be at most 30s", self.rest);
                return Err(
                    PointError::of("meta", "rest", what).hint("write a time such as 1200ms")
                );
            }
        }
        if self.file_size == 0 && matches!(self.op, MetaOp::SmallRead | MetaOp::SmallWrite) {
            return error("file_size", 0, "there would be nothing to read or write");
        }
        if self.once() && self.passes > 1 {
            let why = if self.op.first() {
                "it is done once to each file"
            } else {
                "a cold point, and one with `rest`, is made in one pass: a second one would be warm"
            };
            return error("passes", self.passes, why);
        }
        Ok(())
    }
}
