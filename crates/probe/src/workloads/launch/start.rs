//! One start of a program: from just before its process is created to the ready event.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use layermark_model::{CpuUse, Environment};
use layermark_sys::process::Schedstat;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::{
    counting::Counting,
    display::Display,
    figures::LaunchTrial,
    params::{LaunchParams, words},
    ready::{self, Ready, ReadyEvent, ReadyKind, Scene},
    trace,
};
use crate::{
    ProbeError,
    clock::monotonic_ns,
    programs::{
        ELSEWHERE, PATH,
        last_output::{LastOutput, capture_stderr},
        spawn::Program,
        tree::{Sum, Tree},
        user::User,
    },
};

/// Values of the environment of at least this length, bytes, are masked in texts.
const SECRET: usize = 4;

/// CPU time after the last reading of a program that ends, at most, ns.
const END_NS: u64 = 50_000;

/// A completed launch.
#[derive(Debug, Serialize, Deserialize)]
pub struct Launched {
    pub elapsed_ns: u64,
    /// How long the program waited for a CPU until it ended, ns. `None` where others worked beside its first thread, whose
    /// waiting is then not time that passes, and where the kernel does not count it.
    pub waited_ns: Option<u64>,
    pub cpu: CpuUse,
    pub launch: LaunchTrial,
}

/// Where and how programs are started.
pub struct LaunchSite {
    pub p: LaunchParams,
    /// The program's working directory, as it sees it.
    pub dir: PathBuf,
    /// The directory that it sees as its root.
    pub root: Option<PathBuf>,
    /// Its own writable directory, as it sees it.
    pub home: PathBuf,
    /// Additional variables of its environment. Their values are never shown.
    pub env: Environment,
    pub display: Option<Display>,
    /// User who runs it; the current user when `None`.
    pub user: Option<User>,
}

impl LaunchSite {
    /// Masks the values of the environment in a text. Short values are not masked: they are not
    /// secrets, and texts contain them by chance.
    pub fn masked(&self, text: String) -> String {
        let secrets = self.env.values().filter(|v| v.len() >= SECRET);
        secrets.fold(text, |text, value| text.replace(value.as_str(), "***"))
    }

    /// Masks the program's output. File names, which a package consists of, are not stored.
    pub fn mask(&self, launch: &mut LaunchTrial) {
        let window = launch.window.take();
        launch.window = window.map(|title| self.masked(title));
    }

    /// A command that runs in the same place as the launched program.
    fn command(&self, words: &[String]) -> Result<(Program, LastOutput), ProbeError> {
        let fail = |e: std::io::Error| cannot_start(&words[0], &e);
        let mut program = Program::new(words, self.root.clone(), self.dir.clone()).map_err(fail)?;
        program
            .env("PATH", PATH)
            .env("HOME", &self.home)
            .env("XDG_RUNTIME_DIR", &self.home)
            .user(self.user);
        for name in ["LANG", "LC_ALL"] {
            if let Some(value) = std::env::var_os(name) {
                program.env(name, value);
            }
        }
        for (name, value) in &self.env {
            program.env(name, value);
        }
        let said = capture_stderr(&mut program).map_err(fail)?;
        Ok((program, said))
    }

    /// Runs a command beside the program, such as `--prepare`, to its end, or until the other end of `asker` is closed.
    pub fn aside(
        &self,
        name: &str,
        text: &str,
        tree: &mut Tree,
        asker: BorrowedFd<'_>,
    ) -> Result<(), ProbeError> {
        if text.is_empty() {
            return Ok(());
        }
        let words = words("launch", name, text)?;
        let (program, said) = self.command(&words)?;
        tree.clear();
        let mut start_ns = 0;
        let child = program
            .prepared()
            .and_then(|p| p.start(monotonic_ns, &mut start_ns))
            .map_err(|e| cannot_start(&words[0], &e))?;
        tree.main = Some(child.pid);
        let over = start_ns + self.p.timeout().as_nanos() as u64;
        while tree.code.is_none() && monotonic_ns() < over {
            let left = over.saturating_sub(monotonic_ns());
            let mut end = [
                PollFd::new(&child.pidfd, PollFlags::IN),
                PollFd::new(&asker, PollFlags::RDHUP),
            ];
            // Interrupted: polled again.
            let _ = poll(&mut end, Some(&timespec(left)));
            if !end[1].revents().is_empty() {
                break;
            }
            tree.reap();
        }
        let code = tree.code;
        tree.stop(self.p.grace());
        tree.clear();
        match code {
            Some(0) => Ok(()),
            Some(code) => Err(ProbeError::new(format!(
                "`{name}` ended with exit code {code}{}",
                said.text()
            ))),
            None => Err(ProbeError::new(format!(
                "`{name}` did not end within {}",
                self.p.timeout
            ))),
        }
    }

