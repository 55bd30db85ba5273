//! System calls of a step on the layer's files, by strace(1): an extra execution, natively, that does not
//! count.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, BufRead, BufReader},
    os::unix::fs::OpenOptionsExt,
    path::{Component, Path, PathBuf},
};

use layermark_model::{FigureValues, random_name};

use crate::{
    ProbeError,
    programs::{PATH, which},
};

/// Group of the numbers of calls, by kind.
const CALLS: &str = "calls";
/// Group of the bytes that they moved, by kind.
const BYTES: &str = "call_bytes";
/// Value with the calls of the task that made most of them.
const BUSIEST: &str = "calls_of_busiest_task";
/// Value with the operations of the execution whose calls were counted.
const OPERATIONS: &str = "calls_of_operations";
/// Longest line that is read, bytes: a path has at most 4,096, each up to four characters long.
const LONGEST: u64 = 64 << 10;

/// Largest trace that is read, bytes.
const LARGEST: u64 = 256 << 20;

/// Where a call has its path, by the number of an argument.
#[derive(Clone, Copy)]
enum Place {
    /// A path.
    Path(usize),
    /// The descriptor of a directory, and after it a path.
    Below(usize),
    /// A descriptor.
    Descriptor(usize),
}
use Place::{Below, Descriptor, Path as At};

/// Calls that a file system answers, and their kinds. `open` is divided further by its flags. A call
/// with two files is there twice.
const COUNTED: &[(&str, Place, &str)] = &[
    ("stat", At(0), "stat"),
    ("lstat", At(0), "stat"),
    ("newfstatat", Below(0), "stat"),
    ("statx", Below(0), "stat"),
    ("access", At(0), "stat"),
    ("faccessat", Below(0), "stat"),
    ("faccessat2", Below(0), "stat"),
    ("readlink", At(0), "stat"),
    ("readlinkat", Below(0), "stat"),
    ("getxattr", At(0), "stat"),
    ("lgetxattr", At(0), "stat"),
    ("open", At(0), "open"),
    ("openat", Below(0), "open"),
    ("openat2", Below(0), "open"),
    ("execve", At(0), "open"),
    ("creat", At(0), "create"),
    ("mkdir", At(0), "create"),
    ("mkdirat", Below(0), "create"),
    ("mknod", At(0), "create"),
    ("mknodat", Below(0), "create"),
    ("link", At(1), "create"),
    ("linkat", Below(2), "create"),
    ("symlink", At(1), "create"),
    ("symlinkat", Below(1), "create"),
    ("rename", At(0), "create"),
    ("renameat", Below(0), "create"),
    ("renameat2", Below(0), "create"),
    ("unlink", At(0), "unlink"),
    ("unlinkat", Below(0), "unlink"),
    ("rmdir", At(0), "unlink"),
    ("chmod", At(0), "set-attr"),
    ("fchmod", Descriptor(0), "set-attr"),
    ("fchmodat", Below(0), "set-attr"),
    ("chown", At(0), "set-attr"),
    ("lchown", At(0), "set-attr"),
    ("fchown", Descriptor(0), "set-attr"),
    ("fchownat", Below(0), "set-attr"),
    ("utime", At(0), "set-attr"),
    ("utimes", At(0), "set-attr"),
    ("futimesat", Below(0), "set-attr"),
    ("utimensat", Below(0), "set-attr"),
    ("truncate", At(0), "set-attr"),
    ("ftruncate", Descriptor(0), "set-attr"),
    ("getdents", Descriptor(0), "list"),
    ("getdents64", Descriptor(0), "list"),
    ("read", Descriptor(0), "read"),
    ("pread64", Descriptor(0), "read"),
    ("readv", Descriptor(0), "read"),
    ("preadv", Descriptor(0), "read"),
    ("sendfile", Descriptor(1), "read"),
    ("copy_file_range", Descriptor(0), "read"),
    ("write", Descriptor(0), "write"),
    ("pwrite64", Descriptor(0), "write"),
    ("writev", Descriptor(0), "write"),
    ("pwritev", Descriptor(0), "write"),
    ("sendfile", Descriptor(0), "write"),
    ("copy_file_range", Descriptor(2), "write"),
    ("fsync", Descriptor(0), "flush"),
    ("fdatasync", Descriptor(0), "flush"),
    ("syncfs", Descriptor(0), "flush"),
    ("mmap", Descriptor(4), "map"),
];

