//! A private network namespace. It ends with its last process and the last [`Net`].
#![allow(unsafe_code)]

use std::{
    fs::File,
    io,
    net::UdpSocket,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process::Command,
    sync::Arc,
    thread,
};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::{HOST, device};
use crate::child;

const BRIDGE: &str = "br0";

/// A network namespace.
#[derive(Clone)]
pub(crate) struct Net {
    ns: Arc<OwnedFd>,
    bridged: bool,
}

impl Net {
    /// A namespace with only its loopback.
    pub(crate) fn alone() -> io::Result<Self> {
        Self::with(false)
    }

    /// A namespace with a bridge for many devices, and [`HOST`]'s address.
    pub(super) fn bridged() -> io::Result<Self> {
        Self::with(true)
    }

    fn with(bridged: bool) -> io::Result<Self> {
        let ns = aside(move || -> io::Result<OwnedFd> {
            // SAFETY: this flag does not touch the table of file descriptors.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            device::set_up("lo", None)?;
            if bridged {
                device::make_bridge(BRIDGE)?;
                device::set_up(BRIDGE, Some(HOST))?;
            }
            Ok(File::open("/proc/thread-self/ns/net")?.into())
        })?;
        Ok(Self {
            ns: Arc::new(ns),
            bridged,
        })
    }

    pub(crate) fn is_bridged(&self) -> bool {
        self.bridged
    }

    /// The device that has [`HOST`]'s address: the bridge, or `cable` without one.
    pub(crate) fn host_device(&self, cable: String) -> String {
        if self.bridged { BRIDGE.into() } else { cable }
    }

    /// Creates a tap device for a guest. An existing one is used again.
    pub(super) fn plug(&self, tap: String) -> io::Result<()> {
        let bridged = self.bridged;
        self.within(move || {
            device::make_tap(&tap)?;
            if bridged {
                device::join_bridge(BRIDGE, &tap)?;
            }
            device::set_up(&tap, (!bridged).then_some(HOST))
        })
    }

    /// Puts a device of this namespace into its bridge.
    pub(super) fn join(&self, port: String) -> io::Result<()> {
        self.within(move || {
            device::join_bridge(BRIDGE, &port)?;
            device::set_up(&port, None)
        })
    }

    /// A socket at this host's end, on any port.
    pub(crate) fn listen(&self) -> io::Result<UdpSocket> {
        self.within(|| UdpSocket::bind((HOST, 0)))
    }

    /// Starts a process in it.
    pub(crate) fn enter(&self, command: &mut Command) {
        child::in_network(command, self.ns.clone());
    }

    /// Runs a function in it.
    pub(crate) fn within<T: Send + 'static>(
        &self,
        what: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let ns = self.ns.clone();
        aside(move || {
            move_into_link_name_space(ns.as_fd(), Some(LinkNameSpaceType::Network))?;
            what()
        })
    }
}

impl AsFd for Net {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ns.as_fd()
    }
}

/// Runs a function in a separate thread, which may enter a namespace without moving the others.
fn aside<T: Send + 'static>(
    what: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let made = thread::Builder::new().name("network".into()).spawn(what)?;
    made.join()
        .unwrap_or_else(|_| Err(io::Error::other("the thread that made it has panicked")))
}

/// A namespace for a test; `None`, with the reason shown, if none may be made.
#[cfg(test)]
pub(super) fn tested(made: io::Result<Net>) -> Option<Net> {
    if let Err(e) = &made {
        eprintln!("skipped: {e}");
        assert!(!rustix::process::geteuid().is_root(), "{e}");
    }
    made.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_its_own_has_taps_and_a_bridge() {
        let tun = device::TUN;
        if let Err(e) = File::options().read(true).write(true).open(tun) {
            eprintln!("skipped: {tun}: {e}");
            return;
        }
        for bridged in [false, true] {
            let Some(net) = tested(Net::with(bridged)) else {
                return;
            };
            // A guest that is booted again finds its tap there.
            for tap in ["tap2", "tap3", "tap2"] {
                net.plug(tap.into()).unwrap();
            }
            let mut command = child::command("/bin/cat");
            command
                .arg("/proc/self/net/dev")
                .stdout(std::process::Stdio::piped());
            net.enter(&mut command);
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("tap2:") && text.contains("lo:"), "{text}");
            assert_eq!(text.contains(BRIDGE), bridged, "{text}");
            assert_eq!(net.listen().unwrap().local_addr().unwrap().ip(), HOST);
            // No other process sees it.
            let ours = std::fs::read_to_string("/proc/self/net/dev").unwrap();
            assert!(!ours.contains("tap2:"), "{ours}");
        }
    }
}
