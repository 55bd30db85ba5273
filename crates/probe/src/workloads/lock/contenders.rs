//! The threads that contend for the lock. Each has its own descriptor of the one file for the
//! duration of a trial.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use layermark_model::Latency;

use super::{
    ops::{Count, LockUnlock},
    params::{LockOp, LockParams},
};
use crate::{
    ProbeError,
    clock::{Source, monotonic_ns},
    counters::Devices,
    limits::HEARTBEAT_NS,
    run::{
        Edge,
        barrier::SpinBarrier,
        drive::{self, Done, OpRange, Span},
        recorder::Recorder,
    },
    selftest,
};

/// The next work of all threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContenderTurn {
    /// Number of operations of each, if there is time.
    pub ops: u64,
    /// Time limit from the common start, ns.
    pub limit_ns: u64,
    pub what: What,
}

/// The kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Counted operations.
    Timed,
    /// The same operations, uncounted.
    LeadIn,
    /// Increments of the number in the file.
    Count,
}

/// Work of all threads.
pub struct Together {
    pub ops: u64,
    /// Duration in which all operations would have been done if each thread had continued at its
    /// own speed to the same moment, ns.
    pub elapsed_ns: u64,
    /// Counters, read by the last thread to be ready and by the last to end.
    pub edges: [Edge; 2],
}

/// Work of one thread.
type Did = io::Result<(u64, Span)>;

/// Threads that wait for work. They end when this is dropped.
pub struct Contenders {
    p: LockParams,
    path: PathBuf,
    shared: Arc<ContenderState>,
    turns: Vec<Sender<ContenderTurn>>,
    done: Receiver<Did>,
    threads: Vec<JoinHandle<()>>,
}

struct ContenderState {
    op: LockOp,
    clock: Option<Source>,
    devices: Devices,
    barrier: SpinBarrier,
    /// Number of threads that still work.
    working: AtomicUsize,
    /// `CLOCK_MONOTONIC` at the common start.
    start_ns: AtomicU64,
    /// Operations since then, as last reported.
    told: AtomicU64,
    edges: Mutex<[Edge; 2]>,
    /// Recorder of each thread, which only that thread uses while it works.
    recorders: Vec<Mutex<Recorder>>,
}

impl Contenders {
    /// Starts the threads. Each opens the file with `open` itself.
    pub fn start(
        p: &LockParams,
        path: &Path,
        devices: Devices,
        open: fn(LockOp, &Path) -> io::Result<File>,
    ) -> Result<Self, ProbeError> {
        let count = p.threads as usize;
        let shared = Arc::new(ContenderState {
            op: p.op,
            clock: p.latency.then(selftest::source),
            devices,
            barrier: SpinBarrier::new(count),
            working: AtomicUsize::new(0),
            start_ns: AtomicU64::new(0),
            told: AtomicU64::new(0),
            edges: Mutex::default(),
            recorders: (0..count).map(|_| Mutex::new(Recorder::new())).collect(),
        });
        let (say, done) = mpsc::channel();
        let mut all = Self {
            p: p.clone(),
            path: path.to_owned(),
            shared,
            turns: Vec::with_capacity(count),
            done,
            threads: Vec::with_capacity(count),
        };
        for number in 0..count {
            let (turn, turns) = mpsc::channel();
            let (shared, say, path) = (Arc::clone(&all.shared), say.clone(), path.to_owned());
            let body = move || shared.contend(number, open(shared.op, &path), &turns, &say);
            let thread = thread::Builder::new().spawn(body);
            all.threads.push(thread.map_err(|e| no_thread(&e))?);
            all.turns.push(turn);
        }
        // All have opened the file, or one reports its error.
        all.gather(&mut |_| {})?;
        Ok(all)
    }

