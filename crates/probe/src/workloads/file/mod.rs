//! `file`: reading and writing one file a thread, after the definitions of `iozone`'s tests.

use std::path::{Path, PathBuf};

use layermark_model::{Param, Point, PointError, Settings};

use crate::{
    Context, Divided, PackagedFile, ProbeError, TurnCost, Work, Workload, engines, run::Repeated,
};

mod check;
mod fill;
mod first_write;
mod job;
mod label;
mod like;
mod matrix;
#[cfg(test)]
mod matrix_tests;
mod params;
mod pass;
mod prepare;
mod rates;
mod settle;
mod team;
#[cfg(test)]
mod tests;
mod words;

#[cfg(test)]
pub(crate) use matrix::KEYS as MATRIX_KEYS;
use params::{Cache, FileParams, Op};
// What other workloads need too.
pub(crate) use prepare::{direct_refused, evict, sync_file_system, uring_available};
pub(crate) use settle::{DIRECT_CACHED, DIRECT_SHARE};

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
        params::PARAMS
    }

    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        params::points(settings, scale)
    }

    fn packaged(&self, at: &Point) -> Result<Vec<PackagedFile>, PointError> {
        let p = read(at)?;
        if !touches(&p) {
            return Ok(Vec::new());
        }
        Ok((0..p.files_in_all())
            .filter(|n| p.role(*n).packaged())
            .map(|n| PackagedFile {
                path: packaged_name(&p, n),
                size: p.file_size,
            })
            .collect())
    }

    fn writes(&self, at: &Point) -> bool {
        read(at).is_ok_and(|p| p.op.writes() && touches(&p))
    }

    fn open_before(&self, at: &Point) -> Vec<PathBuf> {
        if read(at).is_ok_and(|p| p.op == Op::FirstWrite) {
            return Vec::new();
        }
        let files = self.packaged(at).unwrap_or_default();
        let path = |f: PackagedFile| Path::new("packaged").join(f.path);
        files.into_iter().map(path).collect()
    }

    fn goes_on_with(&self, at: &Point) -> Option<(u64, u64)> {
        let p = read(at).ok().filter(|p| p.keep)?;
        Some((p.file_size, p.filled_with()?))
    }

    fn needs_refresh(&self, at: &Point) -> bool {
        read(at).is_ok_and(|p| p.op == Op::FirstWrite)
    }

    fn kept(&self, at: &Point) -> Result<Vec<PackagedFile>, PointError> {
        let p = read(at)?;
        if !p.keep || !touches(&p) {
            return Ok(Vec::new());
        }
        let file = |n| PackagedFile {
            path: kept_name(&p, n),
            size: p.file_size,
        };
        let writers = (0..p.threads).filter(|n| p.role(*n).writes());
        Ok(writers.map(file).collect())
    }

    /// A copy-up, and a number of passes or a time that the user has fixed, are one stretch each. So is a cold file that is read in some order: what was read ahead
    /// while others had their turns would come for nothing. Of several files each is a turn.
    fn divided(&self, at: &Point) -> Option<Divided> {
        let p = read(at).ok()?;
        if p.files > 1 {
            return Some(Divided {
                in_memory: false,
                uses_up: true,
                working_set: p.file_size.saturating_mul(p.files),
                cost: TurnCost::Nothing,
                under_way: 0,
            });
        }
        let fixed = p.passes > 0 || p.min_ms > 0 || p.op == Op::FirstWrite;
        let fixed = fixed || (job::once(&p) && !matches!(p.op, Op::RandRead | Op::RandWrite));
        (!fixed).then(|| Divided {
            in_memory: p.cache == Cache::Warm
                && !p.direct
                && (!p.op.writes() || p.sync.leaves_debt()),
            uses_up: job::once(&p),
            working_set: p.file_size.saturating_mul(p.threads),
            cost: if p.threads > 1 {
                TurnCost::Threads
            } else {
                TurnCost::Nothing
            },
            under_way: if p.iodepth > 1 {
                2 * p.iodepth * p.unit() * p.threads
            } else {
                0
            },
        })
    }

    /// First writes count whole files: an overlay copies them.
    fn space(&self, at: &Point) -> u64 {
        match read(at) {
            Ok(p) if p.op.writes() && touches(&p) => {
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
        let work = prepare::prepare(dir, read(at)?, context)?;
        Ok(Box::new(Repeated::new(work)))
    }
}

/// The point's parameters, checked: in the probe they come from another process.
fn read(at: &Point) -> Result<FileParams, PointError> {
    let p: FileParams = at.typed()?;
    check::check(&p)?;
    Ok(p)
}

/// Whether the engine touches files at all.
fn touches(p: &FileParams) -> bool {
    engines::find(&p.engine).is_some_and(engines::Engine::needs_file)
}

/// A file that trials of one size write over, one after the other.
fn kept_name(p: &FileParams, thread: u64) -> String {
    format!("kept/data-{}-{thread}", p.file_size)
}

/// Threads have a file each; points of one size share them. First writes have their own: what
/// they change must not be what another point reads.
fn packaged_name(p: &FileParams, thread: u64) -> String {
    let kind = if p.op == Op::FirstWrite {
        "first"
    } else {
        "data"
    };
    format!("{kind}-{}-{thread}", p.file_size)
}
