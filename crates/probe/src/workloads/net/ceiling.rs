//! Rate of the generator without a network: the same loops over socket pairs, whose other ends are
//! threads of the same process.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{atomic::AtomicU64, mpsc},
    thread,
};

use super::{
    lanes::{Lane, Lanes, Link},
    params::{NetOp, NetParams},
    sockets,
    traffic::{self, Arrived},
    transactions::{self, Dial},
};
use crate::{
    clock::Source,
    counters::Devices,
    run::Extent,
    workloads::ends::{
        PATIENCE,
        ceiling::{self, Ceilings, Cpus},
        place::PinnedCpus,
    },
};

/// Results measured in this process.
static KNOWN: Ceilings<(NetParams, Cpus)> = Ceilings::new(Vec::new());

/// Operations per second of this kind of work on these CPUs; `None` if it cannot be measured.
pub fn of(p: &NetParams, clock: Source, cpus: &Cpus) -> Option<f64> {
    let kind = (p.clone(), cpus.clone());
    ceiling::of(&KNOWN, kind, |_| measure(p, clock, cpus))
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
        ceiling::best(|ns, counted| {
            let extent = Extent::time(ns, counted);
            let done = lanes.work(extent, &devices, &mut |_| {})?;
            Ok((done.ops, done.elapsed_ns))
        })
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
    use crate::{
        Workload, selftest,
        workloads::{ends::lock, net::WORKLOAD},
    };

    #[test]
    fn each_placement_has_a_ceiling_of_its_own() {
        let settings = serde_json::json!({"workload": "net", "op": "rr", "request": 77});
        let settings: Settings = serde_json::from_value(settings).unwrap();
        let p: NetParams = WORKLOAD.points(&settings, 1.0).unwrap()[0].typed().unwrap();
        let free: Cpus = Default::default();
        let all = PinnedCpus::on(&[0]).map_or_else(|_| free.clone(), |_| [vec![0], vec![0]]);
        for cpus in [&free, &all, &free] {
            assert!(of(&p, selftest::source(), cpus) > Some(0.0));
        }
        let known = lock(&KNOWN);
        let ours = known
            .iter()
            .map(|(kind, _)| kind)
            .filter(|kind| kind.0 == p);
        let cpus: Vec<&Cpus> = ours.map(|kind| &kind.1).collect();
        assert_eq!(cpus, [&free, &all]);
    }
}
