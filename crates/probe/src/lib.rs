//! What runs inside a layer: a job on standard input, events on standard output.
//!
//! No async, no allocation inside the clock, no threads it does not measure with but one that gives
//! signs of life, awake for microseconds four times a second.
//! To add a workload, write `workloads/NAME.rs` and its line in [`workloads::ALL`];
//! to add an engine, write `engines/NAME.rs` and its line in [`engines::ALL`].

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use layermark_model::{
    CpuUse, DeviceBytes, Environment, Param, Point, PointError, Settings, Spec, Trial, Turn,
};

mod beats;
mod buffer;
mod clock;
pub mod counters;
mod data;
pub mod engines;
mod error;
mod limits;
pub mod motion;
mod own_cache;
pub mod packaged;
mod params;
mod permutation;
mod queue;
pub mod resident;
mod run;
mod selftest;
mod serve;
mod usage;
pub mod workloads;

pub use clock::Source;
pub use error::ProbeError;
pub use own_cache::own_cache;
pub use selftest::self_test;
pub use serve::serve;

/// A kind of work. Stateless.
pub trait Workload: Sync {
    /// Its name in plans, such as `file`.
    fn id(&self) -> &'static str;
    /// One line for help.
    fn about(&self) -> &'static str;
    /// Its parameters: parsing, flags, help and docs come from them.
    fn params(&self) -> &'static [Param];
    /// Settings as the user wrote them, expanded to points and checked. `scale` multiplies file
    /// sizes and counts.
    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError>;
    /// Files that have to lie in `packaged/` before the layer is set up.
    fn packaged(&self, at: &Point) -> Result<Vec<PackagedFile>, PointError>;
    /// Files, directories and links of this machine that have to be copied there as well. `env` has the
    /// values of the variables that the point names.
    fn placed(&self, _at: &Point, _env: &Environment) -> Result<Vec<Placed>, PointError> {
        Ok(Vec::new())
    }
    /// The point as it is done in one layer.
    fn in_layer(&self, at: &Point, _layer: &Spec) -> Result<Point, PointError> {
        Ok(at.clone())
    }
    /// A trial to make once in each layer of a session beside those that count, for what it tells
    /// about them ([`Trial::launch`]).
    fn extra(&self, _at: &Point) -> Option<Point> {
        None
    }
    /// How the point divides into turns of milliseconds; `None`: a trial is one stretch of work.
    fn divided(&self, _at: &Point) -> Option<Divided> {
        None
    }
    /// Whether the point writes: read-only layers leave it out.
    fn writes(&self, at: &Point) -> bool;
    /// Packaged files that are open before the clock starts, by their path below the layer's
    /// directory: to look at them, and at what lies behind them, changes nothing that is measured.
    fn open_before(&self, _at: &Point) -> Vec<PathBuf> {
        Vec::new()
    }
    /// Whether packaged files must be back in their packaged state before each trial.
    fn needs_refresh(&self, at: &Point) -> bool;
    /// Whether the layer itself has to be set down and up again before each trial.
    fn needs_restart(&self, _at: &Point) -> bool {
        false
    }
    /// Files that the point leaves in the layer's directory for trials to come, until the layer is
    /// torn down.
    fn kept(&self, _at: &Point) -> Result<Vec<PackagedFile>, PointError> {
        Ok(Vec::new())
    }
    /// The kept file that it goes on with, and how that was made: points of which this is the same
    /// follow each other in a block, so that the file is made once.
    fn goes_on_with(&self, _: &Point) -> Option<(u64, u64)> {
        None
    }
    /// The largest number of bytes the point needs on disk at once, beyond packaged and kept files.
    fn space(&self, at: &Point) -> u64;
    /// Makes files and buffers ready in `dir` and warms up what a warm point needs: all that
    /// comes before the timed passes. A cold point's files are left alone.
    fn prepare(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError>;
}

/// A file that a layer comes with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackagedFile {
    /// Path below `packaged/`; of a file that a point leaves, below the layer's directory.
    pub path: String,
    /// Bytes.
    pub size: u64,
}

/// Something of this machine that a layer comes with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placed {
    /// Path below `packaged/`.
    pub path: PathBuf,
    /// What it is.
    pub kind: PlacedKind,
}

/// What is placed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlacedKind {
    /// A directory, empty but for what else is placed in it.
    Directory {
        /// Modification time.
        modified: SystemTime,
    },
    /// A copy of a file, with its permissions and modification time.
    File {
        /// Where it is.
        source: PathBuf,
        /// Bytes.
        size: u64,
    },
    /// A symbolic link with this text.
    Link(PathBuf),
}

