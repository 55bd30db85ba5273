//! A directory that layermark has created below one that may belong to another user.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, OwnedFd},
};

use layermark_model::random_name;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, mkdirat, openat};

use crate::{
    dir_journal, fd,
    held::{MappedLock, apart},
    janitor,
    marker::{MARKER, MARKER_TEXT},
    mounts, removal,
};

/// A directory that we have created, and its parent.
#[derive(Debug)]
pub(crate) struct Fresh {
    parent: OwnedFd,
    name: OsString,
    pub(crate) dir: OwnedFd,
}

impl Fresh {
    /// Creates one with a random name. It is entered in the journal and announced to the janitor first,
    /// since we may be killed at any moment.
    pub(crate) fn make(parent: OwnedFd, prefix: &str) -> io::Result<Self> {
        let name = OsString::from(random_name(prefix));
        dir_journal::add(&name);
        janitor::watch(&parent, &name, None);
        mkdirat(&parent, &name, Mode::RWXU)?;
        let dir = mounts::open_unmounted(&parent, &name, OFlags::RDONLY)?;
        if !fd::names(dir.as_fd(), "")?.is_empty() {
            return Err(replaced());
        }
        Ok(Self { parent, name, dir })
    }

    /// Sends its descriptor to the janitor, once it is known to be the one that we created.
    pub(crate) fn entrust(&self) {
        janitor::watch(&self.parent, &self.name, Some(self.dir.as_fd()));
    }

    /// Whether it is still where it was created.
    pub(crate) fn is_there(&self) -> bool {
        fd::is_at(&self.parent, &self.name, &self.dir)
    }

    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Writes the marker and locks it. The marker's owner shows who owns our files there: on NFS
    /// that need not be us. A directory with another owner is not the one that we created.
    pub(crate) fn mark(&self) -> io::Result<MappedLock> {
        apart(Some(self.dir.as_fd()), || self.mark_here())
    }

    fn mark_here(&self) -> io::Result<MappedLock> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut marker: File = openat(&self.dir, MARKER, flags, Mode::RUSR | Mode::WUSR)?.into();
        if fstat(&marker)?.st_uid != fstat(&self.dir)?.st_uid {
            removal::remove_at(&self.dir, MARKER.as_ref())?;
            return Err(replaced());
        }
        // Locked before it can be taken for a marker, so that no other run finds an unlocked
        // marker.
        flock(&marker, FlockOperation::NonBlockingLockExclusive)?;
        marker.write_all(MARKER_TEXT.as_bytes())?;
        MappedLock::new(marker)
    }

    /// Removes it once it is empty.
    pub(crate) fn remove_empty(&self) -> io::Result<()> {
        fd::remove_empty(&self.parent, &self.name, &self.dir)?;
        dir_journal::remove(&self.name);
        Ok(())
    }
}

fn replaced() -> io::Error {
    io::Error::other("another user has replaced the directory that was made in it")
}
