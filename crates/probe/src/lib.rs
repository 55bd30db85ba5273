//! The program that runs inside a layer: it reads jobs from standard input and writes events to
//! standard output.
//!
//! Inside the clock there is no async code and no allocation, except in the client of `http`. The
//! only thread that is not measured is the heartbeat, which wakes for microseconds four times a
//! second. To add a workload, write `workloads/NAME.rs` and add its line to [`workloads::ALL`]. To
//! add an engine, write `engines/NAME.rs` and add its line to [`engines::ALL`].

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use layermark_model::{
    Environment, Param, Point, PointError, Settings, Spec, Trial,
    protocol::{Peer, TurnRequest, Turned},
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
pub mod witness;
pub mod workloads;

pub use clock::Source;
pub use error::ProbeError;
pub use own_cache::own_cache;
pub use programs::from_elsewhere;
pub use selftest::self_test;
pub use serve::{serve, serve_untimed};

/// A kind of work. Stateless. `param::of` makes one from the parameters of its points.
pub trait Workload: Sync {
    /// What it is, as data.
    fn info(&self) -> &'static WorkloadInfo;
    /// Settings as the user wrote them, expanded to checked points with their meaning and needs.
    /// `scale` multiplies file sizes and counts.
    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError>;
    /// A point of a run, read again from its parameters.
    fn read(&self, at: &Point, purpose: Purpose<'_>) -> Result<Point, PointError>;
    /// Files, directories and links of this host that must also be copied there.
    fn host_files(&self, _at: &Point, _host: FromHost<'_>) -> Result<Vec<Placed>, HostError> {
        Ok(Vec::new())
    }
    /// Starts the far end. It listens only at the address of [`Context::peer`], and serves only
    /// clients that send the secret.
    fn serve(
        &self,
        _dir: &Path,
        _at: &Point,
        _context: &Context,
    ) -> Result<Box<dyn FarEnd>, ProbeError> {
        Err(ProbeError::new(format!(
            "`{}` has no far end",
            self.info().id
        )))
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

/// What a workload is.
pub struct WorkloadInfo {
    /// Its name in plans, such as `file`.
    pub id: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// Two command lines for help.
    pub examples: [&'static str; 2],
    /// Its parameters. Parsing, flags, help and docs are derived from them.
    pub params: fn() -> Vec<Param>,
    /// Number of blocks of a command for this workload only, if the user does not limit its time.
    /// `None`: as many as fit into a command's budget.
    pub usual_blocks: fn(&Settings) -> Option<UsualBlocks>,
}

impl dyn Workload + '_ {
    /// Its name in plans, such as `file`.
    pub fn id(&self) -> &'static str {
        self.info().id
    }

    /// Its parameters, in the order of the help.
    pub fn params(&self) -> Vec<Param> {
        (self.info().params)()
    }
}

/// What a point of a run is read for.
#[derive(Debug, Clone, Copy)]
pub enum Purpose<'a> {
    /// To be reported: it gets its meaning. It is not checked, because another machine or version may
    /// have made it.
    Report,
    /// To be run: it is checked, and gets its needs.
    Run,
    /// To be run in this layer, perhaps with other parameters there.
    Layer(&'a Spec),
}

/// The host from which a layer gets files.
#[derive(Clone, Copy)]
pub struct FromHost<'a> {
    /// Values of the variables that points name.
    pub env: &'a Environment,
    /// Whether the programs of the point are started on the host itself, so they must be installed.
    pub starts_programs: bool,
}

/// Why a host is not enough for a point.
#[derive(Debug, Clone, PartialEq)]
pub enum HostError {
    /// It lacks a program.
    Program(ProbeError),
    /// The files cannot be named.
    Point(PointError),
}

impl From<ProbeError> for HostError {
    fn from(e: ProbeError) -> Self {
        Self::Program(e)
    }
}

impl From<PointError> for HostError {
    fn from(e: PointError) -> Self {
        Self::Point(e)
    }
}

/// How many blocks a command runs by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsualBlocks {
    /// At most this many, within the budget of a command.
    Most(u32),
    /// This many, however long they take.
    Whole(u32),
}

/// A file, directory or link of this machine that is copied into a layer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placed {
    /// Path below `packaged/`.
    pub path: PathBuf,
    /// Its kind.
    pub kind: PlacedKind,
}

