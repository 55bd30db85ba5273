//! The far end: listens at one address, and serves the near end that sends the secret.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
};

use layermark_model::protocol::Peer;

use super::{
    control::{Answer, Hello, VERSION},
    far_trial::FarTrial,
    params::NetParams,
    sockets,
};
use crate::{
    FarEnd, ProbeError,
    workloads::ends::{
        PATIENCE,
        lines::{Hidden, Lines},
        listening::{Listening, OpenConnections, no_listener},
        lock,
        place::Host,
    },
};

/// A far end that listens.
pub struct NetFarEnd {
    listening: Listening,
    shared: Arc<NetFarState>,
}

/// State shared by its threads.
pub struct NetFarState {
    pub p: NetParams,
    pub at: SocketAddr,
    secret: Hidden,
    trial: Mutex<Option<Arc<FarTrial>>>,
    /// The first error.
    failed: Mutex<Option<ProbeError>>,
}

impl NetFarEnd {
    pub fn start(p: NetParams, peer: &Peer) -> Result<Self, ProbeError> {
        let at = SocketAddr::new(peer.address, peer.port);
        let listener = sockets::listen(&p, at).map_err(|e| no_listener(at, &e))?;
        let shared = Arc::new(NetFarState {
            p,
            at: listener.local_addr().map_err(|e| no_listener(at, &e))?,
            secret: peer.secret.clone().into(),
            trial: Mutex::default(),
            failed: Mutex::default(),
        });
        let body = Arc::clone(&shared);
        let serve = move |stream, connections: &OpenConnections| body.serve(stream, connections);
        Ok(Self {
            listening: Listening::start(listener, serve)?,
            shared,
        })
    }
}

impl FarEnd for NetFarEnd {
    fn port(&self) -> u16 {
        self.listening.at.port()
    }

    fn end(&mut self) -> Result<(), ProbeError> {
        self.listening.end()?;
        lock(&self.shared.failed).take().map_or(Ok(()), Err)
    }
}

impl NetFarState {
    /// A client that does not send the secret, or the token of a trial, is disconnected without an
    /// answer.
    fn serve(&self, stream: TcpStream, connections: &OpenConnections) {
        let from = stream.peer_addr();
        let mut lines = Lines::new(stream);
        let (Ok(Some(hello)), Ok(from)) = (lines.next::<Hello>(Some(PATIENCE)), from) else {
            return;
        };
        let served = match hello {
            Hello::Lane { token, number } => {
                let trial = lock(&self.trial).clone();
                let ours = trial.filter(|trial| trial.token.is(&token));
                ours.map_or(Ok(()), |trial| trial.lane(number, lines.stream()))
            }
            Hello::Control { ref secret, .. } if !self.secret.is(secret) => Ok(()),
            Hello::Control {
                version,
                params,
                host,
                ports,
                ..
            } => match self.begin(connections, version, &params, &host, ports, from) {
                Ok(trial) => {
                    let served = trial.serve(&mut lines);
                    self.leave(&trial);
                    served
                }
                Err(why) => lines.say(&Answer::Refused { why }),
            },
        };
        if let Err(e) = served
            && !connections.is_ending()
        {
            self.keep(&e, from);
        }
    }

    /// Starts a trial. There is at most one at a time.
    fn begin(
        &self,
        connections: &OpenConnections,
        version: u32,
        params: &NetParams,
        host: &Host,
        ports: Vec<u16>,
        from: SocketAddr,
    ) -> Result<Arc<FarTrial>, String> {
        if version != VERSION {
            return Err(format!("it speaks version {VERSION}, not {version}"));
        }
        if *params != self.p {
            return Err("it was told to serve another point".into());
        }
        let mut current = lock(&self.trial);
        if current.is_some() {
            return Err("it serves another trial".into());
        }
        let trial = FarTrial::new(self, host, ports, from);
        let trial = Arc::new(trial.map_err(|e| format!("it cannot begin: {e}"))?);
        if connections.is_ending() {
            return Err("it ends".into());
        }
        *current = Some(Arc::clone(&trial));
        Ok(trial)
    }

    fn leave(&self, trial: &FarTrial) {
        trial.shut_down();
        *lock(&self.trial) = None;
    }

    /// Records an error. The near end reports its own side of a closed connection; other errors are
    /// only recorded here.
    fn keep(&self, error: &io::Error, from: SocketAddr) {
        let closed = matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        );
        if closed {
            return;
        }
        let text = format!(
            "cannot serve {from} at {} ({}): {error}",
            self.at,
            self.p.op.id()
        );
        let error = ProbeError {
            errno: error.raw_os_error(),
            ..ProbeError::new(text)
        };
        lock(&self.failed).get_or_insert(error);
    }
}
