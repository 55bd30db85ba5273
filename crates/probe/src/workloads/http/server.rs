//! Our own server: one body from memory, by hyper, with a runtime of one thread on each CPU.

use std::{
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{HeaderValue, SERVER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rustix::net::Shutdown;
use tokio::runtime::Builder;

use crate::workloads::ends::place::{self, PinnedCpus};

/// Its name in answers.
const NAME: &str = concat!("layermark/", env!("CARGO_PKG_VERSION"));

/// A server that listens. Dropping it ends it.
pub struct OwnServer {
    listener: TcpListener,
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// The page that each of its threads serves.
#[derive(Clone)]
struct Page {
    path: Arc<str>,
    body: Bytes,
}

impl OwnServer {
    /// Serves `body` at `path`, on these CPUs; on an empty list, on any.
    pub fn start(at: SocketAddr, path: &str, body: Vec<u8>, cpus: &[u32]) -> io::Result<Self> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        let mut server = Self {
            listener,
            ending: Arc::default(),
            threads: Vec::new(),
        };
        let page = Page {
            path: path.into(),
            body: body.into(),
        };
        for _ in 0..place::threads(cpus) {
            let (listener, page) = (server.listener.try_clone()?, page.clone());
            let (ending, cpus) = (Arc::clone(&server.ending), cpus.to_vec());
            let body = move || {
                let Ok(_pinned) = PinnedCpus::on(&cpus) else {
                    return;
                };
                let _ = serve(listener, &page, &ending);
            };
            let thread = thread::Builder::new().name("http".into()).spawn(body)?;
            server.threads.push(thread);
        }
        Ok(server)
    }

    pub fn at(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        // On Linux this ends accept(2), too.
        let _ = rustix::net::shutdown(&self.listener, Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Accepts connections until the end. They are dropped with the runtime.
fn serve(listener: TcpListener, page: &Page, ending: &AtomicBool) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        while !ending.load(Ordering::SeqCst) {
            // Out of descriptors, or closed.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                continue;
            };
            // The last piece of a body must not wait for an acknowledgement.
            let _ = stream.set_nodelay(true);
            let page = page.clone();
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    let answer = page.answer(&request);
                    async { Ok::<_, Infallible>(answer) }
                });
                // The client detects a connection that fails.
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
        Ok(())
    })
}

impl Page {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let mut answer = if *request.uri().path() == *self.path {
            Response::new(Full::new(self.body.clone()))
        } else {
            let mut answer = Response::new(Full::default());
            *answer.status_mut() = StatusCode::NOT_FOUND;
            answer
        };
        let headers = answer.headers_mut();
        headers.insert(SERVER, HeaderValue::from_static(NAME));
        answer
    }
}
