//! A file system in user space that the user names, between the disk and what stands on it.

use std::{
    path::Path,
    process::Stdio,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use layermark_sys::process::{self, Stat};
use rustix::{
    fd::OwnedFd,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use super::{disk::NAME, failed};
use crate::{Control, LayerError, Undo, child::Process, mounts, needs, served::Watched};

/// How long it may take to mount.
const LIMIT: Duration = Duration::from_secs(10);

/// A server of the user's: a command in the foreground, and where it mounts itself.
pub struct UserServer<'a> {
    /// The command without the directory that it serves and the mount point.
    pub command: &'a [String],
    /// The directory that it serves.
    pub source: &'a Path,
    /// The mount point.
    pub at: &'a Path,
}

impl UserServer<'_> {
    /// Does `work` while the server runs, and then the steps of `undo`. A call of this thread that waits for the server for
    /// `silence` fails, because the server is killed. `None` if that happened.
    pub fn serve<T, E: From<LayerError>>(
        &self,
        silence: Duration,
        undo: &mut Undo,
        work: impl FnOnce(&mut Undo) -> Result<T, E>,
    ) -> Option<Result<T, E>> {
        let process = Arc::new(OnceLock::new());
        let (at, killed) = (self.at.to_path_buf(), Arc::clone(&process));
        let seen = Arc::clone(&process);
        let waits_for_disk = move || seen.get().is_some_and(Started::waits_for_disk);
        let watched = Watched::new(silence, waits_for_disk, move || end(&at, killed.get()));
        let started = serve_with(self.command, self.source, self.at, undo, &process);
        let done = started.map_err(E::from).and_then(|()| work(undo));
        // The last unmount waits for writes that the server has not answered.
        undo.run();
        (!watched.had_to_end()).then_some(done)
    }
}

/// The process of a server.
struct Started {
    pid: u32,
    fd: OwnedFd,
}

impl Started {
    /// Whether one of its threads waits in the kernel so that no usual signal ends it, as for a disk. It may also wait for a
    /// lock, or for another server.
    fn waits_for_disk(&self) -> bool {
        let mut states = process::threads(self.pid).filter_map(|thread| Stat::of_thread(&thread));
        states.any(|stat| stat.state == 'D')
    }
}

/// Ends all calls that wait for the server. Its end does that, also after the unmount, and needs no privilege. A command that
/// only starts the server has no such end, but root of the machine can end the calls at the mount point.
fn end(at: &Path, process: Option<&Started>) {
    if let Some(process) = process {
        // Fails only if it has ended.
        let _ = pidfd_send_signal(&process.fd, Signal::KILL);
    }
    mounts::abort(at);
}

/// Runs `command` with the directory `source` and the mount point `at` as its last two arguments, and
/// waits until it has mounted itself. It has to stay in the foreground. Of the user's environment it gets
/// only the language. Puts its process into `known`.
///
/// # Errors
///
/// The program is not installed, ends, or does not mount in time.
fn serve_with(
    command: &[String],
    source: &Path,
    at: &Path,
    undo: &mut Undo,
    known: &OnceLock<Started>,
) -> Result<(), LayerError> {
    let Some((program, arguments)) = command.split_first() else {
        let empty = std::io::ErrorKind::InvalidInput.into();
        return Err(failed("start the server for", at)(empty));
    };
    let mut started = needs::tool(NAME, program, program)?;
    started.args(arguments).arg(source).arg(at);
    started
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let process = Process::start_with(&mut started);
    let mut process = process.map_err(failed("start", Path::new(program)))?;
    let pid = Pid::from_child(process.child());
    // Where a sandbox forbids it, only root of the machine can end calls.
    if let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) {
        let pid = process.child().id();
        let _ = known.set(Started { pid, fd });
    }
    let begun = Instant::now();
    let ended = loop {
        if mounts::assert_mounted(NAME, at, "fuse").is_ok() {
            break None;
        }
        if let Some(status) = process.wait(Duration::from_millis(5)) {
            break Some(LayerError::Program {
                layer: NAME.into(),
                program: program.clone(),
                status,
                tail: process.tail(),
            });
        }
        if begun.elapsed() > LIMIT {
            break Some(LayerError::Slow {
                layer: NAME.into(),
                what: program.clone(),
                after: LIMIT,
                tail: process.tail(),
            });
        }
    };
    undo.push_server(program, process);
    let mounted = at.to_path_buf();
    undo.push(format!("unmount {}", at.display()), move || {
        mounts::unmount(&mounted)
    });
    ended.map_or(Ok(()), Err)
}