/// Calls that change the directory from which relative paths start, or make a task that inherits it.
const FOLLOWED: [&str; 6] = ["chdir", "fchdir", "clone", "clone3", "fork", "vfork"];

/// An execution under strace.
pub struct CallTracer {
    /// Output file of strace.
    file: PathBuf,
    /// The directory whose calls are counted.
    root: PathBuf,
    /// The directory of the step.
    start: PathBuf,
}

impl CallTracer {
    /// Counts calls on files below `root`, of a command that is started in `start`. The file is made in
    /// `home`.
    pub fn new(root: &Path, start: &Path, home: &Path) -> Result<Self, ProbeError> {
        if which("strace", PATH).is_none() {
            let missing = ProbeError::new("`strace` is not installed");
            return Err(missing.hint("apt-get install strace"));
        }
        // As strace shows paths of descriptors: without links.
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self {
            file: home.join(random_name("layermark-calls-")),
            root: real(root),
            start: real(start),
        })
    }

    /// The command line that traces `run`.
    pub fn command(&self, run: &str) -> String {
        let mut names: BTreeSet<&str> = COUNTED.iter().map(|(name, ..)| *name).collect();
        names.extend(FOLLOWED);
        // With `?`, those that a machine does not have are skipped.
        let names: Vec<String> = names.iter().map(|name| format!("?{name}")).collect();
        let calls = format!("trace={}", names.join(","));
        let file = self.file.to_string_lossy();
        let words = [
            "strace",
            "-f",
            "--seccomp-bpf",
            "-y",
            "-qq",
            "-s",
            "0",
            "-e",
            "signal=none",
            "-e",
            &calls,
            "-o",
            &file,
            "--",
        ];
        format!("{} {run}", shell_words::join(words))
    }

    /// The counts, as values of a trial, after all traced processes have ended.
    /// The execution did this many operations.
    pub fn read(&self, operations: u64) -> Result<FigureValues, ProbeError> {
        // The step may put any file in its home.
        let own = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let counted = File::options()
            .read(true)
            .custom_flags(own)
            .open(&self.file)
            .and_then(|file| self.count(BufReader::new(bounded(file)?)))
            .map_err(|e| ProbeError::io("read the trace", &self.file, &e))?;
        let _ = fs::remove_file(&self.file);
        let mut values = counted.values();
        values.set(OPERATIONS, operations);
        Ok(values)
    }

    /// Counts the lines of a trace.
    fn count(&self, mut from: impl BufRead) -> io::Result<Counts> {
        let mut counting = Counting::new(self);
        let mut line = Vec::new();
        loop {
            line.clear();
            if io::Read::take(&mut from, LONGEST).read_until(b'\n', &mut line)? == 0 {
                return Ok(counting.end());
            }
            counting.line(String::from_utf8_lossy(&line).trim_end());
        }
    }
}

/// The file, if it is a regular one that is not too large.
fn bounded(file: File) -> io::Result<File> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if found.len() > LARGEST {
        let text = format!("it has {} bytes, more than {LARGEST}", found.len());
        return Err(io::Error::other(text));
    }
    Ok(file)
}

/// Calls of an execution.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    calls: BTreeMap<&'static str, u64>,
    bytes: BTreeMap<&'static str, u64>,
    /// Calls of the task that made most of them.
    busiest: u64,
}

impl Counts {
    fn values(&self) -> FigureValues {
        let mut values = FigureValues::default();
        for (group, counted) in [(CALLS, &self.calls), (BYTES, &self.bytes)] {
            for (kind, n) in counted {
                values.set(&format!("{group}.{kind}"), *n);
            }
        }
        values.set(BUSIEST, self.busiest);
        values
    }
}

/// Reads strace's lines: `PID NAME(ARGUMENTS) = RESULT`, including those that were split.
struct Counting<'a> {
    of: &'a CallTracer,
    counts: Counts,
    /// Directories that were opened.
    directories: u64,
    /// Calls of each task.
    tasks: BTreeMap<String, u64>,
    /// Calls that have not ended.
    open: BTreeMap<String, String>,
    /// The working directory of each task.
    current: BTreeMap<String, PathBuf>,
    /// The task that last began to make another.
    parent: Option<String>,
}

