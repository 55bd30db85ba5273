//! The threads of a trial that has more than one. They live as long as the trial, and start
//! together.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{
    job::{Amount, FileJob, Worked},
    open::refused,
    params::FileParams,
    slot::ThreadSlot,
};
use crate::{
    ProbeError,
    clock::monotonic_ns,
    counters::Devices,
    error::panicked,
    limits::HEARTBEAT_NS,
    run::{Edge, barrier::SpinBarrier, drive::LoopError},
};

/// One thread per file, waiting for assignments. The threads end when this is dropped.
pub struct Team {
    shared: Arc<TeamState>,
    orders: Vec<Sender<Assignment>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
}

/// Work of all threads since their common start, in order.
pub struct Together {
    pub each: Vec<Worked>,
    /// Counters, read by the last thread to be ready and by the last to end.
    pub edges: [Edge; 2],
}

/// A thread's next work, and its file.
type Assignment = (Amount, ThreadSlot);

/// A thread's number, its file and its work.
type Done = (usize, ThreadSlot, Result<Worked, ProbeError>);

/// State shared by the threads.
struct TeamState {
    devices: Devices,
    barrier: SpinBarrier,
    count: usize,
    /// Number of threads that still work.
    working: AtomicUsize,
    /// Operations since the start, as last reported.
    told: AtomicU64,
    /// `CLOCK_MONOTONIC` at the start.
    start_ns: AtomicU64,
    edges: Mutex<[Edge; 2]>,
}

impl TeamState {
    /// Called by the last thread that is ready, so that no thread has to be woken before the start.
    fn start(&self) {
        self.working.store(self.count, Ordering::Relaxed);
        self.told.store(0, Ordering::Relaxed);
        self.edge(0);
        self.start_ns.store(monotonic_ns(), Ordering::Relaxed);
    }

    fn edge(&self, which: usize) {
        let edge = Edge::read(&self.devices);
        self.edges.lock().unwrap_or_else(PoisonError::into_inner)[which] = edge;
    }

    fn work(
        &self,
        job: &FileJob,
        slot: &mut ThreadSlot,
        amount: Amount,
    ) -> Result<Worked, ProbeError> {
        self.barrier.wait(|| self.start());
        // With more threads than CPUs it had to wait for a CPU. A turn ends for all at the same
        // time, and that wait is part of it.
        let late_ns = match amount {
            Amount::Passes(_) => 0,
            Amount::Time { .. } => monotonic_ns() - self.start_ns.load(Ordering::Relaxed),
        };
        let mut before = 0;
        let beat = &mut |now| {
            self.told.fetch_add(now - before, Ordering::Relaxed);
            before = now;
        };
        let worked = guarded(|| {
            let worked = job.work(slot, amount.shortened(late_ns), beat);
            worked.map_err(|stopped| failed(&job.p, slot, &stopped))
        });
        if self.working.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.edge(1);
        }
        let mut worked = worked?;
        worked.span.start -= late_ns;
        Ok(worked)
    }
}

/// A thread that panics would leave the others waiting for ever.
fn guarded<T>(what: impl FnOnce() -> Result<T, ProbeError>) -> Result<T, ProbeError> {
    catch_unwind(AssertUnwindSafe(what)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

impl Team {
    /// Starts this many threads.
    pub fn start(count: usize, job: &FileJob, devices: Devices) -> Result<Self, ProbeError> {
        let shared = Arc::new(TeamState {
            devices,
            barrier: SpinBarrier::new(count),
            count,
            working: AtomicUsize::new(0),
            told: AtomicU64::new(0),
            start_ns: AtomicU64::new(0),
            edges: Mutex::default(),
        });
        let (say, done) = mpsc::channel();
        let mut team = Self {
            shared,
            orders: Vec::with_capacity(count),
            done,
            threads: Vec::with_capacity(count),
        };
        for number in 0..count {
            let (order, orders) = mpsc::channel::<Assignment>();
            let (shared, job, say) = (Arc::clone(&team.shared), job.clone(), say.clone());
            let worker = move || {
                for (amount, mut slot) in orders {
                    let result = shared.work(&job, &mut slot, amount);
                    if say.send((number, slot, result)).is_err() {
                        return;
                    }
                }
            };
            let thread = thread::Builder::new().spawn(worker);
            team.threads.push(thread.map_err(|e| no_thread(&e))?);
            team.orders.push(order);
        }
        Ok(team)
    }

    /// Makes all threads do this amount, each with its file. `beat` gets the operations so far.
    pub fn work(
        &self,
        slots: &mut Vec<ThreadSlot>,
        amount: Amount,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Together, ProbeError> {
        let gone = || ProbeError::new("a thread of the trial has gone");
        for (order, slot) in self.orders.iter().zip(slots.drain(..)) {
            order.send((amount, slot)).map_err(|_| gone())?;
        }
        let mut done = Vec::with_capacity(self.orders.len());
        while done.len() < self.orders.len() {
            match self.done.recv_timeout(Duration::from_nanos(HEARTBEAT_NS)) {
                Ok(one) => done.push(one),
                Err(RecvTimeoutError::Timeout) => beat(self.shared.told.load(Ordering::Relaxed)),
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
        done.sort_by_key(|(number, ..)| *number);
        let mut each = Vec::with_capacity(done.len());
        for (_, slot, worked) in done {
            slots.push(slot);
            each.push(worked);
        }
        let edges = &self.shared.edges;
        Ok(Together {
            each: each.into_iter().collect::<Result<_, _>>()?,
            edges: *edges.lock().unwrap_or_else(PoisonError::into_inner),
        })
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.orders.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn no_thread(error: &io::Error) -> ProbeError {
    ProbeError {
        message: format!("cannot start a thread: {error}"),
        hint: None,
        errno: error.raw_os_error(),
    }
    .hint("use fewer `threads`, or raise the limit: `ulimit -u` shows it")
}

/// The error of an operation.
pub fn failed(p: &FileParams, slot: &ThreadSlot, stopped: &LoopError) -> ProbeError {
    let what = if slot.op.writes() { "write" } else { "read" };
    if stopped.at == 0 {
        return refused(p, &slot.path, what, &stopped.error);
    }
    ProbeError::io(
        &format!("{what} record {} of", stopped.at),
        &slot.path,
        &stopped.error,
    )
}
