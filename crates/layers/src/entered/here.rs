//! The agent as a process of this host: a place that shares this kernel is looked into from here.

use std::{
    fs::{self, File},
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

use layermark_model::{DroppedCaches, Facts, Spec};

use rustix::fs::{FsWord, statfs};

use super::{MOUNTED, limits};
use crate::{
    Base, KernelCaches, LayerError, Place,
    host::HostPlace,
    keeper::{self, Spared},
};

/// Type of a tmpfs (`TMPFS_MAGIC` in `linux/magic.h`).
const TMPFS: FsWord = 0x0102_1994;

/// An agent that runs on this kernel, and its directory as this host sees it.
pub(super) struct Here {
    pub(super) pid: u32,
    /// Root directory of the agent, such as `/proc/4711/root`.
    root: PathBuf,
    place: HostPlace,
    /// It removes its directory when the connection ends.
    _spared: Spared,
}

impl Here {
    /// The process that was started as `PROGRAM place TOKEN`, if this host has it and may look into its
    /// directory. That has this path and these device and inode numbers. Command lines are readable to all
    /// users, so another user could start a process with the same token, but not with the same directory. Its
    /// data is on the disk of `below`, if that is given.
    pub(super) fn find(
        token: &str,
        base: &Base,
        spec: &Spec,
        (dir, id): (&Path, (u64, u64)),
        below: Option<&Path>,
    ) -> Option<Self> {
        let (pid, root, at) = layermark_sys::process::all()
            .filter(|pid| is_agent(*pid, token))
            .map(|pid| {
                let root = PathBuf::from(format!("/proc/{pid}/root"));
                let at = root.join(dir.strip_prefix("/").unwrap_or(dir));
                (pid, root, at)
            })
            .find(|(.., at)| directory_id(at).is_ok_and(|found| found == id))?;
        // Files of a tmpfs cannot be made cold.
        let in_memory = statfs(&at).is_ok_and(|fs| fs.f_type == TMPFS);
        let mut place = HostPlace::new(base, spec, at);
        if let Some(dir) = below {
            place = place.on_device_of(dir);
        }
        Some(Self {
            pid,
            root,
            place: if in_memory { place.in_memory() } else { place },
            _spared: keeper::spare(pid),
        })
    }

    /// Facts as this host sees them, with those of the agent that are about itself.
    pub(super) fn facts(&self, inside: Facts) -> Result<Facts, LayerError> {
        let mut facts = self.place.facts()?;
        for mount in &mut facts.mounts {
            if let Ok(below) = mount.at.strip_prefix(&self.root) {
                mount.at = Path::new("/").join(below);
            } else if fs::read_link(&self.root).is_ok_and(|root| root.starts_with(&mount.at)) {
                // A chroot: its root is a directory within the mount.
                mount.at = "/".into();
            }
        }
        facts.notes.extend(inside.notes);
        let process = PathBuf::from(format!("/proc/{}", self.pid));
        facts.notes.extend(limits::of(&process));
        facts
            .notes
            .insert("kernel".into(), "shared with this host".into());
        Ok(facts)
    }

    /// The network namespace of the agent.
    pub(super) fn network(&self) -> io::Result<OwnedFd> {
        Ok(File::open(format!("/proc/{}/ns/net", self.pid))?.into())
    }

    pub(super) fn ground(&self) -> Option<(u64, i64)> {
        self.place.ground()
    }

    pub(super) fn drop_caches(
        &mut self,
        kernel: KernelCaches,
    ) -> Result<DroppedCaches, LayerError> {
        self.place.drop_caches(kernel)
    }
}

/// Device and inode numbers of a directory. A link is not followed.
pub(super) fn directory_id(dir: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(dir)?;
    Ok((found.dev(), found.ino()))
}

/// Whether a process was started as `PROGRAM place TOKEN`, or [`MOUNTED`] with one more word. The command that
/// leads to it has other arguments.
fn is_agent(pid: u32, token: &str) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|b| *b == 0).skip(1);
    if [words.next(), words.next()] != [Some(&b"place"[..]), Some(token.as_bytes())] {
        return false;
    }
    let rest: Vec<&[u8]> = words.collect();
    rest == [b""] || rest == [MOUNTED.as_bytes(), b""]
}
