//! The near ends of the data connections, which all work at the same time in a turn.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use layermark_model::Latency;

use super::{
    params::{NetOp, NetParams},
    traffic,
    transactions::{self, ConnectTransact, Dial, Transact, TransactDatagram},
};
use crate::{
    clock::Source,
    counters::Devices,
    run::{
        Extent, Stretch,
        drive::{self, OpRange, Step},
        recorder::Recorder,
        team::{ThreadWork, Together, all_at_once, as_if_equally_long},
    },
    workloads::ends::lines::Hidden,
};

/// One permanent connection, or a series of connections.
pub struct Lane {
    link: Link,
    /// Whether data comes from the far end.
    back: bool,
    out: Vec<u8>,
    space: Vec<u8>,
    recorder: Recorder,
    /// Number of transactions without an answer in time.
    lost: u64,
}

/// The connection of a lane to the far end.
pub enum Link {
    Permanent(OwnedFd),
    Dialled { dial: Dial, token: Hidden },
}

/// Transactions of each stream per pass, if a trial is one stretch of passes.
const PASS: u64 = 200;

/// All lanes of a trial.
pub struct Lanes {
    p: NetParams,
    clock: Source,
    each: Vec<Lane>,
}

impl Lane {
    pub fn new(p: &NetParams, number: usize, link: Link) -> Self {
        let back = p.op == NetOp::Maerts || number >= p.streams as usize;
        let transacts = p.op.transacts();
        let out = match &link {
            Link::Dialled { token, .. } => transactions::opening(p, token.as_bytes()),
            Link::Permanent(_) => traffic::message(p.request.max(p.message)),
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
        extent: Extent,
        beat: &mut dyn FnMut(u64),
    ) -> io::Result<ThreadWork> {
        let Self {
            link,
            out,
            space,
            recorder,
            lost,
            ..
        } = self;
        let transactions = Transactions {
            clock: extent.counted.then_some(clock),
            part: OpRange {
                from: 0,
                to: extent.ops(PASS),
                limit_ns: extent.ns,
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
            (Link::Permanent(fd), NetOp::UdpRr) => {
                let mut step = TransactDatagram {
                    fd: fd.as_fd(),
                    request: out,
                    response: space,
                    lost,
                };
                transactions.make(&mut step, beat)
            }
            (Link::Permanent(fd), NetOp::Rr | NetOp::Crr) => {
                let mut step = Transact {
                    fd: fd.as_fd(),
                    request: out,
                    response: space,
                };
                transactions.make(&mut step, beat)
            }
            (Link::Permanent(fd), NetOp::UdpStream) => {
                traffic::push_datagrams(fd.as_fd(), out, extent.ns, beat)
            }
            (Link::Permanent(fd), _) if self.back => {
                traffic::pull(fd.as_fd(), p, space, extent.ns, beat)
            }
            (Link::Permanent(fd), _) => traffic::push(fd.as_fd(), out, extent.ns, beat),
        }
    }
}

/// Transactions of a turn.
struct Transactions<'a> {
    clock: Option<Source>,
    part: OpRange,
    recorder: &'a mut Recorder,
}

impl Transactions<'_> {
    fn make(self, step: &mut impl Step, beat: &mut dyn FnMut(u64)) -> io::Result<ThreadWork> {
        let done = drive::drive(self.clock, self.part, self.recorder, beat, step);
        let done = done.map_err(|stopped| stopped.error)?;
        Ok((done.ops, done.span))
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

    /// Number of transactions without an answer in time, since the trial began.
    pub fn lost(&self) -> u64 {
        self.each.iter().map(|lane| lane.lost).sum()
    }

    /// Latencies of the counted transactions.
    pub fn latency(&self) -> Option<Latency> {
        let mut sum = Recorder::new();
        for lane in self.each.iter().filter(|_| self.p.op.transacts()) {
            sum.add(&lane.recorder);
        }
        sum.latency()
    }

    /// Makes all of them work at the same time. Returns the number of transactions, or of messages
    /// sent.
    pub fn work(
        &mut self,
        extent: Extent,
        devices: &Devices,
        beat: &mut dyn FnMut(u64),
    ) -> io::Result<Stretch> {
        let (p, clock) = (&self.p, self.clock);
        let work = |lane: &mut Lane, beat: &mut dyn FnMut(u64)| lane.work(p, clock, extent, beat);
        let Together { each, edges } = all_at_once(&mut self.each, devices, beat, work)?;
        Ok(Stretch {
            ops: each.iter().map(|(ops, _)| ops).sum(),
            elapsed_ns: as_if_equally_long(each.into_iter()),
            edges: Some(edges),
            ..Stretch::default()
        })
    }
}
