//! Threads that work at the same time. Those of a [`Team`] live as long as a trial; [`all_at_once`]
//! starts threads for one turn.

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

use super::{Edge, barrier::SpinBarrier, drive::Span};
use crate::{
    ProbeError, clock::monotonic_ns, counters::Devices, error::panicked, limits::HEARTBEAT_NS,
};

/// Number of operations of a thread, with their time.
pub type ThreadWork = (u64, Span);

/// Work of all threads.
pub struct Together<R> {
    /// Result of each thread, in their order.
    pub each: Vec<R>,
    /// Counters, read by the last thread to be ready and by the last to end.
    pub edges: [Edge; 2],
}

/// Duration in which all operations would have been done if each thread had continued at its own
/// speed to the same moment, ns. No thread's last operation counts longer than it was.
pub fn as_if_equally_long(each: impl Iterator<Item = ThreadWork> + Clone) -> u64 {
    let ops: u64 = each.clone().map(|(ops, _)| ops).sum();
    let per_ns: f64 = each
        .map(|(ops, span)| ops as f64 / span.net_ns() as f64)
        .sum();
    (ops as f64 / per_ns).round().max(1.0) as u64
}

/// Waits until all threads are ready. Returns `CLOCK_MONOTONIC` at their common start.
pub type Begin<'a> = &'a mut dyn FnMut() -> u64;

/// The work of a thread of a [`Team`]. What it holds is dropped in the thread.
pub trait Member: Send + 'static {
    /// What belongs to the trial and is lent to the thread, such as a file or a histogram.
    type Slot: Send;
    /// How much to do.
    type Order: Copy + Send;
    /// What was done.
    type Done: Send;
    /// Gets ready, calls `begin`, and works. `beat` gets the number of operations so far.
    fn run(
        &mut self,
        slot: &mut Self::Slot,
        order: Self::Order,
        begin: Begin<'_>,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Self::Done, ProbeError>;
}

/// A thread's number, its slot and its result.
type Finished<M> = (
    usize,
    <M as Member>::Slot,
    Result<<M as Member>::Done, ProbeError>,
);

/// Threads that wait for orders. They end when this is dropped.
pub struct Team<M: Member> {
    gate: Arc<(Gate, Devices)>,
    orders: Vec<Sender<(M::Slot, M::Order)>>,
    finished: Receiver<Finished<M>>,
    threads: Vec<JoinHandle<()>>,
}

/// State shared by the threads.
struct Gate {
    barrier: SpinBarrier,
    /// Number of threads that still work.
    working: AtomicUsize,
    /// Operations of a team since the start, as last reported.
    reported: AtomicU64,
    /// `CLOCK_MONOTONIC` at the start.
    start_ns: AtomicU64,
    edges: Mutex<[Edge; 2]>,
}

impl Gate {
    fn new(count: usize) -> Self {
        Self {
            barrier: SpinBarrier::new(count),
            working: AtomicUsize::new(0),
            reported: AtomicU64::new(0),
            start_ns: AtomicU64::new(0),
            edges: Mutex::default(),
        }
    }

    /// Waits until all threads are ready. Returns the start; `None` if not all could be started. The
    /// last thread that is ready reads the counters, so that no thread has to be woken before the
    /// start.
    fn begin(&self, devices: &Devices) -> Option<u64> {
        let started = self.barrier.wait(|| {
            self.working.store(self.barrier.count, Ordering::Relaxed);
            self.reported.store(0, Ordering::Relaxed);
            self.read(0, devices);
            self.start_ns.store(monotonic_ns(), Ordering::Relaxed);
        });
        started.then(|| self.start_ns.load(Ordering::Relaxed))
    }

