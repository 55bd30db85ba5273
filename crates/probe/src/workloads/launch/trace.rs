//! System calls of a launch, by strace(1): one extra launch that does not count.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use layermark_model::random_name;
use layermark_recording::strace::{Ended, Event, path_of, took};
use layermark_sys::packages;

use super::figures::Trace;
use crate::{ProbeError, programs::strace};

/// System calls that look up, open or read a file. Those that a machine does not have are skipped
/// because of `?`.
const CALLS: &str = "trace=?open,openat,?openat2,?stat,?lstat,?newfstatat,statx,?access,faccessat,\
?faccessat2,?readlink,readlinkat,execve,?execveat,read,pread64,readv,preadv";

/// A program that has opened no file for this long has finished starting.
const QUIET: Duration = Duration::from_millis(700);
const LONGEST: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// A traced launch.
pub struct Tracer {
    /// Output file of strace, as strace sees it and as this process does.
    inside: PathBuf,
    outside: PathBuf,
    listing: bool,
}

impl Tracer {
    /// For a program with this home, as it sees it, and this root.
    pub fn new(home: &Path, root: Option<&Path>, listing: bool) -> Self {
        let inside = home.join(random_name("layermark-trace-"));
        let outside = match root {
            Some(root) => root.join(inside.strip_prefix("/").unwrap_or(&inside)),
            None => inside.clone(),
        };
        Self {
            inside,
            outside,
            listing,
        }
    }

    /// The command that traces `program`.
    pub fn command(&self, program: &[String]) -> Vec<String> {
        let file = self.inside.to_string_lossy();
        let strace = strace::command(&["-T"], CALLS, &file);
        let strace = strace.into_iter().map(str::to_owned);
        strace.chain(program.iter().cloned()).collect()
    }

    /// Waits until a launched program, which keeps running when it is ready, opens no more files.
    /// Files that it opens directly afterwards belong to it as well.
    pub fn calm(&self) {
        // strace writes each line out at once.
        let size = || fs::metadata(&self.outside).map_or(0, |m| m.len());
        let (begun, mut last) = (Instant::now(), (size(), Instant::now()));
        while self.listing && last.1.elapsed() < QUIET && begun.elapsed() < LONGEST {
            thread::sleep(LOOK);
            let now = size();
            if now != last.0 {
                last = (now, Instant::now());
            }
        }
    }

    /// The trace, after all traced processes have ended.
    pub fn read(&self, elapsed_ns: u64) -> Result<Trace, ProbeError> {
        let mut reading = Reading::default();
        strace::read(&self.outside, |pid, event| reading.event(pid, event))
            .map_err(|e| e.hint(packages::install("strace")))?;
        Ok(Trace {
            elapsed_ns,
            ..reading.end(self.listing)
        })
    }
}

/// Adds up calls line by line.
#[derive(Default)]
struct Reading {
    trace: Trace,
    pids: BTreeSet<u32>,
    /// Paths that were found.
    names: BTreeSet<String>,
    /// Whether each call looked up a name, whether it failed, and its time.
    done: Vec<(bool, bool, u64)>,
}

impl Reading {
    fn event(&mut self, pid: u32, event: &Event<'_>) {
        self.pids.insert(pid);
        let Event::Ended { text, .. } = event else {
            return;
        };
        let Some((call, us)) = Ended::read(text).zip(took(text)) else {
            return;
        };
        count(&call, us * 1000, &mut self.trace, &mut self.done);
        if call.returned.is_some_and(|returned| returned >= 0) {
            self.names.extend(path(&call));
        }
    }

    fn end(self, listing: bool) -> Trace {
        let mut trace = self.trace;
        // The time of the fastest call is the cost of tracing one.
        let floor = self.done.iter().map(|d| d.2).min().unwrap_or(0);
        for (lookup, failed, ns) in self.done {
            let ns = ns - floor;
            match (lookup, failed) {
                (true, true) => trace.failed_ns += ns,
                (true, false) => trace.lookup_ns += ns,
                (false, _) => trace.read_ns += ns,
            }
        }
        trace.processes = self.pids.len() as u64;
        if listing {
            trace.files = self.names.into_iter().collect();
        }
        trace
    }
}