    /// Makes all of them work. `beat` gets the number of operations so far.
    pub fn work(
        &self,
        turn: ContenderTurn,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Together, ProbeError> {
        for to in &self.turns {
            to.send(turn).map_err(|_| gone())?;
        }
        let each = self.gather(beat)?;
        let ops = each.iter().map(|(ops, _)| ops).sum::<u64>();
        let rates = each
            .iter()
            .map(|(ops, span)| *ops as f64 / span.net_ns() as f64);
        let elapsed_ns = (ops as f64 / rates.sum::<f64>()).round().max(1.0) as u64;
        let edges = *lock(&self.shared.edges);
        Ok(Together {
            ops,
            elapsed_ns,
            edges,
        })
    }

    /// Latencies of the timed operations.
    pub fn latency(&self) -> Option<Latency> {
        let mut sum = Recorder::new();
        for recorder in &self.shared.recorders {
            sum.add(&lock(recorder));
        }
        sum.latency()
    }

    fn gather(&self, beat: &mut dyn FnMut(u64)) -> Result<Vec<(u64, Span)>, ProbeError> {
        let (mut each, mut told) = (Vec::with_capacity(self.turns.len()), 0);
        let mut failed = None;
        while each.len() < self.turns.len() {
            match self.done.recv_timeout(Duration::from_nanos(HEARTBEAT_NS)) {
                Ok(Ok(did)) => each.push(did),
                Ok(Err(e)) => {
                    failed = failed.or(Some(e));
                    each.push((0, Span::default()));
                }
                // Waiting for a lock that is never granted must not count as progress.
                Err(RecvTimeoutError::Timeout) => {
                    let now = self.shared.told.load(Ordering::Relaxed);
                    if std::mem::replace(&mut told, now) != now {
                        beat(now);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
        failed.map_or(Ok(each), |e| Err(refused(&self.p, &self.path, &e)))
    }
}

impl Drop for Contenders {
    fn drop(&mut self) {
        self.turns.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl ContenderState {
    /// The main loop of a thread.
    fn contend(
        &self,
        number: usize,
        file: io::Result<File>,
        turns: &Receiver<ContenderTurn>,
        say: &Sender<Did>,
    ) {
        let (file, opened) = match file {
            Ok(file) => (Some(file), Ok((0, Span::default()))),
            Err(e) => (None, Err(e)),
        };
        let told = say.send(opened);
        let Some(file) = file.filter(|_| told.is_ok()) else {
            return;
        };
        for turn in turns {
            let did = self.work(turn, &file, &mut lock(&self.recorders[number]));
            // A thread that fails closes the file, and with it a lock for which others wait.
            let goes_on = did.is_ok();
            if say.send(did).is_err() || !goes_on {
                return;
            }
        }
    }

    fn work(&self, turn: ContenderTurn, file: &File, recorder: &mut Recorder) -> Did {
        self.barrier.wait(|| self.start());
        let start = self.start_ns.load(Ordering::Relaxed);
        // With more threads than CPUs it had to wait for one. That is part of a turn, which ends
        // for all at the same time.
        let late_ns = monotonic_ns() - start;
        let part = OpRange {
            from: 0,
            to: turn.ops,
            limit_ns: turn.limit_ns.saturating_sub(late_ns).max(1),
        };
        let done = self.drive(turn.what, part, file, recorder);
        let end = monotonic_ns();
        if self.working.fetch_sub(1, Ordering::AcqRel) == 1 {
            lock(&self.edges)[1] = Edge::read(&self.devices);
        }
        let done = done?;
        let paused = done.paused_ns;
        Ok((done.next, Span { start, end, paused }))
    }

    /// Called by the last thread that is ready.
    fn start(&self) {
        self.working.store(self.recorders.len(), Ordering::Relaxed);
        self.told.store(0, Ordering::Relaxed);
        lock(&self.edges)[0] = Edge::read(&self.devices);
        self.start_ns.store(monotonic_ns(), Ordering::Relaxed);
    }

    fn drive(
        &self,
        what: What,
        part: OpRange,
        file: &File,
        recorder: &mut Recorder,
    ) -> io::Result<Done> {
        let (op, mut before) = (self.op, 0);
        let beat = &mut |now| {
            self.told.fetch_add(now - before, Ordering::Relaxed);
            before = now;
        };
        let done = match what {
            What::Timed => drive::drive(
                self.clock,
                part,
                recorder,
                beat,
                &mut LockUnlock { op, file },
            ),
            What::LeadIn => drive::drive(None, part, recorder, beat, &mut LockUnlock { op, file }),
            What::Count => drive::drive(None, part, recorder, beat, &mut Count { op, file }),
        };
        done.map_err(|stopped| stopped.error)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gone() -> ProbeError {
    ProbeError::new("a thread of the trial has gone")
}

fn refused(p: &LockParams, path: &Path, e: &io::Error) -> ProbeError {
    let error = ProbeError::io(&format!("use {} locks on", p.op.id()), path, e);
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

fn no_thread(e: &io::Error) -> ProbeError {
    ProbeError::new(format!("cannot start a thread: {e}"))
        .hint("use fewer `threads`, or raise the limit: `ulimit -u` shows it")
}
