//! The near end's side of the control connection.

use std::{
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use layermark_model::protocol::Peer;

use super::{
    params::HttpParams,
    protocol::{Answer, ControlRequest, Hello, VERSION, Welcome},
};
use crate::{
    ProbeError,
    workloads::ends::{
        PATIENCE,
        control::{self, Reply},
        error::PeerAddress,
        place::Host,
    },
};

/// How long a server may take to start, in a guest with an emulated CPU.
const START: Duration = Duration::from_mins(1);

/// A control connection.
pub type Control = control::Control<Answer>;

/// Address for error messages.
pub fn peer_address(to: SocketAddr, patience: Duration) -> PeerAddress {
    PeerAddress {
        workload: "http",
        op: "GET",
        to,
        patience,
    }
}

impl Control {
    /// Sends the secret, and waits until the server is running.
    pub fn open(p: &HttpParams, peer: &Peer, host: &Host) -> Result<(Self, Welcome), ProbeError> {
        let to = SocketAddr::new(peer.address, peer.port);
        let address = peer_address(to, PATIENCE);
        let stream = TcpStream::connect_timeout(&to, PATIENCE);
        let mut control = Self::over(stream, address, &peer.secret)?;
        let hello = Hello::Control {
            version: VERSION,
            secret: control.secret(),
            params: p.clone(),
            host: host.clone(),
        };
        control.peer.patience = START;
        match control.ask(&hello)? {
            Answer::Welcome(welcome) => {
                control.peer.patience = PATIENCE;
                Ok((control, welcome))
            }
            other => Err(control.out_of_turn(&other)),
        }
    }

    /// CPU time of the server so far, ns.
    pub fn count(&mut self) -> Result<Option<u64>, ProbeError> {
        match self.ask(&ControlRequest::Count)? {
            Answer::Counted { cpu_ns } => Ok(cpu_ns),
            other => Err(self.out_of_turn(&other)),
        }
    }
}

impl Reply for Answer {
    fn refusal(&self) -> Option<(&str, Option<&str>)> {
        match self {
            Self::Refused { why, hint } => Some((why, hint.as_deref())),
            _ => None,
        }
    }
}
