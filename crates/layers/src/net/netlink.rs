//! Requests that netdevice(7) lacks: pairs of virtual cards, and queueing disciplines. Sends one
//! message of rtnetlink(7) at a time, in the calling thread's namespace.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netlink::SocketAddrNetlink,
    recv, send, socket_with,
};

// linux/netlink.h, linux/rtnetlink.h, linux/if_link.h, linux/veth.h.
const REQUEST: u16 = 0x01;
const ACK: u16 = 0x04;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
const ERROR: u16 = 2;
const NEWLINK: u16 = 16;
const NEWQDISC: u16 = 36;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
/// `TC_H_ROOT`: the queueing discipline for all packets.
pub(super) const ROOT: u32 = u32::MAX;

/// Builds messages of numbers and attributes.
#[derive(Default)]
pub(super) struct Bytes(Vec<u8>);

impl Bytes {
    pub(super) fn u32(mut self, number: u32) -> Self {
        self.0.extend(number.to_ne_bytes());
        self
    }

    pub(super) fn u64(mut self, number: u64) -> Self {
        self.0.extend(number.to_ne_bytes());
        self
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn name(self, name: &str) -> Self {
        self.bytes(name.as_bytes()).bytes(&[0])
    }

    /// Adds an attribute: length, kind and value, padded to four bytes.
    pub(super) fn with(mut self, kind: u16, value: &Self) -> Self {
        let length = u16::try_from(value.0.len() + 4).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(&value.0);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// `struct ifinfomsg` of a device without an index.
    fn link() -> Self {
        Self::default().bytes(&[0; 16])
    }
}

/// Creates a virtual card and its other end, which gets another name in another namespace.
pub(super) fn make_veth(name: &str, peer: &str, there: BorrowedFd<'_>) -> io::Result<()> {
    let there = there.as_raw_fd().cast_unsigned();
    let peer = Bytes::link()
        .with(IFLA_IFNAME, &Bytes::default().name(peer))
        .with(IFLA_NET_NS_FD, &Bytes::default().u32(there));
    let info = Bytes::default()
        .with(INFO_KIND, &Bytes::default().bytes(b"veth"))
        .with(INFO_DATA, &Bytes::default().with(VETH_PEER, &peer));
    let link = Bytes::link()
        .with(IFLA_IFNAME, &Bytes::default().name(name))
        .with(IFLA_LINKINFO, &info);
    ask(NEWLINK, &link)
}

/// Attaches a queueing discipline (tc(8)) of this kind to a device's outgoing packets.
pub(super) fn add_qdisc(
    device: i32,
    [handle, parent]: [u32; 2],
    kind: &str,
    options: &Bytes,
) -> io::Result<()> {
    let message = Bytes::default()
        // `struct tcmsg`.
        .u32(0)
        .u32(device.cast_unsigned())
        .u32(handle)
        .u32(parent)
        .u32(0)
        .with(TCA_KIND, &Bytes::default().name(kind))
        .with(TCA_OPTIONS, options);
    ask(NEWQDISC, &message)
}

/// Sends a request and waits for the kernel's acknowledgement.
fn ask(kind: u16, body: &Bytes) -> io::Result<()> {
    // Without a protocol it is `NETLINK_ROUTE`.
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    let length = u32::try_from(body.0.len() + 16).map_err(io::Error::other)?;
    let flags = REQUEST | ACK | CREATE | EXCLUSIVE;
    let message = Bytes::default()
        // `struct nlmsghdr`.
        .u32(length)
        .bytes(&kind.to_ne_bytes())
        .bytes(&flags.to_ne_bytes())
        .u32(1)
        .u32(0)
        .bytes(&body.0);
    send(&socket, &message.0, SendFlags::empty())?;
    let mut answer = [0; 4096];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    outcome(&answer[..length])
}

/// The answer is an `nlmsghdr` and an errno, which is 0 on success.
fn outcome(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).map(|b| u16::from_ne_bytes([b[0], b[1]]));
    let errno = answer.get(16..20).and_then(|b| b.try_into().ok());
    match (kind, errno.map(i32::from_ne_bytes)) {
        (Some(ERROR), Some(0)) => Ok(()),
        (Some(ERROR), Some(errno)) => Err(io::Error::from_raw_os_error(-errno)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_nested_and_filled_up() {
        let inner = Bytes::default().with(1, &Bytes::default().bytes(b"abc"));
        let outer = Bytes::default().with(2, &inner);
        let [one, two, seven, twelve] = [1_u16, 2, 7, 12].map(u16::to_ne_bytes);
        let wanted = [&twelve[..], &two, &seven, &one, b"abc\0"].concat();
        assert_eq!(outer.0, wanted);
    }

    #[test]
    fn an_answer_is_an_error_or_none() {
        let answer = |kind: u16, errno: i32| {
            let head = Bytes::default().u32(36).bytes(&kind.to_ne_bytes());
            outcome(&head.bytes(&[0; 10]).bytes(&errno.to_ne_bytes()).0)
        };
        answer(ERROR, 0).unwrap();
        assert_eq!(answer(ERROR, -2).unwrap_err().raw_os_error(), Some(2));
        assert!(answer(NEWLINK, 0).is_err() && outcome(b"short").is_err());
    }
}
