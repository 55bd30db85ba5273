//! The near ends of the data connections: what they do in a turn, all at once.

use std::{
    hint, io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Mutex,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    thread,
};

use layermark_model::Latency;

use super::{
    control::Hidden,
    far::lock,
    params::{NetOp, NetParams},
    traffic::{self, Sent},
    transactions::{self, ConnectTransact, Dial, Transact, TransactDatagram},
};
use crate::{
    clock::{Source, monotonic_ns},
    counters::Devices,
    run::{
        Edge,
        drive::{self, Part, Span, Step},
        recorder::Recorder,
    },
};

/// One connection, or one connection after the other.
pub struct Lane {
    link: Link,
    /// Data comes from the far end.
    back: bool,
    out: Vec<u8>,
    space: Vec<u8>,
    recorder: Recorder,
    /// Transactions without an answer in time.
    lost: u64,
}

/// How a lane reaches the far end.
pub enum Link {
    Kept(OwnedFd),
    Dialled { dial: Dial, token: Hidden },
}

/// How far lanes go.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Transactions of each.
    pub ops: u64,
    pub ns: u64,
    /// Operations enter the histogram.
    pub counted: bool,
}

/// What all did.
pub struct Together {
    /// Transactions, or messages that were sent.
    pub ops: u64,
    /// Nanoseconds that all operations would have taken if each lane had gone on to the same moment at
    /// its own speed.
    pub elapsed_ns: u64,
    pub edges: [Edge; 2],
}

/// All of a trial.
pub struct Lanes {
    p: NetParams,
    clock: Source,
    each: Vec<Lane>,
}

/// What the threads of a turn share.
struct Gate {
    /// 0: wait, 1: work, 2: exit.
    state: AtomicU8,
    ready: AtomicUsize,
    working: AtomicUsize,
    end: Mutex<Edge>,
}

impl Lane {
    pub fn new(p: &NetParams, number: usize, link: Link) -> Self {
        let back = p.op == NetOp::Maerts || number >= p.streams as usize;
        let transacts = p.op.transacts();
        let out = match &link {
            Link::Dialled { token, .. } => transactions::opening(p, token.as_bytes()),
            Link::Kept(_) => vec![0; p.request.max(p.message) as usize],
        };
        let space = match p.op {
            _ if transacts => vec![0; p.response as usize],
            _ if back => traffic::room(p),
            _ => Vec::new(),
        };
        Self {
            link,
            back,
            out,
            space,
            recorder: if transacts {
                Recorder::new()
            } else {
                Recorder::unused()
            },
            lost: 0,
        }
    }

    fn work(
        &mut self,
        p: &NetParams,
        clock: Source,
        limit: Limit,
        beat: &mut dyn FnMut(u64),
    ) -> io::Result<Sent> {
        let Self {
            link,
            out,
            space,
            recorder,
            lost,
            ..
        } = self;
        let transactions = Transactions {
            clock: limit.counted.then_some(clock),
            part: Part {
                from: 0,
                to: limit.ops,
                limit_ns: limit.ns,
            },
            recorder,
        };
        match (&*link, p.op) {
            (Link::Dialled { dial, .. }, _) => {
                let (request, response) = (&**out, &mut **space);
                let mut step = ConnectTransact {
                    p,
                    dial,
                    request,
                    response,
                };
                transactions.make(&mut step, beat)
            }
            (Link::Kept(fd), NetOp::UdpRr) => {
                let mut step = TransactDatagram {
                    fd: fd.as_fd(),
                    request: out,
                    response: space,
                    lost,
                };
                transactions.make(&mut step, beat)
            }
            (Link::Kept(fd), NetOp::Rr | NetOp::Crr) => {
                let mut step = Transact {
                    fd: fd.as_fd(),
                    request: out,
                    response: space,
                };
                transactions.make(&mut step, beat)
            }
            (Link::Kept(fd), NetOp::UdpStream) => {
                traffic::push_datagrams(fd.as_fd(), out, limit.ns, beat)
            }
            (Link::Kept(fd), _) if self.back => traffic::pull(fd.as_fd(), p, space, limit.ns, beat),
            (Link::Kept(fd), _) => traffic::push(fd.as_fd(), out, limit.ns, beat),
        }
    }
}

