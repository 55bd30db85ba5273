//! Messages of the two ends on the control connection. It is not used while the clock of a turn
//! runs.

use serde::{Deserialize, Serialize};

use super::params::HttpParams;
use crate::workloads::ends::{lines::Hidden, place::Host};

/// Version of the protocol. A far end of another version is refused.
pub const VERSION: u32 = 1;

/// First line of the control connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "http", rename_all = "lowercase")]
pub enum Hello {
    Control {
        version: u32,
        secret: Hidden,
        /// Parameters that both ends need.
        params: HttpParams,
        host: Host,
    },
}

/// Requests of the near end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum ControlRequest {
    /// Reports the server's resource usage.
    Count,
}

/// Answers of the far end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// Answer to `Control`: the server is running.
    Welcome(Welcome),
    /// Answer to `Count`: CPU time since its start, ns; `None` if the kernel does not report it.
    Counted { cpu_ns: Option<u64> },
    /// The request failed.
    Refused { why: String, hint: Option<String> },
}

/// A running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub host: Host,
    pub port: u16,
    /// The path to request, which is secret.
    pub token: Hidden,
    /// CPUs to which it is bound; empty: left to the scheduler.
    pub cpus: Vec<u32>,
}
