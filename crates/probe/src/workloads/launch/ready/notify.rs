//! Ready when the program reports it by `sd_notify(3)`.

use std::os::{
    fd::{AsFd, BorrowedFd},
    linux::net::SocketAddrExt,
    unix::net::{SocketAddr, UnixDatagram},
};

use layermark_model::random_name;

use super::{Found, MOST, Ready, ReadyKind, Scene};
use crate::ProbeError;

/// `notify`
pub struct Notify;

impl ReadyKind for Notify {
    fn id(&self) -> &'static str {
        "notify"
    }
    fn value(&self) -> &'static str {
        ""
    }
    fn arm(&self, _: &str, scene: &mut Scene<'_>) -> Result<Box<dyn Ready>, ProbeError> {
        // An abstract name needs no directory that both sides see, and any process may send to it.
        let name = random_name("layermark/");
        let bound = SocketAddr::from_abstract_name(&name)
            .and_then(|at| UnixDatagram::bind_addr(&at))
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
        let socket = bound
            .map_err(|e| ProbeError::new(format!("cannot make the socket for `notify`: {e}")))?;
        scene.command.env("NOTIFY_SOCKET", format!("@{name}"));
        Ok(Box::new(Says(socket)))
    }
}

struct Says(UnixDatagram);

impl Ready for Says {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.0.as_fd()]
    }
    fn look(&mut self) -> Result<Option<Found>, ProbeError> {
        let now = Found::now();
        let mut message = [0; 4096];
        for _ in 0..MOST {
            let Ok(n) = self.0.recv(&mut message) else {
                break;
            };
            if message[..n].split(|b| *b == b'\n').any(|l| l == b"READY=1") {
                return Ok(Some(now));
            }
        }
        Ok(None)
    }
}
