//! Connections of browsers: how many there are at once, and which give way to others.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::AbortHandle,
    time::{sleep, timeout},
};

use super::answer::Sent;

/// Most simultaneous connections. A further one replaces the oldest that has sent no request yet.
const CONNECTIONS: usize = 64;
/// Largest head of a request, bytes.
const HEAD: usize = 16 << 10;
/// Longest life of a connection. Viewers reconnect by themselves.
const LIFE: Duration = Duration::from_hours(1);

/// Accepts connections until the process ends. A client has `patience` to send the head of its request.
pub async fn accept<F>(
    listener: TcpListener,
    patience: Duration,
    answer: impl Fn(Request<Incoming>, u16) -> F + Clone + Send + Sync + 'static,
) -> io::Result<()>
where
    F: Future<Output = Sent> + Send + 'static,
{
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    let silent = Arc::<Silent>::default();
    for number in 0.. {
        // Out of file descriptors, or the client closed the connection before it was accepted.
        let Ok((stream, _)) = listener.accept().await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        if free.available_permits() == 0 {
            silent.end_oldest();
        }
        let Ok(place) = Arc::clone(&free).acquire_owned().await else {
            return Ok(());
        };
        let asked = Asked(number, Arc::clone(&silent));
        let answer = answer.clone();
        let task = tokio::spawn(async move {
            let _place = place;
            let _ = timeout(LIFE, connection(stream, patience, asked, answer)).await;
        });
        silent.lock().insert(number, task.abort_handle());
    }
    Ok(())
}

/// Connections that have sent no request yet, by number.
#[derive(Default)]
struct Silent(Mutex<BTreeMap<u64, AbortHandle>>);

impl Silent {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, AbortHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_oldest(&self) {
        if let Some((_, oldest)) = self.lock().pop_first() {
            oldest.abort();
        }
    }
}

/// A connection. It leaves the list of silent ones when it sends a request or is dropped.
struct Asked(u64, Arc<Silent>);

impl Asked {
    fn now(&self) {
        self.1.lock().remove(&self.0);
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.now();
    }
}

/// Handles one connection: one request and its response.
async fn connection<F>(
    stream: TcpStream,
    patience: Duration,
    asked: Asked,
    answer: impl Fn(Request<Incoming>, u16) -> F,
) where
    F: Future<Output = Sent>,
{
    let _ = stream.set_nodelay(true);
    let port = stream.local_addr().map_or(0, |at| at.port());
    let answer = service_fn(|request| {
        asked.now();
        let answer = answer(request, port);
        async { Ok::<_, Infallible>(answer.await) }
    });
    // The client already knows that its connection failed.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpStream,
        thread,
    };

    use hyper::StatusCode;
    use tokio::runtime::Builder;

    use super::*;
    use crate::commands::serve::{answer::Answer, token::Token};

    /// A server that waits an hour for a request, and answers each that it is not found.
    fn patient() -> u16 {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(true).unwrap();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                let answer = |_, port| async move {
                    let answer = Answer::Refused(StatusCode::NOT_FOUND, "nothing is here");
                    answer.send(&Token::random().unwrap(), port)
                };
                accept(listener, Duration::from_hours(1), answer).await
            })
        });
        port
    }

    #[test]
    fn a_client_with_a_request_takes_the_place_of_the_oldest_that_is_silent() {
        let port = patient();
        let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut silent: Vec<TcpStream> = (0..200).map(|_| connect()).collect();
        let mut client = connect();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        // As many as there were too many have made room, the oldest first; no other was given up.
        let ended = silent.len() + 1 - CONNECTIONS;
        for stream in &mut silent[..ended] {
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        }
        for stream in &mut silent[ended..] {
            stream.set_nonblocking(true).unwrap();
            let error = stream.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
    }
}
