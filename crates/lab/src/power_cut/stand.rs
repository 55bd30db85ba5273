//! Disks that cuts left, each set up on a stand of its own. Several are at a time, because setting one up mostly waits
//! for the kernel.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use layermark_layers::volatile::{History, Mark, PowerCutBase};

/// Stands for each CPU: while one disk waits for the kernel, another is set up.
const FOR_EACH_CPU: usize = 2;
/// Most stands: each holds an image in memory.
const MOST: usize = 8;

/// Cuts whose results are held in memory at a time.
pub(super) const AT_A_TIME: usize = 64;

/// Less room than this is none, bytes: a file system writes its journal again when it is mounted.
const LEAST_ROOM: u64 = 1 << 20;

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

/// How much room the directory of images has. It is looked at before an image is removed, by any stand: what was full is
/// seen, though another stand has made room since.
#[derive(Debug)]
pub(super) struct Room {
    images: PathBuf,
    /// How often it was seen to be full.
    full: AtomicUsize,
}

impl Room {
    fn new(images: PathBuf) -> Self {
        Self {
            images,
            full: AtomicUsize::new(0),
        }
    }

    /// Looks at it. Returns how often it was seen without room by now, so that writes to an image fail.
    pub(super) fn look(&self) -> usize {
        let free = rustix::fs::statvfs(&self.images).map(|s| s.f_bavail.saturating_mul(s.f_frsize));
        self.note(free.is_ok_and(|free| free < LEAST_ROOM))
    }

    fn note(&self, is_full: bool) -> usize {
        let now = usize::from(is_full);
        self.full.fetch_add(now, Ordering::SeqCst) + now
    }
}

/// A disk whose power is cut at moments of its history.
#[derive(Debug)]
pub(super) struct CutDisk {
    pub(super) history: History,
    /// A directory in memory for images.
    images: PathBuf,
    /// The room that it has.
    room: Arc<Room>,
    /// A directory on a disk.
    home: PathBuf,
    /// Only one is set up at a time.
    is_alone: bool,
}

impl CutDisk {
    /// `is_alone`: a second disk at the same time would be taken for the first one.
    pub(super) fn new(disk: &PowerCutBase, history: History, home: &Path, is_alone: bool) -> Self {
        Self {
            history,
            images: disk.images(),
            room: Arc::new(Room::new(disk.images())),
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
            room: Arc::clone(&self.room),
            home: self.home.clone(),
            is_alone: self.is_alone,
        })
    }

    /// The room for images of all stands.
    pub(super) fn room(&self) -> Arc<Room> {
        Arc::clone(&self.room)
    }

    fn stand(&self, number: usize) -> Stand {
        Stand {
            image: self.images.join(format!("image-{number}")),
            at: self.images.join(format!("mnt-{number}")),
            server: self.home.join(format!("server-{number}")),
        }
    }

    /// What `work` makes of each number below `n`, one after the other.
    pub(super) fn one_by_one<T>(&self, n: usize, work: impl Fn(usize, &Stand) -> T) -> Vec<T> {
        let stand = self.stand(0);
        (0..n).map(|at| work(at, &stand)).collect()
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
        let work = &work;
        shared_out(n, stands, |number| {
            let stand = self.stand(number);
            move |at| work(at, &stand)
        })
    }
}

/// What workers make of each number below `n`, in their order. `worker` makes the work of one of them, which does one at
/// a time.
fn shared_out<T: Send, W: FnMut(usize) -> T>(
    n: usize,
    workers: usize,
    worker: impl Fn(usize) -> W + Sync,
) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(n)));
    let run = &|number: usize| {
        let mut work = worker(number);
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= n {
                return;
            }
            let result = work(at);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((at, result));
        }
    };
    thread::scope(|scope| {
        for number in 1..workers {
            // Without it there is one less.
            let _ = thread::Builder::new()
                .name("power cuts".into())
                .spawn_scoped(scope, move || run(number));
        }
        run(0);
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// A survey that is judged by another cut's acknowledgements would be a false loss.
    #[test]
    fn results_are_in_order_and_each_worker_does_one_at_a_time() {
        let (both, begun) = (Barrier::new(2), AtomicUsize::new(0));
        let all = shared_out(7, 2, |worker| {
            let (both, begun) = (&both, &begun);
            let mut own = 0;
            move |at| {
                // The first two are at work together, and the second one ends first.
                if begun.fetch_add(1, Ordering::SeqCst) < 2 {
                    both.wait();
                }
                own += 1;
                (at, worker, own)
            }
        });
        let order: Vec<usize> = all.iter().map(|(at, ..)| *at).collect();
        assert_eq!(order, (0..7).collect::<Vec<_>>());
        let of = |worker| all.iter().filter(move |(_, w, _)| *w == worker).count();
        assert!(of(0) > 0 && of(1) > 0 && of(0) + of(1) == 7);
        let counted: usize = all.iter().map(|(.., own)| own).sum();
        let by_itself = |n: usize| n * (n + 1) / 2;
        assert_eq!(counted, by_itself(of(0)) + by_itself(of(1)));
    }

    /// It was looked at when a stand had failed, and another had made room by then.
    #[test]
    fn room_that_was_short_is_remembered() {
        let here = tempfile::tempdir().unwrap();
        let room = Room::new(here.path().into());
        let (begun, shared) = (room.note(false), &room);
        assert_eq!(room.note(false), begun);
        thread::scope(|scope| {
            scope.spawn(move || shared.note(true));
        });
        assert_ne!(room.note(false), begun);
        // One that begins now is not concerned.
        let begun = room.note(false);
        assert_eq!(room.note(false), begun);
        let gone = Room::new(here.path().join("absent"));
        assert_eq!(gone.look(), 0);
    }

    #[test]
    fn nothing_to_do_is_nothing_done() {
        assert!(shared_out(0, 0, |_| |at: usize| at).is_empty());
    }
}
