//! The far end: listens at one address, and serves the near end that knows the secret.

use std::{
    collections::HashMap,
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use layermark_model::protocol::Peer;
use rustix::net::Shutdown;

use super::{
    control::{Answer, Hello, Hidden, Lines, VERSION},
    far_trial::FarTrial,
    params::NetParams,
    place::Host,
    sockets::{self, PATIENCE},
};
use crate::{FarEnd, ProbeError, error::panicked};

/// Connections at once, strangers among them.
const MOST: usize = 512;

/// A far end that listens.
pub struct NetFarEnd {
    port: u16,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

/// What its threads share.
pub struct Shared {
    pub p: NetParams,
    pub at: SocketAddr,
    secret: Hidden,
    listener: TcpListener,
    ending: AtomicBool,
    /// Connections, to be shut down at the end.
    open: Mutex<HashMap<u64, TcpStream>>,
    opened: AtomicU64,
    trial: Mutex<Option<Arc<FarTrial>>>,
    /// What went wrong first.
    failed: Mutex<Option<ProbeError>>,
}

impl NetFarEnd {
    pub fn start(p: NetParams, peer: &Peer) -> Result<Self, ProbeError> {
        let at = SocketAddr::new(peer.address, peer.port);
        let listener = sockets::listen(&p, at).map_err(|e| no_listener(at, &e))?;
        let at = listener.local_addr().map_err(|e| no_listener(at, &e))?;
        let shared = Arc::new(Shared {
            p,
            at,
            secret: peer.secret.clone().into(),
            listener,
            ending: AtomicBool::new(false),
            open: Mutex::default(),
            opened: AtomicU64::new(0),
            trial: Mutex::default(),
            failed: Mutex::default(),
        });
        let body = Arc::clone(&shared);
        let listening = thread::Builder::new()
            .name("listen".into())
            .spawn(move || body.listen())
            .map_err(|e| ProbeError::new(format!("cannot start a thread: {e}")))?;
        Ok(Self {
            port: at.port(),
            shared,
            listening: Some(listening),
        })
    }
}

impl FarEnd for NetFarEnd {
    fn port(&self) -> u16 {
        self.port
    }

    fn end(&mut self) -> Result<(), ProbeError> {
        self.shared.ending.store(true, Ordering::SeqCst);
        // On Linux this ends accept(2), too.
        let _ = rustix::net::shutdown(&self.shared.listener, Shutdown::Both);
        self.shared.close_all();
        let ended = self.listening.take().map(JoinHandle::join);
        if let Some(Err(panic)) = ended {
            return Err(panicked(panic.as_ref()));
        }
        lock(&self.shared.failed).take().map_or(Ok(()), Err)
    }
}

impl Drop for NetFarEnd {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Shared {
    /// Takes connections until the end, each in a thread of its own.
    fn listen(&self) {
        thread::scope(|scope| {
            while !self.ending.load(Ordering::SeqCst) {
                let Ok((stream, _)) = self.listener.accept() else {
                    // Interrupted, out of descriptors, or the end.
                    thread::sleep(std::time::Duration::from_millis(1));
                    continue;
                };
                let Some(number) = self.enter(&stream) else {
                    continue;
                };
                let serve = move || {
                    self.serve(stream);
                    lock(&self.open).remove(&number);
                };
                if thread::Builder::new().spawn_scoped(scope, serve).is_err() {
                    lock(&self.open).remove(&number);
                }
            }
            self.close_all();
        });
    }

    fn enter(&self, stream: &TcpStream) -> Option<u64> {
        let mut open = lock(&self.open);
        if open.len() >= MOST {
            return None;
        }
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        open.insert(number, stream.try_clone().ok()?);
        Some(number)
    }

    fn close_all(&self) {
        for stream in lock(&self.open).values() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        if let Some(trial) = &*lock(&self.trial) {
            trial.shut_down();
        }
    }

    /// Who does not say the secret, or the token of a trial, is closed without an answer.
    fn serve(&self, stream: TcpStream) {
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
            } => match self.begin(version, &params, &host, ports, from) {
                Ok(trial) => {
                    let served = trial.serve(&mut lines);
                    self.leave(&trial);
                    served
                }
                Err(why) => lines.say(&Answer::Refused { why }),
            },
        };
        if let Err(e) = served {
            self.keep(&e, from);
        }
    }

    /// One trial at a time.
    fn begin(
        &self,
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
        if self.ending.load(Ordering::SeqCst) {
            return Err("it ends".into());
        }
        *current = Some(Arc::clone(&trial));
        Ok(trial)
    }

    fn leave(&self, trial: &FarTrial) {
        trial.shut_down();
        *lock(&self.trial) = None;
    }

    /// The near end tells its own side of a connection that was closed; of everything else this is the
    /// only word.
    fn keep(&self, error: &io::Error, from: SocketAddr) {
        let closed = matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        );
        if closed || self.ending.load(Ordering::SeqCst) {
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

pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_listener(at: SocketAddr, e: &io::Error) -> ProbeError {
    let error = ProbeError {
        errno: e.raw_os_error(),
        ..ProbeError::new(format!("cannot listen at {at}: {e}"))
    };
    match e.raw_os_error() {
        Some(libc::EADDRINUSE) => error.hint(format!(
            "another program has the port: `ss -ltnp 'sport = :{}'` shows which",
            at.port()
        )),
        Some(libc::EADDRNOTAVAIL) => error
            .hint("no interface of this place has the address: `ip address` shows those it has"),
        _ => error,
    }
}
