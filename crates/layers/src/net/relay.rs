//! A relay in user space between a client and its server. It delays what passes, as a distant network does, where
//! the kernel has no netem.

use std::{
    collections::VecDeque,
    io::{self, PipeReader, PipeWriter, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream},
    path::Path,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use layermark_model::Spec;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::sockopt::set_socket_recv_buffer_size,
};

use crate::{
    LayerError, LayerOption, Undo,
    options::{self, bad, given},
};

/// With a longer delay, mounting would take longer than a server may take to start.
const LONGEST: Duration = Duration::from_millis(200);
/// Connections at the same time. rclone needs one for each file that is open.
const MOST: usize = 64;
/// Most bytes on their way in one direction of a connection, about a TCP window at its largest.
const CAPACITY: usize = 4 << 20;
/// Length of the queue of a rate limit, as that of `netns`.
const QUEUE: Duration = Duration::from_millis(100);
const SHORTEST_QUEUE: usize = 256 << 10;
/// Buffer of the kernel in front of the relay, bytes. What waits there is not yet on its way.
const RECEIVE_BUFFER: usize = 128 << 10;
/// Bytes that pass as one packet, at most.
const CHUNK: usize = 64 << 10;

/// Declares the options of a layer whose server can be distant: its own, then those that [`Distance::of`] reads.
macro_rules! distant_options {
    ($vis:vis struct $name:ident { $($own:tt)* }) => {
        $crate::options::layer_options! {
            $vis struct $name {
                $($own)*
                /// added to each round trip to the server, such as 6ms: half each way, by a relay in layermark
                delay: String = "0",
                /// bits a second, each way, by that relay: 1mbit or more, such as 100mbit or 1gbit
                rate: String = "none",
            }
        }
    };
}
pub(crate) use distant_options;

/// The simulated network between a client and its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Distance {
    /// Added to each round trip.
    round_trip: Duration,
    /// Bits a second, each way.
    rate: Option<u64>,
}

impl Distance {
    /// What the options `delay` and `rate` say. `None`: client and server are connected directly.
    pub(crate) fn of(spec: &Spec, delay: &str, rate: &str) -> Result<Option<Self>, LayerError> {
        let Some(round_trip) = options::delay(delay).filter(|delay| *delay <= LONGEST) else {
            let must = "is not a duration of at most 200ms, such as 6ms".into();
            return Err(bad(spec, "delay", delay, must));
        };
        let rate = options::rate(spec, rate)?;
        let is_far = !round_trip.is_zero() || rate.is_some();
        Ok(is_far.then_some(Self { round_trip, rate }))
    }

    /// Entries for the layer's facts, with the options as the user wrote them.
    pub(crate) fn notes(spec: &Spec, rows: &[LayerOption]) -> Vec<(&'static str, String)> {
        let ways = [("delay", "round trip"), ("rate", "each way")].into_iter();
        let note = |(name, way)| {
            let (name, text) = given(spec, rows, &[name])?;
            Some((name, format!("{text} {way}, by layermark's relay")))
        };
        ways.filter_map(note).collect()
    }

    /// Bytes that may be on their way in one direction.
    fn capacity(&self) -> usize {
        let Some(rate) = self.rate else {
            return CAPACITY;
        };
        let bytes = (self.round_trip / 2 + QUEUE).as_secs_f64() * rate as f64 / 8.0;
        (bytes as usize).clamp(SHORTEST_QUEUE, CAPACITY)
    }

    /// Longest packet, bytes: a millisecond's worth, but at least an Ethernet frame's.
    fn chunk(&self) -> usize {
        const FRAME: u64 = 1448;
        let bytes = |rate: u64| (rate / 8 / 1000).max(FRAME) as usize;
        self.rate.map_or(CHUNK, |rate| bytes(rate).min(CHUNK))
    }
}

