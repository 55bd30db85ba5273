//! The protocol between lab and probe: one JSON object per line, versioned, bounded in size.
//!
//! The probe starts with `hello`. Each trial is then `job` -> `ready`, any number of `turn` ->
//! `turned`, `settle` -> `settled`, `end` -> `trial`. Work that must be restored between its turns says
//! so in `turned`, and gets `between` -> `ready` after each turn and before the next. The probe may send
//! `error` at any time, which gives up the job. It may send `progress` before each answer. Between two messages of the lab the
//! probe sleeps. It ends on `quit` or at the end of its input.
//!
//! Work with two ends has a probe at each. The far probe gets `serve` -> `serving` and serves until
//! `settle` -> `settled`. The near probe gets the job, with the port that the far probe reported.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use serde::{Deserialize, Serialize};

use crate::{
    CpuUse, Defect, DeviceBytes, Environment, Point, SelfTest, Trial, Turn,
    witness::{ItemCheck, Stamp, Survey, sequence::Seen},
};

/// Version of the protocol. A probe of another version is refused.
pub const VERSION: u32 = 2;

/// Argument of `EXE probe` for a probe that times nothing: it greets without a self-test.
pub const UNTIMED: &str = "untimed";

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
    /// Run one turn. Only for the job that is ready; rounds increase.
    Turn {
        /// The job's id.
        id: u64,
        /// Its limits.
        #[serde(flatten)]
        ask: TurnRequest,
    },
    /// Outside the clock and its counters, where [`Turned::between`] says so: after a turn flush, check
    /// and clean up; before the next one prepare.
    Between {
        /// The job's id.
        id: u64,
        /// Whether another turn follows at once.
        again: bool,
    },
    /// No more turns: flush the written data, so that it slows down no other turn.
    Settle {
        /// The job's id.
        id: u64,
    },
    /// Prove the cache state, verify, and report the trial. Removes the files, unless they go with
    /// the layer.
    End {
        /// The job's id.
        id: u64,
    },
    /// Make the files of a writer of records, for [`crate::witness`].
    Witness(WitnessJob),
    /// Write the next record of that writer and sync it.
    Write {
        /// The writer's id.
        id: u64,
    },
    /// Read what is there of that writer's records.
    Look(WitnessJob),
    /// A program that acknowledges items, for [`crate::witness`].
    Program {
        /// Repeated in the answer.
        id: u64,
        /// What to do with it.
        ask: ProgramAsk,
    },
    /// A sequence of operations, for [`crate::witness::sequence`].
    Sequence {
        /// Repeated in the answer.
        id: u64,
        /// What to do with it.
        ask: SequenceAsk,
    },
    /// End.
    Quit,
}

impl ToProbe {
    /// The reply that makes a trial in one stretch; `None` if no reply is due.
    pub fn in_one_stretch(said: &FromProbe) -> Option<Self> {
        Some(match *said {
            FromProbe::Ready { id } => Self::Turn {
                id,
                ask: TurnRequest::default(),
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
    /// Directory inside the layer to work in. Packaged files are in `packaged/` below it.
    pub dir: String,
    /// What to do.
    pub point: Point,
    /// Seed of data and random offsets.
    pub seed: u64,
    /// Shortest time of a trial in one stretch, unless the point fixes its passes; milliseconds.
    pub min_ms: u64,
    /// Fewest operations of a trial in one stretch.
    pub min_ops: u64,
    /// Block devices below the layer, `major:minor`, whose counters to read.
    pub devices: Vec<String>,
    /// Directories of file systems below the layer's own. A flush of the layer alone may stop above
    /// them (FUSE, `volatile`), but write-back debt ends when the bytes are on the device.
    #[serde(default)]
    pub below: Vec<String>,
    /// CPUs that it may use; absent: those that the probe was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<JobCpus>,
    /// For work with two ends: where the far end listens. Near the end of the line, like `env`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// Values of the environment variables that points name ([`crate::ParamKind::Env`]). An error
    /// about an invalid line quotes only what precedes `peer` and `env`.
    #[serde(default, skip_serializing_if = "Environment::is_empty")]
    pub env: Environment,
}

/// A writer of records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WitnessJob {
    /// Repeated in every answer.
    pub id: u64,
    /// Its name.
    pub writer: String,
    /// A directory of its own inside the layer.
    pub dir: String,
    /// Number of the run.
    pub run: u64,
    /// Bytes of a record.
    pub record: u64,
}

/// What to do with a program that acknowledges items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramAsk {
    /// Make its directory, and the name of that durable.
    Make {
        /// A directory of its own inside the layer.
        dir: String,
    },
    /// Remove that, with what is in it.
    Remove {
        /// The directory.
        dir: String,
    },
    /// Start it.
    Start {
        /// Its directory.
        dir: String,
        /// Command for `sh -c`.
        run: String,
        /// Regular expression of a line that acknowledges an item.
        ack: String,
    },
    /// Wait for the next item that it acknowledges.
    Item {
        /// How long its time still lasts, ms; absent before its first item.
        left_ms: Option<u64>,
    },
    /// Kill it, with all processes that it started.
    Kill,
    /// Look for acknowledged items.
    Check(CheckJob),
}

/// A check of what a program acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckJob {
    /// The program's directory; it is made if it is absent, so that the check can say so.
    pub dir: String,
    /// Command for `sh -c`.
    pub check: String,
    /// The acknowledged items, for its standard input.
    pub items: Vec<String>,
}

/// What a program has done, or a check said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramDid {
    /// It was started, or its directory made or removed.
    Done,
    /// It acknowledged an item.
    Item {
        /// The item.
        name: String,
        /// Ten more lines of its output could be read already, so it has gone on since.
        ahead: bool,
    },
    /// Its time is over, and no item can be read.
    TimeOver,
    /// It will acknowledge no more, or is not waited for: why.
    Ended(String),
    /// It was killed.
    Killed,
    /// What its check said.
    Checked(ItemCheck),
}

