//! The listener of a far end. It serves each connection in a separate thread.

use std::{
    collections::HashMap,
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::net::Shutdown;

use super::lock;
use crate::{FarEnd, ProbeError, error::panicked};

/// Maximum number of open connections, including those of strangers.
const MOST: usize = 512;

/// A listener with its threads. Dropping it ends them.
pub struct Listening {
    pub at: SocketAddr,
    connections: Arc<OpenConnections>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by its threads.
pub struct OpenConnections {
    listener: TcpListener,
    ending: AtomicBool,
    /// Open connections, which are shut down at the end.
    open: Mutex<HashMap<u64, TcpStream>>,
    opened: AtomicU64,
    /// The first error of a connection.
    failed: Mutex<Option<ProbeError>>,
}

impl Listening {
    /// Runs `serve` for each connection. Its errors do not count while it is ending.
    pub fn start(
        listener: TcpListener,
        serve: impl Fn(TcpStream, &OpenConnections) -> Result<(), ProbeError> + Send + Sync + 'static,
    ) -> Result<Self, ProbeError> {
        let no_address = |e| ProbeError::new(format!("cannot tell where it listens: {e}"));
        let at = listener.local_addr().map_err(no_address)?;
        let connections = Arc::new(OpenConnections {
            listener,
            ending: AtomicBool::new(false),
            open: Mutex::default(),
            opened: AtomicU64::new(0),
            failed: Mutex::default(),
        });
        let body = Arc::clone(&connections);
        let thread = thread::Builder::new()
            .name("listen".into())
            .spawn(move || body.listen(&serve))
            .map_err(|e| ProbeError::new(format!("cannot start a thread: {e}")))?;
        Ok(Self {
            at,
            connections,
            thread: Some(thread),
        })
    }
}

impl FarEnd for Listening {
    fn port(&self) -> u16 {
        self.at.port()
    }

    /// Closes all connections and waits for their threads.
    fn end(&mut self) -> Result<(), ProbeError> {
        self.connections.ending.store(true, Ordering::SeqCst);
        // On Linux this ends accept(2), too.
        let _ = rustix::net::shutdown(&self.connections.listener, Shutdown::Both);
        self.connections.close_all();
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Err(panic)) => Err(panicked(panic.as_ref())),
            _ => lock(&self.connections.failed).take().map_or(Ok(()), Err),
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl OpenConnections {
    /// Whether it is closing its connections.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    fn listen(&self, serve: &(impl Fn(TcpStream, &Self) -> Result<(), ProbeError> + Sync)) {
        thread::scope(|scope| {
            while !self.is_ending() {
                let Ok((stream, _)) = self.listener.accept() else {
                    // Interrupted, out of descriptors, or closed.
                    thread::sleep(Duration::from_millis(1));
                    continue;
                };
                let Some(number) = self.enter(&stream) else {
                    continue;
                };
                let body = move || {
                    if let Err(e) = serve(stream, self)
                        && !self.is_ending()
                    {
                        lock(&self.failed).get_or_insert(e);
                    }
                    lock(&self.open).remove(&number);
                };
                if thread::Builder::new().spawn_scoped(scope, body).is_err() {
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
    }
}

/// The error for a listener that could not be created.
pub fn no_listener(at: SocketAddr, e: &io::Error) -> ProbeError {
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
            .hint("no interface of this machine has the address: `ip address` shows those it has"),
        _ => error,
    }
}
