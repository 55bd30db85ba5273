//! Parameters of the workload `lock`.

use layermark_model::{Divided, Meaning, Point, PointError, Quantity, Settings, Target, TurnCost};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{BLOCK, kind::LockOp};
use crate::{
    limits,
    param::{self, Means, Params},
    workloads::coherence::params::CoherenceParams,
};

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

    fn points(settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        let mut points = param::points::<Self>(settings, scale)?;
        points.extend(two_clients(settings, scale, &points)?);
        Ok(points)
    }
}

/// How long the other client tries to take a lock that is held.
const TRIES: &str = "1s";

/// Points of `coherence` for each kind of lock: the threads of a trial are all on one client, whose locks may be
/// unknown to others.
fn two_clients(
    settings: &Settings,
    scale: f64,
    points: &[Point],
) -> Result<Vec<Point>, PointError> {
    let mut kinds: Vec<Value> = Vec::new();
    for kind in points.iter().filter_map(|p| p.params.get("op")) {
        if !kinds.contains(kind) {
            kinds.push(kind.clone());
        }
    }
    let params = [
        ("op", kinds.into()),
        ("seen", "host".into()),
        ("wait", TRIES.into()),
    ];
    let both = Settings {
        workload: CoherenceParams::ID.into(),
        label: settings.label.as_ref().map(|l| format!("{l}, two clients")),
        params: Map::from_iter(params.map(|(name, value)| (name.to_owned(), value))),
    };
    CoherenceParams::points(&both, scale)
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
