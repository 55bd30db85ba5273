//! What a layer may leave behind: mounts, loop devices, processes, files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
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
    points: BTreeSet<String>,
}

/// In the paths by which runs see their work directories.
const POINT: &str = "/layermark-at-";

/// Those of runs in `dir`, now or when this was asked before.
fn views(dir: &Path) -> BTreeSet<String> {
    static SEEN: Mutex<BTreeMap<PathBuf, BTreeSet<String>>> = Mutex::new(BTreeMap::new());
    let mut seen = SEEN.lock().unwrap();
    let seen = seen.entry(dir.into()).or_default();
    // The end of the path, since what is mounted is told without where its disk is.
    let mut end = dir.components().rev().take(2).collect::<Vec<_>>();
    end.reverse();
    let end = end
        .iter()
        .collect::<PathBuf>()
        .to_string_lossy()
        .into_owned();
    for (_, mounts) in layermark_testkit::mounts::seen_by_all() {
        for line in mounts.lines() {
            let mut fields = line.split(' ').skip(3);
            let (root, at) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
            // Not what is mounted below one.
            let name = at.rsplit('/').next().unwrap_or("");
            if root.contains(&end) && name.starts_with(&POINT[1..]) {
                seen.insert(at.to_owned());
            }
        }
    }
    seen.clone()
}

impl State {
    /// As it is now. Only what has to do with `dir` is looked at: others work on this machine.
    pub fn of(dir: &Path) -> Self {
        let dir = dir.canonicalize().unwrap();
        let mut texts = views(&dir);
        texts.insert(dir.to_string_lossy().into_owned());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let ours = |line: &&str| texts.iter().any(|t| line.contains(t.as_str()));
        Self {
            mounts: mounts.lines().filter(ours).map(str::to_owned).collect(),
            loops: loops(&texts),
            processes: processes(&texts),
            files: files(&dir),
            points: texts
                .iter()
                .filter(|t| t.contains(POINT) && Path::new(t).exists())
                .cloned()
                .collect(),
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

fn loops(texts: &BTreeSet<String>) -> BTreeSet<String> {
    fs::read_dir("/sys/block")
        .unwrap()
        .flatten()
        .filter_map(|e| fs::read_to_string(e.path().join("loop/backing_file")).ok())
        .filter(|file| texts.iter().any(|t| file.contains(t.as_str())))
        .collect()
}

/// Command lines that name one of these, of processes that are not zombies, nor this one or its parents.
fn processes(texts: &BTreeSet<String>) -> BTreeSet<String> {
    let us = format!("{}", std::process::id());
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|e| e.file_name().to_string_lossy() != us)
        .filter_map(|e| fs::read(e.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| texts.iter().any(|t| line.contains(t.as_str())))
        .filter(|line| !line.contains(" drive "))
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
