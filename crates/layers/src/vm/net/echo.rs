//! The proof that a network works: bytes that come back from the other end.

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Where guests answer, by RFC 862.
pub(crate) const PORT: u16 = 7;
/// Close to the longest that a frame holds.
const BYTES: usize = 1400;
/// How long an answer may take: cards need seconds to find out that the cable is in.
const PATIENCE: Duration = Duration::from_secs(20);

/// In the guest: sends back what comes in, for as long as the machine runs.
pub(crate) fn serve(address: Ipv4Addr) -> io::Result<()> {
    let socket = UdpSocket::bind((address, PORT))?;
    let serve = move || {
        let mut bytes = [0; 2 * BYTES];
        loop {
            // An error is that of an answer before, which nobody waited for.
            if let Ok((length, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&bytes[..length], from);
            }
        }
    };
    thread::Builder::new().name("echo".into()).spawn(serve)?;
    Ok(())
}

/// On this host: sends back what comes to `socket` for as long as `during` takes.
pub(super) fn answering<T>(socket: &UdpSocket, during: impl FnOnce() -> T) -> io::Result<T> {
    socket.set_read_timeout(Some(Duration::from_millis(10)))?;
    let over = AtomicBool::new(false);
    Ok(thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = [0; 2 * BYTES];
            while !over.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut bytes) {
                    let _ = socket.send_to(&bytes[..length], from);
                }
            }
        });
        let outcome = during();
        over.store(true, Ordering::Relaxed);
        outcome
    }))
}

/// Sends bytes there until the same come back.
pub(crate) fn reach(to: SocketAddrV4) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let sent: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
    let mut heard = vec![0; 2 * BYTES];
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let outcome = socket.send(&sent).and_then(|_| socket.recv(&mut heard));
        match outcome {
            Ok(length) if heard[..length] == sent => return Ok(()),
            // Refused or unreachable: at once, and perhaps not for long.
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
    let text = format!("{to} has not sent back in {PATIENCE:?} what was sent to it");
    Err(io::Error::new(io::ErrorKind::TimedOut, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_comes_back() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, socket.local_addr().unwrap().port());
        answering(&socket, || reach(to)).unwrap().unwrap();
    }
}
