//! What the generator does without a network: the same loops over socket pairs, whose other ends are
//! threads of its own process. A result that comes near it shows the generator, not the path.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Mutex, atomic::AtomicU64, mpsc},
    thread,
};

use super::{
    far::lock,
    lanes::{Lane, Lanes, Limit, Link},
    params::{NetOp, NetParams},
    place::Kept,
    sockets,
    traffic::{self, Arrived},
    transactions::{self, Dial},
};
use crate::{clock::Source, counters::Devices};

/// Stretches of which the best counts: whatever else the machine does only slows them.
const STRETCHES: u32 = 4;
/// Length of each, and of what comes before and does not count, nanoseconds.
const STRETCH_NS: u64 = 10_000_000;

/// What was measured in this process before.
static KNOWN: Mutex<Vec<(NetParams, f64)>> = Mutex::new(Vec::new());

/// Operations a second, measured once for each kind of work; `None` where it cannot be done.
pub fn of(p: &NetParams, clock: Source, far_cpus: &[u32]) -> Option<f64> {
    if let Some((_, rate)) = lock(&KNOWN).iter().find(|(of, _)| of == p) {
        return Some(*rate);
    }
    let rate = measure(p, clock, far_cpus).ok()?;
    lock(&KNOWN).push((p.clone(), rate));
    Some(rate)
}

fn measure(p: &NetParams, clock: Source, far_cpus: &[u32]) -> io::Result<f64> {
    const TOKEN: &str = "none";
    thread::scope(|scope| {
        let mut each = Vec::new();
        for number in 0..p.lanes() as usize {
            let link = if p.op == NetOp::Crr {
                let (dial, taken) = mpsc::channel::<OwnedFd>();
                thread::Builder::new().spawn_scoped(scope, move || {
                    let _kept = Kept::on(far_cpus);
                    for fd in taken {
                        let _ = transactions::answer_once(fd.as_fd(), p, TOKEN.as_bytes());
                    }
                })?;
                Link::Dialled {
                    dial: Dial::Pair(dial),
                    token: TOKEN.into(),
                }
            } else {
                let (near, far) = sockets::pair(p)?;
                sockets::limit(&near, sockets::PATIENCE)?;
                let back = number >= p.streams as usize;
                thread::Builder::new().spawn_scoped(scope, move || {
                    let _kept = Kept::on(far_cpus);
                    // The near end closes, and finds out about everything else.
                    let _ = serve(p, &far, back);
                })?;
                Link::Kept(near)
            };
            each.push(Lane::new(p, number, link));
        }
        let mut lanes = Lanes::new(p, clock, each);
        let devices = Devices::open(&[]);
        let mut work = |counted| {
            let limit = Limit {
                ops: u64::MAX,
                ns: STRETCH_NS,
                counted,
            };
            lanes.work(limit, &devices, &mut |_| {})
        };
        work(false)?;
        let mut best = 0.0f64;
        for _ in 0..STRETCHES {
            let done = work(true)?;
            best = best.max(done.ops as f64 * 1e9 / done.elapsed_ns as f64);
        }
        Ok(best)
    })
}

/// The other end of a pair.
fn serve(p: &NetParams, far: &OwnedFd, back: bool) -> io::Result<()> {
    let fd = far.as_fd();
    match p.op {
        NetOp::Rr | NetOp::Crr => transactions::answer(fd, p),
        NetOp::UdpRr => transactions::answer_datagrams(fd, p),
        NetOp::UdpStream => traffic::sink_datagrams(fd, p, &Arrived::default()),
        NetOp::Maerts => traffic::source(fd, p),
        NetOp::Bidir if back => traffic::source(fd, p),
        NetOp::Stream | NetOp::Bidir => traffic::sink(fd, p, &AtomicU64::new(0)),
    }
}
