use serde::{Deserialize, Serialize};

/// What requests to a web server came to in a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HttpTrial {
    /// What the server calls itself: its name, and mostly its version.
    pub server: String,
    /// Length and hash of every body were compared with what was expected; else the status alone: a page
    /// that is made anew for each request.
    pub checked: bool,
    /// Requests under way at once.
    pub concurrency: u64,
    /// Requests a second that were due; 0: as many as possible.
    pub rate: u64,
    /// Requests that were due, and could not be begun before the time was over.
    pub unsent: u64,
    /// Connections that were made in the turns.
    pub connections: u64,
    /// CPU time of the server in the turns, nanoseconds. Absent for a URL of the user's, and where the
    /// kernel does not tell.
    #[serde(default)]
    pub far_cpu_ns: Option<u64>,
    /// Client and server are on the same machine.
    pub one_host: bool,
    /// CPUs that the client's threads were kept on; empty where the scheduler was free.
    pub near_cpus: Vec<u32>,
    /// Those of the server.
    pub far_cpus: Vec<u32>,
    /// Requests a second of the same client with a server in its own process.
    #[serde(default)]
    pub ceiling: Option<f64>,
}
