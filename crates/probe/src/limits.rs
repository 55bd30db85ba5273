//! Limits that keep a typing error from using up the machine's memory or years of time.

/// Largest file of a point, bytes. The lab checks whether the disk has room.
pub const FILE_SIZE: u64 = 16 << 40;
/// Largest record, bytes.
pub const RECORD: u64 = 256 << 20;
/// Largest sum of all threads' buffers, bytes.
pub const BUFFERS: u64 = 1 << 30;
/// Maximum number of threads.
pub const THREADS: u64 = 256;
/// Maximum number of operations in flight per thread.
pub const DEPTH: u64 = 1024;
/// Largest small file, bytes. The workload `file` has larger ones.
pub const SMALL_FILE: u64 = 16 << 20;
/// Maximum number of small files.
pub const FILES: u64 = 1_000_000;
/// Longest minimum time of a trial, milliseconds.
pub const TRIAL_MS: u64 = 600_000;
/// Maximum number of passes.
pub const PASSES: u64 = 1_000_000;
/// Interval of progress lines, ns. Half of the limit in the protocol.
pub const HEARTBEAT_NS: u64 = 500_000_000;
