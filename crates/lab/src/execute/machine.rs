//! What can die during a run: the layers that are up, and the directory in which they are built.

use std::{
    collections::BTreeSet,
    iter,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use layermark_layers::{Base, Content, workdir::WorkDir};
use layermark_model::{Run, Spec};

use crate::{
    cpus,
    execute::{
        cpu::{Meter, Recent},
        fixed::Fixed,
        layer_failure::LayerFailure,
        priority::{Raised, way_after},
        session::RunningLayer,
        waited::Waited,
        watch::Watch,
    },
};

/// The layers that are up, and the counters of the machine that they run on.
pub(crate) struct Machine {
    pub meter: Meter,
    /// CPU use in the latest blocks.
    pub recent: Recent,
    /// Whether other programs used more of the CPUs in the last of them than they may without disturbing it.
    pub beside_others: bool,
    /// What turns have waited for a CPU with a nice value.
    pub turns: Waited,
    /// What setting layers up has waited at the usual priority.
    pub set_ups: Waited,
    pub watch: Watch,
    /// The layers that are up, indexed as in the run.
    pub layers: Vec<Option<RunningLayer>>,
    /// Layers that depend on a server that layermark has not started.
    remote: BTreeSet<usize>,
    /// It is below the layers, so it is dropped after them, also after a panic.
    work: Option<WorkDir>,
}

impl Machine {
    /// A machine on which none of this many layers is up.
    pub(crate) fn new(layers: usize, silence: Duration, work: WorkDir) -> Self {
        Self {
            meter: Meter::new(),
            recent: Recent::default(),
            beside_others: false,
            turns: Waited::default(),
            set_ups: Waited::default(),
            watch: Watch::new(silence),
            layers: iter::repeat_with(|| None).take(layers).collect(),
            remote: BTreeSet::new(),
            work: Some(work),
        }
    }

    /// A layer, if it is up.
    pub(crate) fn up(&self, layer: usize) -> Option<&RunningLayer> {
        self.layers[layer].as_ref()
    }

    /// [`RunningLayer::is_served`] of a layer that is up.
    pub(crate) fn is_served(&self, layer: usize) -> bool {
        self.up(layer).is_some_and(RunningLayer::is_served)
    }

    /// Whether the probe of a layer, if that is up, may have a higher priority: beside other programs, if it is a process
    /// of this host, and nothing but this host's kernel serves it. A quota of CPU time would not stop it. On a quiet machine
    /// a higher priority gains nothing, and changes where threads of the kernel run: those of a loop device are woken on
    /// another CPU, which sleeps.
    pub(crate) fn may_raise(&self, layer: usize) -> bool {
        let up = self.up(layer);
        let may = |up: &RunningLayer| {
            up.info().on_this_host && up.has_only_this_kernel() && !up.has_cpu_quota()
        };
        self.beside_others && up.is_none_or(may)
    }

    /// Raises the calling thread while it sets layers up or takes them down, if those or turns needed that so far.
    pub(crate) fn raise_for_set_up(&self) -> Option<Raised> {
        Raised::for_set_ups(way_after(self.turns))
            .or_else(|| Raised::for_set_ups(way_after(self.set_ups)))
    }

    /// Whether a layer is up and its probe runs under another kernel.
    pub(crate) fn is_guest(&self, layer: usize) -> bool {
        self.up(layer).is_some_and(|up| !up.info().on_this_host)
    }

    /// The run's own directory.
    pub(crate) fn work(&self) -> &Path {
        self.work.as_ref().map_or(Path::new(""), WorkDir::path)
    }

    /// The same as the user would name it.
    pub(crate) fn named_work(&self) -> PathBuf {
        let named = self.work.as_ref().map(|work| work.named().to_owned());
        named.unwrap_or_default()
    }

    /// The base directory and options with which a layer of this session is built.
    pub(crate) fn base(&self, fixed: &Fixed<'_>, session: u32, index: usize) -> Base {
        let (work, left) = (self.work(), fixed.stop.left());
        Base {
            dir: work.join(format!("s{session}-{index}")),
            packaged: work.join("packaged"),
            exe: fixed.setup.exe.clone(),
            // A layer that takes longer to answer has missed the end.
            silence: fixed.setup.silence.min(left.unwrap_or(Duration::MAX)),
            until: left.and_then(|left| Instant::now().checked_add(left)),
            content: Content::Fresh,
        }
    }

    /// Builds a layer and starts its probes.
    pub(crate) fn open(
        &mut self,
        fixed: &Fixed<'_>,
        run: &Run,
        index: usize,
        base: &Base,
    ) -> Result<RunningLayer, LayerFailure> {
        let (layer, catalog) = (&run.layers[index], fixed.setup.catalog);
        let two_ends = fixed.ends.has_two_ends_but_for(&layer.skips);
        let network = format!("path-{index}");
        let spec: Spec = cpus::for_points(layer, &run.points, catalog);
        let up = RunningLayer::open(
            (&spec, network),
            (base, catalog),
            (two_ends, self.remote.contains(&index)),
            fixed.setup.silence,
            fixed.stop,
            &self.watch,
        )?;
        if up.remote {
            self.remote.insert(index);
        }
        Ok(up)
    }

    /// Restarts the failed probes of a layer that is up.
    pub(crate) fn restart(&mut self, layer: usize, fixed: &Fixed<'_>) -> Result<(), LayerFailure> {
        let Some(up) = self.layers[layer].as_mut() else {
            return Ok(());
        };
        let watching = self.watch.over(&up.info().helpers);
        let restarted = up.restart(fixed.stop);
        watching.judge(restarted)
    }

    /// Checks that a layer is still the one that was set up.
    pub(crate) fn prove_again(&self, layer: usize) -> Result<(), LayerFailure> {
        let Some(up) = self.up(layer) else {
            return Ok(());
        };
        let watching = self.watch.over(&up.info().helpers);
        let proved = up.still_there();
        watching.judge(proved)
    }

    /// Unwinds all layers, the last first.
    pub(crate) fn tear_down(&mut self) {
        // All at once: one that is at work is waited for before it is killed.
        for up in self.layers.iter_mut().flatten() {
            up.quit();
        }
        for up in self.layers.iter_mut().rev() {
            *up = None;
        }
    }

    /// Removes the run's own directory, once all layers are unwound.
    pub(crate) fn remove_work(&mut self) {
        self.work = None;
    }
}