/// A running relay. It ends on drop, with its connections.
pub(crate) struct Relay {
    /// The port to which the client connects.
    pub(crate) port: u16,
    /// The thread ends when this is closed.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Listens on a free port of `address` and connects each client to `server`, both in the calling thread's
    /// network namespace. The server must let in only those that have the run's secret, unless the namespace is
    /// private.
    pub(crate) fn start(
        distance: Distance,
        address: Ipv4Addr,
        server: SocketAddrV4,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((address, 0))?;
        listener.set_nonblocking(true)?;
        // Connections inherit it.
        set_socket_recv_buffer_size(&listener, RECEIVE_BUFFER)?;
        let port = listener.local_addr()?.port();
        let (ended, stop) = io::pipe()?;
        let thread = thread::Builder::new()
            .name("relay".into())
            .spawn(move || relay(&listener, server, distance, &ended))?;
        Ok(Self {
            port,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts a relay to this port of the loopback, which ends when `undo` runs. Returns its port.
pub(crate) fn until_undone(
    layer: &str,
    distance: Distance,
    port: u16,
    undo: &mut Undo,
) -> Result<u16, LayerError> {
    let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let relay = Relay::start(distance, Ipv4Addr::LOCALHOST, server).map_err(LayerError::io(
        layer,
        "start a relay to",
        Path::new("127.0.0.1"),
    ))?;
    let port = relay.port;
    undo.push("end the relay", move || {
        drop(relay);
        Ok(())
    });
    Ok(port)
}

/// Accepts connections and passes their bytes on, until the other end of `ended` is closed.
fn relay(listener: &TcpListener, server: SocketAddrV4, distance: Distance, ended: &PipeReader) {
    let mut connections: Vec<Connection> = Vec::new();
    let mut buffer = vec![0; distance.chunk()];
    loop {
        let mut polled = vec![PollFd::new(ended, PollFlags::IN)];
        if connections.len() < MOST {
            polled.push(PollFd::new(listener, PollFlags::IN));
        }
        let now = Instant::now();
        polled.extend(connections.iter().flat_map(|c| c.polled(now)));
        let next = connections.iter().filter_map(|c| c.next(now)).min();
        let wait = next.map(|due| due.saturating_duration_since(now));
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        match poll(&mut polled, wait.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) if !polled[0].revents().is_empty() => return,
            Ok(_) => {}
        }
        if connections.len() < MOST
            && let Ok((client, _)) = listener.accept()
        {
            connections.extend(Connection::new(client, server, distance).ok());
        }
        // One that is broken in one direction is closed in both.
        connections.retain_mut(|c| c.pass(&mut buffer).unwrap_or(false));
    }
}

/// A client's connection to the server.
struct Connection {
    client: TcpStream,
    server: TcpStream,
    there: Flow,
    back: Flow,
}

impl Connection {
    fn new(client: TcpStream, server: SocketAddrV4, distance: Distance) -> io::Result<Self> {
        const LIMIT: Duration = Duration::from_secs(1);
        let server = TcpStream::connect_timeout(&server.into(), LIMIT)?;
        set_socket_recv_buffer_size(&server, RECEIVE_BUFFER)?;
        for end in [&client, &server] {
            end.set_nodelay(true)?;
            end.set_nonblocking(true)?;
        }
        Ok(Self {
            client,
            server,
            there: Flow::new(distance),
            back: Flow::new(distance),
        })
    }

    /// The sockets and what they are waited for. One for which nothing is to do is left out, since the kernel
    /// would report its end again and again.
    fn polled(&self, now: Instant) -> impl Iterator<Item = PollFd<'_>> {
        let ends = [
            (&self.client, &self.there, &self.back),
            (&self.server, &self.back, &self.there),
        ];
        ends.into_iter().filter_map(move |(end, from, to)| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, from.has_room());
            flags.set(PollFlags::OUT, to.due().is_some_and(|due| due <= now));
            (!flags.is_empty()).then(|| PollFd::new(end, flags))
        })
    }

    /// When its next bytes are due, unless they wait for their receiver.
    fn next(&self, now: Instant) -> Option<Instant> {
        let due = [&self.there, &self.back].into_iter().filter_map(Flow::due);
        due.filter(|due| *due > now).min()
    }