/// What a trial needs to know beside its point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Seed of data and random offsets.
    pub seed: u64,
    /// In one stretch, passes are repeated until they have lasted this long together ...
    pub min: Duration,
    /// ... and have done this many operations, unless the point fixes its passes.
    pub min_ops: u64,
    /// Block devices below the layer, `major:minor`. Their counters are added up, so name those
    /// that stand at one level (a loop device or the disk below it, not both).
    pub devices: Vec<String>,
    /// Directories of file systems below the layer's own, flushed after it.
    pub below: Vec<PathBuf>,
    /// Values of the variables that the point names.
    pub env: Environment,
}

impl Context {
    /// Writes back all that is dirty in the file system of `dir`, then in those below it.
    pub(crate) fn sync(&self, dir: &Path) -> Result<(), ProbeError> {
        workloads::file::sync_file_system(dir)?;
        self.sync_below(dir)
    }

    /// The same without the file system of `dir` itself.
    pub(crate) fn sync_below(&self, dir: &Path) -> Result<(), ProbeError> {
        let device = |dir: &Path| std::fs::metadata(dir).map(|m| m.dev()).ok();
        let own = device(dir);
        // A second flush of the same one finds nothing and takes milliseconds all the same.
        let mut others = self.below.iter().map(PathBuf::as_path);
        others.try_for_each(|dir| {
            if own.is_some() && device(dir) == own {
                return Ok(());
            }
            workloads::file::sync_file_system(dir)
        })
    }
}

#[cfg(test)]
impl Context {
    /// One operation is enough, and nothing lies below.
    pub(crate) fn least() -> Self {
        Self {
            seed: 1,
            min: Duration::ZERO,
            min_ops: 1,
            devices: Vec::new(),
            below: Vec::new(),
            env: Environment::new(),
        }
    }
}

/// How a point divides into turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divided {
    /// Its data comes from memory and goes there.
    pub in_memory: bool,
    /// What a turn has used up no later turn finds again, as with a cold cache: nothing to spare
    /// for a lead-in.
    pub uses_up: bool,
    /// Bytes of files that it goes over again and again.
    pub working_set: u64,
    /// What a turn costs besides its time.
    pub cost: TurnCost,
    /// Bytes that a turn may move beside those that count, as its queue fills and drains.
    pub under_way: u64,
}

/// What a turn costs besides its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnCost {
    /// Nothing.
    Nothing,
    /// Files that are made or removed. What was removed slows what is made next on some file systems, so
    /// there should be few.
    Files,
    /// Threads that are started or woken, which takes some tenths of a millisecond.
    Threads,
}

impl Divided {
    /// Whether one thread does it again and again, so that all turns can be on one CPU.
    pub fn on_one_cpu(&self) -> bool {
        !self.uses_up && self.cost != TurnCost::Threads
    }
}

/// Called while a trial goes on, at least each second, with the operations and bytes so far.
/// The caller must subtract the time that it takes.
pub type Beat<'a> = dyn FnMut(u64, u64) + 'a;

/// How far a turn goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Number of its round.
    pub round: u32,
    /// The operation under way after so many nanoseconds is the last one. 0: the whole work in one
    /// stretch.
    pub ns: u64,
    /// Work before it that is not counted, nanoseconds.
    pub lead_in_ns: u64,
}

/// What a turn came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turned {
    /// Its round, time and operations.
    pub turn: Turn,
    /// CPU time of the probe.
    pub cpu: CpuUse,
    /// Bytes that crossed the devices below; `None` when none is known.
    pub device: Option<DeviceBytes>,
    /// Nanoseconds of the same work that are not counted: the lead-in.
    pub uncounted_ns: u64,
    /// Whether there is work for another turn.
    pub more: bool,
}

/// Work that is ready: files are there, buffers are touched. Dropping it removes what it made, or
/// leaves it to whoever sets the layer down.
pub trait Work: Send {
    /// Works for a turn and counts it in the trial. The clock runs in here and nowhere else, and the
    /// lab counts the CPU time of the layer's own processes while this runs. When it returns nothing
    /// is under way any more.
    fn turn(
        &mut self,
        ask: &Ask,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError>;
    /// After the last turn of this layer, before those of others go on: flushes what its own files
    /// still owe, and nobody else's.
    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError>;
    /// After the last turn of all layers: encoded latencies, proof of `O_DIRECT`, verification.
    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError>;
}