/// Transactions of a turn.
struct Transactions<'a> {
    clock: Option<Source>,
    part: Part,
    recorder: &'a mut Recorder,
}

impl Transactions<'_> {
    fn make(self, step: &mut impl Step, beat: &mut dyn FnMut(u64)) -> io::Result<Sent> {
        let done = drive::drive(self.clock, self.part, self.recorder, beat, step);
        let done = done.map_err(|stopped| stopped.error)?;
        let span = Span {
            start: done.start_ns,
            end: monotonic_ns(),
            paused: done.paused_ns,
        };
        Ok((done.next, span))
    }
}

impl Lanes {
    pub fn new(p: &NetParams, clock: Source, each: Vec<Lane>) -> Self {
        Self {
            p: p.clone(),
            clock,
            each,
        }
    }

    /// Transactions without an answer in time, since the trial began.
    pub fn lost(&self) -> u64 {
        self.each.iter().map(|lane| lane.lost).sum()
    }

    /// Latencies of the transactions that counted.
    pub fn latency(&self) -> Option<Latency> {
        let mut sum = Recorder::new();
        for lane in self.each.iter().filter(|_| self.p.op.transacts()) {
            sum.add(&lane.recorder);
        }
        sum.latency()
    }

    /// Has all of them work at once: the first in this thread, so that one alone costs none.
    pub fn work(
        &mut self,
        limit: Limit,
        devices: &Devices,
        beat: &mut dyn FnMut(u64),
    ) -> io::Result<Together> {
        let (p, clock) = (&self.p, self.clock);
        let gate = Gate {
            state: AtomicU8::new(0),
            ready: AtomicUsize::new(0),
            working: AtomicUsize::new(self.each.len()),
            end: Mutex::default(),
        };
        let Some((first, others)) = self.each.split_first_mut() else {
            return Err(io::Error::other("no connection"));
        };
        let count = others.len();
        let (begin, each) = thread::scope(|scope| {
            let gate = &gate;
            let mut threads = Vec::with_capacity(count);
            for lane in others {
                let body = move || {
                    gate.wait()
                        .then(|| gate.leave(devices, lane.work(p, clock, limit, &mut |_| {})))
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
            let mut each = vec![gate.leave(devices, first.work(p, clock, limit, beat))];
            for thread in threads {
                let gone = |_| Some(Err(io::Error::other("a thread of the trial has gone")));
                each.extend(thread.join().unwrap_or_else(gone));
            }
            Ok((begin, each))
        })?;
        together(each, [begin, *lock(&gate.end)])
    }
}

impl Gate {
    /// Whether there is work, once all are there.
    fn wait(&self) -> bool {
        self.ready.fetch_add(1, Ordering::AcqRel);
        loop {
            match self.state.load(Ordering::Acquire) {
                0 => thread::yield_now(),
                state => return state == 1,
            }
        }
    }

    /// The last one to end reads the counters.
    fn leave<T>(&self, devices: &Devices, done: T) -> T {
        if self.working.fetch_sub(1, Ordering::AcqRel) == 1 {
            *lock(&self.end) = Edge::read(devices);
        }
        done
    }
}

/// Adds them up. The first error is that of all.
fn together(each: Vec<io::Result<Sent>>, edges: [Edge; 2]) -> io::Result<Together> {
    let each: Vec<Sent> = each.into_iter().collect::<io::Result<_>>()?;
    let ops = each.iter().map(|(ops, _)| ops).sum::<u64>();
    let rates = each
        .iter()
        .map(|(ops, span)| *ops as f64 / span.net_ns() as f64);
    let elapsed_ns = (ops as f64 / rates.sum::<f64>()).round().max(1.0) as u64;
    Ok(Together {
        ops,
        elapsed_ns,
        edges,
    })
}