    /// Starts the program and waits until it is ready. The caller must always stop the tree. `gone`
    /// becomes readable when the result is no longer needed.
    pub fn launch(
        &self,
        tree: &mut Tree,
        counting: &mut Counting,
        gone: BorrowedFd<'_>,
    ) -> Result<Launched, ProbeError> {
        let (kind, value) = ready::parse(&self.p.ready)?;
        self.launch_until(kind, value, tree, counting, gone)
    }

    /// Like [`Self::launch`], until this condition with this value comes true.
    pub fn launch_until(
        &self,
        kind: &dyn ReadyKind,
        value: &str,
        tree: &mut Tree,
        counting: &mut Counting,
        gone: BorrowedFd<'_>,
    ) -> Result<Launched, ProbeError> {
        let program = words("launch", "command", &self.p.command)?;
        let tracer = self
            .p
            .tracing
            .then(|| trace::Tracer::new(&self.home, self.root.as_deref(), self.p.listing));
        let argv = tracer
            .as_ref()
            .map_or_else(|| program.clone(), |t| t.command(&program));
        let (mut command, said) = self.command(&argv)?;
        let mut watched = kind.arm(
            value,
            &mut Scene {
                command: &mut command,
                root: self.root.as_deref(),
                dir: &self.dir,
                display: self.display.as_ref(),
            },
        )?;
        let fail = |e: std::io::Error| cannot_start(&argv[0], &e);
        let command = command.prepared().map_err(fail)?;
        tree.clear();
        let before = counting.before();
        let mut start_ns = 0;
        let child = command.start(monotonic_ns, &mut start_ns).map_err(fail)?;
        tree.main = Some(child.pid);
        let end_ns = start_ns + self.p.timeout().as_nanos() as u64;
        let came = wait(watched.as_mut(), &child.pidfd, gone, end_ns)?;
        let mut counted = LaunchTrial::default();
        counting.after(before, child.pidfd.as_fd(), &mut counted);
        // It has ended, and is there until it is reaped.
        let first = watched.is_exit().then(|| {
            let pid = child.pid;
            Schedstat::of(Path::new(&format!("/proc/{pid}")))
        });
        let used = tree.used();
        let first = first.flatten().filter(|first| works_alone(*first, &used));
        let found = self.came(came, watched.is_exit(), tree, &said)?;
        let mut launch = LaunchTrial {
            program: name_of(&program[0]),
            ready: self.p.ready.clone(),
            start_ns,
            window: found.window,
            error_ns: kind.error_ns(),
            exit: tree.code,
            major_faults: used.major_faults,
            input_blocks: used.input_blocks,
            read_bytes: used.read_bytes,
            peak_bytes: used.peak_bytes,
            processes: used.processes,
            ..counted
        };
        let elapsed_ns = found.at_ns.saturating_sub(start_ns).max(1);
        if let Some(tracer) = tracer {
            if !watched.is_exit() {
                tracer.calm();
            }
            tree.stop(self.p.grace());
            launch.trace = Some(tracer.read(elapsed_ns)?);
        }
        Ok(Launched {
            elapsed_ns,
            waited_ns: first.map(|first| first.wait_ns),
            cpu: used.cpu,
            launch,
        })
    }

