//! The work directory of a run: new, marked as layermark's, removed when the run ends.
//!
//! Its parent may belong to another user, who can move it away at any moment and put a link in its
//! place. So it is created, marked and removed by descriptor, and everything in between uses its
//! [`View`].

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::{
        Access, AtFlags, CWD, FlockOperation, Mode, OFlags, Stat, accessat, flock, fstat, openat,
    },
    io::Errno,
};

use crate::{
    LayerError, dir_journal, fd,
    foreign::Foreign,
    fresh::Fresh,
    held::MappedLock,
    known_paths::tell,
    marker::open_marker,
    mounts, removal,
    sandbox::{self, Privilege},
    served, spread,
    view::View,
};

mod one_package;
mod other_path;

pub(crate) use one_package::OnePackage;
pub(crate) use other_path::OtherPath;
use other_path::unseen;

/// How long a file system may take to answer before the work directory on it is removed.
const LAST_WORD: Duration = Duration::from_secs(10);

/// Prefix of the names of work directories.
pub const PREFIX: &str = "layermark-";
/// A new directory below one that the user named. Removed when dropped.
#[derive(Debug)]
pub struct WorkDir {
    /// The path by which the user knows it.
    named: PathBuf,
    dir: Fresh,
    /// `None` if nothing can be mounted: then no other user can change anything on its path.
    view: Option<View>,
    /// Locked while this process lives. A process that can lock it knows that the owner has died.
    marker: Option<MappedLock>,
    /// Locked while this process lives: one run per directory, since two runs would disturb each
    /// other's measurements.
    parent: Option<OwnedFd>,
    removed: bool,
}

impl WorkDir {
    /// Creates a new directory in `parent`, which must exist, and removes those that dead runs have
    /// left there. Only one run may use `parent` at a time.
    pub fn create(parent: &Path) -> Result<Self, LayerError> {
        served::ask(parent, || Self::create_now(parent))
    }

    fn create_now(parent: &Path) -> Result<Self, LayerError> {
        let opened = open(parent)?;
        let bad = bad(parent);
        // Not `dir` itself, because the janitor has a copy of that, which would stay locked until
        // it ends.
        let lock = fd::open_dir(&opened.dir, ".").map_err(|e| bad(in_words(&e.into())))?;
        let locked = match lock_for_a_run(&lock, &opened.dir) {
            Ok(locked) => locked,
            Err(Errno::WOULDBLOCK) => return Err(LayerError::Busy { path: opened.path }),
            Err(e) => return Err(bad(format!("it cannot be locked: {e}"))),
        };
        let mut work = Self::make(parent, opened)?;
        work.parent = locked.then_some(lock);
        Ok(work)
    }

    /// Creates a work directory next to those of other runs.
    ///
    /// # Errors
    ///
    /// If `parent` cannot be used.
    pub fn shared(parent: &Path) -> Result<Self, LayerError> {
        served::ask(parent, || Self::make(parent, open(parent)?))
    }

    fn make(asked: &Path, parent: Parent) -> Result<Self, LayerError> {
        let unusable = |e: io::Error| bad(asked)(in_words(&e));
        // Removes what dead runs have left there.
        reap(&parent.dir, &dir_journal::names(PREFIX).unwrap_or_default());
        let dir = Fresh::make(parent.dir, PREFIX).map_err(unusable)?;
        let named = parent.path.join(dir.name());
        let marker = dir.mark().map_err(|e| {
            let _ = dir.remove_empty();
            unusable(e)
        })?;
        dir.entrust();
        // Trials make their directories in it.
        spread::mark(&dir.dir);
        let mut work = Self {
            named,
            dir,
            view: None,
            marker: Some(marker),
            parent: None,
            removed: false,
        };
        work.view = viewed(&work.dir.dir, &work.named, parent.foreign.as_ref())?;
        Ok(work)
    }

    /// The path to work in. No other user can change it.
    pub fn path(&self) -> &Path {
        self.view.as_ref().map_or(&self.named, View::path)
    }

