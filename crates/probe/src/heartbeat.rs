//! Signs of life while something takes long that is not measured.
#![allow(unsafe_code)] // unshare(2) and close_range(2) have no safe wrapper

use std::{
    io::{self, Write},
    os::fd::RawFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{Builder, Scope},
    time::Duration,
};

use layermark_model::protocol::FromProbe;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::{
    limits::HEARTBEAT_NS,
    motion::{Disks, Motion, Who},
    serve::say,
};

/// A thread that says within half a second, and then twice as often, that the job in hand goes on,
/// so that the lab does not take a slow disk for a dead probe. It says so only when something has
/// been done since: work that waits in the kernel for ever is silent. There is one for the whole life of a
/// probe: to start and end one takes longer than many a part of a short trial.
pub struct Heartbeat {
    work: Arc<Mutex<CurrentJob>>,
    /// Dropped, it ends the thread.
    _end: Sender<()>,
}

/// What is under way.
#[derive(Default)]
struct CurrentJob {
    job: Option<u64>,
    /// Whether it was at the last beat. What is short needs no sign of life.
    seen: bool,
    /// Below the place of the job.
    disks: Disks,
}

impl Heartbeat {
    /// Starts the thread, which writes to `output`, whose number is `fd` if it has one. An error is
    /// that of starting it.
    pub fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        output: &'env Mutex<impl Write + Send>,
        fd: Option<RawFd>,
    ) -> io::Result<Self> {
        let work = Arc::new(Mutex::new(CurrentJob::default()));
        let (end, ended) = channel();
        let looked_at = Arc::clone(&work);
        Builder::new()
            .name("heartbeat".into())
            .spawn_scoped(scope, move || {
                if let Some(fd) = fd {
                    leave_files(fd);
                }
                beat(output, &looked_at, &ended);
            })?;
        Ok(Self { work, _end: end })
    }

    /// From now on this job is under way.
    pub fn begin(&self, job: u64) {
        self.set(Some(job));
    }

    /// Nothing is. No line of the thread is half written when this returns.
    pub fn end(&self) {
        self.set(None);
    }

    /// Jobs work above these disks from now on.
    pub fn above(&self, disks: Disks) {
        self.lock().disks = disks;
    }

    fn set(&self, job: Option<u64>) {
        let mut work = self.lock();
        (work.job, work.seen) = (job, false);
    }

    fn lock(&self) -> MutexGuard<'_, CurrentJob> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has this thread go on with a table of files of its own, with nothing but `fd` in it. Sharing one
/// makes the kernel count references at each call, which costs a small read 2 %; where it may not
/// be left, that is the price.
fn leave_files(fd: RawFd) {
    // SAFETY: this thread uses no file but `fd`, which was open before, and its own.
    if unsafe { unshare_unsafe(UnshareFlags::FILES) }.is_err() {
        return;
    }
    // What others close is not to be held open here: a pipe would not end.
    for (first, last) in [
        (0, i64::from(fd) - 1),
        (i64::from(fd) + 1, i64::from(u32::MAX)),
    ] {
        if first <= last {
            // SAFETY: the table is this thread's own, as above.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}

fn beat(output: &Mutex<impl Write>, work: &Mutex<CurrentJob>, ended: &Receiver<()>) {
    // What is under way was begun a part of this ago when it is first seen.
    let every = Duration::from_nanos(HEARTBEAT_NS / 2);
    let mut motion = None;
    while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let mut work = work.lock().unwrap_or_else(PoisonError::into_inner);
        match work.job {
            None => motion = None,
            Some(_) if !work.seen => motion = Some(Motion::of(Who::Others)),
            Some(id) => {
                let moved = work.disks.have_moved();
                if motion.as_mut().is_some_and(Motion::is_seen) || moved {
                    let progress = FromProbe::Progress {
                        id,
                        ops: 0,
                        bytes: 0,
                    };
                    // A lab that has gone is noticed with the next line that counts.
                    let _ = say(output, &progress);
                }
            }
        }
        work.seen = work.job.is_some();
    }
}
