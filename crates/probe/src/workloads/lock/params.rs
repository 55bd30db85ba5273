//! Parameters of the workload `lock`.

use layermark_model::{Divided, Meaning, PointError, Quantity, Target, TurnCost};
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

impl Params for LockParams {
    const ID: &'static str = "lock";
    const TABLE: &'static [Row] = &[
        Row::word("op", LockOp::WORDS, "flock,fcntl,ofd")
            .list()
            .help("kind of lock: flock(2), record locks of a process, or of an open file")
            .label(|p| Some(format!("{} lock", p.op.id())))
            .part(|p| Some(p.op.id().into())),
        Row::count("threads", "4")
            .list()
            .range(1, limits::THREADS)
            .help("threads that contend for the lock, each as a process would; 1: nobody contends")
            .says(|p| Some(p.threads()))
            .axis(Quantity::Threads, |p| p.threads),
        Row::switch("latency", "true")
            .help("time every operation; false leaves the clock out of the loop")
            .label(|p| (!p.latency).then(|| "no latency".into())),
    ];
}

impl Means for LockParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        Ok(self.described(Meaning {
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
        }))
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
