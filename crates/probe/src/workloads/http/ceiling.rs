//! Rate of the client with a server in its own process, on the loopback.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use super::{
    answer::{self, Body, Expected},
    client::{Client, Target, question},
    params::{Connections, HttpParams},
    server::OwnServer,
};
use crate::{
    counters::Devices,
    run::Extent,
    workloads::ends::{
        ceiling::{self, Ceilings, Cpus, LARGEST},
        place::{self, PinnedCpus},
    },
};

/// Requests per second, as measured in this process.
static KNOWN: Ceilings<Kind> = Ceilings::new(Vec::new());

/// Parameters on which a ceiling depends: length of the body, connections, and how long they are
/// kept.
type Kind = (u64, u64, Connections, Cpus);

/// Requests per second of this kind of work on these CPUs; `None` if it cannot be measured.
pub fn of(p: &HttpParams, length: u64, cpus: &Cpus) -> Option<f64> {
    if length.saturating_mul(p.concurrency) > LARGEST {
        return None;
    }
    let kind = (length, p.concurrency, p.connection, cpus.clone());
    ceiling::of(&KNOWN, kind, measure)
}

fn measure((length, concurrency, connection, cpus): &Kind) -> io::Result<f64> {
    let [near_cpus, far_cpus] = cpus;
    let file = answer::file(0, *length);
    let body = Body::of(&file);
    let nowhere = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let server = OwnServer::start(nowhere, "/", file, far_cpus)?;
    let keeps = *connection == Connections::KeepAlive;
    let to = server.at()?;
    let target = Target {
        to,
        question: question(&to.to_string(), "/", keeps).map_err(io::Error::other)?,
        keeps,
        expected: Expected {
            status: hyper::StatusCode::OK,
            body: Some(body),
        },
        rate: 0,
    };
    let _pinned = PinnedCpus::on(near_cpus)?;
    let mut client = Client::new(&target, *concurrency, place::threads(near_cpus))?;
    let devices = Devices::open(&[]);
    ceiling::best(|ns, _| {
        let worked = client.work(Extent::time(ns, false), &devices, &mut |_| {})?;
        if worked.errors.count() > 0 {
            return Err(io::Error::other("the server within this process failed"));
        }
        Ok((worked.stretch.ops, worked.stretch.elapsed_ns))
    })
}
