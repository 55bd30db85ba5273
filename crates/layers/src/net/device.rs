//! Network devices of the calling thread's namespace: requests of netdevice(7) and of ethtool.
#![allow(unsafe_code)]

use std::{
    fs::File,
    io,
    net::{Ipv4Addr, UdpSocket},
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);
pub(crate) const TUN: &str = "/dev/net/tun";

fn request(name: &str) -> libc::ifreq {
    // SAFETY: numbers and bytes, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        // Signed or not by architecture.
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request
}

fn control(fd: RawFd, what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: all requests passed here take an `ifreq`, or the name at its start, and it outlives
    // the call. Memory that it points to is as long as `ethtool` says.
    match unsafe { libc::ioctl(fd, what, std::ptr::from_mut(request)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn failed(what: &str, name: &str) -> impl FnOnce(io::Error) -> io::Error {
    let text = format!("{what} {name}");
    move |e| io::Error::new(e.kind(), format!("{text}: {e}"))
}

/// A socket for requests about network devices. Any kind of socket will do.
fn socket() -> io::Result<UdpSocket> {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
}

/// Makes a request that returns something about a device.
fn asked(name: &str, what: libc::Ioctl) -> io::Result<libc::ifreq> {
    let mut request = request(name);
    let done = control(socket()?.as_raw_fd(), what, &mut request);
    done.map(|()| request).map_err(failed("inspect", name))
}

/// A socket that sends and receives ICMP messages. Received ones begin with the IP header.
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

/// Gives a network device an address and switches it on.
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
    let mut request = asked(name, libc::SIOCGIFFLAGS)?;
    // SAFETY: the call above has set this field.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    control(fd, libc::SIOCSIFFLAGS, &mut request).map_err(failed("switch on", name))
}

fn as_sockaddr(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    // Port (2 bytes) and address, both in network order, as in a `sockaddr_in`.
    for (to, from) in data[2..].iter_mut().zip(address.octets()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        sa_data: data,
    }
}

/// Sets the maximum packet size, bytes.
pub(super) fn set_mtu(name: &str, bytes: u32) -> io::Result<()> {
    let mut request = request(name);
    request.ifr_ifru.ifru_mtu = bytes.cast_signed();
    let set = control(socket()?.as_raw_fd(), libc::SIOCSIFMTU, &mut request);
    set.map_err(failed("set the MTU of", name))
}

pub(super) fn mtu(name: &str) -> io::Result<u32> {
    // SAFETY: the call has set this field.
    let mtu = unsafe { asked(name, libc::SIOCGIFMTU)?.ifr_ifru.ifru_mtu };
    Ok(mtu.cast_unsigned())
}

/// Its hardware address.
pub(super) fn mac(name: &str) -> io::Result<[u8; 6]> {
    // SAFETY: the call has set this field.
    let data = unsafe {
        asked(name, libc::SIOCGIFHWADDR)?
            .ifr_ifru
            .ifru_hwaddr
            .sa_data
    };
    Ok(std::array::from_fn(|at| data[at].to_ne_bytes()[0]))
}

/// Its index in this namespace.
pub(super) fn index(name: &str) -> io::Result<i32> {
    // SAFETY: the call has set this field.
    Ok(unsafe { asked(name, libc::SIOCGIFINDEX)?.ifr_ifru.ifru_ifindex })
}

/// A request of linux/ethtool.h, and the length of its answer, whose first field is the request's
/// number.
#[derive(Clone, Copy)]
pub(super) struct Question(u32, usize);

pub(super) const SETTINGS: Question = Question(0x01, 44);
pub(super) const DRIVER: Question = Question(0x03, 196);
pub(super) const LINK: Question = Question(0x0a, 8);
pub(super) const CHANNELS: Question = Question(0x3c, 36);

/// A request whose answer is one number.
pub(super) const fn number(question: u32) -> Question {
    Question(question, 8)
}

/// The driver's answer; `None` if the driver does not support the request.
pub(super) fn ethtool(name: &str, Question(number, length): Question) -> Option<Vec<u8>> {
    let mut answer = vec![0; length];
    answer[..4].copy_from_slice(&number.to_ne_bytes());
    let mut request = request(name);
    request.ifr_ifru.ifru_data = answer.as_mut_ptr().cast();
    let socket = socket().ok()?;
    control(
        socket.as_raw_fd(),
        libc::SIOCETHTOOL as libc::Ioctl,
        &mut request,
    )
    .ok()?;
    Some(answer)
}

/// Creates a tap device that stays when no process has it open.
pub(super) fn make_tap(name: &str) -> io::Result<()> {
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

pub(super) fn make_bridge(name: &str) -> io::Result<()> {
    let made = control(socket()?.as_raw_fd(), SIOCBRADDBR, &mut request(name));
    made.map_err(failed("make the bridge", name))
}

pub(super) fn join_bridge(bridge: &str, port: &str) -> io::Result<()> {
    let mut join = request(bridge);
    join.ifr_ifru.ifru_ifindex = index(port)?;
    match control(socket()?.as_raw_fd(), SIOCBRADDIF, &mut join) {
        // From an earlier guest.
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
    fn the_loopback_is_looked_at() {
        assert!(mtu("lo").unwrap() >= 1500);
        assert_eq!((mac("lo").unwrap(), index("lo").unwrap()), ([0; 6], 1));
        let link = ethtool("lo", LINK).unwrap();
        assert_eq!(link.len(), 8);
        let e = mtu("no-such-card").unwrap_err();
        assert!(e.to_string().contains("no-such-card"), "{e}");
        assert!(ethtool("no-such-card", DRIVER).is_none());
    }
}
