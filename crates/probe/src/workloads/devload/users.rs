//! The users: each is a shell that the guard starts and holds at a barrier until the clock starts.

use std::{
    fs,
    io::Read,
    os::fd::{BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

use layermark_model::{CpuUse, Faults};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pipe::{PipeFlags, pipe_with},
};
use serde::{Deserialize, Serialize};

use super::jobs::{self, ScriptJob};
use crate::{
    ProbeError,
    clock::monotonic_ns,
    programs::{
        PATH,
        guard::Guarded,
        last_output::{LastOutput, capture_stderr},
        spawn::Program,
        sys::{self, Reaped},
        tree::Tree,
    },
    usage,
};

/// Interval of checks of users that do not end. A check reads all of `/proc` and is inside the
/// clock.
const LOOK: Duration = Duration::from_secs(30);
/// Users that get no CPU time for this long are stuck.
const STUCK: Duration = Duration::from_mins(2);
/// Time between SIGTERM and SIGKILL. A shell that gets SIGTERM removes its files.
const GRACE: Duration = Duration::from_millis(500);
/// Output of a shell at the barrier.
const READY: &[u8] = b"ready\n";

/// The users of one trial.
pub struct Users {
    /// Directory of corpus, script, and the users' own directories.
    pub home: PathBuf,
    /// Jobs of each user, in order.
    pub scripts: Vec<Vec<ScriptJob>>,
    /// A script to run first, outside the clock.
    pub rehearsal: Vec<ScriptJob>,
    /// The users at the barrier.
    pub at_barrier: Option<Started>,
}

/// Result of a trial.
#[derive(Debug, Serialize, Deserialize)]
pub struct Worked {
    /// Time from the barrier to the last exit, ns.
    pub elapsed_ns: u64,
    /// CPU time of the users' commands.
    pub cpu: CpuUse,
    /// Page faults of the users' commands.
    pub faults: Faults,
    /// Time from the barrier to each user's exit, ns.
    pub script_ns: Vec<u64>,
    /// CPU time of the guard in that time, ns.
    pub own_ns: u64,
}

/// Users who have been started.
pub struct Started {
    users: Vec<User>,
    /// The users wait for its end.
    barrier: OwnedFd,
}

/// A user's shell.
struct User {
    name: String,
    jobs: Vec<ScriptJob>,
    pid: u32,
    pidfd: OwnedFd,
    said: LastOutput,
    /// Time of its end on the clock, and exit status.
    ended: Option<(u64, Reaped)>,
}

impl Guarded for Users {
    type Done = Worked;

    fn grace(&self) -> Duration {
        GRACE
    }

    fn prepare(&mut self, tree: &mut Tree, asker: BorrowedFd<'_>) -> Result<(), ProbeError> {
        if !self.rehearsal.is_empty() {
            let rehearsal = [("rehearsal".to_owned(), self.rehearsal.clone())];
            let started = start(&self.home, rehearsal.into(), asker)?;
            run(&self.home, started, tree, asker)?;
        }
        let named = |(n, jobs): (usize, &Vec<ScriptJob>)| (format!("user{}", n + 1), jobs.clone());
        let scripts = self.scripts.iter().enumerate().map(named);
        self.at_barrier = Some(start(&self.home, scripts.collect(), asker)?);
        Ok(())
    }

    fn work(&mut self, tree: &mut Tree, asker: BorrowedFd<'_>) -> Result<Worked, ProbeError> {
        let started = self.at_barrier.take();
        let started = started.ok_or_else(|| ProbeError::new("no user was started"))?;
        run(&self.home, started, tree, asker)
    }
}

/// Starts a shell for each user and waits until all are at the barrier.
fn start(
    home: &Path,
    scripts: Vec<(String, Vec<ScriptJob>)>,
    asker: BorrowedFd<'_>,
) -> Result<Started, ProbeError> {
    let fail = |e: std::io::Error| ProbeError::new(format!("cannot make a pipe: {e}"));
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|e| fail(e.into()));
    let ((input, barrier), (ready, output)) = (pipe()?, pipe()?);
    let mut users = Vec::with_capacity(scripts.len());
    for (name, jobs) in scripts {
        users.push(User::start(home, name, jobs, [&input, &output])?);
    }
    // Each shell has its own copy.
    drop((input, output));
    at_barrier(&users, ready.into(), asker, STUCK)?;
    Ok(Started { users, barrier })
}

