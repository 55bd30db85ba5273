//! System calls of a step on the layer's files, by strace(1): an extra execution, natively, that does not
//! count.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use layermark_model::{FigureValues, calls, random_name};
use layermark_recording::strace::{Ended, Event, below, normal, path_of, quoted};
use layermark_sys::packages;

use crate::{
    ProbeError,
    programs::{PATH, strace, which},
};

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

impl Place {
    /// The argument after it.
    fn after(self) -> usize {
        match self {
            At(i) | Descriptor(i) => i + 1,
            Below(i) => i + 2,
        }
    }
}

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
    root: Vec<u8>,
    /// The directory of the step.
    start: Vec<u8>,
}

impl CallTracer {
    /// Counts calls on files below `root`, of a command that is started in `start`. The file is made in
    /// `home`.
    pub fn new(root: &Path, start: &Path, home: &Path) -> Result<Self, ProbeError> {
        if which("strace", PATH).is_none() {
            let missing = ProbeError::new("`strace` is not installed");
            return Err(missing.hint(packages::install("strace")));
        }
        // As strace shows paths of descriptors: without links.
        let real = |path: &Path| {
            let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            path.as_os_str().as_bytes().to_vec()
        };
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
        let words = strace::command(&["-e", "signal=none"], &calls, &file);
        format!("{} {run}", shell_words::join(words))
    }

    /// The counts for each of the operations that the execution did, as values of a trial, after all traced
    /// processes have ended.
    pub fn read(&self, operations: u64) -> Result<FigureValues, ProbeError> {
        let mut counting = Counting::new(self);
        strace::read(&self.file, |task, event| counting.event(task, event))?;
        Ok(counting.end().values(operations))
    }
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
    fn values(&self, operations: u64) -> FigureValues {
        let mut values = FigureValues::default();
        let each = |n: u64| n as f64 / operations.max(1) as f64;
        for (group, counted) in [(calls::GROUP, &self.calls), (calls::BYTES, &self.bytes)] {
            for (kind, n) in counted {
                values.set(&format!("{group}.{kind}"), each(*n));
            }
        }
        values.set(calls::BUSIEST, each(self.busiest));
        values
    }
}

/// Counts calls as a trace has them.
struct Counting<'a> {
    of: &'a CallTracer,
    counts: Counts,
    /// Directories that were opened.
    directories: u64,
    /// Calls of each task.
    tasks: BTreeMap<u32, u64>,
    /// The working directory of each task.
    current: BTreeMap<u32, Vec<u8>>,
    /// The task that last began to make another.
    parent: Option<u32>,
}

impl<'a> Counting<'a> {
    fn new(of: &'a CallTracer) -> Self {
        Self {
            of,
            counts: Counts::default(),
            directories: 0,
            tasks: BTreeMap::new(),
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

    fn event(&mut self, task: u32, event: &Event<'_>) {
        if !self.current.contains_key(&task) {
            let from = self.parent.and_then(|parent| self.current.get(&parent));
            let from = from.unwrap_or(&self.of.start).clone();
            self.current.insert(task, from);
        }
        let text = match event {
            Event::Begun(text) => text,
            Event::Ended { text, .. } => text.as_ref(),
            Event::Exited => return,
        };
        let makes = |name: &&str| text.starts_with(name);
        if ["clone", "fork", "vfork"].iter().any(makes) {
            self.parent = Some(task);
        }
        if let Some(call) = Ended::read(text) {
            self.call(task, &call);
        }
    }

    fn call(&mut self, task: u32, call: &Ended<'_>) {
        let place = match call.name {
            "chdir" => Some(At(0)),
            "fchdir" => Some(Descriptor(0)),
            _ => None,
        };
        if let Some(place) = place {
            if let Some(to) = self.path(task, call, place).filter(|_| !call.failed()) {
                self.current.insert(task, to);
            }
            return;
        }
        for (_, place, kind) in COUNTED.iter().filter(|(name, ..)| *name == call.name) {
            let path = self.path(task, call, *place);
            if path.is_some_and(|path| below(&self.of.root, &path).is_some())
                && self.add(call, *place, kind)
            {
                *self.tasks.entry(task).or_default() += 1;
            }
        }
    }

    /// Counts a call on a file of the layer. Whether it counts.
    fn add(&mut self, call: &Ended<'_>, place: Place, kind: &'static str) -> bool {
        let moved = call.returned.map_or(0, |bytes| bytes.max(0) as u64);
        let has = |flag| has_flag(call.arg(place.after()), flag);
        let kind = match kind {
            // Attributes of an open file are known.
            "stat" if matches!(place, Below(i) if quoted(call.arg(i + 1)).is_none_or(|p| p.is_empty())) =>
            {
                return false;
            }
            // What fails has only looked for the name.
            "open" | "create" | "unlink" if call.failed() => "stat",
            "open" if has("O_CREAT") => "create",
            "open" if has("O_DIRECTORY") => {
                self.directories += 1;
                return true;
            }
            // The last call of a listing finds no more names.
            "list" if call.returned != Some(0) => return false,
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
    fn path(&self, task: u32, call: &Ended<'_>, place: Place) -> Option<Vec<u8>> {
        let start = self.current.get(&task).unwrap_or(&self.of.start);
        match place {
            At(i) => Some(normal(start, &quoted(call.arg(i))?)),
            Descriptor(i) => path_of(call.arg(i)),
            Below(i) => {
                let base = path_of(call.arg(i));
                let base = base.as_ref().unwrap_or(start);
                Some(normal(base, &quoted(call.arg(i + 1)).unwrap_or_default()))
            }
        }
    }
}

/// Whether an argument has a flag. Those of openat2(2) are in braces.
fn has_flag(argument: &str, flag: &str) -> bool {
    let mut words = argument.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.any(|word| word == flag)
}

#[cfg(test)]
mod tests {
    use layermark_recording::strace::events;

    use super::*;

    fn counted(text: &str) -> Counts {
        let tracer = CallTracer {
            file: PathBuf::new(),
            root: "/w/in".into(),
            start: "/w/in/step".into(),
        };
        let mut counting = Counting::new(&tracer);
        events(text.as_bytes(), |task, event| counting.event(task, event)).unwrap();
        counting.end()
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
        let values = found.values(1);
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
