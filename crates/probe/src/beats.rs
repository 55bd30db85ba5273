//! Signs of life while something takes long that is not measured.
#![allow(unsafe_code)] // unshare(2) has no safe wrapper

use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{Builder, Scope},
    time::Duration,
};

use layermark_model::protocol::FromProbe;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::{limits::BEAT_NS, serve::say};

/// A thread that says every half second that the job in hand goes on, so that the lab does not
/// take a slow disk for a dead probe. There is one for the whole life of a probe: to start and end
/// one around each part of a short trial took a tenth of a millisecond.
pub struct Beats {
    work: Arc<Mutex<Work>>,
    /// Dropped, it ends the thread.
    _end: Sender<()>,
}

/// What is under way.
#[derive(Default)]
struct Work {
    job: Option<u64>,
    /// Whether it was at the last beat. What is short needs no sign of life.
    seen: bool,
}

impl Beats {
    /// Starts the thread, which writes to `output`. An error is that of starting it.
    pub fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        output: &'env Mutex<impl Write + Send>,
    ) -> io::Result<Self> {
        let work = Arc::new(Mutex::new(Work::default()));
        let (end, ended) = channel();
        let looked_at = Arc::clone(&work);
        Builder::new()
            .name("beats".into())
            .spawn_scoped(scope, move || beat(output, &looked_at, &ended))?;
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

    fn set(&self, job: Option<u64>) {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        *work = Work { job, seen: false };
    }
}

fn beat(output: &Mutex<impl Write>, work: &Mutex<Work>, ended: &Receiver<()>) {
    // A table of files that two threads share makes the kernel count references at each call,
    // which costs a small read 2 %. Where it may not be left, that is the price.
    // SAFETY: nothing but the output is used here, which was open before.
    let _ = unsafe { unshare_unsafe(UnshareFlags::FILES) };
    let every = Duration::from_nanos(BEAT_NS);
    while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let mut work = work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = work.job.filter(|_| work.seen) {
            let progress = FromProbe::Progress {
                id,
                ops: 0,
                bytes: 0,
            };
            // A lab that has gone is noticed with the next line that counts.
            let _ = say(output, &progress);
        }
        work.seen = work.job.is_some();
    }
}
