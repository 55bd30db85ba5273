use std::{path::PathBuf, time::Duration};

use layermark_layers::{Layer, LayerInfo};
use layermark_model::{Environment, Gate, LayerRun, LayerStatus, Plan, Run, Spec, nearest};
use layermark_probe::Workload;

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

    /// What a layer is; of a path, its far end. `None` if the layer, or a value of its options, is unknown.
    pub(crate) fn describe(&self, spec: &Spec) -> Option<LayerInfo> {
        self.layer(&spec.layer)?.describe(spec).ok()
    }

    /// How many times longer work is expected to take in a layer than natively: see
    /// [`LayerInfo::slowdown`]. Of a path, at its slower end.
    pub(crate) fn slowdown(&self, spec: &Spec) -> f64 {
        self.most(spec, 1.0, LayerInfo::slowdown)
    }

    /// A figure of a layer. Of a path, at the end where it is larger; `otherwise` where the layer is unknown.
    pub(crate) fn most(
        &self,
        spec: &Spec,
        otherwise: f64,
        figure: impl Fn(&LayerInfo) -> f64,
    ) -> f64 {
        let (near, far) = spec.ends();
        let of = |end: &Spec| {
            let layer = self.describe(end);
            layer.map_or(otherwise, |layer| figure(&layer))
        };
        of(&near).max(of(&far))
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

/// Whether all results are emitted at looks, as [`crate::Event::Looked`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LookEvents {
    /// They are not.
    #[default]
    Silent,
    /// They are.
    Emitted,
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
    /// The user's name for this machine.
    pub label: Option<String>,
    /// Layers and workloads that the plan may name.
    pub catalog: Catalog,
    /// Layers that an earlier run left out, or in which it left points out: the same is left out again.
    /// `None`: leave out what does not fit the budget.
    pub left_out: Option<Vec<LayerRun>>,
    /// The plan's budget is the usual one of a command or of a plan of layermark's, and the user has not named
    /// it. Then it is an aim: it is exceeded for the fewest blocks.
    pub usual_budget: bool,
    /// Find out how fast this machine is before a forecast; otherwise it is taken for an idle one.
    pub rehearse: bool,
    /// Gates that the report will check. Refused here if they name a layer or a point that is not
    /// in the run.
    pub gates: Vec<Gate>,
    /// Whether all results are emitted at looks.
    pub looks: LookEvents,
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
            label: None,
            catalog: Catalog::default(),
            left_out: None,
            usual_budget: false,
            rehearse: true,
            gates: Vec::new(),
            looks: LookEvents::default(),
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
            .filter(|l| l.status == LayerStatus::LeftOut || !l.skips.is_empty());
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
    /// Whether power cuts of a run that has ended are left: the caller makes them.
    pub cuts_left: fn(&Run) -> bool,
    /// As in [`Request::looks`].
    pub looks: LookEvents,
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
            cuts_left: |_| false,
            looks: LookEvents::default(),
        }
    }
}
