//! `file`: reading and writing one file per thread, by the definitions of `iozone`'s tests.

use std::path::{Path, PathBuf};

use layermark_model::{Meaning, Param, Point, PointError, Settings};

use crate::{
    Context, PackagedFile, ProbeError, UsualBlocks, Work, Workload,
    param::{self, read},
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
pub struct File;

impl Workload for File {
    fn id(&self) -> &'static str {
        "file"
    }

    fn about(&self) -> &'static str {
        "reads and writes files: operation, record, file size, threads, durability, cache"
    }

    fn params(&self) -> &'static [Param] {
        points::PARAMS
    }

    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        points::points(settings, scale)
    }

    fn meaning(&self, at: &Point) -> Result<Meaning, PointError> {
        param::meaning::<FileParams>(at)
    }

    fn usual_blocks(&self, settings: &Settings) -> Option<UsualBlocks> {
        matrix::is_asked(settings).then_some(UsualBlocks::Whole(MATRIX_BLOCKS))
    }

    fn packaged(&self, at: &Point) -> Result<Vec<PackagedFile>, PointError> {
        let p = read::<FileParams>(at)?;
        if !p.touches() {
            return Ok(Vec::new());
        }
        Ok((0..p.files_in_all())
            .filter(|n| p.role(*n).packaged())
            .map(|n| PackagedFile {
                path: p.packaged_name(n),
                size: p.file_size,
            })
            .collect())
    }

    fn open_before(&self, at: &Point) -> Vec<PathBuf> {
        if read::<FileParams>(at).is_ok_and(|p| p.op == Op::FirstWrite) {
            return Vec::new();
        }
        let files = self.packaged(at).unwrap_or_default();
        let path = |f: PackagedFile| Path::new("packaged").join(f.path);
        files.into_iter().map(path).collect()
    }

    fn kept_file_key(&self, at: &Point) -> Option<(u64, u64)> {
        let p = read::<FileParams>(at).ok().filter(|p| p.keep)?;
        Some((p.file_size, p.filled_with()?))
    }

    fn needs_refresh(&self, at: &Point) -> bool {
        read::<FileParams>(at).is_ok_and(|p| p.op == Op::FirstWrite)
    }

    fn kept_files(&self, at: &Point) -> Result<Vec<PackagedFile>, PointError> {
        let p = read::<FileParams>(at)?;
        if !p.keep || !p.touches() {
            return Ok(Vec::new());
        }
        let file = |n| PackagedFile {
            path: p.kept_name(n),
            size: p.file_size,
        };
        let writers = (0..p.threads).filter(|n| p.role(*n).writes());
        Ok(writers.map(file).collect())
    }

    /// A first write counts the whole file, because an overlay copies it.
    fn space(&self, at: &Point) -> u64 {
        match read::<FileParams>(at) {
            Ok(p) if p.op.writes() && p.touches() => {
                p.file_size.saturating_mul(p.writers().max(p.files))
            }
            _ => 0,
        }
    }

    fn prepare(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError> {
        let work = prepare::prepare(dir, read::<FileParams>(at)?, context)?;
        Ok(Box::new(Repeated::new(work)))
    }
}
