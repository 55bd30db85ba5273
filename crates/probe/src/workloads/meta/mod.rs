//! `meta`: many small files, one operation each, as in source trees, mail boxes and package
//! managers. Layers that forward every call are slowest here.

use std::path::Path;

use layermark_model::{Needs, PackagedTree, PointError};

use crate::{
    Context, ProbeError, Work,
    param::{self, Of, Runs},
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
pub static WORKLOAD: Of<MetaParams> = param::of();

/// How many files can be looked at while one is made and removed.
const LOOKS: u64 = 10;

impl Runs for MetaParams {
    const ABOUT: &'static str =
        "many small files: stat, open, list, read, write, create, change, unlink";
    const EXAMPLES: [&'static str; 2] = [
        "layermark meta --op create,unlink -l overlay:upper",
        "layermark meta --op small-read --cache cold -l fuse --budget 1m",
    ];

    /// A small file takes a block, and about the same for its inode.
    fn needs(&self) -> Result<Needs, PointError> {
        let p = self;
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
        Ok(Needs {
            packaged_tree: Some(tree(p)),
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

    fn prepare(self, dir: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError> {
        Ok(Box::new(Repeated::new(work::prepare(dir, self, context)?)))
    }
}

/// The packaged files of a point.
fn tree(p: &MetaParams) -> PackagedTree {
    let MetaParams {
        op,
        file_size,
        files,
        per_directory,
        ..
    } = *p;
    // What is changed is not looked at by other points.
    let kind = if op.first() { op.id() } else { "small" };
    PackagedTree {
        root: format!("{kind}-{file_size}-{files}-{per_directory}"),
        files,
        per_directory,
        file_size,
    }
}

/// Path of file `i` below its root.
fn name(p: &MetaParams, i: u64) -> String {
    PackagedTree::name(i, p.per_directory)
}
