//! Rate of the client with a server in its own process, on the loopback. A result close to it is
//! limited by the client, not by the path.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Mutex,
};

use super::{
    answer::{self, Body, Expected},
    client::{Client, ClientTurn, Target},
    params::{Connections, HttpParams},
    server::OwnServer,
    work::question,
};
use crate::{
    counters::Devices,
    workloads::ends::{
        lock,
        place::{self, PinnedCpus},
    },
};

/// Number of stretches, of which the best counts: other load can only slow them.
const STRETCHES: u32 = 4;
/// Length of each stretch, and of the uncounted time before it, nanoseconds.
const STRETCH_NS: u64 = 10_000_000;

/// CPUs of the near and of the far end.
type Cpus = [Vec<u32>; 2];

/// Results measured in this process.
static KNOWN: Mutex<Vec<(Kind, f64)>> = Mutex::new(Vec::new());

/// Parameters on which a ceiling depends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kind {
    length: u64,
    concurrency: u64,
    connection: Connections,
    cpus: Cpus,
}

/// Maximum size of all bodies in flight, bytes. Larger ones would measure how fast memory is
/// copied, not how many requests the client can make.
const LARGEST: u64 = 64 << 20;

/// Requests per second, measured once for each kind of work on these CPUs; `None` if it cannot be
/// measured.
pub fn of(p: &HttpParams, length: u64, cpus: &Cpus) -> Option<f64> {
    if length.saturating_mul(p.concurrency) > LARGEST {
        return None;
    }
    let kind = Kind {
        length,
        concurrency: p.concurrency,
        connection: p.connection,
        cpus: cpus.clone(),
    };
    if let Some((_, rate)) = lock(&KNOWN).iter().find(|known| known.0 == kind) {
        return Some(*rate);
    }
    let rate = measure(&kind).ok()?;
    lock(&KNOWN).push((kind, rate));
    Some(rate)
}

fn measure(kind: &Kind) -> io::Result<f64> {
    let [near_cpus, far_cpus] = &kind.cpus;
    let file = answer::file(0, kind.length);
    let body = Body::of(&file);
    let nowhere = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let server = OwnServer::start(nowhere, "/", file, far_cpus)?;
    let keeps = kind.connection == Connections::KeepAlive;
    let to = server.at()?;
    let target = Target {
        to,
        question: question(&to.to_string(), "/", keeps).map_err(io::Error::other)?,
        keeps,
        expected: Expected {
            status: hyper::StatusCode::OK,
            body: Some(body),
        },
    };
    let _pinned = PinnedCpus::on(near_cpus)?;
    let mut client = Client::new(&target, kind.concurrency, place::threads(near_cpus))?;
    let devices = Devices::open(&[]);
    let mut best = 0.0f64;
    for stretch in 0..=STRETCHES {
        let turn = ClientTurn {
            ns: STRETCH_NS,
            counted: false,
            rate: 0,
        };
        let worked = client.work(turn, &devices, &mut |_| {})?;
        if worked.errors.count() > 0 {
            return Err(io::Error::other("the server within this process failed"));
        }
        if stretch > 0 {
            best = best.max(worked.ops as f64 * 1e9 / worked.elapsed_ns as f64);
        }
    }
    Ok(best)
}
