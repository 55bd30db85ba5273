//! `devload`: users who edit, compile, sort and pack files. Each runs a script with the same jobs
//! in a different order, as in SPEC's SDET. Every job checks its result.

use std::{path::Path, time::Duration};

use layermark_model::{Needs, PointError, Settings};

use crate::{
    Context, ProbeError, UsualBlocks, Work,
    param::{self, Of, Runs},
};

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
pub static WORKLOAD: Of<DevLoadParams> = param::of();

impl Runs for DevLoadParams {
    const ABOUT: &'static str =
        "users who edit, compile, sort, pack and search files: scripts an hour";
    const EXAMPLES: [&'static str; 2] = [
        "layermark devload --users 1,2 -l overlay:upper",
        "layermark devload --users 2 --job-set no-cc -l fuse --budget 5m",
    ];

    fn usual_blocks(_: &Settings) -> Option<UsualBlocks> {
        Some(UsualBlocks::Most(TRIALS))
    }

    fn needs(&self) -> Result<Needs, PointError> {
        Ok(Needs {
            space: corpus::SIZE + self.users * JOB,
            lasts: SCRIPT,
            ..Needs::default()
        })
    }

    fn check_programs(&self) -> Result<(), ProbeError> {
        programs::find(self.job_set).map(drop)
    }

    fn prepare(self, dir: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError> {
        let work = work::DevLoadWork::prepare(dir, self, context)?;
        Ok(Box::new(work))
    }
}
