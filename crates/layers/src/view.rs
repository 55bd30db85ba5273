//! A path to a work directory that no other user can change. It is a bind mount of the open
//! directory, in our private mount namespace. The mount point is ours, in a system directory.

use std::{
    fs, io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, FlockOperation, OFlags, Stat, flock, fstat},
    mount::{MountPropagationFlags, MoveMountFlags, mount_bind, mount_change, move_mount},
};

use crate::{dir_journal, fd, foreign::Foreign, fresh::Fresh, known_paths, marker, mounts};

/// Prefix of names of mount points. 16 digits follow.
const PREFIX: &str = "layermark-at-";

/// Where mount points are created. The user's own directory is tried second. The first one is used
/// that only we can write to, or in which users cannot touch the files of others.
const SYSTEM: [&str; 4] = ["/run", "/dev/shm", "/tmp", "/var/tmp"];

/// A work directory visible under a path of our own.
#[derive(Debug)]
pub(crate) struct View {
    /// Locked while this process lives.
    point: Fresh,
    path: PathBuf,
}

impl View {
    /// Mounts `dir`, which the user knows as `named`.
    pub(crate) fn of(dir: &OwnedFd, named: &Path, foreign: Option<&Foreign>) -> io::Result<Self> {
        let open = fd::path_of(dir);
        let mounted = match foreign {
            Some(foreign) => foreign.holding(&open)?.at,
            None => mounts::holding(&open)?.at,
        };
        let view = Self::make_point()?;
        let mount = || -> io::Result<()> {
            // Both are opened by descriptor, whatever their paths lead to now.
            match foreign {
                None => mount_bind(&open, fd::path_of(&view.point.dir))?,
                Some(foreign) => {
                    let copy = foreign.copy_mount(dir.as_fd())?;
                    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH
                        | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
                    move_mount(copy, "", &view.point.dir, "", flags)?;
                }
            }
            mount_change(&view.path, MountPropagationFlags::PRIVATE)?;
            if fd::is_at(CWD, &view.path, dir) {
                return Ok(());
            }
            Err(io::Error::other("it is not there after it was mounted"))
        };
        if let Err(e) = mount() {
            let _ = view.close();
            return Err(e);
        }
        known_paths::add(&view.path, named, mounted);
        Ok(view)
    }

    fn make_point() -> io::Result<Self> {
        let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let own = own.filter(|dir| dir.is_absolute());
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        let system = SYSTEM.map(PathBuf::from);
        for parent in system[..1].iter().chain(&own).chain(&system[1..]) {
            match Self::point_in(parent) {
                Ok(view) => return Ok(view),
                Err(e) => last = io::Error::new(e.kind(), format!("{}: {e}", parent.display())),
            }
        }
        Err(last)
    }

    fn point_in(parent: &Path) -> io::Result<Self> {
        let parent = fs::canonicalize(parent)?;
        let dir = fd::walk(&parent, |_, _, _| {})?;
        if !is_safe(&fstat(&dir)?) {
            return Err(io::Error::other("other users can change what is in it"));
        }
        reap(&dir);
        // Another process that cleans up may find one before it is locked.
        for _ in 0..20 {
            let point = Fresh::make(fd::open_dir(&dir, ".")?, PREFIX)?;
            let locked = flock(&point.dir, FlockOperation::NonBlockingLockExclusive);
            if locked.is_ok() && point.is_there() {
                point.entrust();
                let path = parent.join(point.name());
                return Ok(Self { point, path });
            }
            let _ = point.remove_empty();
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts it and removes the mount point.
    pub(crate) fn close(self) -> io::Result<()> {
        known_paths::remove(&self.path);
        mounts::unmount(&self.path)?;
        self.point.remove_empty()
    }
}

/// Whether no other user can move what we create in this directory.
fn is_safe(stat: &Stat) -> bool {
    let us = rustix::process::geteuid().as_raw();
    let closed = stat.st_uid == us && stat.st_mode & 0o022 == 0;
    closed || stat.st_mode & libc::S_ISVTX != 0
}

/// Removes the mount points of dead runs.
fn reap(parent: impl AsFd) {
    for name in dir_journal::names(PREFIX).into_iter().flatten() {
        let Ok(dir) = mounts::open_unmounted(&parent, &name, OFlags::RDONLY) else {
            continue;
        };
        if marker::is_ours_alone(&dir)
            && flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok()
            // Only an empty one can be removed.
            && fd::remove_empty(&parent, &name, &dir).is_ok()
        {
            dir_journal::remove(&name);
        }
    }
}
