//! Threads that start at the same moment, and their results.

use std::{
    hint, io,
    sync::{
        Mutex,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    thread,
};

use super::lock;
use crate::{
    counters::Devices,
    run::{Edge, drive::Span},
};

/// Number of operations of a turn, with its start and end.
pub type Sent = (u64, Span);

/// State shared by the threads of a turn.
struct Gate {
    /// 0: wait, 1: work, 2: exit.
    state: AtomicU8,
    ready: AtomicUsize,
    working: AtomicUsize,
    end: Mutex<Edge>,
}

/// Makes all of them work at the same time. The first runs in this thread, so that a single one
/// needs no other thread. Returns the result of each, and the counters before the first and after
/// the last. If one fails, its error is returned.
pub fn all_at_once<T: Send, R: Send>(
    all: &mut [T],
    devices: &Devices,
    beat: &mut dyn FnMut(u64),
    work: impl Fn(&mut T, &mut dyn FnMut(u64)) -> io::Result<R> + Sync,
) -> io::Result<(Vec<R>, [Edge; 2])> {
    let gate = Gate {
        state: AtomicU8::new(0),
        ready: AtomicUsize::new(0),
        working: AtomicUsize::new(all.len()),
        end: Mutex::default(),
    };
    let Some((first, others)) = all.split_first_mut() else {
        return Err(io::Error::other("no connection"));
    };
    let count = others.len();
    let (begin, each) = thread::scope(|scope| {
        let (gate, work) = (&gate, &work);
        let mut threads = Vec::with_capacity(count);
        for one in others {
            let body = move || {
                gate.wait()
                    .then(|| gate.leave(devices, work(one, &mut |_| {})))
            };
            match thread::Builder::new().spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(e) => {
                    gate.state.store(2, Ordering::Release);
                    return Err(e);
                }
            }
        }
        while gate.ready.load(Ordering::Acquire) < count {
            hint::spin_loop();
            thread::yield_now();
        }
        let begin = Edge::read(devices);
        gate.state.store(1, Ordering::Release);
        let mut each = vec![gate.leave(devices, work(first, beat))];
        for thread in threads {
            let gone = |_| Some(Err(io::Error::other("a thread of the trial has gone")));
            each.extend(thread.join().unwrap_or_else(gone));
        }
        Ok((begin, each))
    })?;
    let each = each.into_iter().collect::<io::Result<_>>()?;
    Ok((each, [begin, *lock(&gate.end)]))
}

/// Duration in which all operations would have been done if each thread had continued at its own
/// speed to the same moment, ns.
pub fn elapsed_ns(each: &[Sent]) -> u64 {
    let ops = each.iter().map(|(ops, _)| ops).sum::<u64>();
    let rates = each
        .iter()
        .map(|(ops, span)| *ops as f64 / span.net_ns() as f64);
    (ops as f64 / rates.sum::<f64>()).round().max(1.0) as u64
}

impl Gate {
    /// Waits until all are ready. Returns whether there is work.
    fn wait(&self) -> bool {
        self.ready.fetch_add(1, Ordering::AcqRel);
        loop {
            match self.state.load(Ordering::Acquire) {
                0 => thread::yield_now(),
                state => return state == 1,
            }
        }
    }

    /// The last thread to end reads the counters.
    fn leave<T>(&self, devices: &Devices, done: T) -> T {
        if self.working.fetch_sub(1, Ordering::AcqRel) == 1 {
            *lock(&self.end) = Edge::read(devices);
        }
        done
    }
}
