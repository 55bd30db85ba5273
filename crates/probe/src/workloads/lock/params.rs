//! Parameters of the workload `lock`.

use layermark_model::{Divided, Meaning, Param, PointError, Quantity, Target, TurnCost};
use serde::{Deserialize, Serialize};

use super::BLOCK;
use crate::{
    limits,
    param::{self, Means, Params, words},
};

words! {
    /// A kind of lock. Each excludes others of its kind.
    pub enum LockOp {
        /// flock(2): belongs to the open file.
        Flock = "flock",
        /// The record locks of POSIX, `F_SETLKW` of fcntl(2): belong to the process.
        Fcntl = "fcntl",
        /// `F_OFD_SETLKW` of fcntl(2): record locks that belong to the open file.
        Ofd = "ofd",
    }
}

type Row = param::Row<LockParams>;

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockParams {
    pub op: LockOp,
    pub threads: u64,
    pub latency: bool,
}

/// Parameters, for help and flags.
pub const PARAMS: &[Param] = &param::list::<_, { LockParams::TABLE.len() }>(LockParams::TABLE);

impl Params for LockParams {
    const WORKLOAD: &'static str = "lock";
    const TABLE: &'static [Row] = &[
        Row::word("op", LockOp::WORDS, "flock,fcntl,ofd")
            .list()
            .help("kind of lock: flock(2), record locks of a process, or of an open file")
            .label(|p| Some(format!("{} lock", p.op.id()))),
        Row::count("threads", "4")
            .list()
            .range(1, limits::THREADS)
            .help("threads that contend for the lock, each as a process would; 1: nobody contends")
            .label(|p| Some(p.threads())),
        Row::switch("latency", "true")
            .help("time every operation; false leaves the clock out of the loop")
            .label(|p| (!p.latency).then(|| "no latency".into())),
    ];

    fn check(&self) -> Result<(), PointError> {
        Ok(())
    }
}

impl Means for LockParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let said = Meaning {
            operation: self.op.id().into(),
            target: Target::Lock,
            // The file is made, and the number in it is incremented.
            changes: true,
            concurrency: self.threads,
            divided: Some(Divided {
                in_memory: true,
                uses_up: false,
                working_set: BLOCK,
                cost: TurnCost::of_threads(self.threads),
                under_way: 0,
            }),
            ..Meaning::default()
        };
        Ok(said
            .axis(Quantity::Threads, "threads", self.threads)
            .part("op", self.op.id())
            .part("threads", self.threads()))
    }
}

impl LockParams {
    fn threads(&self) -> String {
        match self.threads {
            1 => "1 thread".into(),
            n => format!("{n} threads"),
        }
    }
}
