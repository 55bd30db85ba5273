//! Values of the parameters of `file`: operation, durability, cache state.

use rustix::fs::Advice;
use serde::{Deserialize, Serialize};

/// What is done to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// A new file, from its start to its end.
    Write,
    /// A file that is there, from start to end, not truncated.
    Rewrite,
    /// A packaged file, from start to end.
    Read,
    /// The same, just after it was read.
    Reread,
    /// Each record of a packaged file once, in random order.
    RandRead,
    /// Each record of a file that is there once, in random order.
    RandWrite,
    /// Open a packaged file for writing and write one record.
    FirstWrite,
    /// A packaged file, from its last record to its first.
    BackwardRead,
    /// Every so-manyth record of a packaged file, then the same from the next one on.
    StrideRead,
    /// There and back over a fixed distance in a packaged file.
    SeekRead,
    /// The first record of a file that is there, as often as the file has records.
    RecordRewrite,
    /// A new file, opened with `O_APPEND`.
    Append,
    /// Some threads read in random order, the others write so.
    Mix,
}

impl Op {
    /// Writes, or some of its threads do.
    pub fn writes(self) -> bool {
        matches!(
            self,
            Self::Write
                | Self::Rewrite
                | Self::RandWrite
                | Self::FirstWrite
                | Self::RecordRewrite
                | Self::Append
                | Self::Mix
        )
    }
    /// Works on a file that the layer comes with.
    pub fn packaged(self) -> bool {
        matches!(
            self,
            Self::Read
                | Self::Reread
                | Self::RandRead
                | Self::FirstWrite
                | Self::BackwardRead
                | Self::StrideRead
                | Self::SeekRead
        )
    }
    /// Each pass makes its file.
    pub fn makes(self) -> bool {
        matches!(self, Self::Write | Self::Append)
    }
    /// Writes over a file that is there and is none of the package's.
    pub fn overwrites(self) -> bool {
        self.writes() && !self.makes() && !self.packaged()
    }
    /// Whether the state of the cache before it can be chosen: a new file has none, a second
    /// read is warm by its nature.
    pub fn cacheable(self) -> bool {
        !self.makes() && self != Self::Reread
    }
    /// What fio tells the kernel of the same order. Where it is the kernel's own guess that an order
    /// puts to the test, nothing is said.
    pub fn advice(self) -> Option<Advice> {
        match self {
            Self::Write | Self::Rewrite | Self::Append | Self::Read | Self::Reread => {
                Some(Advice::Sequential)
            }
            Self::RandRead | Self::RandWrite | Self::Mix => Some(Advice::Random),
            Self::FirstWrite
            | Self::BackwardRead
            | Self::StrideRead
            | Self::SeekRead
            | Self::RecordRewrite => None,
        }
    }
    pub fn id(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Rewrite => "rewrite",
            Self::Read => "read",
            Self::Reread => "reread",
            Self::RandRead => "rand-read",
            Self::RandWrite => "rand-write",
            Self::FirstWrite => "first-write",
            Self::BackwardRead => "backward-read",
            Self::StrideRead => "stride-read",
            Self::SeekRead => "seek-read",
            Self::RecordRewrite => "record-rewrite",
            Self::Append => "append",
            Self::Mix => "mix",
        }
    }
}

/// How durable a write is when its clock stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// Not at all.
    None,
    /// close(2) inside the clock.
    Close,
    /// fsync(2) at the end, inside the clock.
    Fsync,
    /// fdatasync(2) at the end, inside the clock.
    Fdatasync,
    /// fsync(2), then close(2), both inside the clock.
    #[serde(rename = "fsync-close")]
    FsyncClose,
    /// fsync(2) after each record.
    Each,
    /// Opened with `O_SYNC`.
    Osync,
    /// Opened with `O_DSYNC`.
    Odsync,
}

impl Sync {
    /// Whether the file is closed inside the clock.
    pub fn closes(self) -> bool {
        matches!(self, Self::Close | Self::FsyncClose)
    }
    /// Whether dirty data may be left when the clock stops.
    pub fn leaves_debt(self) -> bool {
        matches!(self, Self::None | Self::Close)
    }
    pub fn id(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Close => "close",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::FsyncClose => "fsync-close",
            Self::Each => "each",
            Self::Osync => "osync",
            Self::Odsync => "odsync",
        }
    }
}

/// State of the cache before the clock starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// Read once before.
    Warm,
    /// Emptied, as far as each layer allows; proved afterwards.
    Cold,
}
