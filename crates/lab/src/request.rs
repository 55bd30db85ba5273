use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use layermark_layers::Layer;
use layermark_model::{Environment, Gate, LayerRun, LayerStatus, Plan, Point, Run, Spec, nearest};
use layermark_probe::{Needs, Workload};

use crate::LabError;

/// How long a probe may be silent before it counts as hung.
pub const SILENCE: Duration = Duration::from_mins(1);

/// The layers and workloads that plans may name.
#[derive(Clone, Copy)]
pub struct Catalog {
    /// Layers, in the order of `layermark layers`.
    pub layers: &'static [&'static dyn Layer],
    /// Workloads.
    pub workloads: &'static [&'static dyn Workload],
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            layers: layermark_layers::ALL,
            workloads: layermark_probe::workloads::ALL,
        }
    }
}

impl Catalog {
    /// The layer with this id.
    pub fn layer(&self, id: &str) -> Option<&'static dyn Layer> {
        self.layers.iter().copied().find(|l| l.id() == id)
    }

    /// How many times longer work is expected to take in a layer than natively: see
    /// [`Layer::slowdown`]. Of a path, at its slower end.
    pub(crate) fn slowdown(&self, spec: &Spec) -> f64 {
        let (near, far) = spec.ends();
        let of = |end: &Spec| self.layer(&end.layer).map_or(1.0, |l| l.slowdown(end));
        of(&near).max(of(&far))
    }

    /// What a point needs, as its workload says.
    pub(crate) fn needs(&self, point: &Point) -> Result<Needs, LabError> {
        Ok(self.workload(&point.workload)?.needs(point)?)
    }

    /// The workload with this id, or an error that names the nearest.
    pub fn workload(&self, id: &str) -> Result<&'static dyn Workload, LabError> {
        self.workloads
            .iter()
            .copied()
            .find(|w| w.id() == id)
            .ok_or_else(|| LabError::UnknownWorkload {
                name: id.into(),
                nearest: nearest(id, self.workloads.iter().map(|w| w.id())).map(str::to_owned),
                known: self
                    .workloads
                    .iter()
                    .map(|w| w.id())
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }
}

/// Options of [`crate::run`].
#[derive(Clone)]
pub struct Request {
    /// The plan.
    pub plan: Plan,
    /// Where to work; a fresh directory is made below it.
    pub dir: PathBuf,
    /// The layermark binary, which layers start as `EXE probe`.
    pub exe: PathBuf,
    /// Accept a directory in memory as a disk baseline.
    pub allow_tmpfs: bool,
    /// How long a probe may be silent before it counts as hung.
    pub silence: Duration,
    /// Values of variables of launched programs. They take precedence over those in the plan.
    pub env: Environment,
    /// Layers and workloads that the plan may name.
    pub catalog: Catalog,
    /// Layers to leave out, as an earlier run did. `None`: leave out those that do not fit the
    /// budget.
    pub left_out: Option<Vec<LayerRun>>,
    /// Gates that the report will check. Refused here if they name a layer or a point that is not
    /// in the run.
    pub gates: Vec<Gate>,
}

impl Request {
    /// A request with default limits.
    pub fn new(plan: Plan, dir: impl Into<PathBuf>, exe: impl Into<PathBuf>) -> Self {
        Self {
            plan,
            dir: dir.into(),
            exe: exe.into(),
            allow_tmpfs: false,
            silence: SILENCE,
            env: Environment::new(),
            catalog: Catalog::default(),
            left_out: None,
            gates: Vec::new(),
        }
    }

    /// A new run with the plan, seed, order and directory of an old one, without the layers that
    /// did not fit its budget.
    pub fn replay(run: &Run, exe: impl Into<PathBuf>) -> Self {
        let plan = Plan {
            seed: Some(run.seed),
            ..run.plan.clone()
        };
        let left_out = run
            .layers
            .iter()
            .filter(|l| l.status == LayerStatus::LeftOut);
        Self {
            left_out: Some(left_out.cloned().collect()),
            ..Self::new(plan, &run.dir, exe)
        }
    }
}

/// Options of [`crate::resume`].
#[derive(Clone)]
pub struct Resume {
    /// The run: its id, a prefix of its id, or `last`.
    pub run: String,
    /// The run as the caller has looked at it, if its store can be changed by others: what was looked at is what is
    /// continued.
    pub seen: Option<Box<Run>>,
    /// The layermark binary, which layers start as `EXE probe`.
    pub exe: PathBuf,
    /// How long a probe may be silent before it counts as hung.
    pub silence: Duration,
    /// Time for all trials, including those of the first part; by default the plan's. With a larger
    /// budget a finished run continues.
    pub budget: Option<String>,
    /// Values of variables of launched programs, since the store has only their names.
    pub env: Environment,
    /// Layers and workloads, the same as in the first part of the run.
    pub catalog: Catalog,
}

impl Resume {
    /// A request with default limits.
    pub fn new(run: impl Into<String>, exe: impl Into<PathBuf>) -> Self {
        Self {
            run: run.into(),
            seen: None,
            exe: exe.into(),
            silence: SILENCE,
            budget: None,
            env: Environment::new(),
            catalog: Catalog::default(),
        }
    }
}

/// Requests a run to end early. It is shared with signal handlers.
///
/// After one request the run ends after the current round, after two it ends at once. In both cases
/// all layers are unwound.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicU32>);

impl Stop {
    /// No request yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a request. Safe in a signal handler: it only increments an atomic number.
    pub fn ask(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether to end after the current round.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    /// Whether to end at once.
    pub fn at_once(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 1
    }
}