    /// Passes on what is due in both directions. Returns whether anything can still come.
    fn pass(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let ends = [
            (&self.client, &self.server, &mut self.there),
            (&self.server, &self.client, &mut self.back),
        ];
        let mut alive = false;
        for (mut from, mut to, flow) in ends {
            flow.take(&mut from, buffer, Instant::now())?;
            if flow.give(&mut to, Instant::now())? {
                to.shutdown(Shutdown::Write)?;
            }
            alive |= !flow.closed;
        }
        Ok(alive)
    }
}

/// Bytes that are sent together, and when they arrive. Without bytes, it is the end of the stream.
struct Packet {
    due: Instant,
    bytes: Vec<u8>,
    /// How many of them were passed on.
    sent: usize,
}

/// One direction of a connection.
struct Flow {
    delay: Duration,
    rate: Option<u64>,
    capacity: usize,
    queue: VecDeque<Packet>,
    /// Memory that the queue takes, bytes.
    queued: usize,
    /// When the simulated cable has sent all that it was given.
    free: Option<Instant>,
    /// The sender has closed its end.
    ended: bool,
    /// The receiver has been told so.
    closed: bool,
}

impl Flow {
    fn new(distance: Distance) -> Self {
        Self {
            delay: distance.round_trip / 2,
            rate: distance.rate,
            capacity: distance.capacity(),
            queue: VecDeque::new(),
            queued: 0,
            free: None,
            ended: false,
            closed: false,
        }
    }

    fn has_room(&self) -> bool {
        !self.ended && self.queued < self.capacity
    }

    /// When the next bytes arrive.
    fn due(&self) -> Option<Instant> {
        self.queue.front().map(|packet| packet.due)
    }

    /// Takes bytes that were sent, if there is room for them.
    fn take(&mut self, from: &mut impl Read, buffer: &mut [u8], now: Instant) -> io::Result<()> {
        if !self.has_room() {
            return Ok(());
        }
        let Some(n) = unless_blocked(from.read(buffer))? else {
            return Ok(());
        };
        self.ended = n == 0;
        let sending = self.rate.map_or(0.0, |rate| n as f64 * 8.0 / rate as f64);
        let begin = self.free.map_or(now, |free| free.max(now));
        let sent = begin + Duration::from_secs_f64(sending);
        self.free = Some(sent);
        self.queued += n + size_of::<Packet>();
        self.queue.push_back(Packet {
            due: sent + self.delay,
            bytes: buffer[..n].to_vec(),
            sent: 0,
        });
        Ok(())
    }

