//! The far end: listens at one address, and serves the near end that sends the secret.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
};

use layermark_model::protocol::Peer;

use super::{far_trial::FarTrial, params::NetParams, sockets};
use crate::{
    ProbeError,
    workloads::ends::{
        control::{Hello, greeted, refuse},
        lines::{Hidden, Lines},
        listening::{Listening, OpenConnections, no_listener},
        lock,
        place::Host,
    },
};

/// State shared by the threads of a far end.
pub struct NetFarState {
    pub p: NetParams,
    pub at: SocketAddr,
    secret: Hidden,
    trial: Mutex<Option<Arc<FarTrial>>>,
}

/// Starts a far end.
pub fn start(p: NetParams, peer: &Peer) -> Result<Listening, ProbeError> {
    let at = peer.socket();
    let listener = sockets::listen(&p, at).map_err(|e| no_listener(at, &e))?;
    let state = NetFarState {
        p,
        at: listener.local_addr().map_err(|e| no_listener(at, &e))?,
        secret: peer.secret.clone().into(),
        trial: Mutex::default(),
    };
    Listening::start(listener, move |stream, connections| {
        state.serve(stream, connections)
    })
}

impl NetFarState {
    /// A client that does not send the secret, or the token of a trial, is disconnected without an
    /// answer.
    fn serve(&self, stream: TcpStream, connections: &OpenConnections) -> Result<(), ProbeError> {
        let from = stream.peer_addr();
        let mut lines = Lines::new(stream);
        let (Some(hello), Ok(from)) = (greeted(&mut lines, &self.secret, &self.p), from) else {
            return Ok(());
        };
        let served = match hello {
            Hello::Lane { token, number } => {
                let trial = lock(&self.trial).clone();
                let ours = trial.filter(|trial| trial.token.is(&token));
                ours.map_or(Ok(()), |trial| trial.lane(number, lines.stream()))
            }
            Hello::Control { host, ports, .. } => {
                match self.begin(connections, &host, ports, from) {
                    Ok(trial) => {
                        let served = trial.serve(&mut lines);
                        trial.shut_down();
                        *lock(&self.trial) = None;
                        served
                    }
                    Err(why) => refuse(&lines, why),
                }
            }
        };
        served.or_else(|e| self.failed(&e, from))
    }

    /// Starts a trial. There is at most one at a time.
    fn begin(
        &self,
        connections: &OpenConnections,
        host: &Host,
        ports: Vec<u16>,
        from: SocketAddr,
    ) -> Result<Arc<FarTrial>, String> {
        let mut current = lock(&self.trial);
        if current.is_some() {
            return Err("it serves another trial".into());
        }
        let trial = FarTrial::new(self.p.clone(), self.at, host, ports, from);
        let trial = Arc::new(trial.map_err(|e| format!("it cannot begin: {e}"))?);
        if connections.is_ending() {
            return Err("it ends".into());
        }
        *current = Some(Arc::clone(&trial));
        Ok(trial)
    }

    /// The near end reports its own side of a closed connection; other errors are only reported
    /// here.
    fn failed(&self, error: &io::Error, from: SocketAddr) -> Result<(), ProbeError> {
        let closed = matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        );
        if closed {
            return Ok(());
        }
        let text = format!(
            "cannot serve {from} at {} ({}): {error}",
            self.at,
            self.p.op.id()
        );
        Err(ProbeError {
            errno: error.raw_os_error(),
            ..ProbeError::new(text)
        })
    }
}
