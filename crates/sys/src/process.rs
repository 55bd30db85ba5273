//! Processes and threads (proc(5)).

use std::{
    ffi::c_long,
    fmt::Display,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// A line of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// One letter, such as `D` for an uninterruptible wait or `Z` for an ended process whose parent
    /// has not waited for it.
    pub state: char,
    /// Its parent.
    pub parent: u32,
    /// Page faults that needed I/O, including those of reaped children.
    pub major_faults: u64,
    /// CPU time in user mode, including that of reaped children, clock ticks.
    pub user_ticks: u64,
    /// CPU time in the kernel, including that of reaped children, clock ticks.
    pub kernel_ticks: u64,
    /// Start, in clock ticks since the boot.
    pub start: u64,
    /// Exit status as wait(2) reports it. 0 if this user may not see it.
    pub exit_status: i32,
}

/// Room for a line of `stat`: 52 numbers of up to 20 digits and a short name.
const STAT: usize = 2048;

impl Stat {
    /// State of a process; `None` once it has ended.
    pub fn of(pid: u32) -> Option<Self> {
        Self::read(&File::open(format!("/proc/{pid}/stat")).ok()?)
    }

    /// State of the thread with this directory in `/proc`; `None` once it has ended.
    pub fn of_thread(dir: &Path) -> Option<Self> {
        Self::read(&File::open(dir.join("stat")).ok()?)
    }

    /// Reads it again from the start of an open file; `None` once the process has ended.
    pub fn read(file: &File) -> Option<Self> {
        let mut line = [0; STAT];
        let length = file.read_at(&mut line, 0).ok()?;
        Self::parse(&String::from_utf8_lossy(&line[..length]))
    }

    /// Fields, counted from 1: 3 state, 4 parent, 12 and 13 major faults, 14 to 17 CPU time, 22
    /// start, and the exit status is the last. Where there are two or four, some are of reaped
    /// children.
    fn parse(text: &str) -> Option<Self> {
        // The name before it may contain any characters, including brackets and blanks.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            major_faults: number(12)? + number(13)?,
            user_ticks: number(14)? + number(16)?,
            kernel_ticks: number(15)? + number(17)?,
            start: number(22)?,
            exit_status: fields.last()?.parse().ok()?,
        })
    }
}

/// All processes that are visible here.
pub fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Directories of the threads of a process; `self` is this one. None if it has ended.
pub fn threads(of: impl Display) -> impl Iterator<Item = PathBuf> {
    let threads = fs::read_dir(format!("/proc/{of}/task"));
    threads
        .into_iter()
        .flatten()
        .flatten()
        .map(|thread| thread.path())
}

/// Child processes of a process; `self` is this one.
pub fn children(of: impl Display) -> Vec<u32> {
    threads(of).flat_map(|thread| started_by(&thread)).collect()
}

/// Child processes that the first thread of a process has started. One file instead of one for each
/// thread.
pub fn children_of_first_thread(pid: u32) -> Vec<u32> {
    started_by(Path::new(&format!("/proc/{pid}/task/{pid}")))
}

fn started_by(thread: &Path) -> Vec<u32> {
    let text = fs::read_to_string(thread.join("children")).unwrap_or_default();
    let pids = text.split_ascii_whitespace();
    pids.filter_map(|pid| pid.parse().ok()).collect()
}

/// `schedstat` of a process or thread (Documentation/scheduler/sched-stats.rst). That of a process is that of its
/// first thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedstat {
    /// Time on a CPU, ns.
    pub run_ns: u64,
    /// Time for which it was ready to run and had no CPU, ns.
    pub wait_ns: u64,
    /// How often it got a CPU.
    pub slices: u64,
}

impl Schedstat {
    /// Of the process or thread with this directory in `/proc`.
    pub fn of(dir: &Path) -> Option<Self> {
        Self::read(&File::open(dir.join("schedstat")).ok()?)
    }

    /// Reads an open file again. `None` once the process has ended. It allocates nothing and costs a
    /// fifth of [`Stat::read`], for which the kernel collects fifty numbers under locks.
    pub fn read(file: &File) -> Option<Self> {
        let mut line = [0; 128];
        let length = file.read_at(&mut line, 0).ok()?;
        let mut fields = str::from_utf8(&line[..length])
            .ok()?
            .split_ascii_whitespace();
        Some(Self {
            run_ns: fields.next()?.parse().ok()?,
            wait_ns: fields.next()?.parse().ok()?,
            slices: fields.next()?.parse().ok()?,
        })
    }

    /// Of all threads of an existing process together.
    pub fn of_threads(pid: u32) -> Option<Self> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        let none = Self {
            run_ns: 0,
            wait_ns: 0,
            slices: 0,
        };
        let each = threads.filter_map(|thread| Self::of(&thread.path()));
        Some(each.fold(none, |sum, one| Self {
            run_ns: sum.run_ns + one.run_ns,
            wait_ns: sum.wait_ns + one.wait_ns,
            slices: sum.slices + one.slices,
        }))
    }

    /// Whether the kernel counts. Where it does not, it has no such file, or all numbers stay 0. The time on a
    /// CPU is 0 in the first moments of a thread, too.
    pub fn is_counted(&self) -> bool {
        self.slices > 0
    }
}

/// The system call in which a thread is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InCall {
    /// It runs, or is about to.
    Runs,
    /// It waits in a call with this number and these arguments; -1 if it waits outside of calls.
    Waits(c_long, Vec<u64>),
    /// This cannot be read.
    Unknown,
}

