//! The file and buffers of one thread of a trial.

use std::{fs::File, path::PathBuf};

use layermark_model::Verified;

use super::{first_write::Replaced, params::Op};
use crate::{buffer::Buffer, engines::Runner, run::recorder::Recorder};

/// The file and buffers of one thread.
pub struct ThreadSlot {
    /// Its operation: the point's, or its part of a mix.
    pub op: Op,
    /// Its file.
    pub path: PathBuf,
    /// The file of the pass before, until this one has ended.
    pub former: Option<PathBuf>,
    /// Seed of its data and order.
    pub seed: u64,
    /// One record to read into, or the pool to write from.
    pub buffer: Buffer,
    /// Latencies of all counted operations.
    pub recorder: Recorder,
    /// For the operations of a lead-in, which are discarded.
    pub spare: Recorder,
    /// The engine for its file.
    pub runner: Box<dyn Runner>,
    /// Number of its latest pass, from 1: the generation of the blocks it writes.
    pub generation: u64,
    /// Number of completed operations of that pass.
    pub at: u64,
    /// The open file, between passes.
    pub file: Option<File>,
    /// What a first write to it replaces, unless that would have to be read from a cold file.
    pub replaced: Option<Replaced>,
    /// Good and bad blocks found by the timed loop, with `verify`.
    pub checked: Verified,
}
