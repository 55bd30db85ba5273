//! `meta`: many small files, one operation each, as in source trees, mail boxes and package
//! managers. Layers that forward every call are slowest here.

use std::path::Path;

use layermark_model::{Meaning, Param, Point, PointError, Settings};

use crate::{
    Context, Needs, PackagedFile, ProbeError, Work, Workload,
    param::{self, read},
    run::Repeated,
};

mod meaning;
mod ops;
mod params;
#[cfg(test)]
mod tests;
mod work;

use params::MetaParams;

/// The workload `meta`.
pub struct Meta;

/// How many files can be looked at while one is made and removed.
const LOOKS: u64 = 10;

impl Workload for Meta {
    fn id(&self) -> &'static str {
        "meta"
    }

    fn about(&self) -> &'static str {
        "many small files: stat, open, list, read, write, create, change, unlink"
    }

    fn params(&self) -> &'static [Param] {
        params::PARAMS
    }

    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        param::points::<MetaParams>(settings, scale)
    }

    fn meaning(&self, at: &Point) -> Result<Meaning, PointError> {
        param::meaning::<MetaParams>(at)
    }

    /// A small file takes a block, and about the same for its inode.
    fn needs(&self, at: &Point) -> Result<Needs, PointError> {
        let p = read::<MetaParams>(at)?;
        let first = p.op.first();
        if !p.op.packaged() {
            let each = p.file_size.next_multiple_of(4096) + 4096;
            return Ok(Needs {
                space: p.files.saturating_mul(each),
                // Others are made until the rounds are over, and stay.
                files: if p.op.on_written() { p.files } else { 0 },
                ..Needs::default()
            });
        }
        let root = packaged_root(&p);
        let file = |i| PackagedFile::random(format!("{root}/{}", name(&p, i)), p.file_size);
        Ok(Needs {
            packaged: (0..p.files).map(file).collect(),
            files: if first { p.files } else { p.files / LOOKS },
            // A layer may copy each of them.
            space: if first {
                p.files.saturating_mul(p.file_size.saturating_add(4096))
            } else {
                0
            },
            refresh: first,
            ..Needs::default()
        })
    }

    fn prepare(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError> {
        Ok(Box::new(Repeated::new(work::prepare(
            dir,
            read::<MetaParams>(at)?,
            context,
        )?)))
    }
}

fn packaged_root(p: &MetaParams) -> String {
    let MetaParams {
        op,
        file_size,
        files,
        per_directory,
        ..
    } = p;
    // What is changed is not looked at by other points.
    let kind = if op.first() { op.id() } else { "small" };
    format!("{kind}-{file_size}-{files}-{per_directory}")
}

/// Path of file `i` below its root.
fn name(p: &MetaParams, i: u64) -> String {
    format!("d{}/f{i}", i / p.per_directory)
}
