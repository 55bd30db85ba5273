//! Page faults of a program on mapped files: the kernel's tracepoints `filemap:*`, in an instance of tracefs of our own.
//! What others trace is not touched. tracefs is mounted nowhere: it is reached by a descriptor alone.

use std::{
    fs::File,
    io::{self, BufReader, Read as _, Write as _},
    os::fd::{AsFd, OwnedFd},
    path::Path,
    time::SystemTime,
};

use layermark_model::random;
use layermark_recording::{
    Entry, EntryKind,
    strace::{Faults, TraceClock, line_of_trace},
};
use layermark_sys::process::Stat;
use rustix::{
    fs::{
        AtFlags, CWD, Mode, OFlags, fstat, fstatfs, major, minor, mkdirat, openat, statat, unlinkat,
    },
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen},
    thread::gettid,
};

use crate::say::say;

/// KiB of the buffers of all CPUs: an event takes about 40 bytes.
const BUFFERS: usize = 64 << 10;
/// KiB of the buffer of a CPU, at least.
const BUFFER: usize = 1 << 10;
/// Tracepoints: a page that was not mapped and had to be found or read, and pages that were mapped around one.
const EVENTS: [&str; 2] = ["mm_filemap_fault", "mm_filemap_map_pages"];
/// How far clocks may be apart beyond whole seconds, us: the time from writing a mark to reading the clock.
const APART: u64 = 400_000;
/// What the names of our instances begin with, before the process ID.
const PREFIX: &str = "layermark-";
/// `f_type` of overlayfs.
const OVERLAY: i64 = 0x794c_7630;
/// `f_type` of btrfs.
const BTRFS: i64 = 0x9123_683e;

/// An instance that traces this thread, and what it starts.
pub struct Tracing {
    instance: Instance,
    clock: TraceClock,
    root: OwnedFd,
    /// The device of the tree, as stat(2) has it.
    device: u64,
    /// Names and inode numbers of files.
    files: Vec<(Vec<u8>, u64)>,
}

/// A directory below `instances`, which has its own buffers, events and clock. It goes when this is dropped.
struct Instance {
    all: OwnedFd,
    name: String,
    dir: OwnedFd,
}

impl Tracing {
    /// Begins to trace what this thread starts from now on, in a tree with these files.
    ///
    /// # Errors
    /// Why that is not possible, in words.
    pub fn begin(root: &Path, tree: &[Entry]) -> Result<Self, String> {
        if !layermark_fd::is_root() {
            return Err("only root can record page faults".into());
        }
        let failed = |e: io::Error| format!("page faults cannot be recorded: {e}");
        let root = layermark_fd::open_dir(CWD, root).map_err(|e| failed(e.into()))?;
        let kind = fstatfs(&root).map_err(|e| failed(e.into()))?.f_type as i64;
        if kind == OVERLAY {
            return Err("the tree is on overlayfs, whose pages are those of other files".into());
        }
        let device = fstat(&root).map_err(|e| failed(e.into()))?.st_dev;
        let instance = Instance::new().map_err(failed)?;
        let ahead_us = instance.ahead().map_err(failed)?;
        instance.remove_others();
        let clock = TraceClock {
            ahead_us,
            // stat(2) shows a number of the subvolume there.
            device: (kind != BTRFS).then(|| (major(device), minor(device))),
        };
        let mut tracing = Self {
            instance,
            clock,
            root,
            device,
            files: Vec::new(),
        };
        tracing.find(tree);
        tracing.instance.begin(clock.device).map_err(failed)?;
        Ok(tracing)
    }

    /// Looks for the inode numbers of files. Without the right to do so, their faults are not known.
    fn find(&mut self, tree: &[Entry]) {
        for entry in tree.iter().filter(|entry| entry.kind == EntryKind::File) {
            let name = &entry.path.0;
            let found = statat(&self.root, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
            if let Ok(found) = found.as_ref()
                && found.st_dev == self.device
            {
                self.files.push((name.clone(), found.st_ino));
            }
        }
    }

    /// What was traced until now, by a program that has left this tree.
    pub fn end(mut self, after: &[Entry]) -> io::Result<Faults> {
        self.instance.write("tracing_on", "0")?;
        self.find(after);
        let trace = BufReader::new(self.instance.open("trace")?);
        Faults::read(trace, self.clock, self.files)
    }
}

impl Instance {
    fn new() -> io::Result<Self> {
        let in_tracefs = |e: io::Error| io::Error::new(e.kind(), format!("tracefs: {e}"));
        let all = Self::tracefs().map_err(in_tracefs)?;
        let name = format!("{PREFIX}{}-{:016x}", std::process::id(), random());
        mkdirat(&all, name.as_str(), Mode::RWXU).map_err(|e| in_tracefs(e.into()))?;
        let dir = layermark_fd::open_dir(&all, name.as_str());
        let dir = dir.or_else(|e| {
            unlinkat(&all, name.as_str(), AtFlags::REMOVEDIR)?;
            Err(e)
        })?;
        Ok(Self { all, name, dir })
    }

