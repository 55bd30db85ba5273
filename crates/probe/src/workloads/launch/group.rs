//! A control group (version 2) around the guard and all processes it starts. It counts the I/O
//! waits and reads of the whole tree, including short-lived processes.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use layermark_model::random_name;

/// Prefix of our groups' names, followed by the process that created them.
const PREFIX: &str = "layermark-";

/// How long its removal waits for processes in it that were killed and have not ended yet.
const PATIENCE: Duration = Duration::from_secs(2);

/// A control group of layermark. The probe names it. The guard, which outlives a killed probe, creates and enters it.
/// Both remove it on drop: the last one to end succeeds.
#[derive(Debug)]
pub struct LaunchCgroup {
    parent: PathBuf,
    path: PathBuf,
}

/// Counters of a group. `None`: not available on this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Time in which at least one of its tasks waited for I/O, ns.
    pub wait_ns: Option<u64>,
    /// Bytes that its tasks read from devices.
    pub read_bytes: Option<u64>,
}

impl LaunchCgroup {
    /// Names a group below this process's own, which [`LaunchCgroup::enter`] creates. `None` without a mount of them.
    pub fn named() -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let parent = own(&groups, &mounts)?;
        sweep(&parent);
        let path = parent.join(random_name(&format!("{PREFIX}{}-", std::process::id())));
        Some(Self { parent, path })
    }

    /// Creates it and moves this process into it.
    ///
    /// # Errors
    ///
    /// That is not allowed, or it would count nothing.
    pub fn enter(&self) -> io::Result<()> {
        // Refused where the controller is of version 1, or the group above has processes of its own.
        let _ = fs::write(self.parent.join("cgroup.subtree_control"), "+io");
        fs::create_dir(&self.path)?;
        if self.counters() == Counters::default() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        move_to(&self.path)
    }

    /// Its counters since it was made.
    pub fn counters(&self) -> Counters {
        let text = |name: &str| fs::read_to_string(self.path.join(name)).ok();
        Counters {
            wait_ns: text("io.pressure").and_then(|t| waited_ns(&t)),
            read_bytes: text("io.stat").map(|t| read_bytes(&t, is_device)),
        }
    }
}

impl Drop for LaunchCgroup {
    fn drop(&mut self) {
        // It may be gone. The next run removes groups that cannot be removed now.
        let _ = move_to(&self.parent);
        let start = Instant::now();
        while fs::remove_dir(&self.path).is_err_and(|e| e.kind() == io::ErrorKind::ResourceBusy)
            && start.elapsed() < PATIENCE
        {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn move_to(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), "0")
}

/// Removes groups whose creators were killed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|n| n.strip_prefix(PREFIX));
        let maker = maker.and_then(|m| m.split('-').next());
        if maker.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // A process may still be in it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Directory of the process's own group: `0::PATH` of cgroups(7), below the mount of `cgroup2`.
fn own(groups: &str, mounts: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|l| l.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        (after.split(' ').next() == Some("cgroup2")).then(|| Path::new(at).join(below))
    })
}

/// `some ... total=` of a pressure file, which counts microseconds.
fn waited_ns(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|l| l.strip_prefix("some "))?;
    let total = some.split(' ').find_map(|f| f.strip_prefix("total="))?;
    Some(total.parse::<u64>().ok()? * 1000)
}

/// `rbytes=` of all lines of `io.stat` whose device stores bytes itself. Reads of a loop device are
/// counted again at the device below it.
fn read_bytes(text: &str, counts: fn(&str) -> bool) -> u64 {
    let bytes = |line: &str| -> Option<u64> {
        let (device, rest) = line.split_once(' ')?;
        let read = rest.split(' ').find_map(|f| f.strip_prefix("rbytes="))?;
        counts(device).then(|| read.parse().ok())?
    };
    text.lines().filter_map(bytes).sum()
}

fn is_device(number: &str) -> bool {
    let at = Path::new("/sys/dev/block").join(number);
    let stacked = fs::read_dir(at.join("slaves")).is_ok_and(|mut d| d.next().is_some());
    !at.join("loop").exists() && !stacked
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A probe that is killed before its guard is there leaves none.
    #[test]
    fn a_named_group_is_not_there_before_it_is_entered() {
        let Some(group) = LaunchCgroup::named() else {
            return eprintln!("skipped: version 2 of control groups is not mounted");
        };
        assert!(!group.path.exists());
    }

    #[test]
    fn finds_its_own_group_below_the_mount() {
        let mounts = "24 1 0:20 / /proc rw - proc proc rw\n\
            30 24 0:27 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let at = |groups: &str, mounts: &str| own(groups, mounts);
        let whole = "/sys/fs/cgroup/unified";
        assert_eq!(at("9:cpu:/x\n0::/\n", mounts), Some(whole.into()));
        assert_eq!(at("0::/a/b\n", mounts), Some(format!("{whole}/a/b").into()));
        let inner = "30 24 0:27 /a /cg rw - cgroup2 cgroup2 rw\n";
        assert_eq!(at("0::/a/b\n", inner), Some("/cg/b".into()));
        assert_eq!(at("0::/c\n", inner), None);
        assert_eq!(at("1:cpu:/\n", mounts), None);
        assert_eq!(at("0::/\n", ""), None);
    }

    #[test]
    fn reads_pressure_and_bytes() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 total=99\n";
        assert_eq!(waited_ns(text), Some(1_234_000));
        assert_eq!(waited_ns("full total=1\n"), None);
        let text = "7:0 rbytes=4096 wbytes=0\n254:0 rbytes=8192 wbytes=1 rios=2\n8:0\nx\n";
        assert_eq!(read_bytes(text, |d| d != "7:0"), 8192);
        assert_eq!(read_bytes("", |_| true), 0);
    }
}
