//! `meta`: many small files, one operation each. What source trees, mail boxes and package
//! managers do, and where layers that pass every call on are slowest.

use std::path::Path;

use layermark_model::{Param, Point, PointError, Settings};

use crate::{Context, Divided, PackagedFile, ProbeError, TurnCost, Work, Workload, run::Repeated};

mod ops;
mod params;
#[cfg(test)]
mod tests;
mod work;

use params::{Cache, MetaParams};

/// Files in one directory.
const PER_DIRECTORY: u64 = 100;

/// What the kernel keeps of a file beside its data, about: inode, directory entry. Bytes.
const INODE: u64 = 1024;

/// The workload `meta`.
pub struct Meta;

impl Workload for Meta {
    fn id(&self) -> &'static str {
        "meta"
    }

    fn about(&self) -> &'static str {
        "many small files: open and stat, read, write, create, unlink"
    }

    fn params(&self) -> &'static [Param] {
        params::PARAMS
    }

    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        params::points(settings, scale)
    }

    fn packaged(&self, at: &Point) -> Result<Vec<PackagedFile>, PointError> {
        let p = read(at)?;
        if p.op.writes() {
            return Ok(Vec::new());
        }
        let root = packaged_root(&p);
        Ok((0..p.files)
            .map(|i| PackagedFile {
                path: format!("{root}/{}", name(i)),
                size: p.file_size,
            })
            .collect())
    }

    fn writes(&self, at: &Point) -> bool {
        read(at).is_ok_and(|p| p.op.writes())
    }

    fn divided(&self, at: &Point) -> Option<Divided> {
        let p = read(at).ok()?;
        (p.passes == 0).then(|| Divided {
            in_memory: p.cache == Cache::Warm && !p.op.writes(),
            uses_up: p.cache == Cache::Cold,
            working_set: p.files * (INODE + p.op.moves(p.file_size)),
            cost: if p.op.writes() {
                TurnCost::Files
            } else {
                TurnCost::Nothing
            },
            under_way: 0,
        })
    }

    fn needs_refresh(&self, _: &Point) -> bool {
        false
    }

    /// A small file takes a block, and its inode about as much again.
    fn space(&self, at: &Point) -> u64 {
        match read(at) {
            Ok(p) if p.op.writes() => p
                .files
                .saturating_mul(p.file_size.next_multiple_of(4096) + 4096),
            _ => 0,
        }
    }

    fn prepare(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError> {
        Ok(Box::new(Repeated::new(work::prepare(
            dir,
            read(at)?,
            context,
        )?)))
    }
}

fn read(at: &Point) -> Result<MetaParams, PointError> {
    let p: MetaParams = at.typed()?;
    params::check(&p)?;
    Ok(p)
}

fn packaged_root(p: &MetaParams) -> String {
    format!("small-{}-{}", p.file_size, p.files)
}

/// Path of file `i` below its root.
fn name(i: u64) -> String {
    format!("d{}/f{i}", i / PER_DIRECTORY)
}
