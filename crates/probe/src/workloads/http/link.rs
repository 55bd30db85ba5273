//! One connection of the client, by hyper's low-level interface. The task that waits for an answer
//! also polls the connection, so that no second task has to be woken.

use std::{
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    task::Poll,
};

use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, StatusCode,
    body::{Body as _, Bytes},
    client::conn::http1::{self, SendRequest},
    header::{HeaderMap, SERVER},
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::answer::{AWAITING, Body, Reading, Wrong};

type Wire = http1::Connection<TokioIo<TcpStream>, Empty<Bytes>>;

/// The request, which is sent repeatedly.
pub type Question = Request<Empty<Bytes>>;

/// A connection to a server.
pub struct Link {
    sender: SendRequest<Empty<Bytes>>,
    /// `None` after the connection has failed.
    wire: Option<Wire>,
    /// Whether hyper has finished with it.
    over: bool,
}

/// A complete answer.
pub struct Answered {
    pub status: StatusCode,
    pub body: Body,
    headers: HeaderMap,
}

impl Answered {
    /// Name of the server.
    pub fn server(&self) -> String {
        let name = self.headers.get(SERVER).and_then(|name| name.to_str().ok());
        name.unwrap_or("a server without a name")
            .chars()
            .take(60)
            .collect()
    }
}

impl Link {
    pub async fn connect(to: SocketAddr) -> Result<Self, Wrong> {
        let stream = TcpStream::connect(to).await;
        let stream = stream.map_err(|e| Wrong::Io("connecting", e))?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, wire) = shaken.map_err(|e| Wrong::hyper("connecting", 0, &e))?;
        Ok(Self {
            sender,
            wire: Some(wire),
            over: false,
        })
    }

    /// Whether it can send a request; `false` if the server has closed it.
    pub async fn is_open(&mut self) -> bool {
        let Self { sender, wire, over } = self;
        !*over && drive(wire, over, sender.ready()).await.is_ok()
    }

    /// Sends a request and receives its answer. `moved` counts pieces of it as they arrive, so that
    /// silence can be told from slowness. `length` is the expected length of the body.
    pub async fn ask(
        &mut self,
        question: Question,
        length: Option<u64>,
        moved: &AtomicU64,
    ) -> Result<Answered, Wrong> {
        let Self { sender, wire, over } = self;
        let answer = drive(wire, over, sender.send_request(question)).await;
        let answer = answer.map_err(|e| Wrong::hyper(AWAITING, 0, &e))?;
        let (head, mut body) = answer.into_parts();
        let mut reading = Reading::default();
        while !body.is_end_stream() {
            let Some(frame) = drive(wire, over, body.frame()).await else {
                break;
            };
            let frame =
                frame.map_err(|e| Wrong::hyper("receiving a body", reading.length(), &e))?;
            if let Some(piece) = frame.data_ref() {
                reading.take(piece, length == Some(piece.len() as u64));
                moved.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(Answered {
            status: head.status,
            body: reading.body(),
            headers: head.headers,
        })
    }

    /// Waits until the server closes the connection, as it must after an answer with `Connection:
    /// close`. If this end closed first, its ports would be used up within seconds.
    pub async fn closed(mut self) -> Result<(), Wrong> {
        let Some(mut wire) = self.wire.take() else {
            return Ok(());
        };
        let failed = |e| Wrong::Io("waiting for the server to close", e);
        if !self.over {
            let done = poll_fn(|cx| wire.poll_without_shutdown(cx)).await;
            done.map_err(|e| Wrong::hyper("waiting for the server to close", 0, &e))?;
        }
        let parts = wire.into_parts();
        let stream = parts.io.into_inner();
        if !parts.read_buf.is_empty() {
            return Err(Wrong::More);
        }
        loop {
            stream.readable().await.map_err(failed)?;
            match stream.try_read(&mut [0]) {
                Ok(0) => return Ok(()),
                Ok(_) => return Err(Wrong::More),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }
}

/// Waits for `future`, and polls the connection meanwhile.
async fn drive<F: Future>(wire: &mut Option<Wire>, over: &mut bool, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(out) = future.as_mut().poll(cx) {
            return Poll::Ready(out);
        }
        let Some(open) = wire.as_mut().filter(|_| !*over) else {
            // The future then reports that the connection is closed.
            *wire = None;
            return future.as_mut().poll(cx);
        };
        *over = open.poll_without_shutdown(cx).is_ready();
        match future.as_mut().poll(cx) {
            Poll::Pending if *over => {
                *wire = None;
                future.as_mut().poll(cx)
            }
            polled => polled,
        }
    })
    .await
}
