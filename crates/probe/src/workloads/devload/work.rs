//! One trial: corpus, users, clock, and removal of the users' files.

use std::{collections::BTreeMap, fs, path::Path, sync::Mutex, time::Duration};

use layermark_model::{Pass, Trial, Turn, Verified};
use rustix::fs::{StatVfsMountFlags, statvfs};

use super::{
    corpus, figures,
    jobs::{self, ScriptJob},
    params::{DevLoadParams, JobSet},
    programs,
    users::{Users, Worked},
};
use crate::{
    Beat, Context, ProbeError, TurnRequest, Turned, Work, counters, limits::HEARTBEAT_NS,
    programs::guard::Guard, run::Mark, usage, workloads::work_dir::WorkDir,
};

/// The script of every user's shell. It contains no text from the user of layermark.
pub const SCRIPT: &str = include_str!("script.sh");

/// A prepared trial: the users are at the barrier.
pub struct DevLoadWork {
    /// Declared first, so that all processes have ended before the files are removed.
    guard: Guard<Users>,
    p: DevLoadParams,
    programs: BTreeMap<String, String>,
    context: Context,
    work: WorkDir,
}

impl DevLoadWork {
    pub fn prepare(dir: &Path, p: DevLoadParams, context: &Context) -> Result<Self, ProbeError> {
        let found = programs::find(p.job_set)?;
        runs_programs(dir, p.job_set)?;
        // Checked before they are read for their hashes.
        let in_memory = programs::in_memory(&found);
        let programs = programs::hashes(&found)?;
        let work = WorkDir::new(dir)?;
        let home = work.path().to_owned();
        let fail = |e: std::io::Error| ProbeError::io("make the corpus in", &home, &e);
        fs::write(home.join("script.sh"), SCRIPT).map_err(fail)?;
        let corpus = home.join("corpus");
        fs::create_dir(&corpus).map_err(fail)?;
        corpus::write(&corpus).map_err(fail)?;
        let script = jobs::script(p.job_set, p.jobs);
        let own = |user| jobs::shuffled(&script, context.seed, user);
        let guard = Guard::start(Users {
            home,
            scripts: (1..=p.users).map(own).collect(),
            rehearsal: rehearsal(p.job_set, in_memory),
            at_barrier: None,
        })?;
        rehearsed(p.job_set);
        // Dirty data, including the rehearsal's files, must not be written back inside the clock.
        context.sync(dir)?;
        Ok(Self {
            guard,
            p,
            programs,
            context: context.clone(),
            work,
        })
    }
}

/// Job sets that this process has run once. A layer's probe lives for a session.
static REHEARSED: Mutex<Vec<JobSet>> = Mutex::new(Vec::new());

/// One job of each kind. Run before the first counted trial, and after a cold point has dropped the
/// caches. Afterwards the programs are in memory, and jobs that fail here are found outside the
/// clock.
fn rehearsal(job_set: JobSet, in_memory: bool) -> Vec<ScriptJob> {
    let done = REHEARSED.lock().is_ok_and(|done| done.contains(&job_set));
    if done && in_memory {
        return Vec::new();
    }
    jobs::one_of_each(job_set)
}

fn rehearsed(job_set: JobSet) {
    if let Ok(mut done) = REHEARSED.lock()
        && !done.contains(&job_set)
    {
        done.push(job_set);
    }
}

/// Checks that a program compiled in the layer can run there.
fn runs_programs(dir: &Path, job_set: JobSet) -> Result<(), ProbeError> {
    let flags = statvfs(dir).map_err(|e| ProbeError::io("look at", dir, &e.into()))?;
    if job_set == JobSet::Cc && flags.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        let message = format!(
            "{} is mounted `noexec`: no program can run there",
            dir.display()
        );
        let hint = "leave out the jobs that compile: --job-set no-cc";
        return Err(ProbeError::new(message).hint(hint));
    }
    Ok(())
}

impl Work for DevLoadWork {
    /// A script cannot be divided.
    fn turn(
        &mut self,
        ask: &TurnRequest,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError> {
        let before = counters::sum(&self.context.devices);
        let own = usage::now().cpu;
        let every = Duration::from_nanos(HEARTBEAT_NS);
        let Worked {
            elapsed_ns,
            cpu,
            faults,
            script_ns,
            own_ns,
        } = *self.guard.work(every, &mut || beat(0, 0))?;
        let probe = usage::now().cpu;
        let after = counters::sum(&self.context.devices);
        let turn = Turn {
            round: ask.round,
            elapsed_ns,
            ops: self.p.users,
            bytes: 0,
            ..Turn::default()
        };
        trial.passes.push(Pass {
            elapsed_ns,
            ops: turn.ops,
            bytes: 0,
            ..Pass::default()
        });
        trial.cpu = cpu;
        trial.device = before.zip(after).map(|(b, a)| counters::between(b, a));
        trial.faults = Some(faults);
        // A wrong result is an error, so there is no trial.
        trial.verified = Some(Verified {
            records: self.p.users * self.p.jobs,
            bad: 0,
        });
        let own_ns = own_ns + probe.user_ns + probe.sys_ns - own.user_ns - own.sys_ns;
        trial.figures.set(figures::OWN, own_ns);
        trial.figures.set(figures::SCRIPTS, script_ns.as_slice());
        for (name, hash) in &self.programs {
            let name = format!("{}.{name}", figures::PROGRAMS);
            trial.figures.set(&name, hash.as_str());
        }
        Ok(Turned {
            turn,
            cpu,
            device: trial.device,
            ..Turned::default()
        })
    }

    /// The jobs have removed their files except for the results. Dirty data is written back now, so
    /// that it does not slow another trial.
    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        let devices = counters::Devices::open(&self.context.devices);
        let since = Mark::read(&devices);
        self.guard.stop()?;
        self.context.sync(self.work.path())?;
        trial.debt = Some(since.debt(&devices));
        Ok(())
    }

    fn end(&mut self, _: &mut Trial) -> Result<(), ProbeError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_the_rehearsal_wrote_is_on_the_disk_before_the_clock() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut done = REHEARSED.lock().unwrap();
        done.retain(|job_set| *job_set != JobSet::NoCc);
        drop(done);
        let p = DevLoadParams {
            users: 1,
            job_set: JobSet::NoCc,
            jobs: 14,
        };
        let work = DevLoadWork::prepare(dir.path(), p, &Context::least()).unwrap();
        let results = work.work.path().join("rehearsal/results");
        assert!(fs::metadata(&results).unwrap().len() > 100);
        let extents = Command::new("filefrag").arg("-v").arg(&results).output();
        let extents = String::from_utf8(extents.unwrap().stdout).unwrap();
        assert!(extents.contains("extent"), "{extents}");
        assert!(!extents.contains("delalloc"), "{extents}");
    }

    #[test]
    fn programs_that_left_the_memory_are_rehearsed_again() {
        rehearsed(JobSet::Cc);
        assert!(rehearsal(JobSet::Cc, true).is_empty());
        assert_eq!(rehearsal(JobSet::Cc, false).len(), 14);
    }
}
