//! Runs a command of the user's when a layer ends, also after layermark was killed.
//!
//! A child process holds one end of a pipe; only layermark holds the other one. When layermark ends, for
//! whatever reason, the kernel closes that end, and the child becomes the command.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::set_parent_process_death_signal;

use crate::{child, entered::users_command};

/// How long a command may take.
const LIMIT: Duration = Duration::from_mins(1);

/// Children that wait in this process's name. They outlive a run that is abandoned.
static WAITING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Whether a process is one that waits to tear down a place.
pub(crate) fn is_waiting(pid: u32) -> bool {
    let waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.contains(&pid)
}

/// A command that runs when this is run or dropped, or when layermark ends.
pub(crate) struct Teardown {
    child: Child,
    /// Open as long as the command has to wait.
    held: Option<ChildStdin>,
}

impl Teardown {
    /// Starts `EXE teardown WORDS...`, and waits until it cannot be ended with layermark any more.
    pub(crate) fn start(exe: &Path, words: &[OsString]) -> io::Result<Self> {
        let own = [exe.into(), "teardown".into()];
        let mut child = users_command(&[&own, words].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(child.id());
        drop(waiting);
        let held = child.stdin.take();
        if let Some(mut ready) = child.stdout.take() {
            ready.read_exact(&mut [0])?;
        }
        Ok(Self { child, held })
    }

    /// Lets it run, and waits for its end.
    pub(crate) fn run(mut self) -> io::Result<()> {
        drop(self.held.take());
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            let Some(status) = self.child.try_wait()? else {
                thread::sleep(Duration::from_millis(2));
                continue;
            };
            // Another process may get its number.
            let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.retain(|pid| *pid != self.child.id());
            return if status.success() {
                Ok(())
            } else {
                Err(io::Error::other(child::ending(status)))
            };
        }
        Err(io::Error::other(format!("still running after {LIMIT:?}")))
    }
}

/// Waits until standard input ends, and becomes the command.
pub fn teardown(words: &[OsString]) -> io::Result<()> {
    let [program, arguments @ ..] = words else {
        return Err(io::Error::other("this is started by layermark itself"));
    };
    set_parent_process_death_signal(None)?;
    io::stdout().write_all(b"1")?;
    io::stdout().flush()?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    let null = || Stdio::null();
    Err(std::process::Command::new(program)
        .args(arguments)
        .stdin(null())
        .stdout(null())
        .exec())
}
