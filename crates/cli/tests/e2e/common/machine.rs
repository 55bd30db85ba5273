//! What a run leaves on the machine: mounts, loop devices, processes, files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    sync::{
        LazyLock, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use layermark_sys::process;

/// A process, told from a later one of the same number by its start.
pub type Process = (u32, u64);

/// Parent and start of a process that is not a zombie.
fn stat(pid: u32) -> Option<(u32, u64)> {
    let stat = process::Stat::of(pid)?;
    (!matches!(stat.state, 'Z' | 'X')).then_some((stat.parent, stat.start))
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
    let mut all: Vec<Proc> = process::all()
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

/// The process that makes the run of a command, which keeps it.
#[track_caller]
pub fn runner(keeper: u32) -> u32 {
    let all = tree(keeper);
    let child = all.iter().find(|p| p.parent == keeper);
    child.expect("a run").pid
}

/// A process and all that it has started.
pub fn family(of: u32) -> Vec<Process> {
    tree(of).iter().map(|p| (p.pid, p.start)).collect()
}

/// Whether it is the same process still, and no zombie.
pub fn lives((pid, start): Process) -> bool {
    stat(pid).is_some_and(|(_, now)| now == start)
}

/// What lies in `/tmp` and is needed by tests that cover it: the clone may be there.
fn needed_in_tmp() -> BTreeSet<PathBuf> {
    let needed = [super::binary(), super::root(), super::base()];
    let real = needed.iter().filter_map(|path| path.canonicalize().ok());
    let in_tmp = real.filter_map(|path| {
        let first = path.strip_prefix("/tmp").ok()?.iter().next()?;
        Some(Path::new("/tmp").join(first))
    });
    in_tmp.collect()
}

/// Shell text that does the same as [`own_tmp`] in a mount namespace.
pub fn own_tmp_in_shell() -> String {
    let needed = needed_in_tmp();
    let each = |text: fn(usize, &str) -> String| -> String {
        let paths = needed.iter().map(|path| path.to_str().expect("a path"));
        let lines = paths.enumerate().map(|(n, path)| text(n + 5, path));
        lines.collect()
    };
    let open = each(|n, path| format!("exec {n}<'{path}'; "));
    let show = each(|n, path| {
        format!(
            "if [ -d /proc/self/fd/{n} ]; then mkdir '{path}'; else touch '{path}'; fi
mount --no-canonicalize --bind /proc/self/fd/{n} '{path}'; exec {n}<&-; "
        )
    });
    format!("{open}mount -t tmpfs tmp /tmp -o mode=1777; {show}")
}

/// Shows the calling thread, and what it starts from now on, a `/tmp` with nothing in it but what tests
/// need.
#[allow(unsafe_code)]
pub fn own_tmp() -> rustix::io::Result<()> {
    use rustix::{
        fs::{CWD, Mode, OFlags, mkdirat, open},
        mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change},
        thread::{UnshareFlags, unshare_unsafe},
    };
    // SAFETY: this flag does not touch the table of file descriptors.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change(
        "/",
        MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
    )?;
    let needed = needed_in_tmp().into_iter();
    let opened = needed.map(|path| Ok((open(&path, OFlags::PATH, Mode::empty())?, path)));
    let opened: Vec<_> = opened.collect::<rustix::io::Result<_>>()?;
    mount(
        "tmpfs",
        "/tmp",
        "tmpfs",
        MountFlags::empty(),
        Some(c"mode=1777"),
    )?;
    for (file, path) in opened {
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        if Path::new(&link).is_dir() {
            mkdirat(CWD, &path, Mode::RWXU)?;
        } else {
            let made = OFlags::WRONLY | OFlags::CREATE;
            open(&path, made, Mode::RUSR)?;
        }
        mount_bind(&link, &path)?;
    }
    Ok(())
}

/// Waits until these processes have ended.
#[track_caller]
pub fn wait_for_end(processes: &[Process]) {
    super::wait_for("processes to end", || {
        let lives = |(pid, start): &Process| stat(*pid).is_some_and(|(_, now)| now == *start);
        (!processes.iter().any(lives)).then_some(())
    });
}