fn count(call: &Ended<'_>, ns: u64, trace: &mut Trace, done: &mut Vec<(bool, bool, u64)>) {
    if matches!(call.name, "read" | "pread64" | "readv" | "preadv") {
        // `3</lib/libc.so.6>` is a file. On pipes, sockets and terminals the program waits for
        // other processes.
        if path_of(call.arg(0)).is_some_and(|at| !at.starts_with(b"/dev/")) {
            trace.reads += 1;
            trace.read_bytes += call.returned.map_or(0, |bytes| bytes.max(0) as u64);
            done.push((false, false, ns));
        }
        return;
    }
    let Some((_, name)) = looked_up(call) else {
        return;
    };
    if name.starts_with("/proc/") || name.starts_with("/dev/") {
        return;
    }
    let failed = matches!(call.error, "ENOENT" | "ENOTDIR");
    trace.lookups += 1;
    trace.failed += u64::from(failed);
    trace.opened += u64::from(call.name.starts_with("open") && !call.failed());
    done.push((true, failed, ns));
}

/// The first text in quotes, and the number of its argument. `newfstatat(3</x>, "", ...)` looks up no name.
/// strace escapes unprintable characters; such names are skipped.
fn looked_up<'a>(call: &Ended<'a>) -> Option<(usize, &'a str)> {
    let at = call.args.iter().position(|arg| arg.starts_with('"'))?;
    let (text, _) = call.args[at][1..].split_once('"')?;
    (!text.is_empty() && !text.contains('\\')).then_some((at, text))
}

/// The absolute path that a call has found.
fn path(call: &Ended<'_>) -> Option<String> {
    let (at, name) = looked_up(call)?;
    if name.starts_with('/') {
        return Some(name.into());
    }
    let base = path_of(call.arg(at.checked_sub(1)?))?;
    let whole = Path::new(OsStr::from_bytes(&base)).join(name);
    Some(whole.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use layermark_recording::strace::events;

    use super::*;

    const TEXT: &str = r#"10 execve("/usr/bin/sh", [...], 0x7ff /* 35 vars */) = 0 <0.000187>
10 access("/etc/ld.so.preload", R_OK) = -1 ENOENT (No such file or directory) <0.000110>
10 openat(AT_FDCWD</tmp>, "a/b.py", O_RDONLY|O_CLOEXEC) = 3</tmp/a/b.py> <0.000030>
10 read(3</tmp/a/b.py>, ""..., 832) = 832 <0.000012>
10 newfstatat(3</tmp/a/b.py>, "", {st_mode=S_IFREG|0755, ...}, AT_EMPTY_PATH) = 0 <0.000009>
10 openat(AT_FDCWD</tmp>, "/x",  <unfinished ...>
11 read(0<pipe:[1]>, ""..., 1) = 1 <5.000000>
10 <... openat resumed>O_RDONLY) = -1 ENOENT (No such file or directory) <0.000510>
11 openat(AT_FDCWD</tmp>, "/proc/self/maps", O_RDONLY) = 4</proc/11/maps> <0.000010>
10 +++ exited with 0 +++
"#;

    fn parse(text: &str, listing: bool) -> Trace {
        let mut reading = Reading::default();
        events(text.as_bytes(), |pid, event| reading.event(pid, event)).unwrap();
        reading.end(listing)
    }

    #[test]
    fn reads_what_strace_writes() {
        let trace = parse(TEXT, true);
        assert_eq!((trace.processes, trace.lookups, trace.failed), (2, 4, 2));
        assert_eq!((trace.opened, trace.reads, trace.read_bytes), (1, 1, 832));
        // 12 us, the fastest call, is what tracing costs.
        assert_eq!(trace.failed_ns, (110 - 12 + 510 - 12) * 1000);
        assert_eq!(trace.read_ns, 0);
        assert_eq!(
            trace.files,
            ["/proc/self/maps", "/tmp/a/b.py", "/usr/bin/sh"]
        );
        assert!(parse(TEXT, false).files.is_empty());
    }

    #[test]
    fn no_text_is_misread() {
        for text in [
            "",
            "x",
            "1 ",
            "1 read(",
            "1 read(3) = 1 <x>",
            "1 a(b = c <1>",
            "1 <... x resumed>) = 0 <1.0>",
        ] {
            let trace = parse(text, true);
            assert_eq!((trace.lookups, trace.reads), (0, 0), "{text}");
        }
    }
}
