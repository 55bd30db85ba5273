//! The part that runs inside a layer: a job on standard input, events on standard output.
//!
//! No async and no allocation inside the clock, but for the client of `http`. The only thread that is not measured is the
//! heartbeat, which wakes for microseconds four times a second. To add a workload, write
//! `workloads/NAME.rs` and its line in [`workloads::ALL`]; to add an engine, write
//! `engines/NAME.rs` and its line in [`engines::ALL`].

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use layermark_model::{
    CpuUse, DeviceBytes, Environment, Meaning, Param, Point, PointError, Settings, Spec, Trial,
    Turn, protocol::Peer,
};

mod buffer;
mod clock;
pub mod counters;
mod cpus;
mod data;
pub mod engines;
mod error;
mod files;
mod heartbeat;
mod limits;
pub mod motion;
mod own_cache;
pub mod packaged;
mod param;
mod permutation;
mod programs;
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
    /// Its parameters, from which parsing, flags, help and docs are made.
    fn params(&self) -> &'static [Param];
    /// Settings as the user wrote them, expanded to checked points. `scale` multiplies file sizes
    /// and counts.
    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError>;
    /// What a point means, by its parameters. `points` says it of each; asked here of points that were
    /// stored before that was.
    fn meaning(&self, at: &Point) -> Result<Meaning, PointError>;
    /// Blocks of a command for this workload alone, where its user says nothing of how long it may take;
    /// `None`: as many as a command's budget allows.
    fn usual_blocks(&self, _settings: &Settings) -> Option<UsualBlocks> {
        None
    }
    /// Files that must be in `packaged/` before the layer is set up.
    fn packaged(&self, _at: &Point) -> Result<Vec<PackagedFile>, PointError> {
        Ok(Vec::new())
    }
    /// Files, directories and links of this machine that must be copied there as well. `env` has
    /// the values of the variables that the point names.
    fn placed(&self, _at: &Point, _env: &Environment) -> Result<Vec<Placed>, PointError> {
        Ok(Vec::new())
    }
    /// An error if this machine lacks a program that the point starts, with the package that has it.
    fn check_programs(&self, _at: &Point) -> Result<(), ProbeError> {
        Ok(())
    }
    /// Command lines that the point runs, as its user wrote them.
    fn programs(&self, _at: &Point) -> Vec<String> {
        Vec::new()
    }
    /// The point as it is done in one layer.
    fn in_layer(&self, at: &Point, _layer: &Spec) -> Result<Point, PointError> {
        Ok(at.clone())
    }
    /// A trial to run once per layer and session in addition to those that count, for what it shows
    /// ([`Trial::launch`]).
    fn extra(&self, _at: &Point) -> Option<Point> {
        None
    }
    /// Packaged files that are open before the clock starts, by their path below the layer's
    /// directory. Looking at them, and at their backing files, does not change the measurement.
    fn open_before(&self, _at: &Point) -> Vec<PathBuf> {
        Vec::new()
    }
    /// Whether packaged files must be back in their packaged state before each trial.
    fn needs_refresh(&self, _at: &Point) -> bool {
        false
    }
    /// Whether the layer itself has to be torn down and set up again before each trial.
    fn needs_restart(&self, _at: &Point) -> bool {
        false
    }
    /// Files that the point leaves in the layer's directory for later trials, until the layer is
    /// torn down.
    fn kept(&self, _at: &Point) -> Result<Vec<PackagedFile>, PointError> {
        Ok(Vec::new())
    }
    /// The kept file that it works on: its size and how it was made. Points with the same value
    /// follow each other in a block, so that the file is made once.
    fn goes_on_with(&self, _: &Point) -> Option<(u64, u64)> {
        None
    }
    /// Largest number of bytes the point needs on disk at once, in addition to packaged and kept
    /// files.
    fn space(&self, at: &Point) -> u64;
    /// Whether the point has two ends: a second probe serves the one that works.
    fn has_two_ends(&self, _at: &Point) -> bool {
        false
    }
    /// Starts the far end. It listens at the address of [`Context::peer`] and nowhere else, and serves
    /// nobody who does not say the secret.
    fn serve(
        &self,
        _dir: &Path,
        _at: &Point,
        _context: &Context,
    ) -> Result<Box<dyn FarEnd>, ProbeError> {
        Err(ProbeError::new(format!("`{}` has no far end", self.id())))
    }
    /// Prepares files and buffers in `dir` and warms up what a warm point needs: everything before
    /// the timed passes. A cold point's files are not touched.
    fn prepare(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError>;
}

