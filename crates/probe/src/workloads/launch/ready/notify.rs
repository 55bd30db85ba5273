//! Ready when it says so in the way of `sd_notify(3)`.

use std::os::{
    fd::{AsFd, BorrowedFd},
    linux::net::SocketAddrExt,
    unix::net::{SocketAddr, UnixDatagram},
};

use super::{super::sys, Found, Kind, Ready, Scene};
use crate::ProbeError;

/// `notify`
pub struct Notify;

impl Kind for Notify {
    fn id(&self) -> &'static str {
        "notify"
    }
    fn value(&self) -> &'static str {
        ""
    }
    fn arm(&self, _: &str, scene: &mut Scene<'_>) -> Result<Box<dyn Ready>, ProbeError> {
        let bind = || {
            // An abstract name needs no directory that both sides see.
            let name = format!("layermark/{:032x}", u128::from_ne_bytes(sys::random()?));
            let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
            socket.set_nonblocking(true).map(|()| (name, socket))
        };
        let (name, socket) = bind().map_err(|e: std::io::Error| {
            ProbeError::new(format!("cannot make the socket for `notify`: {e}"))
        })?;
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
        while let Ok(n) = self.0.recv(&mut message) {
            if message[..n].split(|b| *b == b'\n').any(|l| l == b"READY=1") {
                return Ok(Some(now));
            }
        }
        Ok(None)
    }
}
