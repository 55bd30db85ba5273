use serde::{Deserialize, Serialize};

use crate::CpuUse;

/// What both ends of a connection did in a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NetTrial {
    /// The end that was measured.
    pub near: NetEnd,
    /// The end that served it.
    pub far: NetEnd,
    /// CPU time of the far process in the turns.
    pub far_cpu: CpuUse,
    /// Both ends see the same machine.
    pub one_host: bool,
    /// Datagrams sent, or requests over UDP, those that were repeated among them, in the turns.
    pub sent: u64,
    /// Those that did not arrive, or had no answer in time.
    pub lost: u64,
    /// Shortest time in which the far process answered on the control connection, nanoseconds.
    pub round_trip_ns: u64,
    /// Operations a second of the same generator without a network: over socket pairs within its
    /// own process.
    #[serde(default)]
    pub ceiling: Option<f64>,
}

/// One end of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NetEnd {
    /// `SO_SNDBUF` as the kernel says it, bytes: Linux doubles what it is asked for.
    pub send_buffer: u64,
    /// `SO_RCVBUF`.
    pub receive_buffer: u64,
    /// CPUs that its threads were kept on; empty where the scheduler was free.
    pub cpus: Vec<u32>,
}
