//! What a trial of the workload `launch` sends besides its time.

use layermark_model::Stopped;
use serde::{Deserialize, Serialize};

/// What the workload `launch` recorded about one start of a program, besides its time. The
/// fields have the names of the values.
///
/// Counts cover the whole process tree until the program was ready.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchTrial {
    /// The program's name, the last part of its path.
    pub program: String,
    /// The ready event, as the user wrote it: `exit`, `port=8080`, `window=Login`.
    pub ready: String,
    /// `CLOCK_MONOTONIC` just before the process was created, nanoseconds.
    pub start_ns: u64,
    /// Title of the window that appeared.
    pub window: Option<String>,
    /// Upper bound of the delay between the event and its detection, nanoseconds.
    pub error_ns: u64,
    /// Exit code if the program ended by itself; 128 plus the signal if one killed it.
    pub exit: Option<i32>,
    /// Faults that had to wait for a device or a file system (`ru_majflt`, getrusage(2)).
    pub major_faults: u64,
    /// Blocks of 512 bytes read from block devices (`ru_inblock`, getrusage(2)).
    pub input_blocks: u64,
    /// Bytes that read(2) and similar calls returned (`rchar`, proc(5)); mapped files do not count.
    pub read_bytes: u64,
    /// Peak memory, bytes. The larger of two: `VmHWM` of all processes alive when it was ready, and
    /// the largest resident set of one that had ended.
    pub peak_bytes: u64,
    /// Processes that were alive when it was ready, or were reparented to layermark. It excludes
    /// short-lived ones that their own parents waited for; [`Trace::processes`] includes all.
    pub processes: u64,
    /// Processes started until it was ready, including itself and short-lived ones. Absent if the
    /// kernel does not report each process.
    pub started: Option<u64>,
    /// Time in which at least one of its processes waited for I/O, nanoseconds (`io.pressure` of a
    /// control group). Absent if the kernel does not provide it.
    pub io_wait_ns: Option<u64>,
    /// Bytes that all its processes had read from devices (`io.stat` of a control group). Absent if
    /// the kernel does not provide it.
    pub device_bytes: Option<u64>,
    /// Sources of the counts: `/proc`, `io.pressure`, `io.stat`, `process connector`.
    pub counted_by: Vec<String>,
    /// How it was stopped afterwards.
    pub stopped: Stopped,
    /// Launches before this one that were not counted, because `warm` was requested and they were
    /// not warm.
    pub remade: u64,
    /// Its trace, if this launch is an extra one that is not counted.
    pub trace: Option<Trace>,
}

/// What a launch waited for, from a trace of its system calls. Tracing makes every call a little
/// slower, and the times include that.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// From start to ready while traced, nanoseconds.
    pub elapsed_ns: u64,
    /// Processes and threads.
    pub processes: u64,
    /// Files opened.
    pub opened: u64,
    /// Path lookups: open, stat, access, readlink, execve.
    pub lookups: u64,
    /// Lookups that found nothing (`ENOENT`, `ENOTDIR`).
    pub failed: u64,
    /// Nanoseconds in failed lookups.
    pub failed_ns: u64,
    /// Nanoseconds in the other lookups.
    pub lookup_ns: u64,
    /// Calls that read.
    pub reads: u64,
    /// Bytes they returned.
    pub read_bytes: u64,
    /// Nanoseconds in them, except for pipes and sockets.
    pub read_ns: u64,
    /// Regular files and directories that were found, absolute. Only on request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}
