//! Files and directories by descriptor. Any user who may write to a directory on a path can replace
//! the file it names. A descriptor always refers to the same file.

mod below;
mod held;

pub use below::{open_below, remove_tree};
pub use held::{
    Held, HeldDir, Refused, is_exposed, is_open_to_others, is_root, is_trusted, open_own,
};

use std::{
    ffi::{CString, OsStr, OsString},
    fs::{File, FileTimes},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
    time::SystemTime,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags, Stat, fstat, openat, readlinkat, statat, unlinkat},
    io::Errno,
};

const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens the directory `name` in `at`; a symbolic link is refused.
pub fn open_dir(at: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    openat(at, name, OFlags::RDONLY | DIRECTORY, Mode::empty())
}

/// The entries of `dir` except `.`, `..` and the file `spared`.
///
/// # Errors
///
/// If the directory cannot be read.
pub fn names(dir: BorrowedFd<'_>, spared: &str) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") && name.to_bytes() != spared.as_bytes() {
            names.push(name);
        }
    }
    Ok(names)
}

/// Opens a regular file for reading. Anything else is refused, and a FIFO is not waited for. A path
/// that others made is opened like this.
pub fn open_file(at: impl AsFd, name: impl rustix::path::Arg) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(at, name, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a file"))
    }
}

/// Opens a file or directory for reading. A FIFO, which others may have put there, is not waited for.
pub fn open_now(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?.into())
}

/// Sets the modification time of a file or directory. Only the owner may do that (`futimens(2)`),
/// and some file systems store no times. The error is ignored, because reads and writes can be
/// measured there all the same.
pub fn dated(file: &File, time: SystemTime) -> io::Result<()> {
    use io::ErrorKind::{PermissionDenied, Unsupported};
    // Both times: libfuse 2, as in bindfs, ignores a change of one.
    let times = FileTimes::new()
        .set_accessed(SystemTime::now())
        .set_modified(time);
    match file.set_times(times) {
        Err(e) if matches!(e.kind(), PermissionDenied | Unsupported) => Ok(()),
        done => done,
    }
}

/// Opens the directory at an absolute path without symbolic links (see [`std::fs::canonicalize`]),
/// one component at a time. A link that appears there meanwhile is refused. `look` gets every
/// directory on the path, including the last one, and whether it is the last.
pub fn walk(path: &Path, look: impl FnMut(&Path, &Stat, bool)) -> io::Result<OwnedFd> {
    let root = openat(CWD, "/", OFlags::PATH | DIRECTORY, Mode::empty())?;
    walk_from(root, Path::new("/"), path, look)
}

/// Like [`walk`], from the open directory `dir` at `start`, which is above `path`.
pub fn walk_from(
    mut dir: OwnedFd,
    start: &Path,
    path: &Path,
    mut look: impl FnMut(&Path, &Stat, bool),
) -> io::Result<OwnedFd> {
    let mut so_far = start.to_owned();
    look(&so_far, &fstat(&dir)?, path == so_far);
    for part in path.strip_prefix(start).unwrap_or(path) {
        dir = openat(&dir, part, OFlags::PATH | DIRECTORY, Mode::empty())?;
        so_far.push(part);
        look(&so_far, &fstat(&dir)?, path == so_far);
    }
    Ok(open_dir(&dir, ".")?)
}

/// A path to an open file, valid in this process as long as the file is open.
pub fn path_of(fd: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()).into()
}

/// Current path of an open file, for messages.
pub fn shown(fd: impl AsFd) -> PathBuf {
    let path = readlinkat(CWD, path_of(fd), Vec::new()).unwrap_or_default();
    OsString::from_vec(path.into_bytes()).into()
}

/// Whether `name` in `at` is this very file.
pub fn is_at(at: impl AsFd, name: impl rustix::path::Arg, file: impl AsFd) -> bool {
    let there = statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
    match (there, fstat(file)) {
        (Ok(a), Ok(b)) => (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino),
        _ => false,
    }
}

/// Removes the empty directory `dir`, which was created as `name` in `at`. Another file of this
/// name is not removed. If `dir` was moved, it is removed at the path that the kernel reports.
pub fn remove_empty(at: impl AsFd, name: &OsStr, dir: impl AsFd) -> io::Result<()> {
    if is_at(&at, name, &dir) {
        return Ok(unlinkat(at, name, AtFlags::REMOVEDIR)?);
    }
    match fstat(&dir) {
        Ok(stat) if stat.st_nlink > 0 => {}
        Ok(_) | Err(Errno::STALE) => return Ok(()),
        Err(e) => return Err(e.into()),
    }
    let now = shown(&dir);
    let moved = || {
        let text = format!("it was moved to {}, and stays there, empty", now.display());
        io::Error::other(text)
    };
    let (Some(parent), Some(name)) = (now.parent(), now.file_name()) else {
        return Err(moved());
    };
    let parent = walk(parent, |_, _, _| {}).map_err(|_| moved())?;
    if !is_at(&parent, name, &dir) {
        return Err(moved());
    }
    Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}
