//! Parameters of the workload `devload`.

use layermark_model::{Meaning, PointError, Quantity, Target, Unit};
use serde::{Deserialize, Serialize};

use super::figures;
use crate::{
    limits,
    param::{self, Means, Params, Values, words},
};

words! {
    /// The set of jobs.
    pub enum JobSet {
        /// All 14 kinds.
        Cc = "cc",
        /// Those that need no compiler.
        NoCc = "no-cc",
    }
}

type Row = param::Row<DevLoadParams>;

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevLoadParams {
    pub users: u64,
    pub job_set: JobSet,
    pub jobs: u64,
}

/// Fewest jobs of a script: one of each kind.
const LEAST_JOBS: u64 = 14;

impl Params for DevLoadParams {
    const ID: &'static str = "devload";
    const TABLE: &'static [Row] = &[
        Row::count("users", "1,2")
            .list()
            .range(1, limits::THREADS)
            .help("users who work at the same time, each by a script of the same jobs in an order of its own; raise it until scripts an hour fall: that is the peak")
            .says(|p| Some(p.users()))
            .axis(Quantity::Users, |p| p.users),
        Row::word("job_set", JobSet::WORDS, "cc")
            .list()
            .help("jobs of a script: all 14 kinds, or those that need no compiler")
            .label(|p| (p.job_set != JobSet::Cc).then(|| p.job_set.id().into()))
            .part(|p| Some(p.job_set.id().into())),
        Row::count("jobs", "40")
            .range(LEAST_JOBS, 4000)
            .help("jobs of a script; made fewer by --scale")
            .label(|p| (p.jobs != 40).then(|| format!("{} jobs", p.jobs)))
            .part(|p| Some(format!("{} jobs", p.jobs))),
    ];

    fn scale(&mut self, scale: f64, _: &Values) {
        self.jobs = param::scaled(self.jobs, scale).max(LEAST_JOBS);
    }
}

impl Means for DevLoadParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let said = Meaning {
            operation: "script".into(),
            target: Target::Script,
            unit: Unit::Script,
            changes: true,
            concurrency: self.users,
            ..Meaning::default()
        };
        Ok(self.described(said).figures(figures::table()))
    }
}

impl DevLoadParams {
    fn users(&self) -> String {
        match self.users {
            1 => "1 user".into(),
            n => format!("{n} users"),
        }
    }
}