    /// Passes on bytes that have arrived, until the receiver takes no more. Returns whether the stream has ended
    /// with them.
    fn give(&mut self, to: &mut impl Write, now: Instant) -> io::Result<bool> {
        while let Some(packet) = self.queue.front_mut().filter(|packet| packet.due <= now) {
            if packet.bytes.is_empty() {
                self.closed = true;
            } else {
                let Some(n) = unless_blocked(to.write(&packet.bytes[packet.sent..]))? else {
                    return Ok(false);
                };
                packet.sent += n;
                if packet.sent < packet.bytes.len() {
                    continue;
                }
            }
            self.queued -= packet.bytes.len() + size_of::<Packet>();
            self.queue.pop_front();
            if self.closed {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The result of a call on a socket; `None` if it must be repeated later.
fn unless_blocked(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(n) => Ok(Some(n)),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(round_trip: Duration, rate: Option<u64>) -> Distance {
        Distance { round_trip, rate }
    }

    const MS: Duration = Duration::from_millis(1);

    /// A receiver that takes a few bytes and is then full.
    struct Narrow(Vec<u8>, usize);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.1);
            if n == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.1 -= n;
            self.0.extend(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_arrive_after_the_delay_and_in_order() {
        let mut flow = Flow::new(distance(6 * MS, None));
        let (start, mut buffer, mut out) = (Instant::now(), [0; 4], Vec::new());
        for (at, sent) in [(0, "abcd"), (1, "ef"), (1, "")] {
            let mut sent = sent.as_bytes();
            flow.take(&mut sent, &mut buffer, start + at * MS).unwrap();
        }
        assert_eq!(flow.due(), Some(start + 3 * MS));
        assert!(!flow.give(&mut out, start + 2 * MS).unwrap() && out.is_empty());
        // A receiver that is slow gets the rest later.
        let mut narrow = Narrow(Vec::new(), 3);
        assert!(!flow.give(&mut narrow, start + 3 * MS).unwrap());
        assert_eq!(narrow.0, b"abc");
        assert!(flow.give(&mut out, start + 4 * MS).unwrap());
        assert_eq!(out, b"def");
        assert!(flow.closed && flow.queue.is_empty() && flow.queued == 0);
    }

    #[test]
    fn a_rate_sends_one_packet_after_the_other() {
        // A byte each microsecond.
        let mut flow = Flow::new(distance(2 * MS, Some(8_000_000)));
        let (start, mut buffer) = (Instant::now(), [0; 1000]);
        for _ in 0..3 {
            flow.take(&mut [7; 1000].as_slice(), &mut buffer, start)
                .unwrap();
        }
        let due: Vec<Duration> = flow.queue.iter().map(|p| p.due - start).collect();
        assert_eq!(due, [2 * MS, 3 * MS, 4 * MS]);
        // After a pause the cable is free.
        flow.take(&mut [7; 1000].as_slice(), &mut buffer, start + 9 * MS)
            .unwrap();
        assert_eq!(flow.queue[3].due, start + 11 * MS);
    }

    #[test]
    fn its_memory_is_bounded() {
        for (round_trip, rate, capacity) in [
            (6 * MS, None, CAPACITY),
            (6 * MS, Some(1_000_000), SHORTEST_QUEUE),
            (100 * MS, Some(100_000_000), 1_875_000),
            (6 * MS, Some(10_000_000_000), CAPACITY),
        ] {
            let far = distance(round_trip, rate);
            assert_eq!(far.capacity(), capacity);
            let mut flow = Flow::new(far);
            let mut buffer = vec![0; far.chunk()];
            // Small packets count with what each takes itself.
            for sent in [1, buffer.len()] {
                while flow.has_room() {
                    let mut bytes = io::repeat(1).take(sent as u64);
                    flow.take(&mut bytes, &mut buffer, Instant::now()).unwrap();
                }
                assert!(flow.queued < capacity + far.chunk() + size_of::<Packet>());
                flow.queue.clear();
                flow.queued = 0;
            }
        }
    }

    /// A server that answers what it got when its client has closed its end.
    fn server() -> (SocketAddrV4, JoinHandle<usize>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut all = Vec::new();
            client.read_to_end(&mut all).unwrap();
            client.write_all(&all).unwrap();
            all.len()
        });
        (SocketAddrV4::new(Ipv4Addr::LOCALHOST, port), thread)
    }

    #[test]
    fn what_is_sent_comes_back_unchanged_and_not_before_the_delay() {
        let (address, server) = server();
        let far = distance(20 * MS, Some(1_000_000_000));
        let relay = Relay::start(far, Ipv4Addr::LOCALHOST, address).unwrap();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port)).unwrap();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n >> 8 ^ n) as u8).collect();
        let start = Instant::now();
        client.write_all(&sent).unwrap();
        // The server still answers.
        client.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        client.read_to_end(&mut back).unwrap();
        assert!(start.elapsed() >= 20 * MS);
        assert!(back == sent, "{} bytes came back", back.len());
        assert_eq!(server.join().unwrap(), sent.len());
    }

    #[test]
    fn its_connections_end_with_it() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let relay = Relay::start(distance(MS, None), Ipv4Addr::LOCALHOST, address).unwrap();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port)).unwrap();
        let (mut served, _) = listener.accept().unwrap();
        drop(relay);
        for end in [&mut client, &mut served] {
            assert_eq!(end.read(&mut [0]).unwrap(), 0);
        }
    }
}