/// Kind of a placed entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlacedKind {
    /// A directory that contains only other placed files.
    Directory {
        /// Modification time.
        modified: SystemTime,
    },
    /// A copy of a file, with its permissions and modification time.
    File {
        /// Path of the original.
        source: PathBuf,
        /// Size, bytes.
        size: u64,
    },
    /// A symbolic link with this text.
    Link(PathBuf),
}

/// Input of a trial in addition to its point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Seed of data and random offsets.
    pub seed: u64,
    /// In one stretch, passes are repeated until they have lasted this long in total.
    pub min: Duration,
    /// In one stretch, passes are repeated until they have this many operations, unless the point
    /// fixes the number of passes.
    pub min_ops: u64,
    /// Block devices below the layer, `major:minor`. Their counters are added up, so name devices
    /// of one level only (a loop device or the disk below it, not both).
    pub devices: Vec<String>,
    /// Directories of file systems below the layer's own, flushed after it.
    pub below: Vec<PathBuf>,
    /// Whether operations wait for a device: they flush, read what is not cached, or go past the cache.
    pub waits_for_devices: bool,
    /// Values of the variables that the point names.
    pub env: Environment,
    /// For work with two ends: the address of the far end.
    pub peer: Option<Peer>,
    /// Whether the layer's directory is this process's own (chdir(2)).
    pub inside: bool,
}

impl Context {
    /// Where names inside the clock are looked up from: `.` instead of the layer's directory `dir`, if the process is in
    /// it. A path with one more name takes an open 3 % longer, and layers are not equally deep.
    pub(crate) fn names_from<'a>(&self, dir: &'a Path) -> &'a Path {
        if self.inside { Path::new(".") } else { dir }
    }

    /// Writes back all dirty data of the file system of `dir`, then of those below it.
    pub(crate) fn sync(&self, dir: &Path) -> Result<(), ProbeError> {
        files::sync_file_system(dir)?;
        self.sync_below(dir)
    }

    /// The far end of a workload with two ends.
    pub(crate) fn far_end(&self, workload: &str) -> Result<&Peer, ProbeError> {
        self.peer.as_ref().ok_or_else(|| {
            ProbeError::new(format!(
                "`{workload}` has two ends, and the job names no far one"
            ))
        })
    }

    /// Like [`Self::sync`], without the file system of `dir` itself.
    pub(crate) fn sync_below(&self, dir: &Path) -> Result<(), ProbeError> {
        let device = |dir: &Path| std::fs::metadata(dir).map(|m| m.dev()).ok();
        let own = device(dir);
        // A second flush of the same file system has no effect and still takes milliseconds.
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
    /// A context for a single operation, with nothing below.
    pub(crate) fn least() -> Self {
        Self {
            seed: 1,
            min: Duration::ZERO,
            min_ops: 1,
            devices: Vec::new(),
            below: Vec::new(),
            waits_for_devices: false,
            env: Environment::new(),
            peer: None,
            inside: false,
        }
    }
}

/// Called during a trial at least once a second, with the operations and bytes so far. The caller
/// must subtract the time this takes.
pub type Beat<'a> = dyn FnMut(u64, u64) + 'a;

/// Prepared work: its files exist and its buffers are touched. Dropping it removes the files it
/// made, or leaves that to the owner of the layer.
pub trait Work: Send {
    /// Works for one turn and adds it to the trial. The clock runs only here, and meanwhile the lab
    /// counts the CPU time of the layer's own processes. No operation is in flight when it returns.
    fn turn(
        &mut self,
        ask: &TurnRequest,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError>;
    /// Called where [`Turned::between`] says so, outside the clock and its counters: after a turn, to
    /// flush and to check; and with `again` before the next turn, to prepare it.
    fn between(&mut self, _again: bool) -> Result<(), ProbeError> {
        Ok(())
    }
    /// Called after the last turn of this layer, before other layers continue. Flushes only its own
    /// dirty files.
    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError>;
    /// Called after the last turn of all layers: encodes latencies, proves `O_DIRECT`, verifies
    /// data.
    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError>;
}

/// The far end of work with two ends, in its own threads or processes. Dropping it ends it.
pub trait FarEnd: Send {
    /// The port it listens at.
    fn port(&self) -> u16;
    /// Ends it. Returns the first error that occurred in it.
    fn end(&mut self) -> Result<(), ProbeError>;
}
