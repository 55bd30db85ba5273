//! The directory of a store, which no other user may change.
//!
//! `SQLite` finds the files beside a store by their names, and does what they say: it undoes what a
//! `-journal` lists and deletes the file that this names. So other users may neither put files there
//! nor lead us elsewhere: every directory and symbolic link on the path has to belong to us or to
//! root, and only a sticky directory on the way may be open to others. Paths are then safe to use.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use layermark_fd::{Held, Refused, is_open_to_others, is_trusted};
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, chmodat, fstat, openat, statat},
    io::Errno,
    process::geteuid,
};

use crate::{StoreError, connect::beside};

/// What `SQLite` and we add to a store's name, and the store itself.
const FILES: [&str; 5] = ["", "-journal", "-wal", "-shm", "-lock"];
/// Whoever can open a file to read it can take a lock on it that a run would wait for.
const OTHERS: u32 = 0o077;

/// The directory of a store, and the store's name in it.
#[derive(Debug)]
pub(crate) struct Directory(Held);

/// Finds the directory of a store that is to be written, and makes it if it is not there, with mode
/// 0700. Returns the path of the file itself where a symbolic link was named.
pub(crate) fn hold(path: &Path) -> Result<(PathBuf, Directory), StoreError> {
    let held = Held::find(path, true, is_exposed).map_err(|e| refused(e, path))?;
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

/// The same for a store that is only read, and whether its directory is safe, so that the files beside
/// it may be read too.
pub(crate) fn look(path: &Path) -> Result<(PathBuf, bool), StoreError> {
    match Held::find(path, false, is_exposed) {
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
        // Nothing is there, and so there is nothing to read beside it.
        Err(Refused::Io(e)) if e.kind() == ErrorKind::NotFound => Ok((path.into(), true)),
        Err(e) => Err(refused(e, path)),
    }
}

/// Whether others may write to a store's file.
pub(crate) fn is_shared(path: &Path) -> bool {
    let file = statat(CWD, path, AtFlags::empty());
    file.is_ok_and(|stat| !is_trusted(&stat) || is_open_to_others(&stat))
}

/// Whether others can lead us elsewhere from here.
fn is_exposed(_: &Path, stat: &Stat) -> bool {
    let link = FileType::from_raw_mode(stat.st_mode).is_symlink();
    let sticky = stat.st_mode & libc::S_ISVTX != 0;
    !is_trusted(stat) || (!link && !sticky && is_open_to_others(stat))
}

fn refused(e: Refused, path: &Path) -> StoreError {
    let path = path.to_owned();
    match e {
        Refused::At(by) => StoreError::Exposed { path, by },
        Refused::Io(source) => StoreError::Directory { path, source },
    }
}

impl Directory {
    /// The file's path, as it was named unless that is a symbolic link: `SQLite` puts its files beside
    /// what it points to.
    fn path(&self, named: &Path) -> PathBuf {
        if self.0.linked {
            self.0.file()
        } else {
            named.into()
        }
    }

    /// The directory itself, where others may put files in it.
    fn exposed(&self) -> Result<Option<PathBuf>, StoreError> {
        let stat = fstat(&self.0.dir.fd).map_err(|e| refused(e.into(), &self.0.file()))?;
        Ok(is_open_to_others(&stat).then(|| self.0.dir.path.clone()))
    }

    fn stat(&self, ending: &str) -> Option<Stat> {
        let name = beside(Path::new(&self.0.name), ending);
        statat(&self.0.dir.fd, &name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// Whether the files beside it are what `SQLite` and we make: others may have put them there
    /// before the directory was closed to them.
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

    /// Makes an empty store of mode 0600. `false` where there is one.
    pub(crate) fn create(&self) -> Result<bool, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        match openat(&self.0.dir.fd, &self.0.name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(_) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Takes the rights of other users on our files away; whether they had any on the store.
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
