//! Rate of the generator without a network: the same loops over socket pairs, whose other ends are
//! threads of the same process. A result close to it is limited by the generator, not by the path.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Mutex, atomic::AtomicU64, mpsc},
    thread,
};

use super::{
    lanes::{Lane, Lanes, Limit, Link},
    params::{NetOp, NetParams},
    sockets,
    traffic::{self, Arrived},
    transactions::{self, Dial},
};
use crate::{
    clock::Source,
    counters::Devices,
    workloads::ends::{PATIENCE, lock, place::PinnedCpus},
};

/// Number of stretches, of which the best counts: other load can only slow them.
const STRETCHES: u32 = 4;
/// Length of each stretch, and of the uncounted time before it, nanoseconds.
const STRETCH_NS: u64 = 10_000_000;

/// Results measured in this process.
static KNOWN: Mutex<Vec<(NetParams, Cpus, f64)>> = Mutex::new(Vec::new());

/// CPUs of the near and of the far end.
type Cpus = [Vec<u32>; 2];

/// Operations per second, measured once for each kind of work on these CPUs; `None` if it cannot be
/// measured.
pub fn of(p: &NetParams, clock: Source, cpus: &Cpus) -> Option<f64> {
    let same = |known: &&(NetParams, Cpus, f64)| known.0 == *p && known.1 == *cpus;
    if let Some((_, _, rate)) = lock(&KNOWN).iter().find(same) {
        return Some(*rate);
    }
    let rate = measure(p, clock, cpus).ok()?;
    lock(&KNOWN).push((p.clone(), cpus.clone(), rate));
    Some(rate)
}

fn measure(p: &NetParams, clock: Source, cpus: &Cpus) -> io::Result<f64> {
    const TOKEN: &str = "none";
    let [near_cpus, far_cpus] = cpus;
    thread::scope(|scope| {
        let mut each = Vec::new();
        for number in 0..p.lanes() as usize {
            let link = if p.op == NetOp::Crr {
                let (dial, taken) = mpsc::channel::<OwnedFd>();
                thread::Builder::new().spawn_scoped(scope, move || {
                    // Without it, nothing would take the connections of the near end.
                    let Ok(_pinned) = PinnedCpus::on(far_cpus) else {
                        return;
                    };
                    for fd in taken {
                        let _ =
                            transactions::answer_once(fd.as_fd(), p, TOKEN.as_bytes(), PATIENCE);
                    }
                })?;
                Link::Dialled {
                    dial: Dial::Pair(dial),
                    token: TOKEN.to_owned().into(),
                }
            } else {
                let (near, far) = sockets::pair(p)?;
                sockets::limit(&near, PATIENCE)?;
                let back = number >= p.streams as usize;
                thread::Builder::new().spawn_scoped(scope, move || {
                    // The near end closes the connection, and detects all other errors.
                    let _ = PinnedCpus::on(far_cpus).and_then(|_pinned| serve(p, &far, back));
                })?;
                Link::Permanent(near)
            };
            each.push(Lane::new(p, number, link));
        }
        let _pinned = PinnedCpus::on(near_cpus)?;
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

#[cfg(test)]
mod tests {
    use layermark_model::Settings;

    use super::*;
    use crate::{Workload, selftest, workloads::net::Net};

    #[test]
    fn each_placement_has_a_ceiling_of_its_own() {
        let settings = serde_json::json!({"workload": "net", "op": "rr", "request": 77});
        let settings: Settings = serde_json::from_value(settings).unwrap();
        let p: NetParams = Net.points(&settings, 1.0).unwrap()[0].typed().unwrap();
        let free: Cpus = Default::default();
        let all = PinnedCpus::on(&[0]).map_or_else(|_| free.clone(), |_| [vec![0], vec![0]]);
        for cpus in [&free, &all, &free] {
            assert!(of(&p, selftest::source(), cpus) > Some(0.0));
        }
        let known = lock(&KNOWN);
        let ours = known.iter().filter(|known| known.0 == p);
        let cpus: Vec<&Cpus> = ours.map(|known| &known.1).collect();
        assert_eq!(cpus, [&free, &all]);
    }
}
