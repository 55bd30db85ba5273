//! The marker in a work directory: a file by which a dead run's directory is known to be layermark's.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::AsFd,
};

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};

use crate::fd;

/// File in a work directory that shows that it is layermark's.
pub(crate) const MARKER: &str = ".layermark";
pub(crate) const MARKER_TEXT: &str =
    "A work directory of layermark. It is removed when its run ends.\n";

/// Whether `dir` is a work directory of layermark, or has nothing in it but the beginning of a marker: its creator died
/// before it had written all of it.
///
/// Only what is read counts. Where a server has kept a write back and does it now, the size is the new one before there
/// is something to read.
pub(crate) fn is_ours(dir: impl AsFd) -> bool {
    let is_empty = || {
        let others = fd::names(dir.as_fd(), MARKER);
        is_ours_alone(&dir) && others.is_ok_and(|names| names.is_empty())
    };
    match open_begun_of(&dir, us()) {
        Ok((_, text)) => text == MARKER_TEXT || is_empty(),
        Err(e) => e.kind() == io::ErrorKind::NotFound && is_empty(),
    }
}

/// Whether an open file belongs to this user, and no other user may write to it.
pub(crate) fn is_ours_alone(file: impl AsFd) -> bool {
    belongs_to(file, us())
}

fn us() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether an open file belongs to `user`, and no other user may write to it.
fn belongs_to(file: impl AsFd, user: u32) -> bool {
    fstat(file).is_ok_and(|stat| stat.st_uid == user && stat.st_mode & 0o022 == 0)
}

/// Opens the marker of a work directory of layermark. In a directory where others may write, and in a file of
/// theirs, it proves nothing.
pub(crate) fn open_marker(dir: impl AsFd) -> Option<File> {
    open_marker_of(dir, us())
}

/// Like [`open_marker`] for a directory that this user has made on a share: it has our user id, or that of `made`, a
/// directory that this process has made on the same share. The server may give our files to another user (`root_squash`).
pub(crate) fn open_marker_on_share(dir: impl AsFd, made: impl AsFd) -> Option<File> {
    let there = fstat(made).ok()?.st_uid;
    open_marker_of(&dir, us()).or_else(|| open_marker_of(&dir, there))
}

/// Opens the marker of a work directory whose files belong to this user alone.
fn open_marker_of(dir: impl AsFd, user: u32) -> Option<File> {
    let (marker, text) = open_begun_of(dir, user).ok()?;
    (text == MARKER_TEXT).then_some(marker)
}

/// Opens a marker that may have been written in part, and reads it.
fn open_begun_of(dir: impl AsFd, user: u32) -> io::Result<(File, String)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut marker: File = openat(&dir, MARKER, flags, Mode::empty())?.into();
    let stat = fstat(&marker)?;
    let is_file = FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_nlink == 1;
    let mut text = String::new();
    if is_file && belongs_to(&marker, user) && belongs_to(&dir, user) {
        let limit = MARKER_TEXT.len() as u64 + 1;
        Read::by_ref(&mut marker)
            .take(limit)
            .read_to_string(&mut text)?;
        if MARKER_TEXT.starts_with(&text) {
            return Ok((marker, text));
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}
