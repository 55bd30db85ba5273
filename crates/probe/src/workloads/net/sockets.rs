//! Sockets with the buffers that a point asks for.

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

/// How long a transaction over UDP waits for its answer at least.
pub const ANSWER: Duration = Duration::from_millis(200);

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// A socket, not connected.
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

/// Before a connection is made: its window is agreed on then.
fn set_buffers(p: &NetParams, fd: impl AsFd) -> io::Result<()> {
    if p.socket_buffer > 0 {
        set_socket_send_buffer_size(&fd, p.socket_buffer as usize)?;
        set_socket_recv_buffer_size(&fd, p.socket_buffer as usize)?;
    }
    Ok(())
}

/// No call on it waits longer.
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
        // What a limit on sending makes of a connection that is not answered.
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

/// Receives from there alone from now on. What others sent before goes.
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

/// Buffers as the kernel says they are.
pub fn effective(fd: impl AsFd) -> NetEnd {
    NetEnd {
        send_buffer: socket_send_buffer_size(&fd).unwrap_or(0) as u64,
        receive_buffer: socket_recv_buffer_size(&fd).unwrap_or(0) as u64,
        cpus: Vec::new(),
    }
}
