//! What a run leaves on the machine: mounts, loop devices, processes, files.

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// A process, told from a later one of the same number by its start.
pub type Process = (u32, u64);

/// Parent and start of a process that is not a zombie.
fn stat(pid: u32) -> Option<(u32, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok())
}

/// A process of a run.
#[derive(Debug, Clone)]
pub struct Proc {
    pub pid: u32,
    pub parent: u32,
    pub start: u64,
    /// Its arguments; one empty text when it has none.
    pub command: Vec<String>,
}

/// A process and all that it has started, parents before children.
pub fn tree(of: u32) -> Vec<Proc> {
    let mut all: Vec<Proc> = pids()
        .filter_map(|pid| {
            let (parent, start) = stat(pid)?;
            let command = Vec::new();
            Some(Proc {
                pid,
                parent,
                start,
                command,
            })
        })
        .collect();
    let mut found: Vec<Proc> = Vec::new();
    let mut next = vec![of];
    while let Some(pid) = next.pop() {
        next.extend(all.iter().filter(|p| p.parent == pid).map(|p| p.pid));
        let at = all.iter().position(|p| p.pid == pid);
        found.extend(at.map(|at| all.swap_remove(at)));
    }
    for process in &mut found {
        let line = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        let words = line.split(|b| *b == 0).filter(|w| !w.is_empty());
        process.command = words
            .map(|w| String::from_utf8_lossy(w).into_owned())
            .collect();
        if process.command.is_empty() {
            process.command.push(String::new());
        }
    }
    found
}

/// A process and all that it has started.
pub fn family(of: u32) -> Vec<Process> {
    tree(of).iter().map(|p| (p.pid, p.start)).collect()
}

/// Whether it is the same process still, and no zombie.
pub fn lives((pid, start): Process) -> bool {
    stat(pid).is_some_and(|(_, now)| now == start)
}

/// Shows the calling thread, and what it starts from now on, an empty `/tmp`.
#[allow(unsafe_code)]
pub fn own_tmp() -> rustix::io::Result<()> {
    use rustix::{
        mount::{MountFlags, MountPropagationFlags, mount, mount_change},
        thread::{UnshareFlags, unshare_unsafe},
    };
    // SAFETY: this flag does not touch the table of file descriptors.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change(
        "/",
        MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
    )?;
    mount(
        "tmpfs",
        "/tmp",
        "tmpfs",
        MountFlags::empty(),
        Some(c"mode=1777"),
    )
}

/// What is there of a run in `dir` at this moment, in words.
pub fn traces(dir: &Path, processes: &[Process]) -> Vec<String> {
    let text = dir.canonicalize().expect("directory").display().to_string();
    let mut found = Vec::new();
    for pid in pids() {
        // Namespaces of others too: a mount lives on in the last process that sees it.
        let Ok(mounts) = fs::read_to_string(format!("/proc/{pid}/mountinfo")) else {
            continue;
        };
        let ours = mounts.lines().filter(|l| l.contains(&text));
        found.extend(ours.map(|l| format!("mount seen by {pid}: {l}")));
    }
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let file = fs::read_to_string(entry.path().join("loop/backing_file"));
        let file = file.unwrap_or_default();
        if file.contains(&text) {
            found.push(format!("{}: {}", entry.path().display(), file.trim()));
        }
    }
    for (pid, start) in processes {
        if lives((*pid, *start)) {
            found.push(format!("process {pid}"));
        }
    }
    let files = fs::read_dir(dir.join("work"))
        .into_iter()
        .flatten()
        .flatten();
    let ours = files.filter(|e| e.file_name().to_string_lossy().starts_with("layermark-"));
    found.extend(ours.map(|e| e.path().display().to_string()));
    found
}

/// Waits until nothing is left of a run. The kernel ends namespaces and loop devices a moment after
/// the last process, and the janitor waits for them.
#[track_caller]
pub fn nothing_left(dir: &Path, processes: &[Process]) {
    let start = Instant::now();
    loop {
        let found = traces(dir, processes);
        if found.is_empty() {
            return;
        }
        let waited = start.elapsed();
        assert!(waited < Duration::from_mins(1), "left behind: {found:#?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Every file below a directory: its size, time of change, mode and a hash of its content.
pub fn inventory(dir: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, u32, u64)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("directory").flatten() {
        let path = entry.path();
        let meta = entry.metadata().expect("metadata");
        let mut hash = DefaultHasher::new();
        if meta.is_symlink() {
            fs::read_link(&path).expect("link").hash(&mut hash);
        } else if meta.is_file() {
            fs::read(&path).expect("file").hash(&mut hash);
        } else {
            all.extend(inventory(&path));
        }
        let (time, nanos) = (meta.mtime(), meta.mtime_nsec());
        all.insert(path, (meta.len(), time, nanos, meta.mode(), hash.finish()));
    }
    all
}
