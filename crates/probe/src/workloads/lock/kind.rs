//! Kinds of lock.

use crate::param::words;

words! {
    /// A kind of lock. Each excludes others of its kind.
    pub enum LockOp {
        /// flock(2): belongs to the open file.
        Flock = "flock",
        /// The record locks of POSIX, `F_SETLKW` of fcntl(2): belong to the process.
        Fcntl = "fcntl",
        /// `F_OFD_SETLKW` of fcntl(2): record locks that belong to the open file.
        Ofd = "ofd",
    }
}
