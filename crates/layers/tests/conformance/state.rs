//! What a layer may leave behind: mounts, loop devices, processes, files.

use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// The traces that layers below `dir` leave while they are up.
#[derive(Debug, PartialEq, Eq)]
pub struct State {
    mounts: BTreeSet<String>,
    loops: BTreeSet<String>,
    processes: BTreeSet<String>,
    files: BTreeSet<PathBuf>,
}

impl State {
    /// As it is now. Only what has to do with `dir` is looked at: others work on this machine.
    pub fn of(dir: &Path) -> Self {
        let dir = dir.canonicalize().unwrap();
        let text = dir.to_string_lossy().into_owned();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        Self {
            mounts: mounts
                .lines()
                .filter(|l| l.contains(&text))
                .map(str::to_owned)
                .collect(),
            loops: loops(&text),
            processes: processes(&text),
            files: files(&dir),
        }
    }

    /// Waits until it is like this again: the kernel ends namespaces and loop devices a moment
    /// after the last process.
    pub fn comes_back(&self, dir: &Path) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let now = Self::of(dir);
            if now == *self {
                return Ok(());
            }
            if start.elapsed() > Duration::from_mins(1) {
                return Err(format!("left behind: {now:#?}\nbefore: {self:#?}"));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn loops(text: &str) -> BTreeSet<String> {
    fs::read_dir("/sys/block")
        .unwrap()
        .flatten()
        .filter_map(|e| fs::read_to_string(e.path().join("loop/backing_file")).ok())
        .filter(|file| file.contains(text))
        .collect()
}

/// Command lines that name `text`, of processes that are not zombies, nor this one or its parents.
fn processes(text: &str) -> BTreeSet<String> {
    let us = format!("{}", std::process::id());
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|e| e.file_name().to_string_lossy() != us)
        .filter_map(|e| fs::read(e.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(text) && !line.contains(" drive "))
        .collect()
}

/// What the processes that name `dir` wait for in the kernel, thread by thread: why one hangs.
pub fn waiting(dir: &Path) -> String {
    let text = dir.to_string_lossy().into_owned();
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let mut said = String::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let line = read(process.path().join("cmdline")).replace('\0', " ");
        if !line.contains(&text) {
            continue;
        }
        let pid = process.file_name();
        let _ = writeln!(said, "{} {line}", pid.to_string_lossy());
        let threads = fs::read_dir(process.path().join("task"));
        for thread in threads.into_iter().flatten().flatten() {
            let [name, call, stack] =
                ["comm", "syscall", "stack"].map(|f| read(thread.path().join(f)));
            let _ = write!(said, "  {}: {call}{stack}", name.trim());
        }
    }
    said
}

fn files(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let Ok(entries) = fs::read_dir(dir) else {
        return found;
    };
    for entry in entries.flatten() {
        found.insert(entry.path());
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            found.extend(files(&entry.path()));
        }
    }
    found
}
