//! What the workload `http` has beside its results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A result of requests to a web server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpRow {
    /// The result's id.
    pub result: String,
    /// The layer's name.
    pub layer: String,
    /// The point's name.
    pub label: String,
    /// What the point does, in words.
    pub what: String,
    /// What the server calls itself.
    pub server: String,
    /// Requests that were answered, over all trials.
    pub requests: u64,
    /// Requests under way at once.
    pub concurrency: u64,
    /// Requests a second.
    pub requests_s: f64,
    /// Requests a second that were due. Absent where each began when the one before was answered.
    pub rate: Option<u64>,
    /// Requests that were due, and could not be begun before the time was over.
    pub unsent: u64,
    /// Mean time of a request, microseconds; at a rate from when it was due.
    pub request_us: Option<f64>,
    /// Mean time between two answers, over all connections, microseconds.
    pub across_us: f64,
    /// Bytes of bodies a second.
    pub body_bytes_s: f64,
    /// Time within which a share of the requests was answered, as ab tells it.
    pub percentiles: Vec<HttpPercentile>,
    /// Connections that were made in the turns.
    pub connections: u64,
    /// Every body was compared with what was expected; else the status alone.
    pub checked: bool,
    /// CPU of the client, microseconds a request.
    pub near_cpu_us: f64,
    /// CPU of the server. Absent for a URL of the user's.
    pub far_cpu_us: Option<f64>,
    /// CPU of this machine, whatever used it.
    pub host_cpu_us: Option<f64>,
    /// Client and server are on the same machine.
    pub one_host: bool,
    /// Percent of what the client does with a server in its own process.
    pub ceiling_percent: Option<f64>,
}

/// A percentile of the time of a request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpPercentile {
    /// Share of the requests, percent.
    pub percent: u32,
    /// Microseconds.
    pub us: f64,
}
