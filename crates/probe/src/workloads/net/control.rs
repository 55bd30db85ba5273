//! The control connection: JSON lines between the two ends, bounded in size and time. It is not
//! used while the clock of a turn runs.

use layermark_model::CpuUse;
use serde::{Deserialize, Serialize};

use super::{figures::NetEnd, params::NetParams};
use crate::workloads::ends::{lines::Hidden, place::Host};

/// Version of the protocol. A far end of another version is refused.
pub const VERSION: u32 = 1;

/// First line of every connection to the far end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "net", rename_all = "lowercase")]
pub enum Hello {
    /// A control connection of a trial.
    Control {
        version: u32,
        secret: Hidden,
        /// Parameters that both ends need.
        params: NetParams,
        host: Host,
        /// UDP ports of the near end, one for each stream.
        ports: Vec<u16>,
    },
    /// A data connection of a trial.
    Lane { token: Hidden, number: usize },
}

/// Requests of the near end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum ControlRequest {
    /// Answered at once without reading anything: the round-trip time is measured.
    Ping,
    /// Reports its resource usage.
    Count,
    /// `sent` datagrams were sent since the trial began. Reports how many arrived.
    Arrived { sent: u64 },
}

/// Answers of the far end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// Answer to `Control`.
    Welcome {
        /// The token that data connections must send.
        token: Hidden,
        host: Host,
        /// The port for connections of single transactions.
        transactions: Option<u16>,
        /// Its UDP ports, one for each stream.
        ports: Vec<u16>,
    },
    /// All data connections exist.
    Ready { end: NetEnd },
    /// Answer to `Ping`.
    Pong,
    /// Answer to `Count`.
    Counted(Counters),
    /// Answer to `Arrived`.
    Arrived {
        datagrams: u64,
        /// Time from the first datagram since the last request to the last one, ns.
        span_ns: u64,
    },
    /// The request failed.
    Refused { why: String },
}

/// Resource usage of the far end since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub cpu: CpuUse,
    /// Bytes received over TCP streams.
    pub received: u64,
}
