//! The control connection: JSON lines between the two ends, bounded in size and time. Nothing of it
//! happens while the clock of a turn runs.

use layermark_model::CpuUse;
use serde::{Deserialize, Serialize};

use super::{figures::NetEnd, params::NetParams};
use crate::workloads::ends::{lines::Hidden, place::Host};

/// A far end of another version is refused.
pub const VERSION: u32 = 1;

/// First line of every connection to the far end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "net", rename_all = "lowercase")]
pub enum Hello {
    /// This is the control connection of a trial.
    Control {
        version: u32,
        secret: Hidden,
        /// What both have to be told alike.
        params: NetParams,
        host: Host,
        /// UDP ports of the near end, one for each stream.
        ports: Vec<u16>,
    },
    /// This is one of its data connections.
    Lane { token: Hidden, number: usize },
}

/// From the near end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Ask {
    /// Are you there? Read nothing: the time to the answer is measured.
    Ping,
    /// What have you used?
    Count,
    /// So many datagrams were sent since the trial began; how many have come?
    Arrived { sent: u64 },
}

/// From the far end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// To `Control`.
    Welcome {
        /// What data connections have to say.
        token: Hidden,
        host: Host,
        /// Where connections of single transactions are taken.
        transactions: Option<u16>,
        /// Its UDP ports, one for each stream.
        ports: Vec<u16>,
    },
    /// All data connections are there.
    Ready { end: NetEnd },
    /// To `Ping`.
    Pong,
    /// To `Count`.
    Counted(Counters),
    /// To `Arrived`.
    Arrived {
        datagrams: u64,
        /// Nanoseconds from the first one since the last question to the last one.
        span_ns: u64,
    },
    /// It cannot be done.
    Refused { why: String },
}

/// What the far end has used since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub cpu: CpuUse,
    /// Bytes received over TCP streams.
    pub received: u64,
}
