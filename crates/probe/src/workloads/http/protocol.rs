//! What the two ends say on the control connection. Nothing of it happens while the clock of a turn runs.

use serde::{Deserialize, Serialize};

use super::params::HttpParams;
use crate::workloads::ends::{lines::Hidden, place::Host};

/// A far end of another version is refused.
pub const VERSION: u32 = 1;

/// First line of the control connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "http", rename_all = "lowercase")]
pub enum Hello {
    Control {
        version: u32,
        secret: Hidden,
        /// What both have to be told alike.
        params: HttpParams,
        host: Host,
    },
}

/// From the near end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Ask {
    /// What has the server used?
    Count,
}

/// From the far end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// To `Control`: the server is up.
    Welcome(Welcome),
    /// To `Count`: nanoseconds of CPU since it started; `None` where the kernel does not tell.
    Counted { cpu_ns: Option<u64> },
    /// It cannot be done.
    Refused { why: String, hint: Option<String> },
}

/// A server that is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub host: Host,
    pub port: u16,
    /// The path to ask for, which nobody else knows.
    pub token: Hidden,
    /// CPUs that it is kept on; empty where the scheduler is free.
    pub cpus: Vec<u32>,
}