    /// The path by which the user knows it, unless it was moved.
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// Removes it now.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        self.removed = true;
        let closed = self.view.take().map_or(Ok(()), View::close);
        let until = || Instant::now() + removal::PATIENCE;
        removal::empty_but_marker(&self.dir.dir, until())?;
        // FUSE and NFS only rename a file that is removed while it is mapped.
        self.marker = None;
        removal::empty_marked(&self.dir.dir, until())?;
        self.dir.remove_empty()?;
        closed
    }
}

impl AsFd for WorkDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.dir.as_fd()
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // If it does not answer, the janitor, a separate process, waits for it.
        if self.removed || !served::answers(self.path(), served::patience(LAST_WORD)) {
            return;
        }
        if let Err(e) = self.remove() {
            tell(format!("could not remove {}: {e}", self.named.display()));
        }
    }
}

/// A view of the directory `dir`, which the user knows as `named`; `None` where nothing can be mounted.
pub(crate) fn viewed(
    dir: &OwnedFd,
    named: &Path,
    foreign: Option<&Foreign>,
) -> Result<Option<View>, LayerError> {
    if sandbox::privilege() == Privilege::None {
        return Ok(None);
    }
    let view = View::of(dir, named, foreign);
    let view = view.map_err(|source| LayerError::Sandbox {
        what: format!("mount {}", named.display()),
        source,
    })?;
    Ok(Some(view))
}

/// The error for a directory that cannot be used.
pub(crate) fn bad(path: &Path) -> impl Fn(String) -> LayerError + use<> {
    let path = path.to_owned();
    move |why| LayerError::BadDir {
        layer: None,
        path: path.clone(),
        why,
    }
}

/// Locks a directory for one run. `WOULDBLOCK` when a run of this user's is in progress there.
/// `false` when another user holds the lock: any user who may read a directory can lock it, so that
/// does not mean a run.
fn lock_for_a_run(lock: impl AsFd, dir: impl AsFd) -> Result<bool, Errno> {
    // A run that has just started makes its work directory after it has the lock.
    for _ in 0..20 {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if is_at_work(&dir) => return Err(Errno::WOULDBLOCK),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(50)),
            Err(e) => return Err(e),
        }
    }
    Ok(false)
}