/// The system call of the process or thread with this directory in `/proc`.
pub fn in_call(of: &Path) -> InCall {
    parse_call(&fs::read_to_string(of.join("syscall")).unwrap_or_default())
}

fn parse_call(text: &str) -> InCall {
    let mut words = text.split_ascii_whitespace();
    let first = words.next();
    if first == Some("running") {
        return InCall::Runs;
    }
    let Some(number) = first.and_then(|n| n.parse().ok()) else {
        return InCall::Unknown;
    };
    let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    InCall::Waits(number, words.map_while(hex).collect())
}

/// Bytes that a process has read and written, from `/proc/PID/io`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Io {
    /// By system calls such as read(2), including reaped children.
    pub read_by_calls: u64,
    /// By system calls such as write(2).
    pub written_by_calls: u64,
    /// Read from storage.
    pub read: u64,
    /// Made dirty, to be written to storage.
    pub written: u64,
    /// Truncated before they were written to storage.
    pub cancelled: u64,
}

impl Io {
    /// Zeros for a process that has ended or may not be inspected.
    pub fn of(pid: u32) -> Self {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let value = |key: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(key));
            line.and_then(|l| l.trim().parse().ok()).unwrap_or(0)
        };
        Self {
            read_by_calls: value("rchar:"),
            written_by_calls: value("wchar:"),
            read: value("read_bytes:"),
            written: value("write_bytes:"),
            cancelled: value("cancelled_write_bytes:"),
        }
    }
}

/// The most memory that a process has had, bytes (`VmHWM`); 0 if it has ended.
pub fn peak_memory(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    crate::bytes(&text, "VmHWM").unwrap_or(0)
}

/// Number of seccomp filters that each system call of this process and its children passes (`proc_pid_status(5)`).
/// Before Linux 5.9, 1 stands for any number.
pub fn seccomp_filters() -> u32 {
    filters_in(&fs::read_to_string("/proc/self/status").unwrap_or_default())
}

fn filters_in(status: &str) -> u32 {
    const FILTERED: u32 = 2;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok())
    };
    field("Seccomp_filters:").unwrap_or_else(|| u32::from(field("Seccomp:") == Some(FILTERED)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_of_stat_whatever_the_program_is_called() {
        let line = "71 (a) b (c)) S 7 1 1 0 -1 4194560 100 200 3 4 50 60 70 80 20 0 1 0 5 6 9\n";
        let expected = Stat {
            state: 'S',
            parent: 7,
            major_faults: 7,
            user_ticks: 120,
            kernel_ticks: 140,
            start: 5,
            exit_status: 9,
        };
        assert_eq!(Stat::parse(line), Some(expected));
        for broken in ["71 (a", "", "rubbish", "71 (a) S 7"] {
            assert_eq!(Stat::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn sees_itself_and_its_child() {
        let own = std::process::id();
        assert!(all().any(|pid| pid == own));
        assert!(peak_memory(own) > 100_000 && peak_memory(u32::MAX) == 0);
        assert!(Io::of(own).read_by_calls > 0 && Io::of(u32::MAX) == Io::default());
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let pid = child.id();
        assert_eq!(Stat::of(pid).map(|s| s.parent), Some(own));
        assert!(children("self").contains(&pid) && children(own).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(Stat::of(pid), None);
        assert_eq!(
            (children(pid), children_of_first_thread(pid)),
            (vec![], vec![])
        );
        assert_eq!(Schedstat::of_threads(pid), None);
    }

    #[test]
    fn a_new_thread_is_counted_too() {
        let of = |dir: &str| Schedstat::of(Path::new(dir));
        let Some(own) = of("/proc/self").filter(Schedstat::is_counted) else {
            return eprintln!("skipped: this kernel does not count");
        };
        assert!(own.run_ns > 0, "{own:?}");
        let new = std::thread::spawn(move || of("/proc/thread-self"));
        let new = new.join().unwrap();
        assert!(new.is_some_and(|new| new.is_counted()), "{new:?}");
    }

    #[test]
    fn a_call_has_a_number_and_arguments() {
        assert_eq!(parse_call("running\n"), InCall::Runs);
        let poll = "7 0x7ffd 0x1 0xffffffff 0x0 0x0 0x0 0x7ffc 0x7f01\n";
        let InCall::Waits(7, arguments) = parse_call(poll) else {
            panic!("{poll}");
        };
        assert_eq!(arguments[..4], [0x7ffd, 1, 0xffff_ffff, 0]);
        let outside = parse_call("-1 0x7ffc 0x7f01\n");
        assert_eq!(outside, InCall::Waits(-1, vec![0x7ffc, 0x7f01]));
        for unreadable in ["", "x"] {
            assert_eq!(parse_call(unreadable), InCall::Unknown);
        }
    }

    #[test]
    fn io_has_bytes_of_calls_and_of_storage() {
        let text = "rchar: 1\nwchar: 2\nsyscr: 9\nsyscw: 9\nread_bytes: 3\nwrite_bytes: 4\n\
            cancelled_write_bytes: 5\n";
        let expected = Io {
            read_by_calls: 1,
            written_by_calls: 2,
            read: 3,
            written: 4,
            cancelled: 5,
        };
        assert_eq!(Io::parse(text), expected);
    }

    #[test]
    fn filters_are_counted_where_the_kernel_does() {
        let new = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t5\n";
        assert_eq!(filters_in(new), 5);
        assert_eq!(filters_in("Seccomp:\t2\n"), 1);
        assert_eq!(filters_in("Seccomp:\t0\nSeccomp_filters:\t0\n"), 0);
        assert_eq!(filters_in(""), 0);
    }
}
