//! A work directory by a second path of its parent, as another client of a shared file system has it.

use std::{
    ffi::OsStr,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{OFlags, fstat};

use super::{Parent, WorkDir, bad, open_now};
use crate::{
    LayerError, marker::open_marker_on_share, mounts, sandbox, sandbox::Privilege, served,
    view::View,
};

/// How long the other client may remember that there is no such name.
const UNSEEN: Duration = Duration::from_secs(10);
/// Rest between two looks.
const REST: Duration = Duration::from_millis(20);

/// A second path of a work directory.
#[derive(Debug)]
pub(crate) struct OtherPath {
    /// `None` if nothing can be mounted, as for [`WorkDir`], or if it is the path of the work directory itself.
    view: Option<View>,
    path: PathBuf,
    one_client: bool,
}

impl OtherPath {
    /// Waits until the work directory is seen below `other`, another path of its parent.
    pub(crate) fn of(work: &WorkDir, other: &Path) -> Result<Self, LayerError> {
        served::ask(other, || Self::of_now(work, other))
    }

    fn of_now(work: &WorkDir, other: &Path) -> Result<Self, LayerError> {
        let parent = open_now(other)?;
        let name = work.dir.name();
        let Some(dir) = seen(&parent, name, work) else {
            return Err(bad(other)(unseen(&work.named.to_string_lossy())));
        };
        let one_client = is_one_file_system(&dir, work).map_err(|e| bad(other)(e.to_string()))?;
        if one_client {
            return Ok(Self {
                view: None,
                path: work.path().to_owned(),
                one_client,
            });
        }
        let named = parent.path.join(name);
        if sandbox::privilege() == Privilege::None {
            return Ok(Self {
                view: None,
                path: named,
                one_client,
            });
        }
        let view = View::of(&dir, &named, parent.foreign.as_ref());
        let view = view.map_err(|source| LayerError::Sandbox {
            what: format!("mount {}", named.display()),
            source,
        })?;
        Ok(Self {
            path: view.path().to_owned(),
            view: Some(view),
            one_client,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether both paths lead to one file system of this kernel, so that it is the same client that has both.
    pub(crate) fn is_one_client(&self) -> bool {
        self.one_client
    }

    /// Unmounts it.
    pub(crate) fn close(self) -> io::Result<()> {
        self.view.map_or(Ok(()), View::close)
    }
}

/// Why a work directory cannot be used by another path.
pub(super) fn unseen(work: &str) -> String {
    format!(
        "the work directory {work} was not seen in it within {UNSEEN:?}: it is not another path of that directory, \
         or its client remembers for longer which names there are"
    )
}

/// Opens the work directory of this name when it is seen, and its marker shows that it is ours. `work` shows who owns our
/// files there.
pub(super) fn seen(parent: &Parent, name: &OsStr, work: &WorkDir) -> Option<OwnedFd> {
    let end = Instant::now() + UNSEEN;
    loop {
        let dir = mounts::open_unmounted(&parent.dir, name, OFlags::RDONLY);
        if let Some(dir) = dir
            .ok()
            .filter(|dir| open_marker_on_share(dir, work).is_some())
        {
            return Some(dir);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(REST);
    }
}

fn is_one_file_system(dir: &OwnedFd, work: &WorkDir) -> io::Result<bool> {
    let device = |file: std::os::fd::BorrowedFd<'_>| fstat(file).map(|stat| stat.st_dev);
    Ok(device(dir.as_fd())? == device(work.as_fd())?)
}
