//! Ctrl-C, SIGTERM and SIGHUP while a program is recorded. The first ends the program, as it would without `record`, and
//! what it has done until then is recorded. The second ends `record`, which removes its directories.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group,
        pidfd_open, pidfd_send_signal, waitid,
    },
};
use signal_hook::{consts::SIGINT, iterator::Handle};

use crate::{
    failure::{Code, Failure},
    say::say,
    signals,
};

/// How long strace has to let go of a program.
const LETS_GO: Timespec = Timespec {
    tv_sec: 2,
    tv_nsec: 0,
};
/// How often what a program has started is killed: some may have been started meanwhile.
const KILLS: usize = 100;

/// Signals so far, and the program that runs.
pub struct Interrupts {
    shared: Arc<Shared>,
    handle: Handle,
}

#[derive(Default)]
struct Shared {
    count: AtomicUsize,
    running: Mutex<Option<Running>>,
    /// Called with every signal.
    release: Mutex<Option<Box<dyn Fn() + Send>>>,
}

/// A child that has not been reaped, so that its number is still its own.
#[derive(Clone, Copy)]
struct Running {
    pid: Pid,
    how: How,
}

/// How a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Below strace, with this terminal.
    Here,
    /// In a process group of its own, which no terminal signals. It is killed by the first signal.
    Apart,
    /// It ran before, and goes on when strace ends.
    Attached,
}

impl Interrupts {
    /// Catches signals until this is dropped.
    pub fn caught() -> Result<Self, Failure> {
        let failed = |e: io::Error| Failure::failed(format!("signals: {e}"));
        let mut signals = signals::caught().map_err(failed)?;
        let (shared, handle) = (Arc::<Shared>::default(), signals.handle());
        let own = Arc::clone(&shared);
        let watches = thread::Builder::new().spawn(move || {
            for signal in signals.forever() {
                own.arrived(signal);
            }
        });
        watches.map_err(failed)?;
        Ok(Self { shared, handle })
    }

    /// Whether a signal has come.
    pub fn any(&self) -> bool {
        self.shared.count.load(Ordering::SeqCst) > 0
    }

    /// An error if this command is to end.
    pub fn go_on(&self) -> Result<(), Failure> {
        if self.shared.count.load(Ordering::SeqCst) < 2 {
            return Ok(());
        }
        Err(stopped())
    }

    /// What lets programs go on that were stopped: called with every signal, before anything else.
    pub fn on_signal(&self, release: impl Fn() + Send + 'static) {
        *locked(&self.shared.release) = Some(Box::new(release));
    }

    /// What kills the program that runs, with those that it has started.
    pub fn killer(&self) -> impl FnOnce() + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.kill()
    }

    /// Starts a program, or strace for one that runs, and waits for its end. `begun` is called with the child.
    pub fn run(
        &self,
        command: &mut Command,
        how: How,
        begun: impl FnOnce(&mut Child) -> io::Result<()>,
    ) -> io::Result<(ExitStatus, Duration)> {
        if how == How::Apart {
            command.process_group(0);
        }
        let started = Instant::now();
        let mut running = self.shared.running();
        if how != How::Here && self.any() {
            return Err(io::Error::other("it was interrupted"));
        }
        let mut child = command.spawn()?;
        let pid = Pid::from_child(&child);
        *running = Some(Running { pid, how });
        drop(running);
        let prepared = begun(&mut child);
        if prepared.is_err() {
            self.shared.kill();
        }
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(pid), ended).is_err_and(|e| e == Errno::INTR) {}
        let took = started.elapsed();
        *self.shared.running() = None;
        let status = child.wait()?;
        prepared.map(|()| (status, took))
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// The error of a command that a signal has ended.
pub fn stopped() -> Failure {
    Failure {
        message: "stopped: nothing was recorded".into(),
        param: None,
        hint: None,
        code: Code::Stopped,
    }
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        locked(&self.running)
    }

    fn arrived(&self, signal: i32) {
        if let Some(release) = locked(&self.release).as_deref() {
            release();
        }
        let before = self.count.fetch_add(1, Ordering::SeqCst);
        let running = *self.running();
        match (before, running) {
            (
                0,
                Some(Running {
                    how: How::Attached,
                    pid,
                }),
            ) => {
                say(
                    "\nwhat the program has done until now is recorded; press Ctrl-C again to record nothing",
                );
                detach(pid);
            }
            (
                0,
                Some(Running {
                    how: How::Here,
                    pid,
                }),
            ) => {
                say(
                    "\nwhat the program has done is recorded when it has ended; press Ctrl-C again to record nothing",
                );
                // The terminal sends Ctrl-C to the program too. Other signals were for this process.
                if signal != SIGINT {
                    for program in children(pid) {
                        let _ = kill_process(program, Signal::TERM);
                    }
                }
            }
            (0, Some(_)) => {
                say(
                    "\nthe time between calls is not measured; press Ctrl-C again to record nothing",
                );
                self.kill();
            }
            (0, None) => say("\npress Ctrl-C again to record nothing"),
            (1, _) => self.kill(),
            // It has hung since the second.
            _ => std::process::exit(Code::Stopped as i32),
        }
    }

    /// Kills the program that runs, with those that it has started.
    fn kill(&self) {
        let running = self.running();
        match *running {
            Some(Running {
                pid,
                how: How::Apart,
            }) => {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            Some(Running {
                pid,
                how: How::Attached,
            }) => detach(pid),
            // strace last: without it, programs that it traces would go on.
            Some(Running { pid, .. }) => {
                for _ in 0..KILLS {
                    let below = below(pid);
                    if below.is_empty() {
                        break;
                    }
                    for pid in below.into_iter().rev() {
                        let _ = kill_process(pid, Signal::KILL);
                    }
                }
                let _ = kill_process(pid, Signal::KILL);
            }
            None => {}
        }
    }
}

