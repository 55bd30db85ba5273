use serde::{Deserialize, Serialize};

/// What clients and server of FTP did in a trial. Times are medians.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FtpTrial {
    /// Name and version of the server.
    pub server: String,
    /// CPU time of the far process and its server in the turns, nanoseconds.
    pub far_cpu_ns: u64,
    /// From connecting to the server's greeting, before the turns, nanoseconds.
    pub connect_ns: u64,
    /// To the reply to the password.
    pub login_ns: u64,
    /// Of a transfer: to its data connection, nanoseconds.
    pub passive_ns: u64,
    /// From the command to the first byte, or to the leave to send it.
    pub first_byte_ns: u64,
    /// From there to the last byte.
    pub data_ns: u64,
    /// From the last byte to the reply that says that the transfer is complete (226).
    pub complete_ns: u64,
    /// Bytes a second of the same clients against a server in their own process that reads and keeps nothing.
    /// `None` where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<u64>,
}