impl<'a> Counting<'a> {
    fn new(of: &'a CallTracer) -> Self {
        Self {
            of,
            counts: Counts::default(),
            directories: 0,
            tasks: BTreeMap::new(),
            open: BTreeMap::new(),
            current: BTreeMap::new(),
            parent: None,
        }
    }

    fn end(mut self) -> Counts {
        // Each listing has opened its directory. Others only look it up.
        let listed = self.counts.calls.get("list").copied().unwrap_or(0);
        let more = self.directories.saturating_sub(listed);
        if more > 0 {
            *self.counts.calls.entry("stat").or_default() += more;
        }
        self.counts.busiest = self.tasks.into_values().max().unwrap_or(0);
        self.counts
    }

    fn line(&mut self, line: &str) {
        let Some((task, text)) = line.split_once(' ') else {
            return;
        };
        let text = text.trim_start();
        if !self.current.contains_key(task) {
            let from = self.parent.as_ref().and_then(|p| self.current.get(p));
            let from = from.unwrap_or(&self.of.start).clone();
            self.current.insert(task.to_owned(), from);
        }
        if ["clone", "fork", "vfork"]
            .iter()
            .any(|name| text.starts_with(name))
        {
            self.parent = Some(task.to_owned());
        }
        if let Some(begun) = text.strip_suffix("<unfinished ...>") {
            self.open.insert(task.to_owned(), begun.to_owned());
            return;
        }
        let resumed = text.strip_prefix("<... ").and_then(|rest| {
            let (_, rest) = rest.split_once(" resumed>")?;
            Some(self.open.remove(task)? + rest)
        });
        if let Some(call) = Call::read(resumed.as_deref().unwrap_or(text)) {
            self.call(task, &call);
        }
    }

    fn call(&mut self, task: &str, call: &Call<'_>) {
        let place = match call.name {
            "chdir" => Some(At(0)),
            "fchdir" => Some(Descriptor(0)),
            _ => None,
        };
        if let Some(place) = place {
            if let Some(to) = self.path(task, call, place).filter(|_| !call.failed()) {
                self.current.insert(task.to_owned(), to);
            }
            return;
        }
        for (_, place, kind) in COUNTED.iter().filter(|(name, ..)| *name == call.name) {
            let path = self.path(task, call, *place);
            if path.is_some_and(|path| path.starts_with(&self.of.root))
                && self.add(call, *place, kind)
            {
                *self.tasks.entry(task.to_owned()).or_default() += 1;
            }
        }
    }

    /// Counts a call on a file of the layer. Whether it counts.
    fn add(&mut self, call: &Call<'_>, place: Place, kind: &'static str) -> bool {
        let moved = call.result.parse::<u64>().unwrap_or(0);
        let kind = match kind {
            // Attributes of an open file are known.
            "stat" if matches!(place, Below(i) if call.quoted(i + 1).is_none_or(|p| p.is_empty())) =>
            {
                return false;
            }
            // What fails has only looked for the name.
            "open" | "create" | "unlink" if call.failed() => "stat",
            "open" if call.has_flag(place, "O_CREAT") => "create",
            "open" if call.has_flag(place, "O_DIRECTORY") => {
                self.directories += 1;
                return true;
            }
            // The last call of a listing finds no more names.
            "list" if call.result != "0" => return false,
            // At the end of a file there is nothing to fetch.
            "read" | "write" if moved == 0 => return false,
            _ if call.failed() && kind != "stat" => return false,
            kind => kind,
        };
        *self.counts.calls.entry(kind).or_default() += 1;
        if matches!(kind, "read" | "write") {
            *self.counts.bytes.entry(kind).or_default() += moved;
        }
        true
    }

    /// The absolute path of a call's file. `None` for pipes, sockets and memory.
    fn path(&self, task: &str, call: &Call<'_>, place: Place) -> Option<PathBuf> {
        let start = self.current.get(task).unwrap_or(&self.of.start);
        match place {
            At(i) => Some(joined(start, &call.quoted(i)?)),
            Descriptor(i) => call.descriptor(i),
            Below(i) => {
                let base = call.descriptor(i);
                let base = base.as_deref().unwrap_or(start);
                Some(joined(base, &call.quoted(i + 1).unwrap_or_default()))
            }
        }
    }
}

