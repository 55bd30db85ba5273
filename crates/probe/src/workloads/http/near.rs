//! The near end's side of the control connection.

use std::{
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use layermark_model::protocol::Peer;
use serde::{Deserialize, Serialize};

use super::params::HttpParams;
use crate::{
    ProbeError,
    workloads::ends::{PATIENCE, control::Control, error::PeerAddress, lines::Hidden, place::Host},
};

/// How long a server may take to start, in a guest with an emulated CPU.
const START: Duration = Duration::from_mins(1);

/// A running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub host: Host,
    pub port: u16,
    /// The path to request, which is secret.
    pub token: Hidden,
    /// CPUs to which it is bound; empty: left to the scheduler.
    pub cpus: Vec<u32>,
}

/// Address for error messages.
pub fn peer_address(to: SocketAddr, patience: Duration) -> PeerAddress {
    PeerAddress {
        workload: "http",
        op: "GET",
        to,
        patience,
    }
}

/// Sends the secret, and waits until the server is running.
pub fn connect(p: &HttpParams, peer: &Peer, host: &Host) -> Result<(Control, Welcome), ProbeError> {
    let to = peer.socket();
    let address = peer_address(to, START);
    let stream = TcpStream::connect_timeout(&to, PATIENCE);
    let mut control = Control::over(stream, address, &peer.secret)?;
    let welcome = control.open(p, host, Vec::new())?;
    control.peer.patience = PATIENCE;
    Ok((control, welcome))
}
