//! The jobs of a script: kinds, frequencies, order, and expected results.

use std::fmt;

use super::{corpus::PARTS, params::JobSet};
use crate::{data, permutation::Permutation};

/// Results of every kind of job on every part of the corpus, `KIND.PART CHECKSUM SIZE` by cksum(1).
const REFERENCE: &str = include_str!("reference.txt");

/// A kind of job: a function `job_NAME` of the script.
struct Kind {
    name: &'static str,
    /// Number of times it comes in 40 jobs, by job set.
    cc: u64,
    no_cc: u64,
}

const fn kind(name: &'static str, cc: u64, no_cc: u64) -> Kind {
    Kind { name, cc, no_cc }
}

/// Kinds of job, with their number in 40 jobs, with and without a compiler.
const KINDS: [Kind; 14] = [
    kind("edit", 4, 5),
    kind("cc", 4, 0),
    kind("make", 2, 0),
    kind("sort", 3, 4),
    kind("awk", 3, 4),
    kind("comm", 2, 2),
    kind("pr", 2, 3),
    kind("tar", 3, 3),
    kind("cpio", 2, 3),
    kind("gzip", 2, 3),
    kind("grep", 4, 4),
    kind("files", 4, 4),
    kind("shell", 3, 3),
    kind("ps", 2, 2),
];

/// One job: a kind, on a part of the corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptJob {
    kind: &'static str,
    part: u64,
}

impl fmt::Display for ScriptJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.part)
    }
}

impl ScriptJob {
    /// The line that the script adds to the results after it has done this job correctly.
    pub fn result(self) -> &'static str {
        let name = self.to_string();
        let is_its = |line: &&str| line.split(' ').next() == Some(&name);
        REFERENCE.lines().find(is_its).unwrap_or_default()
    }
}

/// The jobs of every user's script. It starts with one job of each kind, and each 40 jobs have the
/// frequencies of the job set.
pub fn script(job_set: JobSet, count: u64) -> Vec<ScriptJob> {
    let often = |k: &Kind| match job_set {
        JobSet::Cc => k.cc,
        JobSet::NoCc => k.no_cc,
    };
    let most = KINDS.iter().map(often).max().unwrap_or(0);
    let round = |round: u64| {
        let kinds = KINDS.iter().filter(move |k| often(k) > round);
        kinds.map(move |k| ScriptJob {
            kind: k.name,
            part: 1 + round % PARTS,
        })
    };
    let jobs = (0..most).cycle().flat_map(round);
    jobs.take(count as usize).collect()
}

/// One job of each kind.
pub fn one_of_each(job_set: JobSet) -> Vec<ScriptJob> {
    script(job_set, KINDS.len() as u64)
}

/// The same jobs in an order of this user.
pub fn shuffled(jobs: &[ScriptJob], seed: u64, user: u64) -> Vec<ScriptJob> {
    let seed = data::derive(seed, &format!("order of user {user}"));
    let order = Permutation::new(jobs.len() as u64, seed);
    let jobs = (0..jobs.len() as u64).map(|i| jobs[order.at(i) as usize]);
    jobs.collect()
}

/// Index of the first job of a script whose result is wrong or missing; `None` when all are
/// correct.
pub fn first_wrong(jobs: &[ScriptJob], results: &str) -> Option<usize> {
    let mut lines = results.lines();
    let wrong = jobs.iter().position(|j| lines.next() != Some(j.result()));
    wrong.or_else(|| lines.next().map(|_| jobs.len()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn forty_jobs_have_the_frequencies_of_their_profile() {
        for (job_set, kinds) in [(JobSet::Cc, 14), (JobSet::NoCc, 12)] {
            let jobs = script(job_set, 40);
            for k in &KINDS {
                let often = jobs.iter().filter(|j| j.kind == k.name).count() as u64;
                let wanted = match job_set {
                    JobSet::Cc => k.cc,
                    JobSet::NoCc => k.no_cc,
                };
                assert_eq!(often, wanted, "{} in {job_set:?}", k.name);
            }
            let first: BTreeSet<_> = jobs[..kinds].iter().map(|j| j.kind).collect();
            assert_eq!(first.len(), kinds);
            assert_eq!(script(job_set, 80)[40..], jobs);
        }
    }

    #[test]
    fn every_job_has_a_reference_and_every_reference_a_job() {
        let mut wanted: Vec<String> = KINDS
            .iter()
            .flat_map(|k| (1..=PARTS).map(move |part| ScriptJob { kind: k.name, part }))
            .map(|job| {
                assert!(job.result().split(' ').count() == 3, "{job}");
                job.result().to_owned()
            })
            .collect();
        wanted.sort();
        let mut lines: Vec<&str> = REFERENCE.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, wanted);
    }

    #[test]
    fn each_user_has_the_same_jobs_in_an_order_of_its_own() {
        let jobs = script(JobSet::Cc, 40);
        let orders = [1, 2].map(|user| shuffled(&jobs, 7, user));
        assert_ne!(orders[0], orders[1]);
        assert_eq!(orders[0], shuffled(&jobs, 7, 1));
        assert_ne!(orders[0], shuffled(&jobs, 8, 1));
        let sorted = |jobs: &[ScriptJob]| {
            let mut names: Vec<String> = jobs.iter().map(ToString::to_string).collect();
            names.sort();
            names
        };
        assert_eq!(sorted(&orders[0]), sorted(&jobs));
        assert_eq!(sorted(&orders[1]), sorted(&jobs));
    }

    #[test]
    fn the_first_wrong_result_is_found() {
        let jobs = script(JobSet::NoCc, 14);
        let lines: Vec<&str> = jobs.iter().map(|j| j.result()).collect();
        assert_eq!(first_wrong(&jobs, &lines.join("\n")), None);
        let mut changed = lines.clone();
        changed[5] = "pr.1 1 2";
        assert_eq!(first_wrong(&jobs, &changed.join("\n")), Some(5));
        assert_eq!(first_wrong(&jobs, &lines[..9].join("\n")), Some(9));
        assert_eq!(first_wrong(&jobs, ""), Some(0));
        let more = lines.join("\n") + "\nedit.1 0 0";
        assert_eq!(first_wrong(&jobs, &more), Some(14));
    }
}