/// What to do with a sequence of operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SequenceAsk {
    /// Make the files that it begins with.
    Make {
        /// A directory of its own inside the layer.
        dir: String,
    },
    /// Flush the file system of a directory, as far as the layer does that, then each file and directory below it by itself, and the
    /// one that it is in.
    Settle {
        /// The directory.
        dir: String,
    },
    /// Do one of its operations, and the call that makes this durable.
    Step {
        /// Its directory.
        dir: String,
        /// Its text.
        sequence: String,
        /// Which operation, from 0.
        at: usize,
    },
    /// Look at all names.
    Look {
        /// Its directory.
        dir: String,
    },
}

/// What became of a sequence of operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SequenceDid {
    /// All calls returned 0.
    Done,
    /// Which call failed, and how.
    Refused(String),
    /// What is there.
    Seen(Seen),
}

/// Limits of a turn. By default all work is done in one stretch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnRequest {
    /// Number of the round; each has one turn at most.
    pub round: u32,
    /// Length, nanoseconds: the operation in progress at its end is the last one. 0: the whole work
    /// in one stretch, limited by [`Job::min_ms`] and [`Job::min_ops`].
    pub ns: u64,
    /// Uncounted work before the turn, nanoseconds.
    pub lead_in_ns: u64,
}

/// Result of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Turned {
    /// Its round, time and operations.
    #[serde(flatten)]
    pub turn: Turn,
    /// CPU time of the probe, or of the programs that it started.
    pub cpu: CpuUse,
    /// Bytes that crossed the devices below; absent if no device is known.
    pub device: Option<DeviceBytes>,
    /// Duration of uncounted work (the lead-in), ns.
    #[serde(default)]
    pub uncounted_ns: u64,
    /// CPU time of all programs that it started, and of the process that starts them, ns. Includes
    /// what is outside the clock.
    #[serde(default)]
    pub programs_ns: u64,
    /// Whether there is work for another turn.
    pub more: bool,
    /// Whether [`ToProbe::Between`] must follow, and precede another turn.
    #[serde(default)]
    pub between: bool,
}

/// How many CPUs a job may use, and how the limit is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobCpus {
    /// The probe and its children are pinned to this many CPUs, the first of those it had at start.
    Kept(u32),
    /// In a guest: this many CPUs are online; `None`: all.
    Online(Option<u32>),
}

/// The far end of work with two ends.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Its port; 0 before it listens.
    pub port: u16,
    /// The secret that a client must send first, so that no other client on this machine is served.
    pub secret: String,
}

impl Peer {
    /// The address with the port.
    pub fn socket(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }
}

/// Leaves the secret out.
impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.address, self.port)
    }
}

/// From probe to lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum FromProbe {
    /// First line: the probe's identity, and what measuring costs here.
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
    /// Files and buffers are ready; caches may be emptied before the first turn.
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
    /// Still working; sent at least every second.
    Progress {
        /// The job's id.
        id: u64,
        /// Operations so far.
        ops: u64,
        /// Bytes so far.
        bytes: u64,
    },
    /// A turn has ended; nothing is in flight any more.
    Turned {
        /// The job's id.
        id: u64,
        /// What was done.
        #[serde(flatten)]
        turned: Turned,
        /// All CPU time of the probe since it received `turn`, nanoseconds. Includes the lead-in
        /// and the time between two passes.
        probe_ns: u64,
    },
    /// Written data is flushed; a far end has stopped serving.
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
    /// The files of a writer of records are made.
    Prepared {
        /// The writer's id.
        id: u64,
        /// A call that the layer refuses, with its error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
    },
    /// A record is durable, as far as the layer says.
    Acknowledged {
        /// The writer's id.
        id: u64,
        /// The record.
        #[serde(flatten)]
        stamp: Stamp,
    },
    /// What is there of a writer's records.
    Surveyed {
        /// The writer's id.
        id: u64,
        /// It.
        survey: Survey,
    },
    /// What a program that acknowledges items has done.
    Program {
        /// The program's id.
        id: u64,
        /// It.
        did: ProgramDid,
    },
    /// What became of a sequence of operations.
    Sequence {
        /// Its id.
        id: u64,
        /// It.
        did: SequenceDid,
    },
    /// The work failed; the probe waits for the next job.
    Error {
        /// The job's id, if there was one.
        id: Option<u64>,
        /// What failed, with the path.
        message: String,
        /// A hint: what to do about it.
        hint: Option<String>,
        /// `errno`, if the kernel returned one.
        errno: Option<i32>,
        /// What the error shows about the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        defect: Option<Defect>,
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
            turned: Turned {
                turn: Turn {
                    round: 3,
                    elapsed_ns: 2_000_000,
                    ops: 11,
                    bytes: 45_056,
                    ..Turn::default()
                },
                more: true,
                ..Turned::default()
            },
            probe_ns: 0,
        };
        let line = serde_json::to_value(&turned).unwrap();
        let shown = ["type", "id", "round", "elapsed_ns"].map(|key| line[key].to_string());
        assert_eq!(shown, ["\"turned\"", "7", "3", "2000000"], "{line}");
        assert_eq!(serde_json::from_value::<FromProbe>(line).unwrap(), turned);
        let next = ToProbe::in_one_stretch(&turned);
        assert_eq!(next, Some(ToProbe::Settle { id: 7 }));
    }
}
