//! Errors between two ends, in words.

use std::{io, net::SocketAddr, time::Duration};

use super::lines::LineError;
use crate::ProbeError;

/// Named in every error: the work and the address of the far end.
#[derive(Debug, Clone, Copy)]
pub struct PeerAddress {
    pub workload: &'static str,
    pub op: &'static str,
    pub to: SocketAddr,
    /// How long the far end may be silent.
    pub patience: Duration,
}

impl PeerAddress {
    /// An error about the far end: `net rr: 10.0.0.1:80 WHAT`.
    pub fn error(self, what: &str) -> ProbeError {
        ProbeError::new(format!("{} {}: {} {what}", self.workload, self.op, self.to))
    }

    /// The error of a system call that failed while `doing` something with the far end.
    pub fn io(self, doing: &str, e: &io::Error) -> ProbeError {
        // Rounded to 10 ms.
        let seconds = (self.patience.as_secs_f64() * 100.0).round() / 100.0;
        let (what, hint) = match (e.kind(), e.raw_os_error()) {
            (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, _) => (
                format!("was silent for {seconds} s"),
                format!("see whether the path is up: `ping {}`", self.to.ip()),
            ),
            (io::ErrorKind::ConnectionRefused, _) => (
                "refused the connection (nothing is listening)".into(),
                "the far end has ended, or a firewall refuses: `ss -lntup` at the far end shows which ports are open".into(),
            ),
            (
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof,
                _,
            ) => (
                "closed the connection too early".into(),
                "the far end ended or was killed: its own error and `dmesg` tell more".into(),
            ),
            (_, Some(libc::EADDRNOTAVAIL)) => (
                "cannot be reached from any more port: the ephemeral ports are used up".into(),
                "make fewer connections, or allow more ports: `sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"`".into(),
            ),
            (_, Some(libc::EMSGSIZE)) => (
                "cannot be sent datagrams so large".into(),
                "use a smaller `message`, `request` or `response`".into(),
            ),
            (_, Some(libc::EHOSTUNREACH | libc::ENETUNREACH)) => (
                format!("cannot be reached: {e}"),
                format!("see which way there is: `ip route get {}`", self.to.ip()),
            ),
            _ => (format!("failed: {e}"), "`ip -s link` shows errors of the interfaces".into()),
        };
        ProbeError {
            errno: e.raw_os_error(),
            ..self.error(&format!("{what}: {doing}"))
        }
        .hint(hint)
    }

    /// The error for an invalid answer on the control connection; `None`: the far end has closed
    /// it.
    pub fn answer(self, e: Option<LineError>) -> ProbeError {
        match e {
            Some(LineError::Io(e)) => self.io("waiting for an answer", &e),
            Some(LineError::Foreign(line)) => self
                .error(&format!("speaks another protocol: it said {:?}", beginning(&line)))
                .hint(format!(
                    "another server has the port: `ss -ltnp 'sport = :{}'` at the far end shows which",
                    self.to.port()
                )),
            None => self
                .error("closed the control connection without an answer")
                .hint("it has another secret: it belongs to another trial, or is not a far end of layermark"),
        }
    }
}

/// Enough of a line to identify it.
fn beginning(line: &str) -> String {
    line.chars().take(60).collect()
}
