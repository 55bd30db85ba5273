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

use layermark_model::{Pass, Trial, Turn};

use super::{
    job::{Amount, Job, Worked},
    pass::{failed, passes, renew, syncs},
    prepare::{FileWork, Slot},
    rates,
};
use crate::{
    Ask, Beat, ProbeError, Turned, Work,
    clock::monotonic_ns,
    counters::Devices,
    error::panicked,
    limits::BEAT_NS,
    run::{self, Edge, Mark, Used, drive::Span, gate::Gate},
};

/// Files with a thread each. A trial of theirs is one stretch: how evenly they get on is known
/// where each has the same work, not the same time.
pub struct Together {
    work: FileWork,
    devices: Devices,
    /// The end of the last pass.
    stopped: Option<Mark>,
}

impl Together {
    pub fn new(work: FileWork) -> Self {
        Self {
            devices: Devices::open(&work.context.devices),
            work,
            stopped: None,
        }
    }
}

impl Work for Together {
    fn turn(
        &mut self,
        ask: &Ask,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError> {
        trial.resident = self.work.look_at_caches()?;
        let FileWork {
            context,
            job,
            rounds,
            slots,
            seen,
            ..
        } = &mut self.work;
        let (p, rounds) = (&job.p, *rounds);
        let shared = Shared::new(slots.len(), &self.devices);
        let mut used = Used::default();
        let mut sum = Turn {
            round: ask.round,
            ..Turn::default()
        };
        thread::scope(|scope| {
            let team = Team::start(scope, &shared, slots)?;
            let mut last_beat = monotonic_ns();
            while run::more(passes(p), context, trial.passes.len() as u64, &sum) {
                let Turn { ops, bytes, .. } = sum;
                let order = (job.clone(), rounds);
                let lap = team.pass(&order, &mut |n| beat(ops + n, bytes + n * p.unit()))?;
                used.add(&lap.before, &lap.after);
                self.stopped = Some(lap.after.mark);
                let each = job.ops * rounds;
                let pass = Pass {
                    elapsed_ns: lap.span.net_ns(),
                    ops: each * p.threads,
                    bytes: each * p.threads * p.unit(),
                };
                trial.passes.push(pass);
                trial.syncs += syncs(p, pass.ops, rounds);
                seen.threads
                    .extend(rates::of_pass(&lap.threads, each * p.unit()));
                sum.elapsed_ns += pass.elapsed_ns;
                sum.ops += pass.ops;
                sum.bytes += pass.bytes;
                if monotonic_ns() - last_beat >= BEAT_NS {
                    beat(sum.ops, sum.bytes);
                    last_beat = monotonic_ns();
                }
            }
            Ok::<_, ProbeError>(())
        })?;
        used.count(trial);
        Ok(Turned {
            turn: sum,
            cpu: used.cpu,
            device: used.device,
            more: false,
        })
    }

    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        let since = self.stopped.unwrap_or_else(|| Mark::read(&self.devices));
        self.work.pay(trial, since)
    }

    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        self.work.prove(trial)
    }
}

/// A pass of all threads.
struct Lap {
    span: Span,
    /// Of each thread.
    threads: Vec<Span>,
    before: Edge,
    after: Edge,
}

/// What is done next: over each file so many times.
type Order = (Job, u64);

/// What a thread says after a pass. No span: it did not start, because another one could not.
type Said = Result<Option<Span>, ProbeError>;

/// What the threads of a trial share.
struct Shared<'a> {
    devices: &'a Devices,
    gate: Gate,
    count: usize,
    /// Threads that still work.
    working: AtomicUsize,
    /// Operations done in this pass, as far as told.
    done: AtomicU64,
    /// One could not make its file ready, so none starts.
    off: AtomicBool,
    before: Mutex<Option<Edge>>,
    after: Mutex<Option<Edge>>,
}

impl<'a> Shared<'a> {
    fn new(count: usize, devices: &'a Devices) -> Self {
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
        put(&self.before, Edge::read(self.devices));
    }

    fn work(&self, (job, rounds): &Order, slot: &mut Slot) -> Said {
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
                job.work(slot, Amount::Passes(*rounds), beat)
                    .map(|Worked { span, .. }| Some(span))
                    .map_err(|s| failed(&job.p, slot, &s))
            })
        };
        if self.working.fetch_sub(1, Ordering::AcqRel) == 1 {
            put(&self.after, Edge::read(self.devices));
        }
        result
    }
}

fn put(place: &Mutex<Option<Edge>>, edge: Edge) {
    *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(edge);
}

fn take(place: &Mutex<Option<Edge>>) -> Option<Edge> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A thread that dies of a bug of ours would leave the others waiting for ever.
fn guarded<T>(what: impl FnOnce() -> Result<T, ProbeError>) -> Result<T, ProbeError> {
    catch_unwind(AssertUnwindSafe(what)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

/// The threads, waiting for passes. They end when this is dropped.
struct Team<'a> {
    shared: &'a Shared<'a>,
    orders: Vec<Sender<Order>>,
    /// With each thread's number.
    said: Receiver<(usize, Said)>,
}

impl<'a> Team<'a> {
    /// Starts a thread for each slot.
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        shared: &'a Shared<'a>,
        slots: &'scope mut [Slot],
    ) -> Result<Self, ProbeError>
    where
        'a: 'scope,
    {
        let (say, said) = mpsc::channel();
        let mut orders = Vec::with_capacity(slots.len());
        for (number, slot) in slots.iter_mut().enumerate() {
            let (order, jobs) = mpsc::channel::<Order>();
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
    fn pass(&self, job: &Order, beat: &mut dyn FnMut(u64)) -> Result<Lap, ProbeError> {
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
