//! Sockets with the buffers of a point.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType,
    sockopt::{
        Timeout, set_socket_recv_buffer_size, set_socket_reuseaddr, set_socket_send_buffer_size,
        set_socket_timeout, set_tcp_nodelay, socket_recv_buffer_size, socket_send_buffer_size,
    },
};

use super::{figures::NetEnd, params::NetParams};
use crate::workloads::ends::PATIENCE;

/// Minimum time that a transaction over UDP waits for its answer.
pub const ANSWER: Duration = Duration::from_millis(200);

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// An unconnected socket.
fn socket(p: &NetParams, address: IpAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let fd = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    set_buffers(p, &fd)?;
    if kind == SocketType::STREAM && p.nodelay {
        set_tcp_nodelay(&fd, true)?;
    }
    Ok(fd)
}

/// Sets the buffers. Called before a connection is made, because its window scale is negotiated
/// then.
fn set_buffers(p: &NetParams, fd: impl AsFd) -> io::Result<()> {
    if p.socket_buffer > 0 {
        set_socket_send_buffer_size(&fd, p.socket_buffer as usize)?;
        set_socket_recv_buffer_size(&fd, p.socket_buffer as usize)?;
    }
    Ok(())
}

/// Sets the time limit of every call on it.
pub fn limit(fd: impl AsFd, time: Duration) -> io::Result<()> {
    set_socket_timeout(&fd, Timeout::Recv, Some(time))?;
    // Also the limit of connect(2).
    Ok(set_socket_timeout(&fd, Timeout::Send, Some(time))?)
}

/// A listener whose connections have these buffers, too.
pub fn listen(p: &NetParams, address: SocketAddr) -> io::Result<TcpListener> {
    let fd = socket(p, address.ip(), SocketType::STREAM)?;
    set_socket_reuseaddr(&fd, true)?;
    rustix::net::bind(&fd, &address)?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd.into())
}

pub fn connect(p: &NetParams, to: SocketAddr) -> io::Result<TcpStream> {
    let fd = socket(p, to.ip(), SocketType::STREAM)?;
    limit(&fd, PATIENCE)?;
    match rustix::net::connect(&fd, &to) {
        // The error when a connection is not answered within the send time limit.
        Err(rustix::io::Errno::INPROGRESS) => Err(io::ErrorKind::TimedOut.into()),
        Err(e) => Err(e.into()),
        Ok(()) => Ok(fd.into()),
    }
}

/// A UDP socket at any port of an address.
pub fn datagrams(p: &NetParams, at: IpAddr) -> io::Result<(OwnedFd, u16)> {
    let fd = socket(p, at, SocketType::DGRAM)?;
    rustix::net::bind(&fd, &SocketAddr::new(at, 0))?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&fd)?)?;
    Ok((fd, bound.port()))
}

/// Receives only from this address from now on. Datagrams that others sent before are discarded.
pub fn only_from(fd: &OwnedFd, to: SocketAddr) -> io::Result<()> {
    rustix::net::connect(fd, &to)?;
    while rustix::net::recv(fd, &mut [0; 1][..], RecvFlags::DONTWAIT).is_ok() {}
    Ok(())
}

/// Two ends within this process, with no network between them.
pub fn pair(p: &NetParams) -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = if p.op.is_udp() {
        SocketType::SEQPACKET
    } else {
        SocketType::STREAM
    };
    let ends = rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    set_buffers(p, &ends.0)?;
    set_buffers(p, &ends.1)?;
    Ok(ends)
}

/// Sizes of the buffers, as the kernel reports them.
pub fn effective(fd: impl AsFd) -> NetEnd {
    NetEnd {
        send_buffer: socket_send_buffer_size(&fd).unwrap_or(0) as u64,
        receive_buffer: socket_recv_buffer_size(&fd).unwrap_or(0) as u64,
        cpus: Vec::new(),
    }
}
