//! What the client does against a server within its own process, on the loopback. A result that comes near
//! it shows the client, not the path.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Mutex,
};

use super::{
    answer::{self, Body, Expected},
    client::{Client, Order, Target},
    params::{Connections, HttpParams},
    server::OwnServer,
    work::question,
};
use crate::{
    counters::Devices,
    workloads::ends::{
        lock,
        place::{self, Kept},
    },
};

/// Stretches of which the best counts: whatever else the machine does only slows them.
const STRETCHES: u32 = 4;
/// Length of each, and of what comes before and does not count, nanoseconds.
const STRETCH_NS: u64 = 10_000_000;

/// CPUs of the near and of the far end.
type Cpus = [Vec<u32>; 2];

/// What was measured in this process before.
static KNOWN: Mutex<Vec<(Kind, f64)>> = Mutex::new(Vec::new());

/// What a ceiling depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kind {
    length: u64,
    concurrency: u64,
    connection: Connections,
    cpus: Cpus,
}

/// Bytes of all bodies under way at most: larger ones tell how fast bytes are copied, and not how many
/// requests the client can make.
const LARGEST: u64 = 64 << 20;

/// Requests a second, measured once for each kind of work on these CPUs; `None` where it cannot be done.
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
    let _kept = Kept::on(near_cpus)?;
    let mut client = Client::new(&target, kind.concurrency, place::threads(near_cpus))?;
    let devices = Devices::open(&[]);
    let mut best = 0.0f64;
    for stretch in 0..=STRETCHES {
        let order = Order {
            ns: STRETCH_NS,
            counted: false,
            rate: 0,
        };
        let worked = client.work(order, &devices, &mut |_| {})?;
        if worked.errors.count() > 0 {
            return Err(io::Error::other("the server within this process failed"));
        }
        if stretch > 0 {
            best = best.max(worked.ops as f64 * 1e9 / worked.elapsed_ns as f64);
        }
    }
    Ok(best)
}
