//! Rate of the same clients with a server in their own process, on the loopback, that discards the
//! data.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::Path,
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
    workloads::ends::ceiling::{self, Ceilings, LARGEST},
};

/// Bytes per second, as measured in this process.
static KNOWN: Ceilings<Kind> = Ceilings::new(Vec::new());

/// Parameters on which a ceiling depends: operation, size, clients.
type Kind = (FtpOp, u64, u64);

/// Bytes per second of this kind of work; `None` if it cannot be measured.
pub fn of(p: &FtpParams, dir: &Path, context: &Context) -> Option<u64> {
    if p.file_size.saturating_mul(p.clients) > LARGEST {
        return None;
    }
    let kind = (p.op, p.file_size, p.clients);
    let rate = ceiling::of(&KNOWN, kind, |_| measure(p, dir, context))?;
    Some(rate as u64)
}

fn measure(p: &FtpParams, dir: &Path, context: &Context) -> Result<f64, ProbeError> {
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
    let best = ceiling::best(|ns, _| {
        let extent = Extent::time(ns, false);
        let done = near.go(extent, &mut |_| {})?;
        Ok::<_, ProbeError>((done.bytes, done.elapsed_ns))
    })?;
    drop(near);
    far.end()?;
    Ok(best)
}
