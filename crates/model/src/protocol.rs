//! The lines between lab and probe: one JSON object a line, versioned, bounded in size.
//!
//! The probe speaks first: `hello`. Then for each trial `job` -> `ready` -> `go` ->
//! (`progress`)* -> `stopped` -> (`progress`)* -> `trial`, or `error` at any time. `quit`, or the
//! end of its input, ends the probe.

use serde::{Deserialize, Serialize};

use crate::{Environment, Point, SelfTest, Trial};

/// Version of the protocol. A probe of another version is refused.
pub const VERSION: u32 = 1;

/// Longest line either side accepts, bytes.
pub const MAX_LINE: usize = 8 << 20;

/// From lab to probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ToProbe {
    /// Prepare this work.
    Job(Box<Job>),
    /// Start the clock.
    Go {
        /// The job's id.
        id: u64,
    },
    /// End.
    Quit,
}

/// One trial to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Repeated in every answer.
    pub id: u64,
    /// Directory inside the layer to work in. Packaged files lie in `packaged/` below it.
    pub dir: String,
    /// What to do.
    pub point: Point,
    /// Seed of data and random offsets.
    pub seed: u64,
    /// A trial lasts at least this long, unless the point fixes its passes; milliseconds.
    pub min_ms: u64,
    /// ... and at least this many operations.
    pub min_ops: u64,
    /// Block devices below the layer, `major:minor`, whose counters to read.
    pub devices: Vec<String>,
    /// Directories of file systems below the layer's own. A flush of the layer alone may stop
    /// above them (FUSE, `volatile`), and debt is paid when the bytes are on the device.
    #[serde(default)]
    pub below: Vec<String>,
    /// Values of the variables that points name ([`crate::ParamKind::Env`]). Last in the line: what
    /// shows the beginning of a line that cannot be read stops here.
    #[serde(default, skip_serializing_if = "Environment::is_empty")]
    pub env: Environment,
}

/// From probe to lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum FromProbe {
    /// First line: who speaks, and what measuring costs here.
    Hello {
        /// [`VERSION`] of the probe.
        protocol: u32,
        /// layermark's version.
        version: String,
        /// Process id as the probe sees it.
        pid: u32,
        /// Cost of clock, loop and null operation.
        self_test: SelfTest,
    },
    /// Files are there, buffers are touched; caches may be emptied now.
    Ready {
        /// The job's id.
        id: u64,
    },
    /// Still at work; at least every second.
    Progress {
        /// The job's id.
        id: u64,
        /// Operations so far.
        ops: u64,
        /// Bytes so far.
        bytes: u64,
    },
    /// The clock has stopped; what follows is proof and clean-up.
    Stopped {
        /// The job's id.
        id: u64,
    },
    /// The result.
    Trial {
        /// The job's id.
        id: u64,
        /// What was measured.
        trial: Box<Trial>,
    },
    /// The work could not be done; the probe waits for the next job.
    Error {
        /// The job's id, when there was one.
        id: Option<u64>,
        /// What failed, with the path.
        message: String,
        /// What to do about it.
        hint: Option<String>,
        /// `errno`, when the kernel gave one.
        errno: Option<i32>,
    },
    /// Last line before the probe ends.
    Done,
}
