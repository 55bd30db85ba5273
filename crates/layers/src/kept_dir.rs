//! A directory of this user's that stays, below one that may belong to another user: made, found and used by descriptor, so
//! that no link is followed and nothing of another user's is taken for it.

use std::{
    ffi::OsStr,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, fstat, fsync, mkdirat, openat, unlinkat},
    io::Errno,
};

use crate::{LayerError, fd, mounts, view::View, workdir};

/// File by which [`KeptDir::make`] finds out to whom files of this user belong there.
const OURS: &str = "owner";

/// Such a directory.
#[derive(Debug)]
pub struct KeptDir {
    /// The path by which the user knows it, unless it was moved.
    named: PathBuf,
    /// `None` if nothing can be mounted: then no other user can change anything on its path.
    view: Option<View>,
    owner: u32,
}

impl KeptDir {
    /// Makes the directory `name` in `parent`, which must exist, and makes its name durable as far as the file system lets
    /// this be done.
    ///
    /// # Errors
    ///
    /// `parent` cannot be used, or another user has replaced the directory.
    pub fn make(parent: &Path, name: &str) -> Result<Self, LayerError> {
        let opened = workdir::open(parent)?;
        let bad = |e: io::Error| workdir::bad(parent)(workdir::in_words(&e));
        mkdirat(&opened.dir, name, Mode::RWXU).map_err(|e| bad(e.into()))?;
        let made = made(&opened.dir, name).map_err(bad);
        let seen = made.and_then(|(dir, owner)| Self::seen(&opened, &dir, name, owner));
        if seen.is_err() {
            // Whatever has the name, only an empty directory is removed.
            let _ = unlinkat(&opened.dir, name, AtFlags::REMOVEDIR);
        }
        seen
    }

    /// Finds the directory `name` in `parent`; `None` if it is absent. `owner`: to whom it belongs, if that is not this user.
    ///
    /// # Errors
    ///
    /// `parent` cannot be used, or what has the name is not a directory of that user's.
    pub fn find(parent: &Path, name: &str, owner: Option<u32>) -> Result<Option<Self>, LayerError> {
        let opened = workdir::open(parent)?;
        let named = opened.path.join(name);
        let refused = |why: &str| Err(workdir::bad(&named)(why.into()));
        let dir = match mounts::open_unmounted(&opened.dir, OsStr::new(name), OFlags::RDONLY) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => return refused("it is not a directory"),
            Err(Errno::XDEV) => return refused("something is mounted on it"),
            Err(e) => return refused(&io::Error::from(e).to_string()),
        };
        let us = rustix::process::geteuid().as_raw();
        let owner = owner.unwrap_or(us);
        if !fstat(&dir).is_ok_and(|stat| stat.st_uid == owner) {
            return refused("it belongs to another user than the one who made it");
        }
        Self::seen(&opened, &dir, name, owner).map(Some)
    }

    fn seen(
        parent: &workdir::Parent,
        dir: &OwnedFd,
        name: &str,
        owner: u32,
    ) -> Result<Self, LayerError> {
        let named = parent.path.join(name);
        let view = workdir::viewed(dir, &named, parent.foreign.as_ref())?;
        Ok(Self { named, view, owner })
    }

    /// The path to work in. No other user can change it.
    pub fn path(&self) -> &Path {
        self.view.as_ref().map_or(&self.named, View::path)
    }

    /// The path by which the user knows it.
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// To whom it belongs, if not to this user: a server may give our files to another one (`root_squash`).
    pub fn other_owner(&self) -> Option<u32> {
        let us = rustix::process::geteuid().as_raw();
        (self.owner != us).then_some(self.owner)
    }
}

impl Drop for KeptDir {
    fn drop(&mut self) {
        if let Some(Err(e)) = self.view.take().map(View::close) {
            crate::tell(format!("could not unmount {}: {e}", self.named.display()));
        }
    }
}

/// Opens a new directory, makes its name durable, and finds out to whom it belongs.
fn made(parent: &OwnedFd, name: &str) -> io::Result<(OwnedFd, u32)> {
    let dir = mounts::open_unmounted(parent, OsStr::new(name), OFlags::RDONLY)?;
    let owner = owner_of_ours(&dir)?;
    if fstat(&dir)?.st_uid != owner || !fd::names(dir.as_fd(), "")?.is_empty() {
        let why = "another user has replaced the directory that was made in it";
        return Err(io::Error::other(why));
    }
    match fsync(parent) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOTTY) => {}
        other => other?,
    }
    Ok((dir, owner))
}

/// To whom a new file of this process belongs there.
fn owner_of_ours(dir: &OwnedFd) -> io::Result<u32> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let stat = fstat(openat(dir, OURS, flags, Mode::RUSR | Mode::WUSR)?);
    unlinkat(dir, OURS, AtFlags::empty())?;
    Ok(stat?.st_uid)
}
