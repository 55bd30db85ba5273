//! `lock`: threads that contend for a lock on one file. Databases, mail stores and build tools rely
//! on locks, and shared folders are known to make them slow or unsafe.

use std::path::Path;

use layermark_model::{Needs, PointError};

use crate::{
    Context, ProbeError, Work,
    param::{self, Of, Runs},
    run::Repeated,
};

mod contenders;
pub(super) mod kind;
mod ops;
pub(super) mod params;
pub(super) mod sys;
#[cfg(test)]
mod tests;
mod work;

use params::LockParams;

/// The workload `lock`.
pub static WORKLOAD: Of<LockParams> = param::of();

impl Runs for LockParams {
    const ABOUT: &'static str = "threads that contend for a lock on a file, and whether it excludes a second client: flock, fcntl, OFD";
    const EXAMPLES: [&'static str; 2] = [
        "layermark lock -l overlay:upper",
        "layermark lock --threads 4 -l fuse",
    ];

    fn needs(&self) -> Result<Needs, PointError> {
        Ok(Needs {
            space: BLOCK,
            ..Needs::default()
        })
    }

    fn prepare(self, dir: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError> {
        let work = work::LockWork::prepare(dir, self, context)?;
        Ok(Box::new(Repeated::new(work)))
    }
}

/// Size of the file on the disk, bytes.
const BLOCK: u64 = 4096;