    /// The last thread to end reads the counters.
    fn end(&self, devices: &Devices) {
        if self.working.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.read(1, devices);
        }
    }

    fn read(&self, which: usize, devices: &Devices) {
        let edge = Edge::read(devices);
        self.edges.lock().unwrap_or_else(PoisonError::into_inner)[which] = edge;
    }

    fn edges(&self) -> [Edge; 2] {
        *self.edges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Member> Team<M> {
    /// Starts a thread for each member. `param` is the parameter that sets their number.
    pub fn start(members: Vec<M>, devices: Devices, param: &str) -> Result<Self, ProbeError> {
        let count = members.len();
        let (say, finished) = mpsc::channel();
        let mut team = Self {
            gate: Arc::new((Gate::new(count), devices)),
            orders: Vec::with_capacity(count),
            finished,
            threads: Vec::with_capacity(count),
        };
        for (number, mut member) in members.into_iter().enumerate() {
            let (order, orders) = mpsc::channel();
            let (gate, say) = (Arc::clone(&team.gate), say.clone());
            let body = move || {
                for (mut slot, order) in orders {
                    let result = work(&mut member, &mut slot, order, &gate);
                    if say.send((number, slot, result)).is_err() {
                        return;
                    }
                }
            };
            let thread = thread::Builder::new().spawn(body).map_err(|e| ProbeError {
                message: format!("cannot start a thread: {e}"),
                hint: Some(format!(
                    "use fewer `{param}`, or raise the limit: `ulimit -u` shows it"
                )),
                errno: e.raw_os_error(),
                defect: None,
            });
            team.threads.push(thread?);
            team.orders.push(order);
        }
        Ok(team)
    }

    /// Makes all threads do this much, each with its slot. `beat` gets the operations so far.
    pub fn work(
        &self,
        slots: &mut Vec<M::Slot>,
        order: M::Order,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Together<M::Done>, ProbeError> {
        let gone = || ProbeError::new("a thread of the trial has gone");
        let (gate, _) = &*self.gate;
        for (thread, slot) in self.orders.iter().zip(slots.drain(..)) {
            thread.send((slot, order)).map_err(|_| gone())?;
        }
        let mut finished = Vec::with_capacity(self.orders.len());
        while finished.len() < self.orders.len() {
            match self
                .finished
                .recv_timeout(Duration::from_nanos(HEARTBEAT_NS))
            {
                Ok(one) => finished.push(one),
                Err(RecvTimeoutError::Timeout) => beat(gate.reported.load(Ordering::Relaxed)),
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
        finished.sort_by_key(|(number, ..)| *number);
        let mut each = Vec::with_capacity(finished.len());
        for (_, slot, result) in finished {
            slots.push(slot);
            each.push(result);
        }
        Ok(Together {
            each: each.into_iter().collect::<Result<_, _>>()?,
            edges: gate.edges(),
        })
    }
}

/// A thread's work. A panic is an error, because a missing thread would leave the others waiting
/// forever.
fn work<M: Member>(
    member: &mut M,
    slot: &mut M::Slot,
    order: M::Order,
    (gate, devices): &(Gate, Devices),
) -> Result<M::Done, ProbeError> {
    let mut before = 0;
    let beat = &mut |now| {
        gate.reported.fetch_add(now - before, Ordering::Relaxed);
        before = now;
    };
    let mut start = None;
    let begin = &mut || {
        start = gate.begin(devices);
        start.unwrap_or_default()
    };
    let done = catch_unwind(AssertUnwindSafe(|| member.run(slot, order, begin, beat)));
    if start.is_none() {
        // It could not get ready.
        gate.begin(devices);
    }
    gate.end(devices);
    done.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

impl<M: Member> Drop for Team<M> {
    fn drop(&mut self) {
        self.orders.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Makes all of them work at the same time, in threads that end with the work. The first runs in
/// this thread, so that a single one needs no other thread; `beat` gets its operations so far. If
/// one fails, its error is returned.
pub fn all_at_once<T: Send, R: Send>(
    all: &mut [T],
    devices: &Devices,
    beat: &mut dyn FnMut(u64),
    work: impl Fn(&mut T, &mut dyn FnMut(u64)) -> io::Result<R> + Sync,
) -> io::Result<Together<R>> {
    let gate = Gate::new(all.len());
    let Some((first, others)) = all.split_first_mut() else {
        return Err(io::Error::other("no connection"));
    };
    let each = thread::scope(|scope| {
        let (gate, work) = (&gate, &work);
        let mut threads = Vec::with_capacity(others.len());
        for one in others {
            let body = move || {
                gate.begin(devices).map(|_| {
                    let done = work(one, &mut |_| {});
                    gate.end(devices);
                    done
                })
            };
            let thread = thread::Builder::new().spawn_scoped(scope, body);
            threads.push(thread.inspect_err(|_| gate.barrier.cancel())?);
        }
        gate.begin(devices);
        let mut each = vec![Some(work(first, beat))];
        gate.end(devices);
        for thread in threads {
            let gone = |_| Some(Err(io::Error::other("a thread of the trial has gone")));
            each.push(thread.join().unwrap_or_else(gone));
        }
        Ok::<_, io::Error>(each)
    })?;
    Ok(Together {
        each: each.into_iter().flatten().collect::<io::Result<_>>()?,
        edges: gate.edges(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(ns: u64, ops: u64) -> ThreadWork {
        let span = Span {
            start: 0,
            end: ns,
            ..Span::default()
        };
        (ops, span)
    }

    #[test]
    fn a_last_operation_that_takes_long_costs_the_other_thread_nothing() {
        // 10 and 1 operations in 1000 ns.
        let each = [work(1000, 10), work(3000, 3)];
        assert_eq!(as_if_equally_long(each.into_iter()), 1182);
        assert_eq!(as_if_equally_long([work(700, 5)].into_iter()), 700);
    }

    /// Adds its order to its slot; 0 panics.
    struct Adds;

    impl Member for Adds {
        type Slot = u64;
        type Order = u64;
        type Done = ThreadWork;
        fn run(
            &mut self,
            slot: &mut u64,
            order: u64,
            begin: Begin<'_>,
            beat: &mut dyn FnMut(u64),
        ) -> Result<ThreadWork, ProbeError> {
            assert!(order > 0, "nothing to do");
            let start = begin();
            *slot += order;
            beat(order);
            let span = Span {
                start,
                end: monotonic_ns(),
                ..Span::default()
            };
            Ok((order, span))
        }
    }

    #[test]
    fn a_team_keeps_its_slots_in_order_and_survives_a_panic() {
        let members = (0..3).map(|_| Adds).collect();
        let team = Team::start(members, Devices::open(&[]), "threads").unwrap();
        let mut slots = vec![10, 20, 30];
        for _ in 0..2 {
            let done = team.work(&mut slots, 1, &mut |_| {}).unwrap();
            let starts: Vec<u64> = done.each.iter().map(|(_, span)| span.start).collect();
            assert!(starts.iter().all(|start| *start == starts[0]), "{starts:?}");
        }
        assert_eq!(slots, [12, 22, 32]);
        let e = team.work(&mut slots, 0, &mut |_| {}).err().expect("panics");
        assert!(e.message.contains("nothing to do"), "{e}");
        team.work(&mut slots, 1, &mut |_| {}).unwrap();
        assert_eq!(slots, [13, 23, 33]);
    }

    #[test]
    fn the_first_of_all_works_in_this_thread() {
        let mut all = [0; 3];
        let here = thread::current().id();
        let done = all_at_once(&mut all, &Devices::open(&[]), &mut |_| {}, |n, _| {
            *n += 1;
            Ok(thread::current().id() == here)
        });
        assert_eq!(
            (done.unwrap().each, all),
            (vec![true, false, false], [1; 3])
        );
    }
}
