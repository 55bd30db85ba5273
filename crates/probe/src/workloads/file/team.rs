//! The threads of a trial with more than one: kept for all its passes, started together.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, Scope},
    time::Duration,
};

use super::{
    job::Job,
    pass::{Counters, Lap, failed, renew},
    prepare::Slot,
};
use crate::{
    ProbeError, counters::Devices, drive::Span, error::panicked, gate::Gate, limits::BEAT_NS,
};

/// What a thread says after a pass. No span: it did not start, because another one could not.
type Said = Result<Option<Span>, ProbeError>;

/// What the threads of a trial share.
pub struct Shared {
    devices: Devices,
    gate: Gate,
    count: usize,
    /// Threads that still work.
    working: AtomicUsize,
    /// Operations done in this pass, as far as told.
    done: AtomicU64,
    /// One could not make its file ready, so none starts.
    off: AtomicBool,
    before: Mutex<Option<Counters>>,
    after: Mutex<Option<Counters>>,
}

impl Shared {
    pub fn new(count: usize, devices: Devices) -> Self {
        Self {
            devices,
            gate: Gate::new(count),
            count,
            working: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            off: AtomicBool::new(false),
            before: Mutex::new(None),
            after: Mutex::new(None),
        }
    }

    /// By the last thread that is ready: nobody has to be woken between this and the start.
    fn start(&self) {
        self.working.store(self.count, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        put(&self.before, Counters::read(&self.devices));
    }

    fn work(&self, job: &Job, slot: &mut Slot) -> Said {
        let ready = guarded(|| renew(&job.p, slot));
        if ready.is_err() {
            self.off.store(true, Ordering::Relaxed);
        }
        self.gate.meet(|| self.start());
        let result = if self.off.load(Ordering::Relaxed) {
            ready.map(|()| None)
        } else {
            let mut before = 0;
            let beat = &mut |now| {
                self.done.fetch_add(now - before, Ordering::Relaxed);
                before = now;
            };
            guarded(|| {
                job.work(slot, beat)
                    .map(Some)
                    .map_err(|s| failed(&job.p, slot, &s))
            })
        };
        if self.working.fetch_sub(1, Ordering::AcqRel) == 1 {
            put(&self.after, Counters::read(&self.devices));
        }
        result
    }
}

fn put(place: &Mutex<Option<Counters>>, counters: Counters) {
    *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(counters);
}

fn take(place: &Mutex<Option<Counters>>) -> Option<Counters> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A thread that dies of a bug of ours would leave the others waiting for ever.
fn guarded<T>(what: impl FnOnce() -> Result<T, ProbeError>) -> Result<T, ProbeError> {
    catch_unwind(AssertUnwindSafe(what)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

/// The threads, waiting for passes. They end when this is dropped.
pub struct Team<'a> {
    shared: &'a Shared,
    orders: Vec<Sender<Job>>,
    /// With each thread's number.
    said: Receiver<(usize, Said)>,
}

impl<'a> Team<'a> {
    /// Starts a thread for each slot.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        shared: &'a Shared,
        slots: &'scope mut [Slot],
    ) -> Result<Self, ProbeError>
    where
        'a: 'scope,
    {
        let (say, said) = mpsc::channel();
        let mut orders = Vec::with_capacity(slots.len());
        for (number, slot) in slots.iter_mut().enumerate() {
            let (order, jobs) = mpsc::channel::<Job>();
            let say = say.clone();
            let worker = move || {
                for job in jobs {
                    let result = shared.work(&job, slot);
                    if say.send((number, result)).is_err() {
                        return;
                    }
                }
            };
            thread::Builder::new()
                .spawn_scoped(scope, worker)
                .map_err(|e| no_thread(&e))?;
            orders.push(order);
        }
        Ok(Self {
            shared,
            orders,
            said,
        })
    }

    /// One pass. `beat` gets the operations so far. The clock runs from the first thread's start
    /// to the last one's end.
    pub fn pass(&self, job: &Job, beat: &mut dyn FnMut(u64)) -> Result<Lap, ProbeError> {
        let gone = || ProbeError::new("a thread of the trial has gone");
        for order in &self.orders {
            order.send(job.clone()).map_err(|_| gone())?;
        }
        let mut said = Vec::with_capacity(self.orders.len());
        while said.len() < self.orders.len() {
            match self.said.recv_timeout(Duration::from_nanos(BEAT_NS)) {
                Ok(one) => said.push(one),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    beat(self.shared.done.load(Ordering::Relaxed));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
        said.sort_by_key(|(number, _)| *number);
        let said = said.into_iter().map(|(_, result)| result);
        let spans: Vec<Option<Span>> = said.collect::<Result<_, _>>()?;
        let spans: Vec<Span> = spans.into_iter().flatten().collect();
        let (before, after) = (take(&self.shared.before), take(&self.shared.after));
        let (Some(start), Some(end), Some(before), Some(after)) = (
            spans.iter().map(|s| s.start).min(),
            spans.iter().map(|s| s.end).max(),
            before,
            after,
        ) else {
            return Err(gone());
        };
        // Only preparation pauses a thread here; the mean is what the whole lost by it.
        let paused = spans.iter().map(|s| s.paused).sum::<u64>() / spans.len() as u64;
        Ok(Lap {
            span: Span { start, end, paused },
            threads: spans,
            before,
            after,
        })
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
