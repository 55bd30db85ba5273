//! Checks that a network works: bytes sent to the other end come back.

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::device::icmp;

/// Port at which our own switch answers (RFC 862).
pub(crate) const PORT: u16 = 7;
/// Close to the maximum payload of a frame.
const BYTES: usize = 1400;
/// How long an answer may take: cards need seconds to detect a link.
const PATIENCE: Duration = Duration::from_secs(20);

/// Echoes what `socket` receives while `during` runs on this host.
pub(crate) fn answering<T>(socket: &UdpSocket, during: impl FnOnce() -> T) -> io::Result<T> {
    socket.set_read_timeout(Some(Duration::from_millis(10)))?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        thread::Builder::new().spawn_scoped(scope, || {
            let mut bytes = [0; 2 * BYTES];
            while !over.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut bytes) {
                    let _ = socket.send_to(&bytes[..length], from);
                }
            }
        })?;
        let outcome = during();
        over.store(true, Ordering::Relaxed);
        Ok(outcome)
    })
}

/// Sends bytes there until the same bytes come back.
pub(crate) fn reach(to: SocketAddrV4) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    come_back(&socket, &bytes(), |heard, sent| heard == sent).map_err(|e| never(&to, e))
}

/// Like [`reach`], with ICMP messages (RFC 792), which the kernel at that address answers and not a
/// program.
pub(crate) fn ping(to: Ipv4Addr) -> io::Result<()> {
    const REPLY: u8 = 0;
    const REQUEST: u8 = 8;
    let socket = icmp()?;
    socket.connect((to, 0))?;
    // Type, code, checksum, identifier, number; then the data.
    let mut message = vec![REQUEST, 0, 0, 0, b'l', b'm', 0, 1];
    message.extend(bytes());
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let answers = |heard: &[u8], sent: &[u8]| {
        let header = heard.first().map_or(0, |b| usize::from(b & 0x0f) * 4);
        heard
            .get(header..)
            .is_some_and(|icmp| icmp.first() == Some(&REPLY) && icmp.get(4..) == Some(&sent[4..]))
    };
    come_back(&socket, &message, answers).map_err(|e| never(&to, e))
}

fn bytes() -> Vec<u8> {
    (0..BYTES).map(|n| (n % 251) as u8).collect()
}

/// The checksum of the Internet (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let pairs = bytes.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([pair[0], low]))
    });
    let mut sum: u32 = pairs.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn never(to: &impl std::fmt::Display, e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::TimedOut => {
            let text = format!("{to} has not sent back in {PATIENCE:?} what was sent to it");
            io::Error::new(e.kind(), text)
        }
        _ => e,
    }
}

/// Sends this message again and again until its answer arrives.
fn come_back(
    socket: &UdpSocket,
    sent: &[u8],
    answers: impl Fn(&[u8], &[u8]) -> bool,
) -> io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let mut heard = vec![0; 2 * BYTES];
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let outcome = socket.send(sent).and_then(|_| socket.recv(&mut heard));
        match outcome {
            Ok(length) if answers(&heard[..length], sent) => return Ok(()),
            // Refused or unreachable: it is reported at once and may soon change.
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
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

    #[test]
    fn a_checksum_is_that_of_the_internet() {
        // The example of RFC 1071, and one with an odd end.
        assert_eq!(checksum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[1]), !0x0100);
    }

    #[test]
    fn a_ping_comes_back() {
        match ping(Ipv4Addr::LOCALHOST) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                eprintln!("skipped: only root may send ICMP messages");
            }
            done => done.unwrap(),
        }
    }
}
