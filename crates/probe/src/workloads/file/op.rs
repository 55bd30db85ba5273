//! Operations on the file, and their durability.

use layermark_model::Direction;
use rustix::fs::Advice;

use crate::param::words;

words! {
    /// The operation on the file.
    pub enum Op {
        /// A new file, from its start to its end.
        Write = "write",
        /// An existing file, from start to end, not truncated.
        Rewrite = "rewrite",
        /// A packaged file, from start to end.
        Read = "read",
        /// A packaged file, from start to end, just after it was read.
        Reread = "reread",
        /// Each record of a packaged file once, in random order.
        RandRead = "rand-read",
        /// Each record of an existing file once, in random order.
        RandWrite = "rand-write",
        /// Open a packaged file for writing and write one record.
        FirstWrite = "first-write",
        /// A packaged file, from its last record to its first.
        BackwardRead = "backward-read",
        /// Every n-th record of a packaged file, then every n-th from the second record on, and so
        /// on.
        StrideRead = "stride-read",
        /// Back and forth over a fixed distance in a packaged file.
        SeekRead = "seek-read",
        /// The first record of an existing file, once for each record that the file has.
        RecordRewrite = "record-rewrite",
        /// A new file, opened with `O_APPEND`.
        Append = "append",
        /// Some threads read in random order, the others write in random order.
        Mix = "mix",
    }
}

/// Origin of the file of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileOrigin {
    /// Each pass makes it.
    New,
    /// It is packaged with the layer.
    Packaged,
    /// It is made before the clock starts.
    Existing,
}

impl Op {
    /// Whether it writes, to which file, and the advice (fadvise) that fio gives for this order.
    /// Orders that test the kernel's own guess get no advice.
    fn traits(self) -> (bool, FileOrigin, Option<Advice>) {
        use FileOrigin::{Existing, New, Packaged};
        let (sequential, random) = (Some(Advice::Sequential), Some(Advice::Random));
        match self {
            Self::Write | Self::Append => (true, New, sequential),
            Self::Rewrite => (true, Existing, sequential),
            Self::RandWrite | Self::Mix => (true, Existing, random),
            Self::RecordRewrite => (true, Existing, None),
            Self::FirstWrite => (true, Packaged, None),
            Self::Read | Self::Reread => (false, Packaged, sequential),
            Self::RandRead => (false, Packaged, random),
            Self::BackwardRead | Self::StrideRead | Self::SeekRead => (false, Packaged, None),
        }
    }

    /// Whether it writes, or some of its threads do.
    pub fn writes(self) -> bool {
        self.traits().0
    }

    pub fn direction(self) -> Direction {
        match self {
            Self::Mix => Direction::Both,
            op if op.writes() => Direction::Writes,
            _ => Direction::Reads,
        }
    }

    /// Whether it works on a packaged file.
    pub fn packaged(self) -> bool {
        self.traits().1 == FileOrigin::Packaged
    }

    /// Whether each pass makes its file.
    pub fn makes(self) -> bool {
        self.traits().1 == FileOrigin::New
    }

    /// Whether it writes over an existing file that is not packaged.
    pub fn overwrites(self) -> bool {
        self.traits().1 == FileOrigin::Existing
    }

    /// Whether the cache state before it can be chosen. A new file has no cache state, and a second
    /// read is always warm.
    pub fn cacheable(self) -> bool {
        !self.makes() && self != Self::Reread
    }

    /// Advice to the kernel about the order.
    pub fn advice(self) -> Option<Advice> {
        self.traits().2
    }
}

words! {
    /// Durability of a write when its clock stops.
    pub enum Sync {
        /// None.
        None = "none",
        /// close(2) inside the clock.
        Close = "close",
        /// fsync(2) at the end, inside the clock.
        Fsync = "fsync",
        /// fdatasync(2) at the end, inside the clock.
        Fdatasync = "fdatasync",
        /// fsync(2), then close(2), both inside the clock.
        FsyncClose = "fsync-close",
        /// fsync(2) after each record.
        Each = "each",
        /// fdatasync(2) after each record, as `PostgreSQL` and etcd write their logs.
        EachData = "each-data",
        /// Opened with `O_SYNC`.
        Osync = "osync",
        /// Opened with `O_DSYNC`.
        Odsync = "odsync",
    }
}

impl Sync {
    /// Whether each record is flushed, and not all of a pass at its end.
    pub fn is_each(self) -> bool {
        matches!(
            self,
            Self::Each | Self::EachData | Self::Osync | Self::Odsync
        )
    }

    /// Whether the file is closed inside the clock.
    pub fn closes(self) -> bool {
        matches!(self, Self::Close | Self::FsyncClose)
    }

    /// Whether dirty data may be left when the clock stops.
    pub fn leaves_debt(self) -> bool {
        matches!(self, Self::None | Self::Close)
    }
}