    /// `instances` of tracefs.
    fn tracefs() -> io::Result<OwnedFd> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(context.as_fd())?;
        let safe = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, safe)?;
        Ok(layermark_fd::open_dir(mount, "instances")?)
    }

    fn opened(&self, file: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&self.dir, file, flags, Mode::empty());
        let opened = opened.map_err(|e| io::Error::other(format!("tracefs: {file}: {e}")))?;
        Ok(opened.into())
    }

    fn open(&self, file: &str) -> io::Result<File> {
        self.opened(file, OFlags::RDONLY)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let written = self.opened(file, OFlags::WRONLY | OFlags::TRUNC)?;
        let written = (&written).write_all(text.as_bytes());
        written.map_err(|e| io::Error::other(format!("tracefs: {file}: {e}")))
    }

    /// How far the clock of this instance is ahead of the time of day, which strace shows: whole seconds, us. An error if it
    /// numbers tasks in another way than strace, as in a container.
    fn ahead(&self) -> io::Result<i64> {
        self.write("trace_clock", "tai")?;
        self.write("trace_marker", "layermark")?;
        let now = SystemTime::UNIX_EPOCH.elapsed().map_err(io::Error::other)?;
        let mut trace = String::new();
        self.open("trace")?.read_to_string(&mut trace)?;
        let mut lines = trace.lines();
        let mark = lines.find_map(|line| line_of_trace(line, "tracing_mark_write"));
        let (task, at, _) = mark.ok_or_else(|| io::Error::other("tracefs shows no mark"))?;
        if task != gettid().as_raw_nonzero().get().cast_unsigned() {
            return Err(io::Error::other(
                "the kernel has other process IDs than this container",
            ));
        }
        let apart = at.cast_signed() - i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        let seconds = (apart as f64 / 1e6).round() as i64;
        let ahead = seconds * 1_000_000;
        if apart.abs_diff(ahead) > APART {
            return Err(io::Error::other("tracefs has no clock of the time of day"));
        }
        Ok(ahead)
    }

    /// Removes instances that killed processes have left. Called when the kernel's process IDs are known to be ours.
    fn remove_others(&self) {
        let names = layermark_fd::names(self.all.as_fd(), "").unwrap_or_default();
        for name in names {
            let own = name.to_str().ok();
            let pid = own.and_then(|own| own.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
            if pid.is_some_and(|pid: u32| Stat::of(pid).is_none()) {
                let _ = unlinkat(&self.all, name.as_c_str(), AtFlags::REMOVEDIR);
            }
        }
    }

    /// Traces this thread, and all that it starts from now on: only files of this device, if it is known.
    fn begin(&self, device: Option<(u32, u32)>) -> io::Result<()> {
        let cpus = layermark_fd::open_dir(&self.dir, "per_cpu")?;
        let cpus = layermark_fd::names(cpus.as_fd(), "")?.len().max(1);
        let buffer = (BUFFERS / cpus).max(BUFFER);
        self.write("buffer_size_kb", &buffer.to_string())?;
        self.write("options/event-fork", "1")?;
        self.write("set_event_pid", &gettid().as_raw_nonzero().to_string())?;
        EVENTS.iter().try_for_each(|event| {
            let event = format!("events/filemap/{event}");
            if let Some((major, minor)) = device {
                // As the kernel keeps it: MKDEV.
                let number = major << 20 | minor;
                self.write(&format!("{event}/filter"), &format!("s_dev == {number}"))?;
            }
            self.write(&format!("{event}/enable"), "1")
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Err(e) = unlinkat(&self.all, self.name.as_str(), AtFlags::REMOVEDIR) {
            say(format!(
                "note: `instances/{}` of tracefs cannot be removed: {e}",
                self.name
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instances() -> Vec<String> {
        let all = Instance::tracefs().unwrap();
        let names = layermark_fd::names(all.as_fd(), "").unwrap();
        names
            .into_iter()
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn an_instance_goes_whether_it_was_read_or_not() {
        let dir = tempfile::tempdir().unwrap();
        for read in [false, true] {
            let tracing = match Tracing::begin(dir.path(), &[]) {
                Ok(tracing) => tracing,
                Err(why) => return eprintln!("skipped: {why}"),
            };
            let name = tracing.instance.name.clone();
            assert!(instances().contains(&name));
            if read {
                tracing.end(&[]).unwrap();
            } else {
                drop(tracing);
            }
            assert!(!instances().contains(&name));
        }
    }
}