/// Waits until every shell has reported that it is at the barrier. Gives up when none has reported
/// for `limit`.
fn at_barrier(
    users: &[User],
    mut ready: fs::File,
    asker: BorrowedFd<'_>,
    limit: Duration,
) -> Result<(), ProbeError> {
    let wanted = READY.repeat(users.len());
    let mut said = Vec::new();
    while said.len() < wanted.len() {
        let mut fds: Vec<PollFd<'_>> = users
            .iter()
            .map(|u| PollFd::new(&u.pidfd, PollFlags::IN))
            .collect();
        fds.push(PollFd::new(&ready, PollFlags::IN));
        fds.push(PollFd::from_borrowed_fd(asker, PollFlags::RDHUP));
        // Interrupted: polled again.
        let events = poll(&mut fds, Timespec::try_from(limit).ok().as_ref()).unwrap_or(1);
        if fds.last().is_some_and(|fd| !fd.revents().is_empty()) {
            return Err(cancelled());
        }
        if events == 0 {
            return Err(stuck("shells", limit, " before the first job"));
        }
        let came = fds.iter().position(|fd| !fd.revents().is_empty());
        match came {
            Some(n) if n < users.len() => {
                let User { name, said, .. } = &users[n];
                return Err(ProbeError::new(format!(
                    "the shell of {name} ended before its first job{}",
                    said.text()
                )));
            }
            Some(_) => {
                let mut more = [0; 256];
                let n = ready.read(&mut more).unwrap_or(0);
                said.extend(&more[..n]);
            }
            None => {}
        }
    }
    if said == wanted {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said).into_owned();
    Err(ProbeError::new(format!(
        "the users' shells said `{said}` and not that they are ready"
    )))
}

/// Opens the barrier, waits until every user has finished, and checks their results.
fn run(
    home: &Path,
    started: Started,
    tree: &mut Tree,
    asker: BorrowedFd<'_>,
) -> Result<Worked, ProbeError> {
    let Started { mut users, barrier } = started;
    tree.clear();
    let before = usage::now().cpu;
    let start_ns = monotonic_ns();
    drop(barrier);
    let Used { cpu, faults } = wait(&mut users, home, asker)?;
    let own = usage::now().cpu;
    let script_ns: Vec<u64> = users
        .iter()
        .filter_map(|u| Some(u.ended?.0.saturating_sub(start_ns)))
        .collect();
    for user in &users {
        user.check(home)?;
    }
    Ok(Worked {
        elapsed_ns: script_ns.iter().copied().max().unwrap_or(0).max(1),
        cpu,
        faults,
        script_ns,
        own_ns: own.user_ns + own.sys_ns - before.user_ns - before.sys_ns,
    })
}

/// Resources used by the users and all processes they started.
#[derive(Default)]
struct Used {
    cpu: CpuUse,
    faults: Faults,
}

/// Waits until all have ended.
fn wait(users: &mut [User], home: &Path, asker: BorrowedFd<'_>) -> Result<Used, ProbeError> {
    let mut used = Used::default();
    let (mut seen, mut seen_ns) = (CpuUse::default(), monotonic_ns());
    while users.iter().any(|u| u.ended.is_none()) {
        let running = users.iter().filter(|u| u.ended.is_none());
        let mut fds: Vec<PollFd<'_>> = running
            .map(|u| PollFd::new(&u.pidfd, PollFlags::IN))
            .collect();
        fds.push(PollFd::from_borrowed_fd(asker, PollFlags::RDHUP));
        let limit = Timespec::try_from(LOOK).ok();
        // Interrupted: polled again.
        let events = poll(&mut fds, limit.as_ref()).unwrap_or(1);
        let now = monotonic_ns();
        if fds.last().is_some_and(|fd| !fd.revents().is_empty()) {
            return Err(cancelled());
        }
        while let Some(ended) = sys::reap() {
            used.cpu.user_ns += ended.cpu.user_ns;
            used.cpu.sys_ns += ended.cpu.sys_ns;
            used.faults.minor += ended.minor_faults;
            used.faults.major += ended.major_faults;
            if let Some(user) = users.iter_mut().find(|u| u.pid == ended.pid.unsigned_abs()) {
                user.ended = Some((now, ended));
                user.well_ended(home)?;
            }
        }
        if events == 0 {
            let living = Tree::default().living().cpu;
            if living != seen {
                (seen, seen_ns) = (living, now);
            } else if u128::from(now - seen_ns) >= STUCK.as_nanos() {
                let first = users.iter().find(|u| u.ended.is_none());
                let at = first.map_or_else(String::new, |u| format!(": {}", u.place(home)));
                return Err(stuck("commands", STUCK, &at));
            }
        }
    }
    Ok(used)
}