/// A path from a directory, without `.` and `..`.
fn joined(base: &Path, path: &str) -> PathBuf {
    let mut all = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(all.pop()),
            part => all.push(part),
        }
    }
    all
}

/// A call that has ended.
#[derive(Debug, PartialEq)]
struct Call<'a> {
    name: &'a str,
    arguments: Vec<&'a str>,
    result: &'a str,
}

impl<'a> Call<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        let (arguments, rest) = arguments(rest)?;
        let result = rest.trim_start().strip_prefix("= ")?;
        Some(Self {
            name,
            arguments,
            result,
        })
    }

    fn failed(&self) -> bool {
        self.result.starts_with(['-', '?'])
    }

    /// Whether a call that opens a file has a flag: in the argument after its path.
    fn has_flag(&self, place: Place, flag: &str) -> bool {
        let (At(path) | Descriptor(path) | Below(path)) = place;
        let after = path + 1 + usize::from(matches!(place, Below(_)));
        let flags = self.arguments.get(after);
        // Those of openat2(2) are in braces.
        flags.is_some_and(|flags| {
            let mut words = flags.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            words.any(|word| word == flag)
        })
    }

    /// The text of an argument in quotes; `None` for `NULL`.
    fn quoted(&self, argument: usize) -> Option<String> {
        let text = self.arguments.get(argument)?.strip_prefix('"')?;
        let text = text.strip_suffix("...").unwrap_or(text);
        Some(unescaped(text.strip_suffix('"')?))
    }

    /// The path of a descriptor: of `3</a/b>`, and of `AT_FDCWD</a>`.
    fn descriptor(&self, argument: usize) -> Option<PathBuf> {
        let (_, path) = self.arguments.get(argument)?.split_once('<')?;
        let (path, _) = path.rsplit_once('>')?;
        path.starts_with('/')
            .then(|| PathBuf::from(unescaped(path)))
    }
}

