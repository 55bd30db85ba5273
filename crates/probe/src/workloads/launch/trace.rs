//! System calls of a launch, by strace(1): one extra launch that does not count.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use layermark_model::random_name;

use super::{figures::Trace, start::LaunchSite};
use crate::ProbeError;

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
    pub fn new(site: &LaunchSite) -> Self {
        let inside = site.home.join(random_name("layermark-trace-"));
        let outside = match &site.root {
            Some(root) => root.join(inside.strip_prefix("/").unwrap_or(&inside)),
            None => inside.clone(),
        };
        Self {
            inside,
            outside,
            listing: site.p.listing,
        }
    }

    /// The command that traces `program`.
    pub fn command(&self, program: &[String]) -> Vec<String> {
        let file = self.inside.to_string_lossy().into_owned();
        let strace = [
            "strace",
            "-f",
            "--seccomp-bpf",
            "-T",
            "-y",
            "-qq",
            "-s",
            "0",
            "-e",
            CALLS,
        ];
        let mut command: Vec<String> = strace.iter().map(ToString::to_string).collect();
        command.extend(["-o".into(), file, "--".into()]);
        command.extend_from_slice(program);
        command
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
        // The program's home may contain any files.
        let own = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let mut bytes = Vec::new();
        let file = File::options()
            .read(true)
            .custom_flags(own)
            .open(&self.outside);
        file.and_then(|mut file| file.read_to_end(&mut bytes))
            .map_err(|e| {
                ProbeError::io("read the trace", &self.outside, &e).hint("apt-get install strace")
            })?;
        let _ = fs::remove_file(&self.outside);
        let mut trace = parse(&String::from_utf8_lossy(&bytes), self.listing);
        trace.elapsed_ns = elapsed_ns;
        Ok(trace)
    }
}

/// One finished system call.
#[derive(Debug, PartialEq)]
struct Call<'a> {
    name: &'a str,
    arguments: &'a str,
    result: &'a str,
    ns: u64,
}

/// Reads strace's lines: `PID NAME(ARGUMENTS) = RESULT <SECONDS>`, including those that were split.
fn parse(text: &str, listing: bool) -> Trace {
    let mut trace = Trace::default();
    let mut pids = BTreeSet::new();
    let mut open: BTreeMap<&str, &str> = BTreeMap::new();
    let mut names = BTreeSet::new();
    let mut done: Vec<(bool, bool, u64)> = Vec::new();
    for line in text.lines() {
        let Some((pid, rest)) = line.split_once(' ') else {
            continue;
        };
        pids.insert(pid);
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            open.insert(pid, begun);
            continue;
        }
        let joined = rest.strip_prefix("<... ").and_then(|tail| {
            let (_, tail) = tail.split_once(" resumed>")?;
            Some(format!("{}{tail}", open.remove(pid)?))
        });
        let Some(call) = call(joined.as_deref().unwrap_or(rest)) else {
            continue;
        };
        count(&call, &mut trace, &mut done);
        if listing && !call.result.starts_with('-') {
            names.extend(path(&call));
        }
    }
    // The time of the fastest call is the cost of tracing one.
    let floor = done.iter().map(|d| d.2).min().unwrap_or(0);
    for (lookup, failed, ns) in done {
        let ns = ns - floor;
        match (lookup, failed) {
            (true, true) => trace.failed_ns += ns,
            (true, false) => trace.lookup_ns += ns,
            (false, _) => trace.read_ns += ns,
        }
    }
    trace.processes = pids.len() as u64;
    trace.files = names.into_iter().collect();
    trace
}

fn call(text: &str) -> Option<Call<'_>> {
    let (name, rest) = text.split_once('(')?;
    let (rest, time) = rest.rsplit_once(" <")?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let seconds: f64 = time.strip_suffix('>')?.parse().ok()?;
    Some(Call {
        name,
        arguments: arguments.trim_end().strip_suffix(')')?,
        result,
        ns: (seconds * 1e9) as u64,
    })
}

fn count(call: &Call<'_>, trace: &mut Trace, done: &mut Vec<(bool, bool, u64)>) {
    if matches!(call.name, "read" | "pread64" | "readv" | "preadv") {
        // `3</lib/libc.so.6>` is a file. On pipes, sockets and terminals the program waits for
        // other processes.
        let file = call
            .arguments
            .split_once('<')
            .is_some_and(|(_, at)| at.starts_with('/'));
        if file && !call.arguments.contains("</dev/") {
            trace.reads += 1;
            trace.read_bytes += call.result.parse::<u64>().unwrap_or(0);
            done.push((false, false, call.ns));
        }
        return;
    }
    // `newfstatat(3</x>, "", ...)` looks up no name.
    let Some(name) = quoted(call.arguments).filter(|n| !n.is_empty()) else {
        return;
    };
    if name.starts_with("/proc/") || name.starts_with("/dev/") {
        return;
    }
    let failed = call.result.starts_with("-1 ENOENT") || call.result.starts_with("-1 ENOTDIR");
    trace.lookups += 1;
    trace.failed += u64::from(failed);
    trace.opened += u64::from(call.name.starts_with("open") && !call.result.starts_with('-'));
    done.push((true, failed, call.ns));
}

/// The first text in quotes. strace escapes unprintable characters; such names are skipped.
fn quoted(arguments: &str) -> Option<&str> {
    let (_, rest) = arguments.split_once('"')?;
    let (text, _) = rest.split_once('"')?;
    (!text.contains('\\')).then_some(text)
}

/// The absolute path that a call has found.
fn path(call: &Call<'_>) -> Option<String> {
    let name = quoted(call.arguments).filter(|n| !n.is_empty())?;
    if name.starts_with('/') {
        return Some(name.into());
    }
    let before = call.arguments.split_once('"')?.0;
    let (_, dir) = before.split_once('<')?;
    let (dir, _) = dir.rsplit_once('>')?;
    let whole = Path::new(dir).join(name);
    whole
        .is_absolute()
        .then(|| whole.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
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
