//! Streams at both ends, and the basic calls on connections. They block, on connected sockets.

use std::{
    io,
    os::fd::BorrowedFd,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags},
};

use super::{params::NetParams, unacknowledged};
use crate::{
    clock::monotonic_ns,
    data::{Noise, derive},
    limits::HEARTBEAT_NS,
    run::{drive::Span, team::ThreadWork},
};

/// First byte of a message of a TCP stream.
const MORE: u8 = 0;
/// First byte of the last message of a turn. It tells the receiver that it has all of them.
const LAST: u8 = 1;

/// Minimum size of a buffer to receive a stream, bytes.
const RECEIVE: usize = 128 << 10;

pub fn send_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = patiently(fd, || rustix::net::send(fd, bytes, SendFlags::NOSIGNAL))?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Repeats a call that has reached the socket's time limit, while the peer still receives earlier
/// data: over a slow path a full buffer lasts longer than the limit.
fn patiently<T>(fd: BorrowedFd<'_>, mut call: impl FnMut() -> Result<T, Errno>) -> io::Result<T> {
    let mut before = u64::MAX;
    loop {
        match call() {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let left = unacknowledged::bytes(fd)?;
                if left == 0 || left >= before {
                    return Err(Errno::AGAIN.into());
                }
                before = left;
            }
            done => return Ok(done?),
        }
    }
}

