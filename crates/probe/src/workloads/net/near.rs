//! The near end's side of the control connection.

use std::net::IpAddr;

use layermark_model::{CpuUse, protocol::Peer};
use serde::{Deserialize, Serialize};

use super::{params::NetParams, sockets};
use crate::{
    ProbeError,
    workloads::ends::{PATIENCE, control::Control, error::PeerAddress, lines::Hidden, place::Host},
};

/// The far end's description of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The token that data connections must send.
    pub token: Hidden,
    pub host: Host,
    /// The port for connections of single transactions.
    pub transactions: Option<u16>,
    /// Its UDP ports, one for each stream.
    pub ports: Vec<u16>,
}

/// Resource usage of the far end since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub cpu: CpuUse,
    /// Bytes received over TCP streams.
    pub received: u64,
}

pub fn connect(p: &NetParams, peer: &Peer) -> Result<Control, ProbeError> {
    let to = peer.socket();
    let peer_address = PeerAddress {
        workload: "net",
        op: p.op.id(),
        to,
        patience: PATIENCE,
    };
    Control::over(sockets::connect(p, to), peer_address, &peer.secret)
}

/// The address of this end, as the far end sees it.
pub fn own_address(control: &Control) -> Result<IpAddr, ProbeError> {
    let own = control.stream().local_addr();
    let own = own.map_err(|e| control.peer.io("asking for the own address", &e))?;
    Ok(own.ip())
}
