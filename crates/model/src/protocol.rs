//! The lines between lab and probe: one JSON object a line, versioned, bounded in size.
//!
//! The probe speaks first: `hello`. Then for each trial `job` -> `ready`, `turn` -> `turned` as often
//! as the lab says, `settle` -> `settled`, `end` -> `trial`; or `error` at any time, after which the
//! job is given up. `progress` may come before each answer. Between two lines of the lab the probe
//! sleeps. `quit`, or the end of its input, ends it.
//!
//! Work with two ends has a probe at each. The far one serves, `serve` -> `serving`, until its
//! `settle` -> `settled`; the near one has the job, with the port that the far one told.

use std::{fmt, net::IpAddr};

use serde::{Deserialize, Serialize};

use crate::{CpuUse, DeviceBytes, Environment, Point, SelfTest, Trial, Turn};

/// Version of the protocol. A probe of another version is refused.
pub const VERSION: u32 = 2;

/// Longest line either side accepts, bytes.
pub const MAX_LINE: usize = 8 << 20;

/// From lab to probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ToProbe {
    /// Prepare this work.
    Job(Box<Job>),
    /// Be the far end of this work, listening at [`Job::peer`].
    Serve(Box<Job>),
    /// Work for a while. Only for the job that is ready; rounds go up.
    Turn {
        /// The job's id.
        id: u64,
        /// Number of the round; each has one turn at most.
        round: u32,
        /// Length, nanoseconds: the operation under way then is the last one. 0: the whole work in
        /// one stretch, for which [`Job::min_ms`] and [`Job::min_ops`] hold.
        ns: u64,
        /// Work before it that is not counted, nanoseconds.
        lead_in_ns: u64,
    },
    /// No more turns: flush what was written, so that it slows nobody's next turn.
    Settle {
        /// The job's id.
        id: u64,
    },
    /// Prove and verify; then the files go, or are left to whoever sets the layer down.
    End {
        /// The job's id.
        id: u64,
    },
    /// End.
    Quit,
}

impl ToProbe {
    /// What to answer where a trial is one stretch of work; `None` when there is nothing to answer.
    pub fn in_one_stretch(said: &FromProbe) -> Option<Self> {
        Some(match *said {
            FromProbe::Ready { id } => Self::Turn {
                id,
                round: 0,
                ns: 0,
                lead_in_ns: 0,
            },
            FromProbe::Turned { id, .. } => Self::Settle { id },
            FromProbe::Settled { id } => Self::End { id },
            _ => return None,
        })
    }
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
    /// A trial in one stretch lasts at least this long, unless the point fixes its passes;
    /// milliseconds.
    pub min_ms: u64,
    /// ... and at least this many operations.
    pub min_ops: u64,
    /// Block devices below the layer, `major:minor`, whose counters to read.
    pub devices: Vec<String>,
    /// Directories of file systems below the layer's own. A flush of the layer alone may stop
    /// above them (FUSE, `volatile`), and debt is paid when the bytes are on the device.
    #[serde(default)]
    pub below: Vec<String>,
    /// CPUs that it may use; absent: those that the probe was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<JobCpus>,
    /// Of work with two ends: where the far one listens. Among the last of the line, like `env`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// Values of the variables that points name ([`crate::ParamKind::Env`]). What shows the beginning of
    /// a line that cannot be read stops before `peer` and `env`.
    #[serde(default, skip_serializing_if = "Environment::is_empty")]
    pub env: Environment,
}

/// How many CPUs a job may use, and what sees to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobCpus {
    /// The probe, and what it starts, is kept on the first so many of those that it was started with.
    Kept(u32),
    /// In a guest: so many are online, or all.
    Online(Option<u32>),
}

/// The far end of work with two ends.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Its port; 0 before it listens.
    pub port: u16,
    /// What a client has to say first, so that nobody else on this machine is served.
    pub secret: String,
}

/// Without the secret.
impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.address, self.port)
    }
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
    /// Files are there, buffers are touched; caches may be emptied before the first turn.
    Ready {
        /// The job's id.
        id: u64,
    },
    /// The far end listens.
    Serving {
        /// The job's id.
        id: u64,
        /// At this port.
        port: u16,
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
    /// A turn has ended; nothing is under way any more.
    Turned {
        /// The job's id.
        id: u64,
        /// What was done.
        #[serde(flatten)]
        turn: Turn,
        /// CPU time of the probe in the turn.
        cpu: CpuUse,
        /// All CPU time of the probe since it was told to take the turn, nanoseconds: with the
        /// lead-in and with what comes between two passes.
        probe_ns: u64,
        /// Nanoseconds of the same work that are not counted: the lead-in.
        #[serde(default)]
        uncounted_ns: u64,
        /// Bytes that crossed the devices below in the turn; absent when none is known.
        device: Option<DeviceBytes>,
        /// Whether there is work for another turn.
        more: bool,
    },
    /// What was written is flushed; a far end has stopped to serve.
    Settled {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_one_flat_line() {
        let turned = FromProbe::Turned {
            id: 7,
            turn: Turn {
                round: 3,
                elapsed_ns: 2_000_000,
                ops: 11,
                bytes: 45_056,
            },
            cpu: CpuUse::default(),
            probe_ns: 0,
            uncounted_ns: 0,
            device: None,
            more: true,
        };
        let line = serde_json::to_value(&turned).unwrap();
        let shown = ["type", "id", "round", "elapsed_ns"].map(|key| line[key].to_string());
        assert_eq!(shown, ["\"turned\"", "7", "3", "2000000"], "{line}");
        assert_eq!(serde_json::from_value::<FromProbe>(line).unwrap(), turned);
        let next = ToProbe::in_one_stretch(&turned);
        assert_eq!(next, Some(ToProbe::Settle { id: 7 }));
    }
}
