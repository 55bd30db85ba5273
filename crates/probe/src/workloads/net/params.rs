//! Parameters of the workload `net`.

use layermark_model::{
    Direction, Divided, Meaning, PointError, Quantity, Target, TurnCost, Unit, format_size,
};
use serde::{Deserialize, Serialize};

use super::figures;
use crate::{
    param::{self, Means, Params, Values, words},
    workloads::ends::place::Placement,
};

words! {
    /// The operation, in netperf's terms.
    pub enum NetOp {
        /// TCP: a request and a response, repeated.
        Rr = "rr",
        /// The same with a new connection for each transaction.
        Crr = "crr",
        /// TCP to the far end.
        Stream = "stream",
        /// TCP from the far end.
        Maerts = "maerts",
        /// TCP in both directions at once, on separate connections.
        Bidir = "bidir",
        /// UDP to the far end, as fast as possible.
        UdpStream = "udp-stream",
        /// UDP: a request and a response, repeated.
        UdpRr = "udp-rr",
    }
}

impl NetOp {
    /// Whether it repeats a request and a response.
    pub fn transacts(self) -> bool {
        matches!(self, Self::Rr | Self::Crr | Self::UdpRr)
    }

    /// Whether it sends data in one direction or both, over TCP.
    pub fn is_tcp_stream(self) -> bool {
        matches!(self, Self::Stream | Self::Maerts | Self::Bidir)
    }

    pub fn is_udp(self) -> bool {
        matches!(self, Self::UdpStream | Self::UdpRr)
    }
}

type Row = param::Row<NetParams>;

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetParams {
    pub op: NetOp,
    /// Size of a request, bytes; 0 for streams. The same holds for `response`.
    pub request: u64,
    pub response: u64,
    /// Size of a message, bytes; 0 for transactions.
    pub message: u64,
    /// Requested size of the socket buffers, bytes; 0: chosen by the kernel.
    pub socket_buffer: u64,
    pub streams: u64,
    pub placement: Placement,
    pub nodelay: bool,
}

/// Largest message, request or response, bytes.
const LARGEST: u64 = 16 << 20;
/// Largest payload of a UDP datagram over IPv4, bytes.
const DATAGRAM: u64 = 65_507;
/// Message of a TCP stream, bytes: as in iperf3.
const TCP_MESSAGE: u64 = 128 << 10;
/// Message of a UDP stream, bytes: what fits into an Ethernet frame with IPv4.
const UDP_MESSAGE: u64 = 1472;
/// Largest socket buffer that can be requested, bytes.
const BUFFER: u64 = 1 << 30;
/// Maximum number of parallel streams.
pub const STREAMS: u64 = 64;

impl Params for NetParams {
    const ID: &'static str = "net";
    const TABLE: &'static [Row] = &[
        Row::word("op", NetOp::WORDS, "rr,crr,stream,maerts")
            .list()
            .help("rr, crr, udp-rr: transactions; stream, maerts, bidir, udp-stream: data to, from, both ways")
            .says(|p| Some(p.op.id().into())),
        Row::size("request", "1")
            .list()
            .range(1, LARGEST)
            .only("`op` = rr, crr or udp-rr", |p| p.op.transacts())
            .help("bytes of a request")
            .says(Self::sizes),
        Row::size("response", "1")
            .list()
            .range(1, LARGEST)
            .only("`op` = rr, crr or udp-rr", |p| p.op.transacts())
            .help("bytes of a response"),
        Row::size("message", "auto")
            .list()
            .range(0, LARGEST)
            .only("`op` = stream, maerts, bidir or udp-stream", |p| {
                !p.op.transacts()
            })
            .help("bytes of one send; auto: 128K for TCP, 1472 for UDP")
            .says(|p| (p.message > 0).then(|| p.messages()))
            .axis(Quantity::MessageSize, |p| p.message),
        Row::size("socket_buffer", "auto")
            .list()
            .range(0, BUFFER)
            .help("SO_SNDBUF and SO_RCVBUF at both ends; auto: left to the kernel")
            .says(|p| (p.socket_buffer > 0).then(|| p.buffers()))
            .axis(Quantity::SocketBuffer, |p| p.socket_buffer),
        Row::count("streams", "1")
            .list()
            .range(1, STREAMS)
            .help("connections in parallel, each with a thread at both ends")
            .says(|p| (p.streams > 1).then(|| p.connections()))
            .axis(Quantity::Threads, |p| p.streams),
        Row::word("placement", Placement::WORDS, "other")
            .list()
            .help("CPUs of the two ends on one machine: each on its own, the same, left to the scheduler")
            .says(Self::cpus),
        Row::switch("nodelay", "false")
            .only("an `op` over TCP", |p| !p.op.is_udp())
            .help("set TCP_NODELAY")
            .says(|p| p.nodelay.then(|| "nodelay".into())),
    ];

    fn derive(mut self, _: &Values) -> Result<Vec<Self>, PointError> {
        if self.message == 0 && !self.op.transacts() {
            self.message = if self.op.is_udp() {
                UDP_MESSAGE
            } else {
                TCP_MESSAGE
            };
        }
        Ok(vec![self])
    }

    fn check(&self) -> Result<(), PointError> {
        let sizes = [
            ("request", self.request),
            ("response", self.response),
            ("message", self.message),
        ];
        let large = sizes.into_iter().find(|(_, size)| *size > DATAGRAM);
        if let Some((name, size)) = large.filter(|_| self.op.is_udp()) {
            return Err(PointError::of(
                "net",
                name,
                format!(
                    " = {}: a UDP datagram has up to {DATAGRAM} bytes",
                    format_size(size)
                ),
            ));
        }
        Ok(())
    }
}

impl Means for NetParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let said = Meaning {
            operation: self.op.id().into(),
            target: Target::Network,
            direction: match self.op {
                NetOp::Stream | NetOp::UdpStream => Direction::Writes,
                NetOp::Maerts => Direction::Reads,
                NetOp::Bidir => Direction::Both,
                NetOp::Rr | NetOp::Crr | NetOp::UdpRr => Direction::Neither,
            },
            unit: if self.op.transacts() {
                Unit::Transaction
            } else {
                Unit::Byte
            },
            concurrency: self.lanes(),
            divided: Some(Divided {
                in_memory: true,
                uses_up: false,
                working_set: 0,
                // Threads of the far end.
                cost: TurnCost::Threads,
                under_way: 0,
            }),
            ..Meaning::default()
        };
        Ok(self
            .described(said)
            .figures(figures::table(self.op.transacts())))
    }
}

impl NetParams {
    /// Number of concurrent connections.
    pub fn lanes(&self) -> u64 {
        match self.op {
            NetOp::Bidir => 2 * self.streams,
            _ => self.streams,
        }
    }

    /// Application bytes of one operation: a transaction or a message.
    pub fn op_bytes(&self) -> u64 {
        self.request + self.response + self.message
    }

    fn sizes(&self) -> Option<String> {
        let (request, response) = (format_size(self.request), format_size(self.response));
        let transacts = self.op.transacts();
        transacts.then(|| format!("{request}/{response} bytes"))
    }

    fn messages(&self) -> String {
        format!("{} messages", format_size(self.message))
    }

    fn buffers(&self) -> String {
        format!("{} socket buffers", format_size(self.socket_buffer))
    }

    fn cpus(&self) -> Option<String> {
        let other = self.placement == Placement::Other;
        (!other).then(|| format!("{} CPU", self.placement.id()))
    }

    fn connections(&self) -> String {
        format!("{} streams", self.streams)
    }
}