fn cancelled() -> ProbeError {
    ProbeError::new("the trial was cancelled")
}

fn stuck(who: &str, since: Duration, at: &str) -> ProbeError {
    let seconds = since.as_secs();
    ProbeError::new(format!("the users' {who} did nothing for {seconds} s{at}"))
        .hint("the layer, or what serves it, does not answer")
}

impl User {
    fn start(
        home: &Path,
        name: String,
        jobs: Vec<ScriptJob>,
        [input, output]: [&OwnedFd; 2],
    ) -> Result<Self, ProbeError> {
        let dir = home.join(&name);
        fs::create_dir(&dir).map_err(|e| ProbeError::io("make", &dir, &e))?;
        let fail = |e: std::io::Error| ProbeError::io("start", Path::new("sh"), &e);
        // Paths relative to the user's directory and to a job's, because a path need not be UTF-8.
        let mut argv = ["sh", "../script.sh", "../../corpus"]
            .map(str::to_owned)
            .to_vec();
        argv.extend(jobs.iter().map(ToString::to_string));
        let mut program = Program::new(&argv, None, dir.clone()).map_err(fail)?;
        program
            .env("PATH", PATH)
            .env("HOME", &dir)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(input.try_clone().map_err(fail)?)
            .stdout(output.try_clone().map_err(fail)?);
        let said = capture_stderr(&mut program).map_err(fail)?;
        let prepared = program.prepared().map_err(fail)?;
        let started = prepared.start(monotonic_ns, &mut 0).map_err(fail)?;
        Ok(Self {
            name,
            jobs,
            pid: started.pid,
            pidfd: started.pidfd,
            said,
            ended: None,
        })
    }

    fn results(&self, home: &Path) -> PathBuf {
        home.join(&self.name).join("results")
    }

    /// The user's current job: `user2 in job 12 of 40 (sort.3)`.
    fn place(&self, home: &Path) -> String {
        let results = fs::read_to_string(self.results(home)).unwrap_or_default();
        self.at(results.lines().count())
    }

    fn at(&self, job: usize) -> String {
        let (name, all) = (&self.name, self.jobs.len());
        match self.jobs.get(job) {
            Some(kind) => format!("{name} in job {} of {all} ({kind})", job + 1),
            None => format!("{name} after its last job"),
        }
    }

    /// Checks that its script reached its end.
    fn well_ended(&self, home: &Path) -> Result<(), ProbeError> {
        let Reaped { code, signal, .. } = self.ended.map_or_else(Reaped::default, |(_, how)| how);
        if code == 0 {
            return Ok(());
        }
        let (place, said) = (self.place(home), self.said.text());
        let error = if code > 128 {
            let (what, signal) = (signal.map_or("command", |_| "shell"), code - 128);
            ProbeError::new(format!(
                "a {what} was killed by signal {signal}: {place}{said}"
            ))
            .hint("it was killed, or memory ran out: see dmesg | tail")
        } else {
            ProbeError::new(format!("a job failed with exit code {code}: {place}{said}"))
                .hint("do the same on the host's own disk: layermark devload -l native")
        };
        let full = said.contains("No space left on device");
        Err(ProbeError {
            errno: full.then_some(libc::ENOSPC),
            ..error
        })
    }

