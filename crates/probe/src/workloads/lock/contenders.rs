//! The threads that contend for the lock. Each has its own descriptor of the one file for the
//! duration of a trial.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use layermark_model::{Defect, Latency};

use super::{
    kind::LockOp,
    ops::{Count, LockUnlock},
    params::LockParams,
};
use crate::{
    ProbeError,
    clock::{Source, monotonic_ns},
    counters::Devices,
    run::{
        Extent, Stretch,
        drive::{self, Done, OpRange, Span},
        recorder::Recorder,
        team::{Begin, Member, Team, ThreadWork, Together, as_if_equally_long},
    },
    selftest,
};

/// Locks of each thread per pass, if a trial is one stretch of passes.
const PASS: u64 = 100;

/// The kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Takes the lock and releases it.
    Lock,
    /// Increments the number in the file under the lock.
    Count,
}

/// How a thread opens the file.
pub type Open = fn(LockOp, &Path) -> io::Result<File>;

/// All threads of a trial.
pub struct Contenders {
    team: Team<Contender>,
    recorders: Vec<Recorder>,
}

/// One thread.
struct Contender {
    p: LockParams,
    path: PathBuf,
    open: Open,
    clock: Option<Source>,
    file: Option<File>,
}

impl Contenders {
    /// Starts the threads. Each opens the file with `open` itself, before its first operation.
    pub fn start(
        p: &LockParams,
        path: &Path,
        devices: Devices,
        open: Open,
    ) -> Result<Self, ProbeError> {
        let contender = |_| Contender {
            p: p.clone(),
            path: path.to_owned(),
            open,
            clock: p.latency.then(selftest::source),
            file: None,
        };
        let members = (0..p.threads).map(contender).collect();
        Ok(Self {
            team: Team::start(members, devices, "threads")?,
            recorders: (0..p.threads).map(|_| Recorder::new()).collect(),
        })
    }

    /// Makes all of them work. `beat` gets the number of operations so far.
    pub fn work(
        &mut self,
        order: (What, Extent),
        beat: &mut dyn FnMut(u64),
    ) -> Result<Stretch, ProbeError> {
        let mut before = 0;
        // Waiting for a lock that is never granted must not count as progress.
        let beat = &mut |now| {
            if std::mem::replace(&mut before, now) != now {
                beat(now);
            }
        };
        let Together { each, edges } = self.team.work(&mut self.recorders, order, beat)?;
        Ok(Stretch {
            ops: each.iter().map(|(ops, _)| ops).sum(),
            elapsed_ns: as_if_equally_long(each.into_iter()),
            edges: Some(edges),
            ..Stretch::default()
        })
    }

    /// Latencies of the timed operations.
    pub fn latency(&self) -> Option<Latency> {
        let mut sum = Recorder::new();
        for recorder in &self.recorders {
            sum.add(recorder);
        }
        sum.latency()
    }
}

impl Member for Contender {
    type Slot = Recorder;
    type Order = (What, Extent);
    type Done = ThreadWork;

    fn run(
        &mut self,
        recorder: &mut Recorder,
        order: (What, Extent),
        begin: Begin<'_>,
        beat: &mut dyn FnMut(u64),
    ) -> Result<ThreadWork, ProbeError> {
        let did = self.contend(recorder, order, begin, beat);
        did.map_err(|e| {
            // Also releases a lock for which others wait.
            self.file = None;
            refused(&self.p, &self.path, &e)
        })
    }
}

impl Contender {
    fn contend(
        &mut self,
        recorder: &mut Recorder,
        (what, extent): (What, Extent),
        begin: Begin<'_>,
        beat: &mut dyn FnMut(u64),
    ) -> io::Result<ThreadWork> {
        let op = self.p.op;
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert((self.open)(op, &self.path)?),
        };
        let start = begin();
        // With more threads than CPUs it had to wait for one. That is part of a turn, which ends
        // for all at the same time.
        let late_ns = monotonic_ns() - start;
        let part = OpRange {
            from: 0,
            to: extent.ops(PASS),
            limit_ns: extent.late(late_ns).ns,
        };
        let clock = self.clock.filter(|_| extent.counted);
        let done = match what {
            What::Lock => drive::drive(clock, part, recorder, beat, &mut LockUnlock { op, file }),
            What::Count => drive::drive(clock, part, recorder, beat, &mut Count { op, file }),
        };
        let Done { ops, span, .. } = done.map_err(|stopped| stopped.error)?;
        Ok((ops, Span { start, ..span }))
    }
}

fn refused(p: &LockParams, path: &Path, e: &io::Error) -> ProbeError {
    let mut error = ProbeError::io(&format!("use {} locks on", p.op.id()), path, e);
    if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) {
        error = error.shows(Defect::Lacks);
    }
    match e.raw_os_error() {
        Some(libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => {
            let op = p.op.id();
            error.hint(format!(
                "the layer has no {op} locks: try another `op`; on NFS, check that the server's lock manager \
                 runs: `rpcinfo -p SERVER`; or mount with local_lock=all (NFS) or nobrl (SMB): locks then \
                 hold on this machine only"
            ))
        }
        _ => error,
    }
}
