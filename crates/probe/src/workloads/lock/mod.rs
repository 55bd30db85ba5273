//! `lock`: threads that contend for a lock on one file. Databases, mail stores and build tools rely
//! on locks, and shared folders are known to make them slow or unsafe.

use std::path::Path;

use layermark_model::{Meaning, Param, Point, PointError, Settings};

use crate::{Context, Needs, ProbeError, Work, Workload, param, run::Repeated};

mod contenders;
mod ops;
mod params;
mod sys;
#[cfg(test)]
mod tests;
mod work;

use params::LockParams;

/// The workload `lock`.
pub struct Lock;

impl Workload for Lock {
    fn id(&self) -> &'static str {
        "lock"
    }

    fn about(&self) -> &'static str {
        "threads that contend for a lock on a file: flock, fcntl, OFD"
    }

    fn params(&self) -> &'static [Param] {
        params::PARAMS
    }

    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        param::points::<LockParams>(settings, scale)
    }

    fn meaning(&self, at: &Point) -> Result<Meaning, PointError> {
        param::meaning::<LockParams>(at)
    }

    fn needs(&self, _: &Point) -> Result<Needs, PointError> {
        Ok(Needs {
            space: BLOCK,
            ..Needs::default()
        })
    }

    fn prepare(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError> {
        let work = work::LockWork::prepare(dir, param::read(at)?, context)?;
        Ok(Box::new(Repeated::new(work)))
    }
}

/// Size of the file on the disk, bytes.
const BLOCK: u64 = 4096;
