//! Transactions at both ends: a request, a response, one at a time.

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::mpsc::Sender,
    time::{Duration, Instant},
};

use super::{
    params::NetParams,
    sockets,
    traffic::{message, receive, receive_all, receive_whole, send_all},
};
use crate::run::drive::Step;

/// After this many consecutive transactions over UDP without an answer, the peer counts as gone.
pub const LOST_IN_A_ROW: u32 = 10;

/// A transaction on a connection that is kept.
pub struct Transact<'a> {
    pub fd: BorrowedFd<'a>,
    pub request: &'a [u8],
    pub response: &'a mut [u8],
}

impl Step for Transact<'_> {
    fn run(&mut self, _: u64) -> io::Result<()> {
        send_all(self.fd, self.request)?;
        receive_whole(self.fd, self.response)
    }
}

/// Answers transactions until the peer closes.
pub fn answer(fd: BorrowedFd<'_>, p: &NetParams) -> io::Result<()> {
    let mut request = vec![0; p.request as usize];
    let response = message(p.response);
    while receive_all(fd, &mut request)? {
        send_all(fd, &response)?;
    }
    Ok(())
}

/// Makes connections of single transactions.
pub enum Dial {
    /// Connects to the far end.
    To(SocketAddr),
    /// Sends the other end to a thread of this process.
    Pair(Sender<OwnedFd>),
}

/// A transaction with its own connection. The far end closes first, as a server of HTTP/1.0 does:
/// otherwise the near end's ports would be used up within seconds.
pub struct ConnectTransact<'a> {
    pub p: &'a NetParams,
    pub dial: &'a Dial,
    /// The request, which begins with the token.
    pub request: &'a [u8],
    pub response: &'a mut [u8],
}

impl Step for ConnectTransact<'_> {
    fn run(&mut self, _: u64) -> io::Result<()> {
        let fd = match self.dial {
            Dial::To(address) => sockets::connect(self.p, *address)?.into(),
            Dial::Pair(to) => {
                let (near, far) = sockets::pair(self.p)?;
                let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
                to.send(far).map_err(gone)?;
                near
            }
        };
        send_all(fd.as_fd(), self.request)?;
        receive_whole(fd.as_fd(), self.response)?;
        match receive(fd.as_fd(), &mut [0])? {
            0 => Ok(()),
            _ => Err(io::Error::other("more came than the response")),
        }
    }
}

/// Answers one transaction of a connection, which is then closed. A request that does not begin
/// with the token gets no answer. Neither does one that is incomplete after `limit`, which is also
/// the socket's own limit for each call.
pub fn answer_once(
    fd: BorrowedFd<'_>,
    p: &NetParams,
    token: &[u8],
    limit: Duration,
) -> io::Result<()> {
    let began = Instant::now();
    let mut request = vec![0; p.request as usize];
    let mut done = 0;
    while done < request.len() {
        match receive(fd, &mut request[done..])? {
            0 => return Ok(()),
            length => done += length,
        }
        if began.elapsed() >= limit {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    if request == opening(p, token) {
        send_all(fd, &vec![0; p.response as usize])?;
    }
    Ok(())
}

/// A request that begins with the token, as far as it fits.
pub fn opening(p: &NetParams, token: &[u8]) -> Vec<u8> {
    let mut request = vec![0; p.request as usize];
    let known = request.len().min(token.len());
    request[..known].copy_from_slice(&token[..known]);
    request
}

/// A transaction over UDP. One without an answer in time is repeated and counted. Its time is that
/// of an application that does the same.
pub struct TransactDatagram<'a> {
    pub fd: BorrowedFd<'a>,
    /// The request. Its first byte is a number that the response repeats.
    pub request: &'a mut [u8],
    pub response: &'a mut [u8],
    pub lost: &'a mut u64,
}

impl Step for TransactDatagram<'_> {
    fn run(&mut self, _: u64) -> io::Result<()> {
        for _ in 0..LOST_IN_A_ROW {
            self.request[0] = self.request[0].wrapping_add(1);
            send_all(self.fd, self.request)?;
            loop {
                match receive(self.fd, self.response) {
                    // A late response has another number.
                    Ok(length) if length == self.response.len() => {
                        if self.response[0] == self.request[0] {
                            return Ok(());
                        }
                    }
                    Ok(_) => {}
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) => return Err(e),
                }
            }
            *self.lost += 1;
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// Answers datagrams until the socket is shut down.
pub fn answer_datagrams(fd: BorrowedFd<'_>, p: &NetParams) -> io::Result<()> {
    let mut request = vec![0; p.request as usize];
    let mut response = message(p.response);
    loop {
        match receive(fd, &mut request) {
            Ok(0) => return Ok(()),
            Ok(_) => {
                response[0] = request[0];
                send_all(fd, &response)?;
            }
            // The port of the near end was closed for a moment.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::UdpSocket,
        os::unix::net::UnixStream,
        sync::mpsc,
        thread,
        time::{Duration, Instant},
    };

    use layermark_model::Settings;

    use super::*;
    use crate::{Workload, workloads::net::WORKLOAD};

    #[test]
    fn a_datagram_without_an_answer_is_lost_and_sent_again() {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        sockets::limit(&near, Duration::from_millis(50)).unwrap();
        let mut lost = 0;
        let mut step = TransactDatagram {
            fd: near.as_fd(),
            request: &mut [0],
            response: &mut [0],
            lost: &mut lost,
        };
        let (end, stopped) = mpsc::channel();
        let answering = thread::spawn(move || {
            let mut number = [0];
            // The first request has no answer. Each of the others gets the answer to the previous
            // one first.
            far.recv(&mut number).unwrap();
            sockets::limit(&far, Duration::from_millis(10)).unwrap();
            while stopped.try_recv().is_err() {
                let before = number;
                if far.recv(&mut number).is_ok() {
                    far.send(&before).unwrap();
                    far.send(&number).unwrap();
                }
            }
            far
        });
        step.run(0).unwrap();
        assert!(*step.lost >= 1);
        *step.lost = 0;
        end.send(()).unwrap();
        let far = answering.join().unwrap();
        let e = step.run(1).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::TimedOut);
        assert_eq!(lost, u64::from(LOST_IN_A_ROW));
        drop(far);
        assert_eq!(far_is_gone(&near), Some(io::ErrorKind::ConnectionRefused));
    }

    #[test]
    fn a_request_that_comes_in_drops_is_given_up_in_time() {
        let settings = serde_json::json!({"workload": "net", "op": "crr", "request": "1M"});
        let settings: Settings = serde_json::from_value(settings).unwrap();
        let p: NetParams = WORKLOAD.points(&settings, 1.0).unwrap()[0].typed().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let dripping = thread::spawn(move || {
            while send_all(near.as_fd(), &[0]).is_ok() {
                thread::sleep(Duration::from_millis(10));
            }
        });
        let began = Instant::now();
        let limit = Duration::from_millis(200);
        let e = answer_once(far.as_fd(), &p, b"token", limit).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= limit);
        drop(far);
        dripping.join().unwrap();
    }

    /// The error of a transaction whose port is closed.
    fn far_is_gone(near: &UdpSocket) -> Option<io::ErrorKind> {
        let mut step = TransactDatagram {
            fd: near.as_fd(),
            request: &mut [0],
            response: &mut [0],
            lost: &mut 0,
        };
        step.run(0).err().map(|e| e.kind())
    }
}
