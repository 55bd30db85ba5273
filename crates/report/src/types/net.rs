//! What the workload `net` has beside its results.

use layermark_model::NetEnd;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A result between two ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetRow {
    /// The result's id.
    pub result: String,
    /// The layer's name.
    pub layer: String,
    /// The point's name.
    pub label: String,
    /// What the point does but for its socket buffers, in words.
    pub what: String,
    /// Socket buffers that were asked for, bytes. Absent: left to the kernel.
    pub socket_buffer: Option<u64>,
    /// The end that was measured: its effective socket buffers and its CPUs.
    pub near: NetEnd,
    /// The end that served it.
    pub far: NetEnd,
    /// Both ends see the same machine.
    pub one_host: bool,
    /// 1,000,000 bits a second that were received. Absent for transactions.
    pub mbit_s: Option<f64>,
    /// Transactions a second. Absent for streams.
    pub trans_s: Option<f64>,
    /// Median of a transaction, microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile. Absent below 1,000 transactions.
    pub p99_us: Option<f64>,
    /// CPU of the near process, microseconds a transaction, or a KB (1,024 bytes) of a stream.
    pub near_cpu_us: f64,
    /// CPU of the far process, likewise.
    pub far_cpu_us: f64,
    /// CPU of this machine, whatever used it: netperf's service demand.
    pub service_demand_us: Option<f64>,
    /// Datagrams sent, or requests over UDP, those that were repeated among them.
    pub sent: u64,
    /// Those that did not arrive, or had no answer in time.
    pub lost: u64,
    /// Percent of what the generator does without a network.
    pub ceiling_percent: Option<f64>,
}