    /// Waits for the condition. Returns the event that ended the wait.
    fn came(
        &self,
        came: Came,
        is_exit: bool,
        tree: &Tree,
        said: &LastOutput,
    ) -> Result<ReadyEvent, ProbeError> {
        let program = &self.p.command;
        let code = tree.code;
        match came {
            Came::Ready(found) => Ok(found),
            Came::Exit(at_ns) if is_exit => {
                let failed = code.filter(|c| *c != 0 && !self.p.ignore_failure);
                match failed {
                    None => Ok(ReadyEvent {
                        at_ns,
                        window: None,
                    }),
                    Some(code) => Err(ProbeError::new(format!(
                        "`{program}` ended with exit code {code}{}",
                        said.text()
                    ))
                    .hint("--ignore-failure takes any exit code")),
                }
            }
            Came::Exit(_) => Err(ProbeError::new(format!(
                "`{program}` ended ({}) before {}{}",
                code.map_or_else(|| "unknown".into(), |c| format!("exit code {c}")),
                self.p.ready,
                said.text()
            ))),
            Came::Late if is_exit => Err(ProbeError::new(format!(
                "`{program}` did not end within {}{}",
                self.p.timeout,
                said.text()
            ))
            .hint("give it more time with --timeout")),
            Came::Late => Err(ProbeError::new(format!(
                "`{program}` was not ready ({}) after {}{}",
                self.p.ready,
                self.p.timeout,
                said.text()
            ))
            .hint("give it more time with --timeout, or see whether `ready` can come true")),
            Came::Gone => Err(ProbeError::new("the launch was cancelled")),
        }
    }
}

/// Whether the first thread of a program did all work of its tree, but for a fiftieth and [`END_NS`]. The CPU time of the tree
/// has that of other threads, and of children for which it waited. Unknown are children that the kernel reaps (`SIGCHLD` is
/// ignored), and operations that a device does meanwhile (`io_uring`).
fn works_alone(first: Schedstat, tree: &Sum) -> bool {
    let all_ns = tree.cpu.user_ns + tree.cpu.sys_ns;
    let most_ns = first.run_ns + first.run_ns / 50 + END_NS;
    first.is_counted() && tree.processes == 1 && all_ns <= most_ns
}

fn cannot_start(program: &str, e: &std::io::Error) -> ProbeError {
    if e.kind() == std::io::ErrorKind::NotFound {
        return not_found(program);
    }
    ProbeError::io("start", Path::new(program), e)
}

/// The error for a program that is not there.
pub fn not_found(program: &str) -> ProbeError {
    let text = format!("`{program}` was not found, or the interpreter that it names");
    ProbeError::new(text).hint(format!(
        "name a program below the layer's directory, or one of {PATH}; {ELSEWHERE}"
    ))
}

/// The last part of a path.
fn name_of(program: &str) -> String {
    program.rsplit('/').next().unwrap_or(program).to_owned()
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    }
}

/// The event that ends the wait.
enum Came {
    Ready(ReadyEvent),
    /// The program ended at this time.
    Exit(u64),
    Late,
    Gone,
}

fn wait(
    watched: &mut dyn Ready,
    pidfd: &OwnedFd,
    gone: BorrowedFd<'_>,
    end_ns: u64,
) -> Result<Came, ProbeError> {
    let mut next_look = monotonic_ns();
    loop {
        let now = monotonic_ns();
        if now >= end_ns {
            return Ok(Came::Late);
        }
        let every = watched.every_ns();
        let until = every.map_or(end_ns, |_| next_look.min(end_ns));
        let (exit, left) = {
            let fds = watched.fds();
            let mut all: Vec<PollFd<'_>> = [pidfd.as_fd(), gone]
                .into_iter()
                .chain(fds)
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            match poll(&mut all, Some(&timespec(until.saturating_sub(now)))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(ProbeError::new(format!("cannot wait for events: {e}"))),
            }
            let exit = !all[0].revents().is_empty();
            // `go` has been read by now, so readable means closed.
            (exit.then(monotonic_ns), !all[1].revents().is_empty())
        };
        if exit.is_none() || !watched.is_exit() {
            if let Some(found) = watched.look()? {
                return Ok(Came::Ready(found));
            }
            if let Some(every) = every {
                let now = monotonic_ns();
                if now >= next_look {
                    next_look = now + every;
                }
            }
        }
        if let Some(at) = exit {
            return Ok(Came::Exit(at));
        }
        if left {
            return Ok(Came::Gone);
        }
    }
}
