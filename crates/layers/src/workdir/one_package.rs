//! What several hosts use together: packaged files, and a directory in which all make their own. One work directory on
//! a share has them, and they are shown in those of all hosts.

use std::{
    ffi::OsStr,
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use layermark_model::TOGETHER;
use rustix::{
    fs::{CWD, OFlags},
    mount::{MountPropagationFlags, mount_bind, mount_change},
};

use super::{WorkDir, bad, open_now, other_path::seen, unseen};
use crate::{
    LayerError, fd,
    host::{PACKAGED, sync},
    mounts, served, tree,
};

impl WorkDir {
    /// Copies the files of `master` into its `packaged/`, and flushes them. Makes the directory in which all hosts make
    /// files.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn package(&self, master: &Path) -> Result<(), LayerError> {
        let to = self.path().join(PACKAGED);
        let copied = served::ask(&self.named, || {
            std::fs::create_dir(self.path().join(TOGETHER))?;
            tree::copy(master, &to).and_then(|()| sync(&to))
        });
        copied.map_err(LayerError::io("dir", "copy packaged files to", &to))
    }

    /// Whether the work directory with this name, which another host has made, is seen in `parent`. Waits a while for it.
    ///
    /// # Errors
    ///
    /// If nothing can be made in `parent`.
    pub fn is_seen(parent: &Path, name: &str) -> Result<bool, LayerError> {
        let own = Self::shared(parent)?;
        served::ask(parent, || {
            Ok(seen(&open_now(parent)?, OsStr::new(name), &own).is_some())
        })
    }
}

/// The directories of another work directory, mounted in a work directory of ours.
#[derive(Debug)]
pub(crate) struct OnePackage {
    /// Its `packaged/`.
    package: Shown,
    /// Its [`TOGETHER`].
    together: Shown,
}

/// A directory of another work directory, mounted in one of ours.
#[derive(Debug)]
struct Shown {
    at: PathBuf,
}

impl Shown {
    fn mount(work: &WorkDir, dir: impl AsFd, name: &str) -> Result<Self, LayerError> {
        let at = work.path().join(name);
        let mount = || -> io::Result<()> {
            // By descriptor, whatever the paths lead to now.
            let shown = mounts::open_unmounted(&dir, name.as_ref(), OFlags::RDONLY)?;
            std::fs::create_dir(&at)?;
            mount_bind(fd::path_of(&shown), &at)?;
            let is_there = mount_change(&at, MountPropagationFlags::PRIVATE)
                .map_err(io::Error::from)
                .map(|()| fd::is_at(CWD, &at, &shown));
            match is_there {
                Ok(true) => Ok(()),
                other => {
                    mounts::unmount(&at)?;
                    let e = io::Error::other("it is not there after it was mounted");
                    Err(other.err().unwrap_or(e))
                }
            }
        };
        mount().map_err(LayerError::io("dir", "mount the package at", &at))?;
        Ok(Self { at })
    }

    fn close(self) -> io::Result<()> {
        mounts::unmount(&self.at)
    }
}

impl OnePackage {
    /// Waits until the work directory with this name is seen in `parent`, and mounts its directories in `work`.
    pub(crate) fn mount(work: &WorkDir, parent: &Path, name: &str) -> Result<Self, LayerError> {
        served::ask(parent, || Self::mount_now(work, parent, name))
    }

    fn mount_now(work: &WorkDir, parent: &Path, name: &str) -> Result<Self, LayerError> {
        let above = open_now(parent)?;
        let Some(dir) = seen(&above, OsStr::new(name), work) else {
            return Err(bad(parent)(unseen(name)));
        };
        let package = Shown::mount(work, &dir, PACKAGED)?;
        // A program that is launched from it must not change the files of all hosts.
        if let Err(source) = mounts::make_read_only(&package.at) {
            let what = format!("make the package read only: {}", package.at.display());
            let _ = package.close();
            return Err(LayerError::Sandbox { what, source });
        }
        match Shown::mount(work, &dir, TOGETHER) {
            Ok(together) => Ok(Self { package, together }),
            Err(e) => {
                let _ = package.close();
                Err(e)
            }
        }
    }

    /// Where the packaged files are.
    pub(crate) fn path(&self) -> &Path {
        &self.package.at
    }

    /// Unmounts both.
    pub(crate) fn close(self) -> io::Result<()> {
        self.together.close().and(self.package.close())
    }
}