/// Receives available data, at least one byte; 0 at the end.
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match rustix::net::recv(fd, &mut *buffer, RecvFlags::empty()) {
            Ok((_, length)) => return Ok(length),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Fills the buffer. `false` when the peer has closed before the first byte.
pub fn receive_all(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<bool> {
    let mut done = 0;
    while done < buffer.len() {
        match receive(fd, &mut buffer[done..])? {
            0 if done == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => done += length,
        }
    }
    Ok(true)
}

/// The same; an error when the peer has closed the connection.
pub fn receive_whole(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<()> {
    if receive_all(fd, buffer)? {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// When the sender of a turn checks its clock, and reports progress.
struct Watch<'a> {
    start: u64,
    end: u64,
    beat_at: u64,
    paused: u64,
    beat: &'a mut dyn FnMut(u64),
}

impl<'a> Watch<'a> {
    fn start(ns: u64, beat: &'a mut dyn FnMut(u64)) -> Self {
        let start = monotonic_ns();
        Self {
            start,
            end: start.saturating_add(ns),
            beat_at: start + HEARTBEAT_NS,
            paused: 0,
            beat,
        }
    }

    /// Whether the time is over.
    fn is_over(&mut self, done: u64) -> bool {
        let now = monotonic_ns();
        if now >= self.beat_at && now < self.end {
            (self.beat)(done);
            let spent = monotonic_ns() - now;
            self.paused += spent;
            self.end = self.end.saturating_add(spent);
            self.beat_at = now + spent + HEARTBEAT_NS;
        }
        now >= self.end
    }

    fn span(&self) -> Span {
        Span {
            start: self.start,
            end: monotonic_ns(),
            paused: self.paused,
            ..Span::default()
        }
    }
}

/// Sends messages for this time. Returns when the peer has received all of them.
pub fn push(
    fd: BorrowedFd<'_>,
    message: &mut [u8],
    ns: u64,
    beat: &mut dyn FnMut(u64),
) -> io::Result<ThreadWork> {
    let mut watch = Watch::start(ns, beat);
    let sent = send_until(fd, message, &mut watch)?;
    let mut answer = [0];
    let receive = || rustix::net::recv(fd, &mut answer[..], RecvFlags::empty());
    match patiently(fd, receive)? {
        (_, 0) => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok((sent, watch.span())),
    }
}

/// Sends messages until the time is over, the last one marked as such. Returns their number.
fn send_until(fd: BorrowedFd<'_>, message: &mut [u8], watch: &mut Watch<'_>) -> io::Result<u64> {
    let mut sent = 0;
    loop {
        let last = watch.is_over(sent);
        message[0] = if last { LAST } else { MORE };
        send_all(fd, message)?;
        sent += 1;
        if last {
            return Ok(sent);
        }
    }
}

/// Receives what [`push`] sends, until the peer closes.
pub fn sink(fd: BorrowedFd<'_>, p: &NetParams, received: &AtomicU64) -> io::Result<()> {
    let mut buffer = room(p);
    let mut messages = Messages::new(p);
    loop {
        let length = receive(fd, &mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        received.fetch_add(length as u64, Ordering::Relaxed);
        if messages.take(&buffer[..length]) {
            send_all(fd, &[0])?;
        }
    }
}

/// Makes the peer send for this time, and receives all of it.
pub fn pull(
    fd: BorrowedFd<'_>,
    p: &NetParams,
    buffer: &mut [u8],
    ns: u64,
    beat: &mut dyn FnMut(u64),
) -> io::Result<ThreadWork> {
    let mut messages = Messages::new(p);
    let mut watch = Watch::start(u64::MAX, beat);
    send_all(fd, &ns.to_le_bytes())?;
    loop {
        let length = receive(fd, buffer)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if messages.take(&buffer[..length]) {
            return Ok((messages.whole, watch.span()));
        }
        watch.is_over(messages.whole);
    }
}

/// Sends for the times that [`pull`] requests, until the peer closes the connection.
pub fn source(fd: BorrowedFd<'_>, p: &NetParams) -> io::Result<()> {
    let mut message = message(p.message);
    let mut ns = [0; 8];
    while receive_all(fd, &mut ns)? {
        let beat = &mut |_| {};
        let mut watch = Watch::start(u64::from_le_bytes(ns), beat);
        send_until(fd, &mut message, &mut watch)?;
    }
    Ok(())
}

/// The data to send. Zeroed memory that was never written to is one page mapped many times, which a
/// CPU copies at a different speed.
pub fn message(length: u64) -> Vec<u8> {
    let mut message = vec![0; length as usize];
    Noise::new(derive(0, "net")).fill(&mut message);
    message
}

/// A buffer to receive a stream with.
pub fn room(p: &NetParams) -> Vec<u8> {
    vec![0; (p.message as usize).max(RECEIVE)]
}

/// Splits a stream into messages as data arrives.
struct Messages {
    size: usize,
    /// Missing bytes of the current message.
    left: usize,
    last: bool,
    /// Number of complete messages since the turn began.
    whole: u64,
}

impl Messages {
    fn new(p: &NetParams) -> Self {
        Self {
            size: p.message as usize,
            left: 0,
            last: false,
            whole: 0,
        }
    }

    /// Adds data. Returns whether the last message of a turn is complete. Nothing follows it before
    /// the next turn.
    fn take(&mut self, mut bytes: &[u8]) -> bool {
        while let Some(first) = bytes.first() {
            if self.left == 0 {
                (self.left, self.last) = (self.size, *first == LAST);
            }
            let length = bytes.len().min(self.left);
            self.left -= length;
            bytes = &bytes[length..];
            if self.left == 0 {
                self.whole += 1;
                if self.last {
                    return true;
                }
            }
        }
        false
    }
}

/// Sends datagrams for this time. Returns how many were sent, whether or not they arrived.
pub fn push_datagrams(
    fd: BorrowedFd<'_>,
    message: &[u8],
    ns: u64,
    beat: &mut dyn FnMut(u64),
) -> io::Result<ThreadWork> {
    let mut watch = Watch::start(ns, beat);
    let mut sent = 0;
    loop {
        match rustix::net::send(fd, message, SendFlags::NOSIGNAL) {
            Ok(_) => sent += 1,
            // The queue of the card is full, so it was not sent.
            Err(Errno::INTR | Errno::NOBUFS) => {}
            Err(e) => return Err(e.into()),
        }
        if watch.is_over(sent) {
            return Ok((sent, watch.span()));
        }
    }
}

/// Datagrams that have arrived.
pub struct Arrived {
    pub datagrams: AtomicU64,
    /// `CLOCK_MONOTONIC` of the first one since [`Arrived::begin`]; `u64::MAX` before it.
    first_ns: AtomicU64,
    /// `CLOCK_MONOTONIC` of the last one.
    pub last_ns: AtomicU64,
}

impl Default for Arrived {
    fn default() -> Self {
        Self {
            datagrams: AtomicU64::new(0),
            first_ns: AtomicU64::new(u64::MAX),
            last_ns: AtomicU64::new(0),
        }
    }
}

impl Arrived {
    /// Marks the next datagram as the first one. Returns the arrival time of the previous first
    /// one.
    pub fn begin(&self) -> u64 {
        self.first_ns.swap(u64::MAX, Ordering::Relaxed)
    }

    fn one(&self) {
        let now = monotonic_ns();
        if self.first_ns.load(Ordering::Relaxed) == u64::MAX {
            self.first_ns.fetch_min(now, Ordering::Relaxed);
        }
        self.last_ns.fetch_max(now, Ordering::Relaxed);
        self.datagrams.fetch_add(1, Ordering::Release);
    }
}

/// Receives datagrams until the socket is shut down.
pub fn sink_datagrams(fd: BorrowedFd<'_>, p: &NetParams, arrived: &Arrived) -> io::Result<()> {
    let mut buffer = vec![0; p.message as usize];
    loop {
        match receive(fd, &mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) => arrived.one(),
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{os::fd::AsFd, thread, time::Duration};

    use layermark_model::Settings;

    use super::*;
    use crate::{
        Workload,
        workloads::net::{WORKLOAD, sockets},
    };

    #[test]
    fn a_peer_that_is_slow_is_not_silent() {
        let settings = serde_json::json!({"workload": "net", "op": "stream"});
        let settings: Settings = serde_json::from_value(settings).unwrap();
        let p: NetParams = WORKLOAD.points(&settings, 1.0).unwrap()[0].typed().unwrap();
        let (near, far) = sockets::pair(&p).unwrap();
        sockets::limit(&near, Duration::from_millis(500)).unwrap();
        let slow = thread::spawn(move || {
            let mut left = p.message as usize;
            while left > 0 {
                thread::sleep(Duration::from_millis(100));
                left -= receive(far.as_fd(), &mut [0; 16 << 10]).unwrap();
            }
            send_all(far.as_fd(), &[0]).unwrap();
            far
        });
        let (sent, span) = push(near.as_fd(), &mut vec![0; 128 << 10], 0, &mut |_| {}).unwrap();
        assert_eq!(sent, 1);
        assert!(
            span.net_ns() > 600_000_000,
            "longer than its limit: {span:?}"
        );
        let far = slow.join().unwrap();
        let e = push(near.as_fd(), &mut [0], 0, &mut |_| {}).unwrap_err();
        assert_eq!(
            e.kind(),
            io::ErrorKind::WouldBlock,
            "it takes nothing any more"
        );
        drop(far);
    }

    #[test]
    fn the_last_message_is_found_however_it_is_cut() {
        let stream = [MORE, 7, 7, MORE, 1, 1, LAST, 0, 0];
        for piece in 1..=stream.len() {
            let mut messages = Messages {
                size: 3,
                left: 0,
                last: false,
                whole: 0,
            };
            let pieces = stream.chunks(piece);
            let ends: Vec<bool> = pieces.map(|bytes| messages.take(bytes)).collect();
            let first = ends.iter().position(|end| *end);
            assert_eq!(first, Some(ends.len() - 1), "in pieces of {piece}");
            assert_eq!(messages.whole, 3);
        }
    }
}