/// Whether `parent` has a work directory of this user's whose owner lives.
fn is_at_work(parent: impl AsFd) -> bool {
    let names = fd::names(parent.as_fd(), "").unwrap_or_default();
    names.iter().any(|name| {
        let name = OsStr::from_bytes(name.to_bytes());
        let is_ours = name.as_bytes().starts_with(PREFIX.as_bytes());
        let marker = is_ours.then(|| open_marked(&parent, name)).flatten();
        marker.is_some_and(|(_, marker)| {
            flock(&marker, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
        })
    })
}

/// The parent of a work directory.
pub(crate) struct Parent {
    /// Absolute path.
    pub(crate) path: PathBuf,
    pub(crate) dir: OwnedFd,
    pub(crate) foreign: Option<Foreign>,
}

/// The path without symbolic links; unchanged if it leads into the mounts of another process.
pub fn real_path(asked: &Path) -> io::Result<PathBuf> {
    resolve(asked).map(|(path, _)| path)
}

fn resolve(asked: &Path) -> io::Result<(PathBuf, Option<Foreign>)> {
    let given = std::path::absolute(asked)?;
    let foreign = Foreign::of(&given)?;
    let path = match foreign {
        Some(_) => given,
        None => fs::canonicalize(asked)?,
    };
    Ok((path, foreign))
}

/// Opens the parent of a work directory.
pub(crate) fn open(asked: &Path) -> Result<Parent, LayerError> {
    served::ask(asked, || open_now(asked))
}

fn open_now(asked: &Path) -> Result<Parent, LayerError> {
    let unusable = |e: io::Error| bad(asked)(in_words(&e));
    let (path, foreign) = resolve(asked).map_err(unusable)?;
    let mut by = None;
    let look = |dir: &Path, stat: &Stat, last| {
        if by.is_none() && is_exposed(stat, last) {
            by = Some(dir.to_owned());
        }
    };
    let dir = match &foreign {
        None => fd::walk(&path, look),
        Some(_) if sandbox::privilege() != Privilege::Root => {
            let why = "only root can work in the mounts of another process";
            return Err(bad(asked)(why.into()));
        }
        Some(foreign) => openat(
            CWD,
            &foreign.link,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(io::Error::from)
        .and_then(|root| fd::walk_from(root, &foreign.link, &path, look)),
    };
    match by {
        Some(by) => Err(LayerError::Exposed {
            path: asked.into(),
            by,
        }),
        None => Ok(Parent {
            path,
            dir: dir.map_err(unusable)?,
            foreign,
        }),
    }
}

/// Checks that a directory can be used. One that is read-only is refused here: its file system often has no free
/// space either, and that would be the complaint.
pub(crate) fn check(dir: &Path) -> Result<(), LayerError> {
    let parent = open(dir)?;
    served::ask(dir, || {
        let may = Access::WRITE_OK | Access::EXEC_OK;
        let may = accessat(&parent.dir, ".", may, AtFlags::EACCESS);
        may.map_err(|e| bad(dir)(in_words(&e.into())))
    })
}

/// Whether other users can replace an entry of a directory on the path, or of the last one, and so
/// endanger the run.
fn is_exposed(stat: &Stat, last: bool) -> bool {
    let root = rustix::process::geteuid().is_root();
    let others = if root { 0o022 } else { 0o002 };
    let open = stat.st_mode & others != 0 && stat.st_mode & libc::S_ISVTX == 0;
    match sandbox::privilege() {
        // Its descriptor identifies it, whatever its owner. But root should not work inside it.
        Privilege::Root => open && !last,
        // User ids mean nothing inside, and its descriptor identifies it.
        Privilege::UserNamespace => false,
        // Without a view only its path identifies it.
        Privilege::None => {
            let us = rustix::process::geteuid().as_raw();
            open || ![0, us].contains(&stat.st_uid)
        }
    }
}

/// Why a directory cannot be used.
pub(crate) fn in_words(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::NotFound => "it does not exist".into(),
        io::ErrorKind::NotADirectory => "it is not a directory".into(),
        io::ErrorKind::PermissionDenied => "you may not write to it".into(),
        io::ErrorKind::ReadOnlyFilesystem => "it is on a read-only file system".into(),
        io::ErrorKind::StorageFull => "its disk is full".into(),
        _ => e.to_string(),
    }
}

/// Opens a work directory of layermark in `parent`, and its marker. It has to be on the file system of `parent`,
/// and nothing may be mounted on it.
fn open_marked(parent: impl AsFd, name: &OsStr) -> Option<(OwnedFd, File)> {
    let dir = mounts::open_unmounted(&parent, name, OFlags::RDONLY).ok()?;
    let device = |file: BorrowedFd<'_>| fstat(file).map(|stat| stat.st_dev);
    let is_below = device(dir.as_fd()).ok()? == device(parent.as_fd()).ok()?;
    let marker = is_below.then(|| open_marker(&dir)).flatten()?;
    Some((dir, marker))
}

/// Removes the work directories in `parent` whose run has died without its janitor (a power cut, a
/// crash of the kernel). Returns their names. Only names that are `known` from our journal are looked at:
/// other users may have put anything else there. Those of living runs are left alone.
pub(crate) fn reap(parent: impl AsFd, known: &[OsString]) -> Vec<OsString> {
    let mut removed = Vec::new();
    for name in known {
        let Some((dir, marker)) = open_marked(&parent, name) else {
            continue;
        };
        if flock(&marker, FlockOperation::NonBlockingLockExclusive).is_ok()
            && removal::empty_marked(&dir, Instant::now() + removal::PATIENCE).is_ok()
            && fd::remove_empty(&parent, name, &dir).is_ok()
        {
            dir_journal::remove(name);
            removed.push(name.to_owned());
        }
    }
    removed
}

#[cfg(test)]
mod tests;
