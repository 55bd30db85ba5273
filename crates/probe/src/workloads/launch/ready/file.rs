//! Ready when a file has appeared.

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::fs::inotify;

use super::{Ready, ReadyEvent, ReadyKind, Scene};
use crate::ProbeError;

/// `file=PATH`
pub struct File;

impl ReadyKind for File {
    fn id(&self) -> &'static str {
        "file"
    }
    fn value(&self) -> &'static str {
        "PATH"
    }
    fn optional(&self) -> bool {
        false
    }
    fn arm(&self, value: &str, scene: &mut Scene<'_>) -> Result<Box<dyn Ready>, ProbeError> {
        let path = scene.path(value);
        if path.symlink_metadata().is_ok() {
            return Err(ProbeError::new(format!(
                "{} is there before the program has been started",
                path.display()
            ))
            .hint("remove it before each launch: --prepare 'rm -rf PATH'"));
        }
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let events = inotify::init(flags).map_err(|e| ProbeError::io("watch", &path, &e.into()))?;
        let mut appears = Appears { path, events };
        appears.watch()?;
        Ok(Box::new(appears))
    }
}

struct Appears {
    path: PathBuf,
    events: OwnedFd,
}

impl Appears {
    /// Watches the directory of the file, or the nearest one above it that exists.
    fn watch(&mut self) -> Result<(), ProbeError> {
        let there = |p: &&Path| p.is_dir();
        let nearest = self.path.ancestors().skip(1).find(there);
        let dir = nearest.unwrap_or(Path::new("/"));
        let flags = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&self.events, dir, flags)
            .map(drop)
            .map_err(|e| ProbeError::io("watch", dir, &e.into()))
    }
}

impl Ready for Appears {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.events.as_fd()]
    }
    fn look(&mut self) -> Result<Option<ReadyEvent>, ProbeError> {
        let now = ReadyEvent::now();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.events, &mut buffer);
        while reader.next().is_ok() {}
        // A directory on the path may have appeared, with the file in it before it could be
        // watched.
        self.watch()?;
        Ok(self.path.symlink_metadata().is_ok().then_some(now))
    }
}
