//! Ready when the program accepts connections.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    os::fd::BorrowedFd,
    time::Duration,
};

use super::{Ready, ReadyEvent, ReadyKind, Scene, WAKE_NS};
use crate::ProbeError;

/// Interval of connection attempts, nanoseconds: there is no event for a new listener. A refused
/// connection on the loopback takes about 20 us.
pub const EVERY_NS: u64 = 400_000;

/// A listener whose queue is full does not answer at all.
const PATIENCE: Duration = Duration::from_millis(50);

/// `port=[HOST:]N`
pub struct Port;

impl ReadyKind for Port {
    fn id(&self) -> &'static str {
        "port"
    }
    fn value(&self) -> &'static str {
        "[HOST:]N"
    }
    fn optional(&self) -> bool {
        false
    }
    fn check(&self, value: &str) -> Result<(), String> {
        address(value).map(drop)
    }
    fn error_ns(&self) -> u64 {
        EVERY_NS + WAKE_NS
    }
    fn arm(&self, value: &str, _: &mut Scene<'_>) -> Result<Box<dyn Ready>, ProbeError> {
        let at = address(value).map_err(ProbeError::new)?;
        unheard(at)?;
        Ok(Box::new(Listens(at)))
    }
}

/// Checks that no process listens there yet, because it would be mistaken for the program.
pub fn unheard(at: SocketAddr) -> Result<(), ProbeError> {
    if TcpStream::connect_timeout(&at, PATIENCE).is_err() {
        return Ok(());
    }
    Err(ProbeError::new(format!(
        "another program listens on {at} before the program has been started"
    ))
    .hint(format!("find out who: ss -ltnp 'sport = :{}'", at.port())))
}

/// `8080`, `127.0.0.1:8080`, `::1:8080`
fn address(text: &str) -> Result<SocketAddr, String> {
    let (host, port) = match text.rsplit_once(':') {
        None => (IpAddr::V4(Ipv4Addr::LOCALHOST), text),
        Some((host, port)) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let host = host
                .parse()
                .map_err(|_| "the host must be an address".to_owned())?;
            (host, port)
        }
    };
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(SocketAddr::new(host, port)),
        _ => Err("a port is between 1 and 65535".into()),
    }
}

struct Listens(SocketAddr);

impl Ready for Listens {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }
    fn every_ns(&self) -> Option<u64> {
        Some(EVERY_NS)
    }
    fn look(&mut self) -> Result<Option<ReadyEvent>, ProbeError> {
        Ok(TcpStream::connect_timeout(&self.0, PATIENCE)
            .ok()
            .map(|_| ReadyEvent::now()))
    }
}
