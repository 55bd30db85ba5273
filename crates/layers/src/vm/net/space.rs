//! A private network namespace: tap devices for guests, and this host's address.
//!
//! It is gone with the last process in it and the last [`Net`].
#![allow(unsafe_code)]

use std::{
    fs::File,
    io,
    net::{Ipv4Addr, UdpSocket},
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd},
    process::Command,
    sync::Arc,
    thread,
};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::HOST;
use crate::child;

const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);
const BRIDGE: &str = "br0";
pub(crate) const TUN: &str = "/dev/net/tun";

/// A network namespace.
pub(super) struct Net {
    ns: Arc<OwnedFd>,
    bridged: bool,
}

impl Net {
    /// With `bridged` it has room for many guests; else this host is at the other end of the one
    /// guest's cable.
    pub(super) fn new(bridged: bool) -> io::Result<Self> {
        let ns = aside(move || -> io::Result<OwnedFd> {
            // SAFETY: this flag does not touch the table of file descriptors.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            set_up("lo", None)?;
            if bridged {
                make_bridge()?;
                set_up(BRIDGE, Some(HOST))?;
            }
            Ok(File::open("/proc/thread-self/ns/net")?.into())
        })?;
        Ok(Self {
            ns: Arc::new(ns),
            bridged,
        })
    }

    pub(super) fn is_bridged(&self) -> bool {
        self.bridged
    }

    /// Creates a tap device for a guest. An existing one serves the next guest as well.
    pub(super) fn plug(&self, tap: String) -> io::Result<()> {
        let bridged = self.bridged;
        self.within(move || {
            make_tap(&tap)?;
            if bridged {
                join_bridge(&tap)?;
            }
            set_up(&tap, (!bridged).then_some(HOST))
        })
    }

    /// A socket at this host's end, on any port.
    pub(super) fn listen(&self) -> io::Result<UdpSocket> {
        self.within(|| UdpSocket::bind((HOST, 0)))
    }

    /// Lets a process live in it.
    pub(super) fn enter(&self, command: &mut Command) {
        child::in_network(command, self.ns.clone());
    }

    fn within<T: Send + 'static>(
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

/// In a separate thread, which may enter a namespace that the others do not.
fn aside<T: Send + 'static>(
    what: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let made = thread::Builder::new().name("network".into()).spawn(what)?;
    made.join()
        .unwrap_or_else(|_| Err(io::Error::other("the thread that made it has panicked")))
}

fn request(name: &str) -> libc::ifreq {
    // SAFETY: numbers and bytes, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request
}

fn control(fd: RawFd, what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: all requests passed here take an `ifreq`, or the name with which it begins, and it
    // outlives the call.
    match unsafe { libc::ioctl(fd, what, std::ptr::from_mut(request)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn failed(what: &str, name: &str) -> impl FnOnce(io::Error) -> io::Error {
    let text = format!("{what} {name}");
    move |e| io::Error::new(e.kind(), format!("{text}: {e}"))
}

/// Any socket takes requests about network devices.
fn socket() -> io::Result<UdpSocket> {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
}

/// A socket that sends and gets ICMP messages; those that it gets begin with the header of IP.
pub(super) fn icmp() -> io::Result<UdpSocket> {
    // SAFETY: the call takes numbers, and the descriptor it returns is only ours.
    let fd = unsafe {
        match libc::socket(
            libc::AF_INET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::IPPROTO_ICMP,
        ) {
            -1 => return Err(io::Error::last_os_error()),
            fd => OwnedFd::from_raw_fd(fd),
        }
    };
    Ok(fd.into())
}

/// Gives a network device of this namespace an address and switches it on.
pub(crate) fn set_up(name: &str, address: Option<Ipv4Addr>) -> io::Result<()> {
    let socket = socket()?;
    let fd = socket.as_raw_fd();
    if let Some(address) = address {
        for (what, address) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, MASK)] {
            let mut request = request(name);
            request.ifr_ifru.ifru_addr = as_sockaddr(address);
            control(fd, what, &mut request).map_err(failed("give an address to", name))?;
        }
    }
    let mut request = request(name);
    control(fd, libc::SIOCGIFFLAGS, &mut request).map_err(failed("inspect", name))?;
    // SAFETY: the call above has set this field.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    control(fd, libc::SIOCSIFFLAGS, &mut request).map_err(failed("switch on", name))
}

fn as_sockaddr(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    // Port (2 bytes) and address, both in network order, as in a `sockaddr_in`.
    for (to, from) in data[2..].iter_mut().zip(address.octets()) {
        *to = from.cast_signed();
    }
    libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        sa_data: data,
    }
}

/// Creates a tap device that stays when no process has it open.
fn make_tap(name: &str) -> io::Result<()> {
    let tun = File::options().read(true).write(true).open(TUN)?;
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
    control(tun.as_raw_fd(), libc::TUNSETIFF, &mut request).map_err(failed("make", name))?;
    // SAFETY: this request takes a number.
    match unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETPERSIST, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// linux/sockios.h.
const SIOCBRADDBR: libc::Ioctl = 0x89a0;
const SIOCBRADDIF: libc::Ioctl = 0x89a2;

fn make_bridge() -> io::Result<()> {
    let made = control(socket()?.as_raw_fd(), SIOCBRADDBR, &mut request(BRIDGE));
    made.map_err(failed("make the bridge", BRIDGE))
}

fn join_bridge(port: &str) -> io::Result<()> {
    let socket = socket()?;
    let mut of_port = request(port);
    control(socket.as_raw_fd(), libc::SIOCGIFINDEX, &mut of_port)
        .map_err(failed("inspect", port))?;
    let mut join = request(BRIDGE);
    // SAFETY: the call above has set this field.
    join.ifr_ifru.ifru_ifindex = unsafe { of_port.ifr_ifru.ifru_ifindex };
    match control(socket.as_raw_fd(), SIOCBRADDIF, &mut join) {
        // Of a guest before this one.
        Err(e) if e.kind() == io::ErrorKind::ResourceBusy => Ok(()),
        outcome => outcome.map_err(failed("put into the bridge", port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_network_order() {
        let address = as_sockaddr(Ipv4Addr::new(10, 9, 0, 200));
        assert_eq!(address.sa_data[..6], [0, 0, 10, 9, 0, 200_u8.cast_signed()]);
    }

    #[test]
    fn a_network_of_its_own_has_taps_and_a_bridge() {
        if let Err(e) = File::options().read(true).write(true).open(TUN) {
            eprintln!("skipped: {TUN}: {e}");
            return;
        }
        for bridged in [false, true] {
            let net = match Net::new(bridged) {
                Ok(net) => net,
                Err(e) => {
                    eprintln!("skipped: {e}");
                    assert!(!rustix::process::geteuid().is_root(), "{e}");
                    return;
                }
            };
            // A guest that comes again finds its tap there.
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
            // No other process has it.
            let ours = std::fs::read_to_string("/proc/self/net/dev").unwrap();
            assert!(!ours.contains("tap2:"), "{ours}");
        }
    }
}
