//! The largest recording that is read. Each limit is checked before memory is taken.

/// Bytes of the file.
pub const PACKED: u64 = 256 << 20;
/// Bytes after unpacking.
pub const UNPACKED: u64 = 512 << 20;
/// Bytes of one line.
pub const LINE: u64 = 64 << 10;
/// The largest window of a zstd frame, as a power of two of bytes: memory that unpacking needs at least.
pub const WINDOW_LOG: u32 = 23;
/// Entries of the initial tree.
pub const ENTRIES: u64 = 1_000_000;
/// Bytes of all files of the initial tree.
pub const TREE_BYTES: u64 = 64 << 30;
/// Holes of one file.
pub const HOLES: usize = 1024;
/// Distinct names.
pub const NAMES: u64 = 1_000_000;
/// Calls.
pub const CALLS: u64 = 4_000_000;
/// Tasks; each is a thread of the replay.
pub const TASKS: u64 = 256;
/// Bytes that one call moves.
pub const CALL_BYTES: u64 = 16 << 20;
/// Bytes of the buffers of all tasks.
pub const BUFFERS: u64 = 1 << 30;
/// Bytes that all calls write, and where a file may end.
pub const WRITTEN: u64 = 64 << 30;
/// Page faults that are kept of a program.
pub const FAULTS: usize = 1_000_000;
/// Files that are mapped at once.
pub const MAPPED: usize = 256;
/// Waits of all calls for those of other tasks.
pub const WAITS: u64 = 16_000_000;
/// Bytes of names that a converted log may need at once.
pub const LOG_NAMES: u64 = 512 << 20;
/// Bytes of the names of directories that a log shows only by what is in them.
pub const INFERRED: u64 = 64 << 20;
/// Open files and links that all renames of a log move.
pub const MOVED: u64 = 16_000_000;
/// Bytes of one component of a name.
pub const COMPONENT: usize = 255;
/// Bytes of a name.
pub const NAME: usize = 4095;
/// Permissions that a recording may set: no set-user-ID, no set-group-ID.
pub const MODE: u32 = 0o1777;
/// Kinds of things that were left out.
pub const LEFT_OUT: usize = 200;
/// Bytes of a text that is shown, such as the command.
pub const TEXT: usize = 4096;
/// Time that the program spends outside the calls, ns: a day.
pub const THINK_NS: u64 = 86_400_000_000_000;
