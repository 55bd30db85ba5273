//! What the workload `ftp` has beside its results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A result of the workload `ftp`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FtpRow {
    /// The result's id.
    pub result: String,
    /// The layer's name.
    pub layer: String,
    /// The point's name.
    pub label: String,
    /// What the point does but for the size of its file, in words.
    pub what: String,
    /// Bytes of a file.
    pub file_size: u64,
    /// Clients at once.
    pub clients: u64,
    /// Name and version of the server.
    pub server: String,
    /// MiB a second, from asking for the data connection to the reply that the transfer is complete.
    pub mib_s: f64,
    /// Median of a transfer, microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile. Absent below 1,000 transfers.
    pub p99_us: Option<f64>,
    /// Connecting, to the server's greeting, microseconds; the median, as of all phases. Before the
    /// transfers, and no part of them.
    pub connect_us: f64,
    /// From the greeting to the reply to the password. No part of the transfers.
    pub login_us: f64,
    /// Of a transfer: to its data connection.
    pub passive_us: f64,
    /// From the command to the first byte, or to the leave to send it.
    pub first_byte_us: f64,
    /// From there to the last byte.
    pub data_us: f64,
    /// From the last byte to the reply that the transfer is complete (226).
    pub complete_us: f64,
    /// CPU of the near process, microseconds a KB (1,024 bytes).
    pub near_cpu_us: f64,
    /// CPU of the far process and its server, likewise.
    pub far_cpu_us: f64,
    /// Share of what the clients do with a server in their own process, percent.
    pub ceiling_percent: Option<f64>,
}
