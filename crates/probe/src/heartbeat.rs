//! Heartbeat: progress lines while something unmeasured takes long.
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
};

/// Writes a whole line at once, because the heartbeat writes too.
pub fn say(output: &Mutex<impl Write>, event: &FromProbe) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    output.write_all(&line)?;
    output.flush()
}

/// A thread that reports within half a second, and then twice as often, that the current job makes
/// progress, so that the lab does not mistake a slow disk for a dead probe. It reports only when
/// something has been done since: work that hangs in the kernel stays silent. One thread serves the
/// probe's whole life, because starting one takes longer than many steps of a short trial.
pub struct Heartbeat {
    work: Arc<Mutex<CurrentJob>>,
    /// Dropped, it ends the thread.
    _end: Sender<()>,
}

/// What is under way.
#[derive(Default)]
struct CurrentJob {
    job: Option<u64>,
    /// Whether it was running at the last beat. Short work needs no heartbeat.
    seen: bool,
    /// Below the place of the job.
    disks: Disks,
}

impl Heartbeat {
    /// Starts the thread, which writes to `output`, whose descriptor is `fd` if it has one. Fails
    /// when the thread cannot be started.
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

    /// Starts reporting progress of this job.
    pub fn begin(&self, job: u64) {
        self.set(Some(job));
    }

    /// Stops reporting. When this returns, the thread is not in the middle of a line.
    pub fn end(&self) {
        self.set(None);
    }

    /// Sets the disks below the following jobs.
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

/// Gives this thread its own file table, with only `fd` in it. With a shared table the kernel
/// counts references at each call, which costs a small read 2 %. If this is refused, the cost
/// remains.
fn leave_files(fd: RawFd) {
    // SAFETY: this thread uses no file but `fd`, which was open before, and its own.
    if unsafe { unshare_unsafe(UnshareFlags::FILES) }.is_err() {
        return;
    }
    // Files that other threads close must not stay open here: a pipe would not end.
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
    // A job that is first seen has been running for part of this interval.
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
                    // If the lab has ended, the next required line fails.
                    let _ = say(output, &progress);
                }
            }
        }
        work.seen = work.job.is_some();
    }
}
