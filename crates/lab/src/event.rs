use std::{path::PathBuf, time::Duration};

use layermark_model::{Run, RunStatus};

/// Events of a run, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The run is in the store.
    RunStarted {
        /// Its id.
        id: String,
        /// How many layers it sets against the baseline.
        layers: usize,
        /// How many points it measures.
        points: usize,
        /// The seed of everything random in it.
        seed: u64,
        /// It continues an earlier part.
        resumed: bool,
    },
    /// The run's own directory was created; after a crash its remains may be removed.
    WorkDir {
        /// Absolute.
        path: PathBuf,
    },
    /// A layer is up.
    LayerReady {
        /// Its name.
        name: String,
        /// Seconds to set it up, the probe's start included.
        seconds: f64,
    },
    /// A layer could not be set up, or was lost; the others continue.
    LayerFailed {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// All layers are up afresh.
    SessionStarted {
        /// From 1.
        session: u32,
        /// How many are planned; resuming adds some.
        sessions: u32,
    },
    /// A trial ended and is in the store.
    TrialDone {
        /// Trials so far.
        done: u64,
        /// Expected number of trials; never fewer than reported before.
        planned: u64,
        /// Expected time left; never more than reported before.
        left: Option<Duration>,
        /// The block, from 1.
        block: u32,
        /// Blocks that every point gets; it may get more.
        blocks: u32,
        /// The layer's ratio to the baseline at the point after the last block; absent for the
        /// baseline, and until there is an interval.
        ratio: Option<Ratio>,
        /// The layer.
        layer: String,
        /// The point.
        point: String,
        /// The trial's value, nanoseconds an operation; absent when it failed.
        ns_per_op: Option<f64>,
        /// Why it failed.
        error: Option<String>,
        /// What is wrong with it.
        flags: Vec<String>,
    },
    /// A point is known well enough in a layer.
    PointSettled {
        /// The layer.
        layer: String,
        /// The point.
        point: String,
        /// Blocks it took.
        blocks: usize,
        /// Half-width of the ratio's interval: 0.02 is 2 %.
        half_width: f64,
    },
    /// Something to know.
    Note(String),
    /// Something that may make the result worse.
    Warning {
        /// What.
        text: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// Everything is unwound and stored.
    RunEnded {
        /// The run's id.
        id: String,
        /// How it stands.
        status: RunStatus,
        /// Trials in the store.
        trials: u64,
    },
}

/// How a layer compares with the baseline at a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Time in the layer over the baseline's.
    pub estimate: f64,
    /// Its 95 % interval: lower and upper end.
    pub interval: [f64; 2],
}

/// Why a run ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every point is known as well as was asked.
    Settled,
    /// The budget is spent.
    Budget,
    /// The most blocks a run may have were made.
    Cap,
    /// The user stopped it.
    Stopped,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The run as stored.
    pub run: Run,
    /// Why it ended.
    pub ended: Ended,
    /// Trials in the store.
    pub trials: u64,
    /// Names of layers that were asked for and could not be set up, or were lost on the way.
    pub lost: Vec<String>,
}

impl Outcome {
    /// 0, or 3 when a layer that was asked for is not in the result. Whether the result can be
    /// trusted (4) is for the report to say.
    pub fn exit_code(&self) -> u8 {
        if self.lost.is_empty() { 0 } else { 3 }
    }
}
