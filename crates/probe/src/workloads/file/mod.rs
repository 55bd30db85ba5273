//! `file`: reading and writing one file per thread, by the definitions of `iozone`'s tests.

use std::path::Path;

use layermark_model::{Needs, PackagedFile, PointError, Settings};

use crate::{
    Context, ProbeError, UsualBlocks, Work,
    param::{self, Of, Runs},
    run::Repeated,
};

mod check;
mod fill;
mod first_write;
mod iozone_args;
mod job;
mod matrix;
mod meaning;
mod op;
mod open;
mod params;
mod pass;
mod points;
mod prepare;
mod proofs;
mod rates;
mod slot;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use matrix::PARAMS as MATRIX_PARAMS;
use params::{FileParams, Op};

/// Number of blocks of a matrix by default: verdicts over hundreds of points would take hours.
const MATRIX_BLOCKS: u32 = 3;

/// The workload `file`.
pub static WORKLOAD: Of<FileParams> = param::of();

impl Runs for FileParams {
    const ABOUT: &'static str =
        "reads and writes files: operation, record, file size, threads, durability, cache";
    const EXAMPLES: [&'static str; 2] = [
        "layermark file --op read,write --record 4K..64K --file-size 16M -l fuse",
        "layermark file --op rand-write --record 4K --file-size 1M --sync each -l fuse",
    ];

    fn usual_blocks(settings: &Settings) -> Option<UsualBlocks> {
        matrix::is_asked(settings).then_some(UsualBlocks::Whole(MATRIX_BLOCKS))
    }

    /// A first write counts the whole file, because an overlay copies it.
    fn needs(&self) -> Result<Needs, PointError> {
        let p = self;
        let refresh = p.op == Op::FirstWrite;
        if !p.touches() {
            return Ok(Needs {
                refresh,
                ..Needs::default()
            });
        }
        let file = |path| PackagedFile::random(path, p.file_size);
        let packaged: Vec<PackagedFile> = (0..p.files_in_all())
            .filter(|n| p.role(*n).packaged())
            .map(|n| PackagedFile {
                pattern: (p.pattern, p.unit()),
                stamped: p.stamps_packaged(),
                ..file(p.packaged_name(n))
            })
            .collect();
        let open = packaged.iter().filter(|_| !refresh);
        let keepers = (0..p.threads).filter(|n| p.keep && p.role(*n).writes());
        Ok(Needs {
            open_before: open.map(|f| Path::new("packaged").join(&f.path)).collect(),
            packaged,
            kept_files: keepers.map(|n| file(p.kept_name(n))).collect(),
            kept_file_key: p
                .filled_with()
                .filter(|_| p.keep)
                .map(|with| (p.file_size, with)),
            space: if p.op.writes() {
                let files = p.writers().max(p.files);
                let at_once = if p.changes_places() { 2 } else { 1 };
                p.file_size.saturating_mul(files.saturating_mul(at_once))
            } else {
                0
            },
            refresh,
            ..Needs::default()
        })
    }

    fn prepare(self, dir: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError> {
        let work = prepare::prepare(dir, self, context)?;
        Ok(Box::new(Repeated::new(work)))
    }
}
