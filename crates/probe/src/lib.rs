//! What runs inside a layer: a job on standard input, events on standard output.
//!
//! No async, no threads it does not measure with, no allocation inside the clock.
//! To add a workload, write `workloads/NAME.rs` and its line in [`workloads::ALL`];
//! to add an engine, write `engines/NAME.rs` and its line in [`engines::ALL`].

use std::path::Path;

use layermark_model::{Param, Point, PointError, Settings, Trial};

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
    /// Whether the point writes: read-only layers leave it out.
    fn writes(&self, at: &Point) -> bool;
    /// Whether packaged files must be back in their packaged state before each trial.
    fn needs_refresh(&self, at: &Point) -> bool;
    /// The largest number of bytes the point needs on disk at once, beyond packaged files.
    fn space(&self, at: &Point) -> u64;
    /// Makes files and buffers ready in `dir`, all outside the clock.
    fn prepare(&self, dir: &Path, at: &Point, context: &Context) -> Result<Box<dyn Work>, ProbeError>;
}

/// A file that a layer comes with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackagedFile {
    /// Path below `packaged/`.
    pub path: String,
    /// Bytes.
    pub size: u64,
}
