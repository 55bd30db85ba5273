//! What stays the same during a run.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use layermark_model::{Environment, Point, Run};
use layermark_probe::Placed;

use crate::{
    Catalog, Schedule, Stop,
    decide::{guess::Speed, skips},
};

/// What a run needs in addition to its stored form.
pub(crate) struct Setup {
    pub exe: PathBuf,
    pub silence: Duration,
    pub catalog: Catalog,
    pub notes: Vec<String>,
    /// Values of the variables that points name. They are never stored.
    pub env: Environment,
    /// Names of layers that this machine lacks and the user did not name.
    pub lacking: Vec<String>,
    /// Files of this host that are copied to each layer.
    pub placed: Vec<Placed>,
    /// Points that are run differently in a layer, by indices of layer and point.
    pub in_layers: BTreeMap<(usize, usize), Point>,
    /// Whether layers that do not fit the budget are left out. A replay leaves out the same ones as
    /// the original run.
    pub may_leave_out: bool,
    /// When this part of the run was started.
    pub begun: Instant,
    pub speed: Speed,
    /// The budget is the usual one of a command.
    pub usual_budget: bool,
    /// Emit all results at looks.
    pub looks: bool,
}

/// What stays the same during a run: the request, and what follows from it alone.
pub(crate) struct Fixed<'a> {
    pub setup: Setup,
    pub stop: &'a Stop,
    pub schedule: Schedule,
    /// The kept file that each point uses, as the workload identifies it.
    pub kept_files: Vec<Option<(u64, u64)>>,
    /// Which of the points have two ends.
    pub ends: skips::Work,
    /// It continues an earlier part.
    pub resumed: bool,
}

impl<'a> Fixed<'a> {
    pub(crate) fn new(run: &Run, setup: Setup, stop: &'a Stop, resumed: bool) -> Self {
        let kept_files = run.points.iter().map(|at| at.needs.kept_file_key);
        Self {
            schedule: Schedule::new(run.seed, run.layers.len(), run.points.len()),
            kept_files: kept_files.collect(),
            ends: skips::Work::of(&run.points),
            setup,
            stop,
            resumed,
        }
    }
}
