use serde::{Deserialize, Serialize};

use crate::Spec;

/// What the workload `launch` recorded about one start of a program, besides its time.
///
/// Counts cover the whole process tree until the program was ready.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Launch {
    /// The program's name, the last part of its path.
    pub program: String,
    /// The ready event, as the user wrote it: `exit`, `port=8080`, `window=Login`.
    pub ready: String,
    /// `CLOCK_MONOTONIC` just before the process was created, nanoseconds.
    #[serde(default)]
    pub start_ns: u64,
    /// Title of the window that appeared.
    #[serde(default)]
    pub window: Option<String>,
    /// Upper bound of the delay between the event and its detection, nanoseconds.
    pub error_ns: u64,
    /// Exit code if the program ended by itself; 128 plus the signal if one killed it.
    #[serde(default)]
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
    #[serde(default)]
    pub started: Option<u64>,
    /// Time in which at least one of its processes waited for I/O, nanoseconds (`io.pressure` of a
    /// control group). Absent if the kernel does not provide it.
    #[serde(default)]
    pub io_wait_ns: Option<u64>,
    /// Bytes that all its processes had read from devices (`io.stat` of a control group). Absent if
    /// the kernel does not provide it.
    #[serde(default)]
    pub device_bytes: Option<u64>,
    /// Sources of the counts: `/proc`, `io.pressure`, `io.stat`, `process connector`.
    #[serde(default)]
    pub counted_by: Vec<String>,
    /// How it was stopped afterwards.
    #[serde(default)]
    pub stopped: Stopped,
    /// Launches before this one that were not counted, because `warm` was requested and they were
    /// not warm.
    #[serde(default)]
    pub remade: u64,
    /// The trace of an extra launch that was not counted. At most in one trial of a point in a
    /// layer.
    #[serde(default)]
    pub trace: Option<Trace>,
}

/// How a program was stopped.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    /// It had ended by itself.
    #[default]
    Itself,
    /// `SIGTERM` ended it.
    Term,
    /// Something was still running after the grace time and was killed.
    Kill,
}

/// What a launch waited for, from a trace of its system calls. Tracing makes every call a little
/// slower, and the times include that.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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

/// Whether a launch was cold, by its own counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmth {
    /// It waited for a device or a file system.
    Cold,
    /// It waited for neither.
    Warm,
    /// It waited so little that it may be either.
    Uncertain,
}

/// Up to this many major faults prove nothing: a page may have been reclaimed.
const FEW_FAULTS: u64 = 2;
/// Up to this many input blocks (32 KiB) prove nothing: for example, the directory of a log file.
const FEW_BLOCKS: u64 = 64;

impl Launch {
    /// What the counters prove.
    pub fn warmth(&self) -> Warmth {
        match (self.major_faults, self.input_blocks) {
            (0, 0) => Warmth::Warm,
            (f, b) if f <= FEW_FAULTS && b <= FEW_BLOCKS => Warmth::Uncertain,
            _ => Warmth::Cold,
        }
    }
}

impl Warmth {
    /// Its word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
            Self::Uncertain => "uncertain",
        }
    }
}

/// Splits a layer from its own command: `overlay:upper=./app --x`. After a comma, `=` belongs to an
/// option and does not end the name: `fuse,delay=6ms=./app`.
pub fn split_layer(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find('=')?;
        let (layer, command) = (&text[..at], &text[at + 1..]);
        let last = layer.rsplit_once(',').map(|(_, last)| last);
        if last.is_some_and(|last| !last.contains('=')) {
            from = at + 1;
            continue;
        }
        return (!layer.is_empty()).then_some((layer, command));
    }
}

/// The command of a layer among `LAYER=COMMAND`: the one for its full name, else the one for its
/// layer id.
pub fn layers_command<'a>(all: &'a [String], layer: &Spec) -> Option<&'a str> {
    let read = |text: &'a String| {
        let (name, command) = split_layer(text)?;
        Some((name.parse::<Spec>().ok()?, command))
    };
    let pairs: Vec<(Spec, &str)> = all.iter().filter_map(read).collect();
    let exact = pairs.iter().find(|(spec, _)| spec == layer);
    let kind = |s: &Spec| *s == Spec::bare(&layer.layer);
    let found = exact.or_else(|| pairs.iter().find(|(spec, _)| kind(spec)));
    found.map(|(_, command)| *command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_tell_cold_from_warm() {
        let with = |major_faults, input_blocks| {
            Launch {
                major_faults,
                input_blocks,
                ..Launch::default()
            }
            .warmth()
        };
        assert_eq!(with(0, 0), Warmth::Warm);
        assert_eq!(with(1, 8), Warmth::Uncertain);
        assert_eq!(with(3, 0), Warmth::Cold);
        assert_eq!(with(0, 4000), Warmth::Cold);
    }
}
