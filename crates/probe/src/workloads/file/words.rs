//! The words that parameters of `file` take.

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
}

impl Op {
    pub fn writes(self) -> bool {
        matches!(
            self,
            Self::Write | Self::Rewrite | Self::RandWrite | Self::FirstWrite
        )
    }
    /// Works on files that the layer comes with.
    pub fn packaged(self) -> bool {
        matches!(
            self,
            Self::Read | Self::Reread | Self::RandRead | Self::FirstWrite
        )
    }
    /// Whether the state of the cache before it can be chosen: a new file has none, a second
    /// read is warm by its nature.
    pub fn cacheable(self) -> bool {
        !matches!(self, Self::Write | Self::Reread)
    }
    pub fn random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite)
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
    /// fsync(2) after each record.
    Each,
    /// Opened with `O_SYNC`.
    Osync,
    /// Opened with `O_DSYNC`.
    Odsync,
}

impl Sync {
    pub fn id(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Close => "close",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
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
