//! Parameters of the workload `coherence`.

use std::time::Duration;

use layermark_model::{Meaning, PointError, Target, parse_duration};
use serde::{Deserialize, Serialize};

use super::figures;
use crate::{
    param::{self, Means, Params, words},
    workloads::lock::kind::LockOp,
};

words! {
    /// A change, and how the other side looks for it.
    pub enum Change {
        /// A file is made; the other side asks for its name.
        Create = "create",
        /// A file is made; the other side lists the directory.
        List = "list",
        /// A file is made; the other side waits for an event of inotify(7).
        Notify = "notify",
        /// A file grows; the other side asks for its size.
        Append = "append",
        /// A file grows and stays open for more; the other side asks for its size.
        AppendOpen = "append-open",
        /// Bytes of a file are overwritten; the other side opens and reads it.
        Overwrite = "overwrite",
        /// Bytes of a file are overwritten; the other side has it open and reads it.
        Held = "overwrite-held",
        /// Bytes of a file are overwritten in a shared mapping that is kept, as databases do; the other side has it mapped
        /// too.
        Mapped = "mapped",
        /// A file takes the name of another, as editors save; the other side opens and reads it.
        Rename = "rename",
        /// A file is removed; the other side asks for its name.
        Remove = "remove",
        /// A file is locked by flock(2); the other side tries to lock it.
        Flock = "flock",
        /// A file is locked by the record locks of a process; the other side tries to lock it.
        Fcntl = "fcntl",
        /// A file is locked by the record locks of an open file; the other side tries to lock it.
        Ofd = "ofd",
    }
}

impl Change {
    /// The lock that is taken.
    pub fn lock(self) -> Option<LockOp> {
        match self {
            Self::Flock => Some(LockOp::Flock),
            Self::Fcntl => Some(LockOp::Fcntl),
            Self::Ofd => Some(LockOp::Ofd),
            Self::Create
            | Self::List
            | Self::Notify
            | Self::Append
            | Self::AppendOpen
            | Self::Overwrite
            | Self::Held
            | Self::Mapped
            | Self::Rename
            | Self::Remove => None,
        }
    }

    fn label(self) -> String {
        let lock = if self.lock().is_some() { " lock" } else { "" };
        format!("{}{lock}", self.id())
    }
}

words! {
    /// The side that has to see a change of the other.
    pub enum Watcher {
        /// The layer sees what this host has changed.
        Layer = "layer",
        /// This host sees what was changed in the layer.
        Host = "host",
    }
}

impl Watcher {
    /// Where it is seen, after "seen".
    pub fn place(self) -> String {
        let at = match self {
            Self::Layer => "in",
            Self::Host => "on",
        };
        format!("{at} the {}", self.id())
    }
}

type Row = param::Row<CoherenceParams>;

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoherenceParams {
    pub op: Change,
    pub seen: Watcher,
    pub wait: String,
}

/// Shortest and longest time for which the other side may look.
const WAITS: [Duration; 2] = [Duration::from_millis(10), Duration::from_mins(1)];

impl Params for CoherenceParams {
    const ID: &'static str = "coherence";
    const TABLE: &'static [Row] = &[
        Row::word(
            "op",
            Change::WORDS,
            "create,list,notify,append,append-open,overwrite,overwrite-held,rename,remove,flock,fcntl,ofd",
        )
        .list()
        .help("what one side changes, or the lock that it takes; mapped, a shared mapping, is not among the defaults, since not every layer has it")
        .says(|p| Some(p.op.label())),
        Row::word("seen", Watcher::WORDS, "layer,host")
            .list()
            .help("the side that has to see it: the layer sees changes of this host, or the host those of the layer")
            .says(|p| Some(format!("seen {}", p.seen.place()))),
        Row::text("wait", "3s")
            .help("a change that was not seen after this time is not seen at all")
            .label(|p| (p.wait != "3s").then(|| format!("within {}", p.wait)))
            .part(|p| Some(format!("within {}", p.wait))),
    ];

    fn check(&self) -> Result<(), PointError> {
        let [least, most] = WAITS;
        let time = parse_duration(&self.wait)
            .map_err(|e| PointError::of("coherence", "wait", format!(": {e}")))?;
        if (least..=most).contains(&time) {
            return Ok(());
        }
        Err(PointError::of(
            "coherence",
            "wait",
            format!(
                " = {}: it must be between {least:?} and {most:?}",
                self.wait
            ),
        ))
    }
}

impl Means for CoherenceParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let said = Meaning {
            operation: self.op.id().into(),
            target: match self.op.lock() {
                Some(_) => Target::SharedLock,
                None => Target::SharedDirectory,
            },
            changes: true,
            ..Meaning::default()
        };
        let figures = match self.op.lock() {
            Some(_) => figures::of_locks(),
            None => figures::table(),
        };
        Ok(self.described(said).figures(figures))
    }
}

impl CoherenceParams {
    /// How long the other side looks.
    pub fn wait(&self) -> Duration {
        let [_, most] = WAITS;
        parse_duration(&self.wait).unwrap_or(most)
    }
}
