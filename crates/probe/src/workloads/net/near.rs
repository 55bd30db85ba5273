//! The near end's side of the control connection.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use layermark_model::protocol::Peer;

use super::{
    control::{Answer, ControlRequest, Counters, Hello, VERSION},
    figures::NetEnd,
    params::NetParams,
    sockets,
};
use crate::{
    ProbeError,
    workloads::ends::{
        PATIENCE,
        control::{self, Reply},
        error::PeerAddress,
        lines::Hidden,
        place::Host,
    },
};

/// A control connection.
pub type Control = control::Control<Answer>;

/// The far end's description of itself.
pub struct Welcome {
    pub token: Hidden,
    pub host: Host,
    pub transactions: Option<u16>,
    pub ports: Vec<u16>,
}

impl Control {
    pub fn connect(p: &NetParams, peer: &Peer) -> Result<Self, ProbeError> {
        let to = SocketAddr::new(peer.address, peer.port);
        let peer_address = PeerAddress {
            workload: "net",
            op: p.op.id(),
            to,
            patience: PATIENCE,
        };
        Self::over(sockets::connect(p, to), peer_address, &peer.secret)
    }

    /// The address of this end, as the far end sees it.
    pub fn own_address(&self) -> Result<IpAddr, ProbeError> {
        let own = self.stream().local_addr();
        let own = own.map_err(|e| self.peer.io("asking for the own address", &e))?;
        Ok(own.ip())
    }

    /// Sends the secret and the trial's parameters.
    pub fn open(
        &mut self,
        p: &NetParams,
        host: &Host,
        ports: Vec<u16>,
    ) -> Result<Welcome, ProbeError> {
        let hello = Hello::Control {
            version: VERSION,
            secret: self.secret(),
            params: p.clone(),
            host: host.clone(),
            ports,
        };
        match self.ask(&hello)? {
            Answer::Welcome {
                token,
                host,
                transactions,
                ports,
            } => Ok(Welcome {
                token,
                host,
                transactions,
                ports,
            }),
            other => Err(self.out_of_turn(&other)),
        }
    }

    /// Waits until the far end has all data connections.
    pub fn ready(&mut self) -> Result<NetEnd, ProbeError> {
        match self.answer()? {
            Answer::Ready { end } => Ok(end),
            other => Err(self.out_of_turn(&other)),
        }
    }

    pub fn count(&mut self) -> Result<Counters, ProbeError> {
        match self.ask(&ControlRequest::Count)? {
            Answer::Counted(counters) => Ok(counters),
            other => Err(self.out_of_turn(&other)),
        }
    }

    /// The time of its answer, during which nothing else is measured.
    pub fn ping(&mut self) -> Result<Duration, ProbeError> {
        let began = Instant::now();
        match self.ask(&ControlRequest::Ping)? {
            Answer::Pong => Ok(began.elapsed()),
            other => Err(self.out_of_turn(&other)),
        }
    }

    /// Number of datagrams that have arrived since the trial began. Also the time at the far end
    /// from the first one since the last request to the last one, ns.
    pub fn arrived(&mut self, sent: u64) -> Result<(u64, u64), ProbeError> {
        match self.ask(&ControlRequest::Arrived { sent })? {
            Answer::Arrived { datagrams, span_ns } => Ok((datagrams, span_ns)),
            other => Err(self.out_of_turn(&other)),
        }
    }
}

impl Reply for Answer {
    fn refusal(&self) -> Option<(&str, Option<&str>)> {
        match self {
            Self::Refused { why } => Some((why, None)),
            _ => None,
        }
    }
}
