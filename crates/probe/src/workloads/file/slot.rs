//! What one thread of a trial works with.

use std::{fs::File, path::PathBuf};

use layermark_model::Verified;

use super::params::Op;
use crate::{buffer::Buffer, engines::Runner, run::recorder::Recorder};

/// What one thread needs.
pub struct ThreadSlot {
    /// What it does: the point's operation, or its part of a mix.
    pub op: Op,
    /// Its file.
    pub path: PathBuf,
    /// Seed of its data and order.
    pub seed: u64,
    /// One record to read into, or the pool to write from.
    pub buffer: Buffer,
    /// Latencies of all that counts.
    pub recorder: Recorder,
    /// For the operations of a lead-in, which are not kept.
    pub spare: Recorder,
    /// The engine at work on its file.
    pub runner: Box<dyn Runner>,
    /// The pass that was begun last, from 1: the generation of what it writes.
    pub generation: u64,
    /// Operations of that pass that are done.
    pub at: u64,
    /// The open file, between passes.
    pub file: Option<File>,
    /// Good and bad blocks found by the timed loop, with `verify`.
    pub checked: Verified,
}
