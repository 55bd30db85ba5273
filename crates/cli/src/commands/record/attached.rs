//! A program that runs already. It is stopped while its tree is listed and strace attaches to it, so that the tree is
//! the one that its first recorded call finds.

use std::{
    fs,
    io::{self, Read as _},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    process::Child,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use layermark_recording::strace::{OpenFile, Running};
use layermark_sys::{
    kcmp::is_same_open_file,
    process::{Stat, children, threads},
};
use rustix::{
    fs::OFlags,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use super::interrupts::{self, Interrupts};
use crate::failure::Failure;

/// How long a program has to stop, and strace to attach to it.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often that is looked at.
const EVERY: Duration = Duration::from_millis(2);

/// A process and those that it has started. Those that we stopped go on when this is dropped, or with a signal to this
/// program.
pub struct Stopped(Arc<Mutex<Vec<Process>>>);

struct Process {
    pid: u32,
    fd: OwnedFd,
    /// Somebody else has stopped it before.
    stopped_before: bool,
}

impl Stopped {
    /// Stops a process with all that it has started.
    ///
    /// # Errors
    /// If it does not exist, is not this user's, or has started this program.
    pub fn with_children(pid: u32, interrupts: &Interrupts) -> Result<Self, Failure> {
        let wrong = |why: String| {
            Failure::usage(format!("process {pid}: {why}"))
                .hint("name one that runs and is yours: ps -u $USER")
        };
        if Self::has_started_us(pid) {
            return Err(wrong(
                "it has started this program, which would stop with it".into(),
            ));
        }
        let stopped = Self(Arc::default());
        let processes = Arc::clone(&stopped.0);
        interrupts.on_signal(move || release(&processes));
        let mut next = vec![pid];
        while let Some(one) = next.pop() {
            if interrupts.any() {
                return Err(interrupts::stopped());
            }
            match stopped.add(one) {
                Ok(()) => next.extend(children(one)),
                Err(e) if one == pid => return Err(wrong(e.to_string())),
                // A child may end before it is stopped.
                Err(e) if is_gone(&e) => {}
                Err(e) => {
                    return Err(Failure::failed(format!(
                        "process {one}, which {pid} has started: {e}"
                    ))
                    .hint("record as root, or a process without it"));
                }
            }
        }
        Ok(stopped)
    }

    fn has_started_us(pid: u32) -> bool {
        let mut own = std::process::id();
        while own > 1 && own != pid {
            own = Stat::of(own).map_or(0, |stat| stat.parent);
        }
        own == pid
    }

    fn add(&self, pid: u32) -> io::Result<()> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let fd = pidfd_open(raw.ok_or(io::ErrorKind::NotFound)?, PidfdFlags::empty())?;
        let state = Stat::of(pid).ok_or(io::ErrorKind::NotFound)?.state;
        let mut processes = locked(&self.0);
        pidfd_send_signal(&fd, Signal::STOP)?;
        processes.push(Process {
            pid,
            fd,
            stopped_before: state == 'T',
        });
        drop(processes);
        until(|| threads(pid).all(|thread| matches!(state_of(&thread), 'T' | 't' | ENDED)))
            .map_err(|()| io::Error::other("it has not stopped within ten seconds"))?;
        // A child that has ended stays there until its parent, which is stopped, looks at it.
        if threads(pid).all(|thread| state_of(&thread) == ENDED) {
            locked(&self.0).pop();
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(())
    }

    /// Their numbers.
    pub fn pids(&self) -> Vec<u32> {
        locked(&self.0).iter().map(|process| process.pid).collect()
    }

    /// The current directory of the first.
    pub fn cwd(&self) -> io::Result<PathBuf> {
        let first = self.pids().first().copied().unwrap_or_default();
        fs::read_link(format!("/proc/{first}/cwd"))
    }

    /// What they have open below a directory.
    pub fn running(&self, root: &Path) -> io::Result<Vec<Running>> {
        let mut all: Vec<Running> = Vec::new();
        for pid in self.pids() {
            let next = running(pid, root, &all)?;
            all.push(next);
        }
        Ok(all)
    }

    /// Lets them go on, once strace has attached to every thread or has ended.
    pub fn go_on(self, strace: &mut Child) -> io::Result<()> {
        let mut ended = false;
        let attached = until(|| {
            ended = strace.try_wait().is_ok_and(|status| status.is_some());
            let traced = |pid| threads(pid).all(|thread| is_traced(&thread));
            ended || self.pids().into_iter().all(traced)
        });
        attached.map_err(|()| io::Error::other("strace has not attached to it within ten seconds"))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        release(&self.0);
        locked(&self.0).clear();
    }
}

/// Lets those go on that we have stopped.
fn release(processes: &Mutex<Vec<Process>>) {
    for process in locked(processes).iter().filter(|p| !p.stopped_before) {
        // It may have been killed meanwhile.
        let _ = pidfd_send_signal(&process.fd, Signal::CONT);
    }
}

fn locked(processes: &Mutex<Vec<Process>>) -> MutexGuard<'_, Vec<Process>> {
    processes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a process is not there any more.
fn is_gone(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::NotFound
        || e.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

fn until(mut done: impl FnMut() -> bool) -> Result<(), ()> {
    let end = Instant::now() + PATIENCE;
    while !done() {
        if Instant::now() > end {
            return Err(());
        }
        thread::sleep(EVERY);
    }
    Ok(())
}

/// The state of a thread that has ended, whether it was reaped or not.
const ENDED: char = 'Z';

/// The letter of a thread's state.
fn state_of(thread: &Path) -> char {
    let stat = fs::File::open(thread.join("stat")).ok();
    let state = stat
        .and_then(|stat| Stat::read(&stat))
        .map(|stat| stat.state);
    state.filter(|state| *state != 'X').unwrap_or(ENDED)
}

/// Whether a thread has a tracer, or has ended.
fn is_traced(thread: &Path) -> bool {
    let status = fs::read_to_string(thread.join("status")).unwrap_or_default();
    let mut lines = status.lines();
    let tracer = lines.find_map(|line| line.strip_prefix("TracerPid:"));
    state_of(thread) == ENDED || tracer.is_none_or(|tracer| tracer.trim() != "0")
}

/// Files below a directory that a program has open when this one starts it, such as its output.
pub fn inherited(root: &Path) -> io::Result<Vec<OpenFile>> {
    let mut files = running(std::process::id(), root, &[])?.files;
    files.retain(|file| !file.flags.contains("O_CLOEXEC"));
    Ok(files)
}

/// What a process has open. `before`: those that are listed already, their parents first.
fn running(pid: u32, root: &Path, before: &[Running]) -> io::Result<Running> {
    let own = PathBuf::from(format!("/proc/{pid}"));
    let parent = Stat::of(pid).map(|stat| stat.parent);
    let parent = before.iter().find(|other| Some(other.pid) == parent);
    let mut files: Vec<OpenFile> = Vec::new();
    for entry in fs::read_dir(own.join("fd"))? {
        let entry = entry?;
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let (Some(descriptor), Ok(path)) = (number, fs::read_link(entry.path())) else {
            continue;
        };
        if !path.starts_with(root) || path.as_os_str().as_bytes().ends_with(b" (deleted)") {
            continue;
        }
        let mut info = String::new();
        fs::File::open(own.join("fdinfo").join(entry.file_name()))?.read_to_string(&mut info)?;
        let field = |key| {
            info.lines()
                .find_map(|line: &str| line.strip_prefix(key))
                .map(str::trim)
        };
        // The position of a directory is a number of the file system's.
        let position = field("pos:").filter(|_| entry.path().is_file());
        let path = path.into_os_string().into_encoded_bytes();
        let same_in = |of: u32, files: &[OpenFile]| {
            let mut files = files.iter().filter(|file| file.path == path);
            let same =
                files.find(|file| is_same_open_file((of, file.descriptor), (pid, descriptor)));
            same.map(|file| (of, file.descriptor))
        };
        let inherited = parent.and_then(|parent| same_in(parent.pid, &parent.files));
        let same_as = inherited.or_else(|| same_in(pid, &files));
        files.push(OpenFile {
            descriptor,
            same_as,
            path,
            flags: flags(field("flags:").unwrap_or_default()),
            position: position.and_then(|at| at.parse().ok()).unwrap_or(0),
        });
    }
    files.sort_by_key(|file| file.descriptor);
    let cwd = fs::read_link(own.join("cwd"))?;
    let inherits = files
        .iter()
        .any(|file| file.same_as.is_some_and(|(of, _)| of != pid));
    Ok(Running {
        pid,
        parent: parent.filter(|_| inherits).map(|parent| parent.pid),
        threads: threads(pid)
            .filter_map(|thread| thread.file_name()?.to_str()?.parse().ok())
            .filter(|thread| *thread != pid)
            .collect(),
        cwd: cwd.into_os_string().into_encoded_bytes(),
        files,
    })
}

/// Flags of fdinfo, which are octal, in the words of open(2).
fn flags(octal: &str) -> String {
    let bits = u32::from_str_radix(octal, 8).unwrap_or(0);
    let flags = OFlags::from_bits_truncate(bits);
    let access = match flags & OFlags::RWMODE {
        OFlags::WRONLY => "O_WRONLY",
        OFlags::RDWR => "O_RDWR",
        _ => "O_RDONLY",
    };
    let others = flags - OFlags::RWMODE;
    let names = others.iter_names().map(|(name, _)| format!("|O_{name}"));
    names.fold(access.to_owned(), |all, name| all + &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_the_kernel() {
        for (octal, words) in [
            ("0100000", "O_RDONLY|O_LARGEFILE"),
            ("02102001", "O_WRONLY|O_APPEND|O_LARGEFILE|O_CLOEXEC"),
            ("0200002", "O_RDWR|O_DIRECTORY"),
            ("", "O_RDONLY"),
        ] {
            let mut found: Vec<_> = flags(octal).split('|').map(str::to_owned).collect();
            let mut expected: Vec<_> = words.split('|').map(str::to_owned).collect();
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{octal}");
        }
    }

    /// Its parent is stopped and does not reap it.
    #[test]
    fn a_child_that_has_ended_is_left_out() {
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "true & echo $!; exec cat"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = shell.stdout.take().unwrap();
        io::BufRead::read_line(&mut io::BufReader::new(out), &mut line).unwrap();
        let child = PathBuf::from("/proc").join(line.trim());
        // `cat` does not know of it.
        until(|| state_of(&child) == ENDED).unwrap();
        let interrupts = Interrupts::caught().unwrap();
        let stopped = Stopped::with_children(shell.id(), &interrupts).unwrap();
        assert_eq!(stopped.pids(), [shell.id()]);
        let running = stopped.running(Path::new("/")).unwrap();
        assert_eq!(running.len(), 1);
        drop(stopped);
        shell.kill().unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn who_has_started_us_is_not_stopped() {
        let interrupts = Interrupts::caught().unwrap();
        let parent = std::os::unix::process::parent_id();
        for pid in [std::process::id(), parent] {
            let why = Stopped::with_children(pid, &interrupts)
                .err()
                .expect("it would stop us")
                .message;
            assert!(why.contains("has started this program"), "{why}");
        }
        let why = Stopped::with_children(u32::MAX, &interrupts)
            .err()
            .expect("there is none")
            .message;
        assert!(why.starts_with("process 4294967295: "), "{why}");
    }
}
