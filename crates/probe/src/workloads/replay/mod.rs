//! `replay`: the file I/O of a program, as `layermark record` has recorded it. Its tree is made in the layer, and its
//! calls are made again, each after those that it shares something with. A call that ends in another way than it was
//! recorded, or a tree that is not as the program left it, is an error, never a time.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use layermark_model::{Environment, Needs, PointError};
use layermark_recording::{Recording, limits};
use rustix::fs::CWD;
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    Context, Placed, PlacedKind, ProbeError, Work,
    param::{self, Of, Runs},
};

mod calls;
mod copy;
mod example;
mod figures;
mod mappings;
mod once;
mod outcome;
mod params;
mod sys;
mod tasks;
#[cfg(test)]
mod tests;
mod trace;
mod tree;
mod work;

pub use once::{Replayed, replay};
pub use tree::{Listed, list};

use params::ReplayParams;

/// The workload `replay`.
pub static WORKLOAD: Of<ReplayParams> = param::of();

/// Directory of recordings below `packaged/`.
const RECORDINGS: &str = "replay";

impl Runs for ReplayParams {
    const ABOUT: &'static str = "the file I/O of a program, as `layermark record` has recorded it";
    const EXAMPLES: [&'static str; 2] = [
        "layermark replay app.lmrec -l fuse",
        "layermark replay app.lmrec --time io -l overlay:upper",
    ];

    fn placed(&self, _: &Environment) -> Result<Vec<Placed>, PointError> {
        if self.recording.is_empty() {
            return Ok(Vec::new());
        }
        let source = PathBuf::from(&self.recording);
        let found = std::fs::metadata(&source);
        let found = found.map_err(|e| {
            PointError::of(
                "replay",
                "recording",
                format!(": {}: {e}", source.display()),
            )
        })?;
        Ok(vec![Placed {
            path: Path::new(RECORDINGS).join(&self.id),
            kind: PlacedKind::File {
                source,
                size: found.len(),
            },
        }])
    }

    fn needs(&self) -> Result<Needs, PointError> {
        Ok(Needs {
            space: self.space,
            files: self.files,
            ..Needs::default()
        })
    }

    fn prepare(self, dir: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError> {
        let recording = if self.recording.is_empty() {
            example::example()
        } else {
            let path = dir.join("packaged").join(RECORDINGS).join(&self.id);
            let (recording, id) = read(&path)?;
            if id != self.id {
                return Err(ProbeError::new(format!(
                    "{} is not the recording that was asked for: it was changed meanwhile",
                    path.display()
                )));
            }
            recording
        };
        let work = work::ReplayWork::prepare(dir, self, &recording, context)?;
        Ok(Box::new(work))
    }
}

/// What a recording says of its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AboutProgram {
    /// Whether the time between its calls is known.
    pub with_think: bool,
    /// Whether it changes its tree.
    pub changes: bool,
}

/// Reads what a recording says of its program.
///
/// # Errors
/// If it cannot be read, or is no recording.
pub fn about(path: &Path) -> Result<AboutProgram, ProbeError> {
    let (recording, _) = read(path)?;
    Ok(AboutProgram {
        with_think: recording.head.think_ns.is_some(),
        changes: params::changes(&recording),
    })
}

/// The recording at a path, and its id: a hash of its bytes.
fn read(path: &Path) -> Result<(Recording, String), ProbeError> {
    let refused = |e: &dyn std::fmt::Display| ProbeError::new(format!("{}: {e}", path.display()));
    let failed = |e: std::io::Error| ProbeError::io("read", path, &e);
    let file = layermark_fd::open_file(CWD, path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    if size > limits::PACKED {
        let text = format!("it has {size} bytes, more than {}", limits::PACKED);
        return Err(refused(&text).hint("record less at once: a part of the program's work"));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(limits::PACKED)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let recording = Recording::unpack(bytes.as_slice());
    let recording = recording.map_err(|e| refused(&e).hint(e.hint()))?;
    Ok((recording, format!("{:016x}", xxh3_64(&bytes))))
}