    /// Checks the results of all its jobs.
    fn check(&self, home: &Path) -> Result<(), ProbeError> {
        let path = self.results(home);
        let found = fs::read(&path).map_err(|e| ProbeError::io("read", &path, &e))?;
        let found = String::from_utf8_lossy(&found);
        let Some(wrong) = jobs::first_wrong(&self.jobs, &found) else {
            return Ok(());
        };
        let wanted = self.jobs.get(wrong).map_or("", |job| job.result());
        let error = ProbeError::new(format!(
            "a job came to a wrong result: {}: `{}` instead of `{wanted}`",
            self.at(wrong),
            found.lines().nth(wrong).unwrap_or("nothing")
        ));
        Err(error.hint(
            "the layer changes data, or a program works differently here: see whether \
             `layermark devload -l native` says the same",
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::fd::AsFd, os::unix::ffi::OsStrExt, os::unix::net::UnixStream};

    use super::{super::params::JobSet, *};
    use crate::{
        programs::guard::Guard,
        workloads::devload::{corpus, work::SCRIPT},
    };

    /// A user with another script.
    fn home(script: &str) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("script.sh"), script).unwrap();
        home
    }

    fn one_user() -> Vec<(String, Vec<ScriptJob>)> {
        vec![("user1".into(), jobs::one_of_each(JobSet::NoCc))]
    }

    fn guarded(home: &Path) -> Result<Worked, ProbeError> {
        let mut guard = Guard::start(Users {
            home: home.to_owned(),
            scripts: vec![jobs::one_of_each(JobSet::NoCc)],
            rehearsal: Vec::new(),
            at_barrier: None,
        })?;
        guard.work(LOOK, &mut || {}).map(|worked| *worked)
    }

    #[test]
    fn a_shell_that_never_comes_to_the_barrier_is_not_waited_for_when_nobody_asks() {
        let home = home("exec sleep 60");
        let (asker, ours) = UnixStream::pair().unwrap();
        drop(ours);
        let e = start(home.path(), one_user(), asker.as_fd()).err();
        assert_eq!(e.expect("an error").message, "the trial was cancelled");
    }

    #[test]
    fn a_shell_that_never_comes_to_the_barrier_is_given_up() {
        let home = home("exec sleep 60");
        let pipe = || pipe_with(PipeFlags::CLOEXEC).unwrap();
        let ((input, _barrier), (ready, output)) = (pipe(), pipe());
        let (name, jobs) = one_user().remove(0);
        let user = User::start(home.path(), name, jobs, [&input, &output]).unwrap();
        let (asker, _ours) = UnixStream::pair().unwrap();
        let limit = Duration::from_secs(1);
        let e = at_barrier(&[user], ready.into(), asker.as_fd(), limit).unwrap_err();
        let wanted = "the users' shells did nothing for 1 s before the first job";
        assert_eq!(e.message, wanted);
    }

    #[test]
    fn a_killed_command_is_not_told_as_a_killed_shell() {
        let script = |end: &str| format!("echo ready; read -r _; {end}; exit");
        let command = home(&script("sh -c 'kill -9 $$'"));
        let e = guarded(command.path()).unwrap_err();
        let wanted = "a command was killed by signal 9: user1 in job 1 of 14";
        assert!(e.message.starts_with(wanted), "{e}");
        let shell = home(&script("kill -9 $$"));
        let e = guarded(shell.path()).unwrap_err();
        assert!(
            e.message.starts_with("a shell was killed by signal 9: "),
            "{e}"
        );
    }

    #[test]
    fn a_path_need_not_be_utf_8() {
        let parent = home(SCRIPT);
        let home = parent.path().join(OsStr::from_bytes(b"\xff"));
        let corpus = home.join("corpus");
        fs::create_dir_all(&corpus).unwrap();
        corpus::write(&corpus).unwrap();
        fs::write(home.join("script.sh"), SCRIPT).unwrap();
        let worked = guarded(&home).unwrap();
        assert_eq!(worked.script_ns.len(), 1);
        assert!(worked.faults.minor > 0, "{worked:?}");
    }
}
