//! Disks that cuts left, each set up on a stand of its own. Several are at a time, because setting one up mostly waits
//! for the kernel.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use layermark_layers::volatile::{History, Mark, PowerCutBase};

/// Stands for each CPU: while one disk waits for the kernel, another is set up.
const FOR_EACH_CPU: usize = 2;
/// Most stands: each holds an image in memory.
const MOST: usize = 8;

/// Where one disk at a time is set up.
#[derive(Debug)]
pub(super) struct Stand {
    /// The file that is the disk.
    pub(super) image: PathBuf,
    /// Where it is mounted.
    pub(super) at: PathBuf,
    /// Where a file system of the user's is mounted.
    pub(super) server: PathBuf,
}

/// A disk whose power is cut at moments of its history.
#[derive(Debug)]
pub(super) struct CutDisk {
    pub(super) history: History,
    /// A directory in memory for images.
    images: PathBuf,
    /// A directory on a disk.
    home: PathBuf,
    /// Only one is set up at a time.
    is_alone: bool,
}

impl CutDisk {
    /// `is_alone`: the layer has an image of its own on the disk. XFS and btrfs refuse a second file system with the
    /// same UUID, or take it for the first one.
    pub(super) fn new(disk: &PowerCutBase, history: History, home: &Path, is_alone: bool) -> Self {
        Self {
            history,
            images: disk.images(),
            home: home.into(),
            is_alone,
        }
    }

    /// The same from a moment up to `mark` on, for cuts after it: see [`History::settled`].
    ///
    /// # Errors
    ///
    /// There is no memory left for its content.
    pub(super) fn settled(&self, mark: Mark) -> io::Result<Self> {
        let start = self.images.join("settled");
        let history = self.history.settled(mark, &start);
        // It is held open.
        let removed = fs::remove_file(&start);
        let history = history?;
        removed?;
        Ok(Self {
            history,
            images: self.images.clone(),
            home: self.home.clone(),
            is_alone: self.is_alone,
        })
    }

    fn stand(&self, number: usize) -> Stand {
        Stand {
            image: self.images.join(format!("image-{number}")),
            at: self.images.join(format!("mnt-{number}")),
            server: self.home.join(format!("server-{number}")),
        }
    }

    /// What `work` makes of one disk, alone.
    pub(super) fn alone<T>(&self, work: impl FnOnce(&Stand) -> T) -> T {
        work(&self.stand(0))
    }

    /// What `work` makes of each number below `n`, in their order. Several are at work at a time.
    pub(super) fn side_by_side<T: Send>(
        &self,
        n: usize,
        work: impl Fn(usize, &Stand) -> T + Sync,
    ) -> Vec<T> {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let most = if self.is_alone { 1 } else { MOST };
        let stands = (cpus * FOR_EACH_CPU).min(most).min(n);
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(n)));
        let worker = &|number: usize| {
            let stand = self.stand(number);
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= n {
                    return;
                }
                let result = work(at, &stand);
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                done.push((at, result));
            }
        };
        thread::scope(|scope| {
            for number in 1..stands {
                // Without it there is one less.
                let _ = thread::Builder::new()
                    .name("power cuts".into())
                    .spawn_scoped(scope, move || worker(number));
            }
            worker(0);
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_unstable_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, result)| result).collect()
    }
}
