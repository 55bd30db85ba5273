//! What the clients do against a server within their own process, on the loopback, that reads and keeps
//! nothing. A result that comes near it shows the clients, not the path.

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

/// Stretches of which the best counts: whatever else the machine does only slows them.
const STRETCHES: u32 = 4;
/// Length of each, and of what comes before and does not count, nanoseconds.
const STRETCH_NS: u64 = 10_000_000;
/// Bytes of all files under way at most: larger ones tell how fast bytes are copied.
const LARGEST: u64 = 64 << 20;

/// What was measured in this process before: operation, size, clients, and bytes a second.
static KNOWN: Mutex<Vec<(Kind, u64)>> = Mutex::new(Vec::new());

/// What a ceiling depends on.
type Kind = (FtpOp, u64, u64);

/// Bytes a second, measured once for each kind of work; `None` where it cannot be done.
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
