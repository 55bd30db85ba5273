//! Rate of the same clients with a server in their own process, on the loopback, that discards the
//! data. A result close to it is limited by the clients, not by the path.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::Path,
    sync::Mutex,
};

use layermark_model::{protocol::Peer, random_name};

use super::{
    far::FtpFarEnd,
    params::{FtpOp, FtpParams, ServerChoice, Sink, Source},
    work::FtpWork,
};
use crate::{
    Context, FarEnd, ProbeError,
    run::{Extent, Repeat},
    workloads::ends::lock,
};

/// Number of stretches, of which the best counts: other load can only slow them.
const STRETCHES: u32 = 4;
/// Length of each stretch, and of the uncounted time before it, nanoseconds.
const STRETCH_NS: u64 = 10_000_000;
/// Maximum size of all files in flight, bytes. Larger ones would measure how fast memory is copied.
const LARGEST: u64 = 64 << 20;

/// Results measured in this process: kind of work, and bytes per second.
static KNOWN: Mutex<Vec<(Kind, u64)>> = Mutex::new(Vec::new());

/// Parameters on which a ceiling depends: operation, size, clients.
type Kind = (FtpOp, u64, u64);

/// Bytes per second, measured once for each kind of work; `None` if it cannot be measured.
pub fn of(p: &FtpParams, dir: &Path, context: &Context) -> Option<u64> {
    if p.file_size.saturating_mul(p.clients) > LARGEST {
        return None;
    }
    let kind = (p.op, p.file_size, p.clients);
    if let Some((_, rate)) = lock(&KNOWN).iter().find(|known| known.0 == kind) {
        return Some(*rate);
    }
    let rate = measure(p, dir, context).ok()?;
    lock(&KNOWN).push((kind, rate));
    Some(rate)
}

fn measure(p: &FtpParams, dir: &Path, context: &Context) -> Result<u64, ProbeError> {
    let p = FtpParams {
        source: Source::Memory,
        sink: Sink::Null,
        server: ServerChoice::Own,
        ..p.clone()
    };
    let mut peer = Peer {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 0,
        secret: random_name(""),
    };
    let mut far = FtpFarEnd::start(dir, p.clone(), &peer, context)?;
    peer.port = far.port();
    let mut near = FtpWork::connect(dir, p, &peer, context)?;
    let mut best = 0.0f64;
    for stretch in 0..=STRETCHES {
        let extent = Extent::Time {
            ns: STRETCH_NS,
            counted: false,
        };
        let done = near.go(extent, &mut |_| {})?;
        if stretch > 0 {
            best = best.max(done.bytes as f64 * 1e9 / done.elapsed_ns as f64);
        }
    }
    drop(near);
    far.end()?;
    Ok(best as u64)
}