/// How many blocks a command makes when nothing else is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsualBlocks {
    /// At most so many, within the budget of a command.
    Most(u32),
    /// So many, however long they take.
    Whole(u32),
}

/// A file that a layer comes with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackagedFile {
    /// Path below `packaged/`, or below the layer's directory for a file that a point leaves.
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
    /// A directory that contains only other placed files.
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

/// What a trial needs to know in addition to its point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Seed of data and random offsets.
    pub seed: u64,
    /// In one stretch, passes are repeated until they have lasted this long in total ...
    pub min: Duration,
    /// ... and have done this many operations, unless the point fixes its passes.
    pub min_ops: u64,
    /// Block devices below the layer, `major:minor`. Their counters are added up, so name devices
    /// of one level only (a loop device or the disk below it, not both).
    pub devices: Vec<String>,
    /// Directories of file systems below the layer's own, flushed after it.
    pub below: Vec<PathBuf>,
    /// Values of the variables that the point names.
    pub env: Environment,
    /// Of work with two ends: where the far one listens.
    pub peer: Option<Peer>,
}

impl Context {
    /// Writes back all dirty data of the file system of `dir`, then of those below it.
    pub(crate) fn sync(&self, dir: &Path) -> Result<(), ProbeError> {
        files::sync_file_system(dir)?;
        self.sync_below(dir)
    }

    /// Same, without the file system of `dir` itself.
    pub(crate) fn sync_below(&self, dir: &Path) -> Result<(), ProbeError> {
        let device = |dir: &Path| std::fs::metadata(dir).map(|m| m.dev()).ok();
        let own = device(dir);
        // A second flush of the same file system does nothing and still takes milliseconds.
        let mut others = self.below.iter().map(PathBuf::as_path);
        others.try_for_each(|dir| {
            if own.is_some() && device(dir) == own {
                return Ok(());
            }
            files::sync_file_system(dir)
        })
    }
}

#[cfg(test)]
impl Context {
    /// One operation is enough, and there is nothing below.
    pub(crate) fn least() -> Self {
        Self {
            seed: 1,
            min: Duration::ZERO,
            min_ops: 1,
            devices: Vec::new(),
            below: Vec::new(),
            env: Environment::new(),
            peer: None,
        }
    }
}

/// Called during a trial at least once a second, with the operations and bytes so far. The caller
/// must subtract the time this takes.
pub type Beat<'a> = dyn FnMut(u64, u64) + 'a;

/// How far a turn goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Number of its round.
    pub round: u32,
    /// The turn ends with the operation in flight after this many nanoseconds. 0: the whole work in
    /// one stretch.
    pub ns: u64,
    /// Uncounted work before it, nanoseconds.
    pub lead_in_ns: u64,
}

/// What a turn came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turned {
    /// Its round, time and operations.
    pub turn: Turn,
    /// CPU time of the probe, or of the programs that it started.
    pub cpu: CpuUse,
    /// Bytes that crossed the devices below; `None` when none is known.
    pub device: Option<DeviceBytes>,
    /// Nanoseconds of uncounted work: the lead-in.
    pub uncounted_ns: u64,
    /// Whether there is work for another turn.
    pub more: bool,
}

/// Prepared work: its files exist, its buffers are touched. Dropping it removes what it made, or
/// leaves that to the owner of the layer.
pub trait Work: Send {
    /// Works for one turn and adds it to the trial. The clock runs only here, and meanwhile the lab
    /// counts the CPU time of the layer's own processes. Nothing is in flight when it returns.
    fn turn(
        &mut self,
        ask: &Ask,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError>;
    /// Called after the last turn of this layer, before other layers continue. Flushes what its own
    /// files still owe, and nothing else.
    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError>;
    /// Called after the last turn of all layers: encodes latencies, proves `O_DIRECT`, verifies
    /// data.
    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError>;
}

/// The far end of work with two ends, in threads or processes of its own. Dropping it ends it.
pub trait FarEnd: Send {
    /// The port it listens at.
    fn port(&self) -> u16;
    /// Ends it, and tells what went wrong with it meanwhile.
    fn end(&mut self) -> Result<(), ProbeError>;
}
