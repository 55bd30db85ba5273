//! The journal of directories that runs have made and not yet removed: an empty file for each, with its name,
//! in a directory of the user's. A directory that a dead run has left is removed only if it is in the journal.
//! Whoever owns the directory around it can forge everything else.

use std::{
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    sync::OnceLock,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, openat, unlinkat},
    io::Errno,
};

use crate::fd;

/// `None` where this process has none: then it removes nothing that a dead run has left.
static JOURNAL: OnceLock<OwnedFd> = OnceLock::new();

/// Uses the open directory `dir` from now on. Only its owner may be able to write to it.
pub(crate) fn open(dir: OwnedFd) {
    let _ = JOURNAL.set(dir);
}

/// Adds a name. Called before the directory is made, since a power cut may come at any moment.
pub(crate) fn add(name: &OsStr) {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Some(journal) = JOURNAL.get() {
        // On a full disk the directory stays after a power cut.
        let _ = openat(journal, name, flags, Mode::RUSR | Mode::WUSR);
    }
}

/// Removes a name, after its directory.
pub(crate) fn remove(name: &OsStr) {
    if let Some(journal) = JOURNAL.get() {
        let _ = remove_from(journal, name);
    }
}

/// Like [`remove`], for a journal of another process.
pub(crate) fn remove_from(journal: impl AsFd, name: &OsStr) -> Result<(), Errno> {
    unlinkat(journal, name, AtFlags::empty())
}

/// The names in it that begin with `prefix`; `None` without a journal.
pub(crate) fn names(prefix: &str) -> Option<Vec<OsString>> {
    let all = fd::names(JOURNAL.get()?.as_fd(), "").ok()?.into_iter();
    let names = all.map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
    Some(
        names
            .filter(|name| name.as_bytes().starts_with(prefix.as_bytes()))
            .collect(),
    )
}
