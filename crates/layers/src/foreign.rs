//! Paths into the mounts of another process: `/proc/PID/root`, `/proc/PID/cwd`, `/proc/PID/fd/N`.
//!
//! Such a link (readlink(2)) has a text that names a different directory in our own mount
//! namespace. So these paths are opened without resolving them.
#![allow(unsafe_code)]

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
    thread,
};

use rustix::{
    fs::statfs,
    mount::{OpenTreeFlags, open_tree},
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};

use crate::mount_table::{self, MountEntry};

/// Type of a file system (linux/magic.h).
const PROC_SUPER_MAGIC: u32 = 0x9fa0;

/// The last link of a path that leads into the mounts of another process.
#[derive(Debug)]
pub(crate) struct Foreign {
    /// The link, such as `/proc/4711/root`.
    pub(crate) link: PathBuf,
    /// The process, such as `/proc/4711`.
    process: PathBuf,
}

impl Foreign {
    /// `None` if [`fs::canonicalize`] resolves the absolute path correctly: to the same directory
    /// on the same mount, or on an equal mount of our own mount namespace.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Self>> {
        let file = |path: &Path| fs::metadata(path).map(|m| (m.dev(), m.ino()));
        let given = file(path)?;
        let canonical = fs::canonicalize(path).ok();
        let canonical = canonical.filter(|c| file(c).is_ok_and(|found| found == given));
        let same_mount = |c: &Path| mount_table::id_of(c) == mount_table::id_of(path);
        if canonical.as_deref().is_some_and(same_mount) {
            return Ok(None);
        }
        let Some(found) = path.ancestors().find_map(Self::at) else {
            let text = "it leads into the mounts of another process; name it /proc/PID/root/...";
            return Err(io::Error::other(text));
        };
        // Mounts of a new mount namespace have other ids.
        let as_ours = |mut entry: MountEntry| {
            entry.id = 0;
            entry
        };
        let theirs = found.mount_of(path)?;
        let ours = canonical.and_then(|c| mount_table::own(&c).ok());
        let equal = ours.is_some_and(|ours| as_ours(ours) == as_ours(theirs));
        Ok((!equal).then_some(found))
    }

    /// Recognizes `link` as a link of a process.
    fn at(link: &Path) -> Option<Self> {
        let parent = link.parent()?;
        let is_link = fs::symlink_metadata(link).is_ok_and(|m| m.is_symlink());
        if !is_link || statfs(parent).ok()?.f_type as u32 != PROC_SUPER_MAGIC {
            return None;
        }
        let process = [Some(parent), parent.parent()]
            .into_iter()
            .flatten()
            .find(|dir| dir.join("ns/mnt").symlink_metadata().is_ok())?;
        Some(Self {
            link: link.into(),
            process: process.into(),
        })
    }

    fn mount_of(&self, path: &Path) -> io::Result<MountEntry> {
        let mounts = mount_table::parse(&fs::read(self.process.join("mountinfo"))?);
        let id = mount_table::id_of(path);
        let found = mounts.into_iter().find(|m| Some(m.id) == id);
        found.ok_or_else(|| mount_table::unseen(path))
    }

    /// The mount of the process that holds `path`, with a path through which we see it.
    pub(crate) fn holding(&self, path: &Path) -> io::Result<MountEntry> {
        let mut entry = self.mount_of(path)?;
        let below = entry.at.strip_prefix("/").unwrap_or(&entry.at);
        entry.at = self.process.join("root").join(below);
        Ok(entry)
    }

    /// A detached mount of the open directory `dir`, as `open_tree(2)` makes it: the kernel binds no
    /// directory of another mount namespace.
    pub(crate) fn copy_mount(&self, dir: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let namespace = File::open(self.process.join("ns/mnt"))?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH;
        let copy = || {
            // SAFETY: only this thread gets a root and a current directory of its own.
            unsafe { unshare_unsafe(UnshareFlags::FS) }?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
            Ok(open_tree(dir, "", flags)?)
        };
        let done = thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, copy)?;
            Ok::<_, io::Error>(thread.join())
        })?;
        done.unwrap_or_else(|_| Err(io::Error::other("its thread has panicked")))
    }
}
