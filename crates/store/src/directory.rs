//! The directory of a store, which other users must not be able to change.
//!
//! `SQLite` finds the files next to a store by their names and trusts them: it rolls back according
//! to a `-journal` and deletes the file it names. So other users must not be able to create files
//! there or to redirect the path. Every directory and symbolic link on the path must belong to this
//! user or to root. Only a sticky directory on the way may be writable by others. Paths are then
//! safe to use.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use layermark_fd::{Held, Refused, is_exposed, is_open_to_others, is_trusted};
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, chmodat, fstat, openat, statat},
    io::Errno,
    process::geteuid,
};

use crate::{StoreError, connect::beside};

/// Suffixes of the files that `SQLite` and layermark create next to a store, and the store itself.
const FILES: [&str; 5] = ["", "-journal", "-wal", "-shm", "-lock"];
/// Permissions of others. A user who can open a file for reading can lock it, and a run would wait
/// for that lock.
const OTHERS: u32 = 0o077;

/// The directory of a store, and the store's name in it.
#[derive(Debug)]
pub(crate) struct Directory(Held);

/// Finds the directory of a store for writing, and creates it with mode 0700 if it does not exist.
/// Returns the path of the file itself, also if a symbolic link was given.
pub(crate) fn hold(path: &Path) -> Result<(PathBuf, Directory), StoreError> {
    let held = Held::find(path, true, |_, stat| is_exposed(stat)).map_err(|e| refused(e, path))?;
    let directory = Directory(held);
    let there = directory.stat("");
    if there.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()) {
        return Err(refused(Errno::ISDIR.into(), path));
    }
    if let Some(by) = directory.exposed()? {
        return Err(StoreError::Exposed {
            path: path.into(),
            by,
        });
    }
    let path = directory.path(path);
    directory.check(&path)?;
    Ok((path, directory))
}

/// Finds the directory of a store for reading. Also returns whether it is safe, so that the files
/// next to the store may be read.
pub(crate) fn look(path: &Path) -> Result<(PathBuf, bool), StoreError> {
    match Held::find(path, false, |_, stat| is_exposed(stat)) {
        Ok(held) => {
            let directory = Directory(held);
            let path = directory.path(path);
            let safe = directory.exposed()?.is_none();
            if safe {
                directory.check(&path)?;
            }
            Ok((path, safe))
        }
        Err(Refused::At(_)) => Ok((path.into(), false)),
        // The store does not exist, so no files next to it are read.
        Err(Refused::Io(e)) if e.kind() == ErrorKind::NotFound => Ok((path.into(), true)),
        Err(e) => Err(refused(e, path)),
    }
}

/// Whether other users may write to a store's file.
pub(crate) fn is_shared(path: &Path) -> bool {
    let file = statat(CWD, path, AtFlags::empty());
    file.is_ok_and(|stat| !is_trusted(&stat) || is_open_to_others(&stat))
}

fn refused(e: Refused, path: &Path) -> StoreError {
    let path = path.to_owned();
    match e {
        Refused::At(by) => StoreError::Exposed { path, by },
        Refused::Io(source) => StoreError::Directory { path, source },
    }
}

impl Directory {
    /// The file's path as given, or the target of a symbolic link: `SQLite` creates its files next
    /// to the target.
    fn path(&self, named: &Path) -> PathBuf {
        if self.0.linked {
            self.0.file()
        } else {
            named.into()
        }
    }

    /// The directory, if other users can create files in it.
    fn exposed(&self) -> Result<Option<PathBuf>, StoreError> {
        let stat = fstat(&self.0.dir.fd).map_err(|e| refused(e.into(), &self.0.file()))?;
        Ok(is_open_to_others(&stat).then(|| self.0.dir.path.clone()))
    }

    fn stat(&self, ending: &str) -> Option<Stat> {
        let name = beside(Path::new(&self.0.name), ending);
        statat(&self.0.dir.fd, &name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// Checks that the files next to the store are those of `SQLite` and layermark. Other users may
    /// have created some before the directory was protected.
    fn check(&self, path: &Path) -> Result<(), StoreError> {
        let owner = self.stat("").map(|stat| stat.st_uid);
        for ending in &FILES[1..] {
            let Some(stat) = self.stat(ending) else {
                continue;
            };
            let file = FileType::from_raw_mode(stat.st_mode).is_file();
            if !file || !(is_trusted(&stat) || Some(stat.st_uid) == owner) {
                return Err(StoreError::Planted {
                    path: path.into(),
                    file: beside(path, ending),
                });
            }
        }
        Ok(())
    }

    /// Creates an empty store of mode 0600. `false` if it exists.
    pub(crate) fn create(&self) -> Result<bool, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        match openat(&self.0.dir.fd, &self.0.name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(_) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Removes the permissions of other users on the store's files. Returns whether they had any on
    /// the store.
    pub(crate) fn narrow(&self) -> bool {
        let us = geteuid().as_raw();
        let wide = |ending: &&&str| {
            let stat = self.stat(ending);
            stat.is_some_and(|s| {
                let file = FileType::from_raw_mode(s.st_mode).is_file();
                file && s.st_uid == us && s.st_mode & OTHERS != 0
            })
        };
        let mut narrowed = false;
        for ending in FILES.iter().filter(wide) {
            let name = beside(Path::new(&self.0.name), ending);
            let done = chmodat(
                &self.0.dir.fd,
                &name,
                Mode::RUSR | Mode::WUSR,
                AtFlags::empty(),
            );
            narrowed |= done.is_ok() && ending.is_empty();
        }
        narrowed
    }
}