/// Arguments up to the parenthesis that ends them, and what follows it. In texts and in paths of
/// descriptors any character may stand; their own end mark is escaped.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut all, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let mut within = None;
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match (c, within) {
            ('\\', Some(_)) => drop(characters.next()),
            (c, Some(end)) if c == end => within = None,
            ('"', None) => within = Some('"'),
            // Neither `<` of `1<<12`.
            ('<', None)
                if !text[..at].ends_with('<')
                    && text[at + 1..].starts_with(|c: char| c != '<' && c != ' ') =>
            {
                within = Some('>');
            }
            ('(' | '[' | '{', None) => depth += 1,
            (')', None) if depth == 0 => {
                all.push(text[start..at].trim());
                return Some((all, &text[at + 1..]));
            }
            (')' | ']' | '}', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                all.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// A text as it was before strace escaped it: `\n`, `\"`, and bytes in octal.
fn unescaped(text: &str) -> String {
    let (mut all, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        let next = more.first().copied();
        if byte != b'\\' || next.is_none() {
            all.push(byte);
            continue;
        }
        let octal = more
            .iter()
            .take(3)
            .take_while(|b| (b'0'..=b'7').contains(b))
            .count();
        if octal > 0 {
            let value = more[..octal]
                .iter()
                .fold(0_u32, |sum, b| sum * 8 + u32::from(b - b'0'));
            all.push(value as u8);
            rest = &more[octal..];
            continue;
        }
        all.extend(next.map(|escaped| match escaped {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            other => other,
        }));
        rest = &more[1..];
    }
    String::from_utf8_lossy(&all).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> Counts {
        let tracer = CallTracer {
            file: PathBuf::new(),
            root: "/w/in".into(),
            start: "/w/in/step".into(),
        };
        tracer.count(text.as_bytes()).unwrap()
    }

    fn calls(text: &str) -> Vec<(&'static str, u64)> {
        counted(text).calls.into_iter().collect()
    }

    const TAR: &str = r#"10 execve("/usr/bin/tar", ["tar", "xf", ...], 0x7ff /* 9 vars */) = 0
10 openat(AT_FDCWD</w/in/step>, "/etc/ld.so.cache", O_RDONLY|O_CLOEXEC) = 3</etc/ld.so.cache>
10 read(3</lib/libc.so.6>, ""..., 832) = 832
10 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f1
10 openat(AT_FDCWD</w/in/step>, "small.tar", O_RDONLY) = 3</w/in/step/small.tar>
10 read(3</w/in/step/small.tar>, ""..., 10240) = 10240
10 newfstatat(3</w/in/step/small.tar>, "", {st_mode=S_IFREG|0644, st_size=3, ...}, AT_EMPTY_PATH) = 0
10 mkdirat(AT_FDCWD</w/in/step>, "small", 0700) = 0
10 openat(AT_FDCWD</w/in/step>, "small/f1", O_WRONLY|O_CREAT|O_EXCL, 0600) = 4</w/in/step/small/f1>
10 write(4</w/in/step/small/f1>, ""..., 1500) = 1500
10 utimensat(4</w/in/step/small/f1>, NULL, [{tv_sec=1, tv_nsec=0}, UTIME_OMIT], 0) = 0
10 fchmod(4</w/in/step/small/f1>, 0644)    = 0
10 read(3</w/in/step/small.tar>, "", 10240) = 0
10 fsync(4</w/in/step/small/f1>) = 0
10 write(1<pipe:[77]>, ""..., 5) = 5
10 read(5</proc/10/maps>, ""..., 5) = 5
10 +++ exited with 0 +++
"#;

    #[test]
    fn calls_on_files_of_the_layer_are_counted_by_kind() {
        let found = counted(TAR);
        let calls: Vec<_> = found.calls.iter().map(|(kind, n)| (*kind, *n)).collect();
        assert_eq!(
            calls,
            [
                ("create", 2),
                ("flush", 1),
                ("open", 1),
                ("read", 1),
                ("set-attr", 2),
                ("write", 1)
            ]
        );
        assert_eq!(found.bytes, [("read", 10240), ("write", 1500)].into());
        assert_eq!(found.busiest, 8);
        let values = found.values();
        assert_eq!(values.group("calls").number("create"), Some(2.0));
        assert_eq!(values.number("call_bytes.write"), Some(1500.0));
    }

    #[test]
    fn calls_that_were_split_are_joined_and_threads_are_told_apart() {
        let text = r#"10 clone3({flags=CLONE_VM|CLONE_FS, stack=0x7f, ...} => {parent_tid=[11]}, 88) = 11
10 newfstatat(AT_FDCWD</w/in/step>, "a",  <unfinished ...>
11 newfstatat(AT_FDCWD</w/in/step>, "b", {st_mode=S_IFREG|0644, ...}, AT_SYMLINK_NOFOLLOW) = 0
10 <... newfstatat resumed>{st_mode=S_IFREG|0644, st_size=7, ...}, AT_SYMLINK_NOFOLLOW) = 0
11 read(0<pipe:[1]>, ""..., 1 <unfinished ...>
10 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=11} ---
11 <... read resumed>) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)
11 lstat("c", 0x7ff) = -1 ENOENT (No such file or directory)
11 <... stat resumed>"lost") = 0
10 +++ killed by SIGTERM +++
"#;
        let found = counted(text);
        assert_eq!((found.calls["stat"], found.busiest), (3, 2));
    }

    #[test]
    fn relative_paths_start_where_the_task_is() {
        let text = r#"10 stat("x", {}) = 0
10 chdir("..") = 0
10 chdir("no-such") = -1 ENOENT (No such file or directory)
10 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>
11 stat("x", {}) = 0
11 chdir("../out") = 0
11 stat("x", {}) = 0
10 <... clone resumed>) = 11
10 access("step/../y", R_OK) = 0
10 access("../y", R_OK) = 0
10 fchdir(7</usr>) = 0
10 access("y", R_OK) = 0
10 unlinkat(5</w/in/step>, "y", 0) = 0
10 unlinkat(5</usr>, "y", 0) = 0
10 unlinkat(AT_FDCWD, "/w/inside", 0) = 0
"#;
        assert_eq!(calls(text), [("stat", 3), ("unlink", 1)]);
    }

    #[test]
    fn names_may_have_any_character() {
        for (text, kind) in [
            (r#"1 unlink("a b, (c) = 1.txt") = 0"#, "unlink"),
            (r#"1 unlink("a \"q\" \\ ) = 0") = 0"#, "unlink"),
            (r#"1 unlink("/w/\151n/\303\244") = 0"#, "unlink"),
            (r"1 fsync(3</w/in/a, b) = 0>) = 0", "flush"),
            (r"1 fsync(3</w/in/a\76b>)   = 0", "flush"),
            (r#"1 rename("a", "/out/b") = 0"#, "create"),
            (
                r#"1 openat(3</w/in>, "O_CREAT", O_RDONLY) = 4</w/in/O_CREAT>"#,
                "open",
            ),
            (
                r#"1 openat(3</w/in/O_CREAT>, "a", O_RDONLY) = 4</w/in/O_CREAT/a>"#,
                "open",
            ),
            (
                r#"1 openat2(3</w/in>, "a", {flags=O_WRONLY|O_CREAT, mode=0644}, 24) = 4</w/in/a>"#,
                "create",
            ),
            (
                r#"1 open("a", O_RDWR|O_CREAT, 0644) = 4</w/in/a>"#,
                "create",
            ),
            (
                r"1 mmap(NULL, 1<<12, PROT_READ, MAP_PRIVATE, 3</w/in/a>, 0) = 0x7f",
                "map",
            ),
            (r#"1 symlink("/out", "a") = 0"#, "create"),
            (
                r#"1 openat(3</w/in>, "a", O_RDONLY|O_DIRECTORY) = 4</w/in/a>"#,
                "stat",
            ),
            (
                r#"1 openat(3</w/in>, "a", O_WRONLY|O_CREAT, 0666) = -1 EACCES (Permission denied)"#,
                "stat",
            ),
            (
                r"1 mmap(NULL, 9, PROT_READ, MAP_PRIVATE, 3</w/in/a>, 0) = 0x7f",
                "map",
            ),
        ] {
            assert_eq!(calls(text), [(kind, 1)], "{text}");
        }
    }

    #[test]
    fn no_text_is_misread() {
        for text in [
            "",
            "x",
            "1 ",
            "1 unlink(",
            "1 unlink(\"a",
            "1 unlink(\"a\")",
            "1 unlink(\"a\") =",
            "1 unlink() = 0",
            "1 fsync(3) = 0",
            "1 fsync(3<) = 0",
            "1 <... unlink resumed>) = 0",
            "1 write(1</w/in/a>, \"\"..., 5) = -1 ENOSPC (No space left on device)",
            "1 getdents64(3</w/in>, 0x55 /* 52 entries */, 32768) = 1648",
            "1 unlink(\"\\",
        ] {
            assert_eq!(calls(text), [], "{text}");
        }
    }

    #[test]
    fn a_listing_is_one_call() {
        let text = r#"1 openat(AT_FDCWD</w/in/step>, "d", O_RDONLY|O_DIRECTORY) = 3</w/in/step/d>
1 getdents64(3</w/in/step/d>, 0x55 /* 52 entries */, 32768) = 1648
1 getdents64(3</w/in/step/d>, 0x55 /* 0 entries */, 32768) = 0
1 openat(AT_FDCWD</w/in/step>, "e", O_RDONLY|O_DIRECTORY) = 3</w/in/step/e>
"#;
        assert_eq!(calls(text), [("list", 1), ("stat", 1)]);
    }

    #[test]
    fn only_a_file_of_limited_size_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let error = |at: &Path| bounded(File::open(at).unwrap()).unwrap_err().to_string();
        assert_eq!(error(dir.path()), "it is not a file");
        let at = dir.path().join("trace");
        let file = File::create(&at).unwrap();
        file.set_len(LARGEST).unwrap();
        assert!(bounded(File::open(&at).unwrap()).is_ok());
        file.set_len(LARGEST + 1).unwrap();
        assert!(error(&at).ends_with("more than 268435456"));
    }

    #[test]
    fn strace_counts_a_command() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a b"), "x").unwrap();
        let Ok(tracer) = CallTracer::new(dir.path(), dir.path(), dir.path()) else {
            return eprintln!("skipped: strace is not installed");
        };
        let words = shell_words::split(&tracer.command("rm 'a b'")).unwrap();
        let done = std::process::Command::new(&words[0])
            .args(&words[1..])
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        let values = tracer.read(1).unwrap();
        assert_eq!(values.number("calls.unlink"), Some(1.0));
        assert!(!tracer.file.exists());
    }
}