/// Ends strace, so that the program goes on: it lets go of each process that it traces. One in vfork(2) waits for its
/// child, and strace for it, while it holds the child; when strace is killed, the kernel lets go of both.
fn detach(strace: Pid) {
    let Ok(fd) = pidfd_open(strace, PidfdFlags::empty()) else {
        return;
    };
    let _ = pidfd_send_signal(&fd, Signal::TERM);
    let waits = move || {
        let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&LETS_GO));
        let _ = pidfd_send_signal(&fd, Signal::KILL);
    };
    // Without a thread there is no patience.
    if thread::Builder::new().spawn(waits).is_err() {
        let _ = kill_process(strace, Signal::KILL);
    }
}

/// The processes below one, parents first.
fn below(pid: Pid) -> Vec<Pid> {
    let mut all: Vec<Pid> = children(pid).collect();
    let mut next = 0;
    while let Some(parent) = all.get(next).copied() {
        all.extend(children(parent));
        next += 1;
    }
    all
}

fn children(parent: Pid) -> impl Iterator<Item = Pid> {
    let all = layermark_sys::process::children(parent.as_raw_nonzero());
    all.into_iter()
        .filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupts() -> Interrupts {
        Interrupts::caught().unwrap()
    }

    #[test]
    fn the_first_signal_ends_a_program_apart_and_the_second_this_command() {
        let it = interrupts();
        let own = Arc::clone(&it.shared);
        let mut endless = Command::new("sleep");
        let ended = it.run(endless.arg("1000"), How::Apart, |_| {
            own.arrived(SIGINT);
            Ok(())
        });
        assert_eq!(ended.unwrap().0.code(), None, "it was killed");
        assert!(it.any() && it.go_on().is_ok());
        let refused = it.run(Command::new("true").arg(""), How::Apart, |_| Ok(()));
        assert!(refused.unwrap_err().to_string().contains("interrupted"));
        own.arrived(SIGINT);
        assert_eq!(it.go_on().unwrap_err().code, Code::Stopped);
    }

    /// As under strace: the child has a child. The second signal kills both.
    #[test]
    fn the_second_signal_kills_all_that_was_started() {
        let it = interrupts();
        let own = Arc::clone(&it.shared);
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo begun; wait; sleep 1000"]);
        shell.stdout(std::process::Stdio::piped());
        let ended = it.run(&mut shell, How::Here, |child| {
            let mut begun = [0; 6];
            io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut begun)?;
            own.arrived(SIGINT);
            own.arrived(SIGINT);
            Ok(())
        });
        // The shell says what killed its child, if it comes to that.
        assert!(!ended.unwrap().0.success());
        assert!(it.go_on().is_err());
    }
}