/// Mount points by which runs see their work directories, by the directory of the test; those that
/// were there once as well.
static VIEWS: Mutex<BTreeMap<PathBuf, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

/// Loop devices that nobody could see before this test.
static LOST_BEFORE: LazyLock<BTreeSet<PathBuf>> = LazyLock::new(|| {
    let lost = loop_devices().filter(|(_, file)| is_lost(file));
    lost.map(|(device, _)| device).collect()
});

/// To be called before anything is started.
pub fn look_around() {
    LazyLock::force(&LOST_BEFORE);
}

/// Loop devices in use, each with the path of its file.
fn loop_devices() -> impl Iterator<Item = (PathBuf, String)> {
    let all = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    all.filter_map(|entry| {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        Some((entry.path(), file.trim().to_owned()))
    })
}

/// A mount that was taken away with what is mounted below it is seen by no process, and has no path before it.
fn is_lost(file: &str) -> bool {
    file.starts_with("/image-")
}

/// The lines of a `mountinfo` that have to do with a run in `dir`, and the views among them.
fn mounts_of<'a>(mounts: &'a str, dir: &Path, views: &mut BTreeSet<String>) -> Vec<&'a str> {
    let text = dir.display().to_string();
    let name = dir.file_name().expect("a name").to_string_lossy();
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(3);
        // What is mounted, and where.
        let (root, at) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
        let point = at.rsplit('/').next().unwrap_or("");
        if root.contains(&*name) && point.starts_with("layermark-at-") {
            views.insert(at.to_owned());
        }
    }
    let ours = |l: &&str| l.contains(&text) || views.iter().any(|v| l.contains(v.as_str()));
    mounts.lines().filter(ours).collect()
}

/// Mounts of a run in `dir` as one of its processes sees them.
pub fn mounts_seen_by(pid: u32, dir: &Path) -> Vec<String> {
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).expect("mounts");
    let ours = mounts_of(&mounts, dir, &mut BTreeSet::new());
    ours.into_iter().map(str::to_owned).collect()
}

/// What is there of a run in `dir` at this moment, in words.
pub fn traces(dir: &Path, processes: &[Process]) -> Vec<String> {
    let dir = dir.canonicalize().expect("directory");
    let mut all = VIEWS.lock().unwrap_or_else(PoisonError::into_inner);
    let views = all.entry(dir.clone()).or_default();
    let mut found = Vec::new();
    // Namespaces of others too: a mount lives on in the last process that sees it.
    for (pid, mounts) in layermark_testkit::mounts::seen_by_all() {
        let ours = mounts_of(&mounts, &dir, views).into_iter();
        found.extend(ours.map(|l| format!("mount seen by {pid}: {l}")));
    }
    let text = dir.display().to_string();
    for (device, file) in loop_devices() {
        let is_lost = is_lost(&file) && !LOST_BEFORE.contains(&device);
        if is_lost || file.contains(&text) || views.iter().any(|v| file.contains(v.as_str())) {
            found.push(format!("{}: {file}", device.display()));
        }
    }
    for (pid, start) in processes {
        if lives((*pid, *start)) {
            found.push(format!("process {pid}"));
        }
    }
    found.extend(views.iter().filter(|v| Path::new(v).exists()).cloned());
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

/// A control group of this test's own with a quota of CPU time, removed at the end.
pub struct QuotaGroup(PathBuf);

impl QuotaGroup {
    /// With this many microseconds of each 0.1 s of a CPU; `None` where no such group can be made.
    pub fn with(us: u32) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("layermark-test-{}-{number}", std::process::id());
        let make = |parent: &str, file: &str, quota: String| {
            let dir = Path::new(parent).join(&name);
            fs::create_dir(&dir).ok()?;
            let group = Self(dir);
            group.set(file, &quota).then_some(group)
        };
        make("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", us.to_string())
            .or_else(|| make("/sys/fs/cgroup", "cpu.max", format!("{us} 100000")))
    }

    /// What is written to this file joins it.
    pub fn procs(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }

    fn set(&self, file: &str, value: &str) -> bool {
        fs::write(self.0.join(file), value).is_ok()
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
