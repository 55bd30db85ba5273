//! `devload`: users who edit, compile, sort and pack files. Each runs a script with the same jobs
//! in a different order, as in SPEC's SDET. Every job checks its result.

use std::{path::Path, time::Duration};

use layermark_model::{Meaning, Param, Point, PointError, Settings};

use crate::{Context, Needs, ProbeError, UsualBlocks, Work, Workload, param};

mod corpus;
mod figures;
mod jobs;
mod params;
mod programs;
mod users;
mod work;

use params::DevLoadParams;

/// Maximum size of a job's files, bytes.
const JOB: u64 = 1 << 20;

/// Default number of trials of a point.
const TRIALS: u32 = 8;
/// What a script takes natively, more or less.
const SCRIPT: Duration = Duration::from_secs(2);

/// The workload `devload`.
pub struct DevLoad;

impl Workload for DevLoad {
    fn id(&self) -> &'static str {
        "devload"
    }

    fn about(&self) -> &'static str {
        "users who edit, compile, sort, pack and search files: scripts an hour"
    }

    fn params(&self) -> &'static [Param] {
        params::PARAMS
    }

    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        param::points::<DevLoadParams>(settings, scale)
    }

    fn meaning(&self, at: &Point) -> Result<Meaning, PointError> {
        param::meaning::<DevLoadParams>(at)
    }

    fn usual_blocks(&self, _: &Settings) -> Option<UsualBlocks> {
        Some(UsualBlocks::Most(TRIALS))
    }

    fn needs(&self, at: &Point) -> Result<Needs, PointError> {
        let p: DevLoadParams = param::read(at)?;
        Ok(Needs {
            space: corpus::SIZE + p.users * JOB,
            lasts: SCRIPT,
            ..Needs::default()
        })
    }

    fn check_programs(&self, at: &Point) -> Result<(), ProbeError> {
        let p: DevLoadParams = param::read(at)?;
        programs::find(p.job_set).map(drop)
    }

    fn prepare(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError> {
        let work = work::DevLoadWork::prepare(dir, param::read(at)?, context)?;
        Ok(Box::new(work))
    }
}
