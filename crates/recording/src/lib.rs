//! Recordings of a program's file I/O: `x.lmrec`. Types, format and checks, and the converter from the output of
//! strace(1). Nothing here opens a file.

mod call;
mod check;
mod format;
pub mod limits;
mod name;
mod order;
mod private;
pub mod strace;
mod tree;

#[cfg(test)]
mod tests;

pub use call::{Call, CallKind, Flag, KINDS, OPEN_FLAGS, Shape, open_flag};
pub use check::{FOLLOW, NO_FOLLOW};
pub use format::{FORMAT, Head, Recording, RecordingError};
pub use name::Name;
pub use order::Pending;
pub use private::Renamed;
pub use tree::{Entry, EntryKind, words_of};
