use std::{path::PathBuf, time::Duration};

use layermark_model::{BASELINE, LayerStatus, Run, RunStatus, TrialRecord};

/// Events of a run, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The run is in the store.
    RunStarted {
        /// Its id.
        id: String,
        /// Name of the baseline.
        baseline: String,
        /// The layers that are compared with the baseline.
        layers: Vec<String>,
        /// The points.
        points: Vec<String>,
        /// The run's random seed.
        seed: u64,
        /// It continues an earlier part.
        resumed: bool,
    },
    /// The run's own directory was created. After a crash it may be left over and can be removed.
    WorkDir {
        /// Absolute.
        path: PathBuf,
    },
    /// A layer is up.
    LayerReady {
        /// Its name.
        name: String,
        /// Duration of its set-up, including the probe's start, s.
        seconds: f64,
    },
    /// A layer could not be set up, or was lost. The other layers continue.
    LayerFailed {
        /// Its name.
        name: String,
        /// The reason.
        reason: String,
        /// A command or an option that may help.
        hint: Option<String>,
    },
    /// All layers have been set up again.
    SessionStarted {
        /// From 1.
        session: u32,
        /// Number of planned sessions; resuming adds some.
        sessions: u32,
    },
    /// A trial ended and is in the store.
    TrialDone {
        /// Trials so far.
        done: u64,
        /// Expected number of trials; never fewer than reported before.
        planned: u64,
        /// Expected time left; absent while nothing is known.
        left: Option<Duration>,
        /// The block, from 1.
        block: u32,
        /// Minimum number of blocks of each point.
        blocks: u32,
        /// The layer's ratio to the baseline at the point after the last block. Absent for the
        /// baseline, and before there is an interval.
        ratio: Option<Ratio>,
        /// The layer.
        layer: String,
        /// The point.
        point: String,
        /// The trial's value, nanoseconds an operation; absent when it failed.
        ns_per_op: Option<f64>,
        /// Why it failed.
        error: Option<String>,
        /// Names of the trial's flags.
        flags: Vec<String>,
    },
    /// A point is known precisely enough in a layer.
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
    /// All results so far, at a look, if they were requested.
    Looked {
        /// The run.
        run: Box<Run>,
        /// Its trials.
        trials: Vec<TrialRecord>,
        /// Blocks that are complete.
        blocks: u32,
    },
    /// A note for the user.
    Note(String),
    /// A problem that may make the result less reliable.
    Warning {
        /// The problem.
        text: String,
        /// A command or an option that may help.
        hint: Option<String>,
    },
    /// All layers are unwound and all trials stored.
    RunEnded {
        /// The run's id.
        id: String,
        /// Its status.
        status: RunStatus,
        /// Trials in the store.
        trials: u64,
    },
}

impl Event {
    /// A run begins, or goes on.
    pub(crate) fn started(run: &Run, resumed: bool) -> Self {
        let others = run.layers.iter().skip(BASELINE + 1);
        let compared = others.filter(|l| !l.control && l.status == LayerStatus::Ready);
        Self::RunStarted {
            id: run.id.clone(),
            baseline: run.baseline().to_owned(),
            layers: compared.map(|l| l.name.clone()).collect(),
            points: run.points.iter().map(|p| p.label.clone()).collect(),
            seed: run.seed,
            resumed,
        }
    }
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
    /// Every point has the requested precision.
    Settled,
    /// The budget is spent.
    Budget,
    /// The maximum number of blocks was reached.
    Cap,
    /// The user stopped it.
    Stopped,
    /// It had ended when it was resumed, but for its power cuts.
    Before,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The run as stored.
    pub run: Run,
    /// Why it ended.
    pub ended: Ended,
    /// Trials in the store.
    pub trials: u64,
    /// Names of layers that were requested and could not be set up, or were lost during the run.
    pub lost: Vec<String>,
}

impl Outcome {
    /// 0, or 3 when a requested layer is not in the result. The report decides whether the result
    /// can be trusted (4).
    pub fn exit_code(&self) -> u8 {
        if self.lost.is_empty() { 0 } else { 3 }
    }
}
