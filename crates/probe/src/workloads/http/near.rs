//! The near end's side of the control connection.

use std::{
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use layermark_model::protocol::Peer;

use super::{
    params::HttpParams,
    protocol::{Answer, Ask, Hello, VERSION, Welcome},
};
use crate::{
    ProbeError,
    workloads::ends::{
        PATIENCE,
        error::PeerAddress,
        lines::{Hidden, LineError, Lines},
        place::Host,
    },
};

/// How long a server may take to start, in a guest whose CPU is emulated.
const START: Duration = Duration::from_mins(1);

/// A control connection.
pub struct Control {
    lines: Lines,
    peer: PeerAddress,
    secret: Hidden,
}

/// What every error names.
pub fn peer_address(to: SocketAddr, patience: Duration) -> PeerAddress {
    PeerAddress {
        workload: "http",
        op: "GET",
        to,
        patience,
    }
}

impl Control {
    /// Says the secret, and waits until the server is up.
    pub fn open(p: &HttpParams, peer: &Peer, host: &Host) -> Result<(Self, Welcome), ProbeError> {
        let to = SocketAddr::new(peer.address, peer.port);
        let address = peer_address(to, PATIENCE);
        let stream = TcpStream::connect_timeout(&to, PATIENCE);
        let stream = stream.map_err(|e| address.io("connecting", &e))?;
        let mut control = Self {
            lines: Lines::new(stream),
            peer: address,
            secret: peer.secret.clone().into(),
        };
        let hello = Hello::Control {
            version: VERSION,
            secret: control.secret.clone(),
            params: p.clone(),
            host: host.clone(),
        };
        control.peer.patience = START;
        match control.ask(&hello)? {
            Answer::Welcome(welcome) => {
                control.peer.patience = PATIENCE;
                Ok((control, welcome))
            }
            other @ Answer::Counted { .. } => Err(control.out_of_turn(&other)),
            Answer::Refused { .. } => Err(control.peer.error("refused the trial")),
        }
    }

    /// CPU nanoseconds of the server so far.
    pub fn count(&mut self) -> Result<Option<u64>, ProbeError> {
        match self.ask(&Ask::Count)? {
            Answer::Counted { cpu_ns } => Ok(cpu_ns),
            other => Err(self.out_of_turn(&other)),
        }
    }

    fn ask(&mut self, line: &impl serde::Serialize) -> Result<Answer, ProbeError> {
        let said = self.lines.say(line);
        said.map_err(|e| self.peer.io("asking on the control connection", &e))?;
        match self.lines.next(Some(self.peer.patience)) {
            Ok(Some(Answer::Refused { why, hint })) => {
                let why = self.secret.hide(&why);
                let error = self.peer.error(&format!("refused the trial: {why}"));
                Err(match hint {
                    Some(hint) => error.hint(self.secret.hide(&hint)),
                    None => error,
                })
            }
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.peer.answer(None)),
            Err(LineError::Foreign(line)) => {
                let line = LineError::Foreign(self.secret.hide(&line));
                Err(self.peer.answer(Some(line)))
            }
            Err(e) => Err(self.peer.answer(Some(e))),
        }
    }

    fn out_of_turn(&self, answer: &Answer) -> ProbeError {
        self.peer
            .error(&format!("answered out of turn: {answer:?}"))
    }
}
