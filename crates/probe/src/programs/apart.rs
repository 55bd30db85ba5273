//! A PID namespace around the guard and all processes it starts, so that none of them outlives the
//! guard, however it ends.
//!
//! Its process 1 only waits for the guard. The guard is an ordinary process in it. So programs do
//! not see 1 as their parent, which some take as a sign that they were orphaned.

use std::{
    io,
    os::{fd::AsFd, unix::net::UnixStream},
    path::Path,
    sync::OnceLock,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    mount::{MountFlags, mount},
    process::{Pid, PidfdFlags, pidfd_open},
};

use super::sys;

/// How long a guard may run beyond the program's grace after its probe has ended. A stopped guard
/// would keep everything for ever.
const PATIENCE: Duration = Duration::from_secs(15);

/// Whether this process may create such a namespace. Tried once, in a child: containers and seccomp
/// may forbid any of the steps.
pub fn possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        let tried = sys::spawn(true, &mut || {
            if enter().is_err() {
                sys::exit_now(1);
            }
        });
        tried.is_ok_and(|pid| sys::wait_for(pid) == Some(0))
    })
}

/// Shows the processes of the namespace in `/proc`, inside the namespace only.
pub fn enter() -> io::Result<()> {
    sys::own_mounts()?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("proc", Path::new("/proc"), "proc", flags, None)?)
}

/// Runs process 1. It ends with the guard. If the probe at the other end of `socket` has ended, it
/// also ends when the guard runs longer than the program's grace and some seconds.
pub fn outlive(guard: i32, socket: &UnixStream, grace: Duration) {
    let pid = Pid::from_raw(guard);
    let Some(Ok(guard)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return;
    };
    let has_ended = |with: Option<&UnixStream>, limit: Option<Duration>| {
        let mut fds = vec![PollFd::new(&guard, PollFlags::IN)];
        fds.extend(with.map(|s| PollFd::from_borrowed_fd(s.as_fd(), PollFlags::RDHUP)));
        let limit = limit.and_then(|l| Timespec::try_from(l).ok());
        while poll(&mut fds, limit.as_ref()) == Err(rustix::io::Errno::INTR) {}
        !fds[0].revents().is_empty()
    };
    let ended = has_ended(Some(socket), None) || has_ended(None, Some(grace + PATIENCE));
    if ended && let Some(pid) = pid {
        // Its resource usage is counted with ours by the process that waits for us.
        sys::wait_for(pid.as_raw_nonzero().get());
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread, time::Instant};

    use super::*;

    #[test]
    fn what_was_left_in_it_ends_with_its_first_process() {
        if !possible() {
            return eprintln!("skipped: no PID namespace here");
        }
        let dir = tempfile::tempdir().unwrap();
        let beat = dir.path().join("beat");
        let first = sys::spawn(true, &mut || {
            enter().unwrap();
            assert_eq!(std::process::id(), 1);
            let orphan = sys::spawn(false, &mut || {
                loop {
                    fs::write(&beat, b"x").unwrap();
                    thread::sleep(Duration::from_millis(2));
                }
            });
            assert!(orphan.is_ok() && fs::read_dir("/proc").unwrap().count() > 2);
            thread::sleep(Duration::from_mins(1));
        })
        .unwrap();
        let start = Instant::now();
        while !beat.exists() {
            assert!(start.elapsed() < Duration::from_secs(30));
            thread::sleep(Duration::from_millis(2));
        }
        rustix::process::kill_process(Pid::from_raw(first).unwrap(), rustix::process::Signal::KILL)
            .unwrap();
        // Returns when all processes of the namespace have ended.
        assert_eq!(sys::wait_for(first), None);
        fs::remove_file(&beat).unwrap();
        thread::sleep(Duration::from_millis(100));
        assert!(!beat.exists());
        // This process itself is in its old namespace.
        assert_ne!(std::process::id(), 1);
    }
}
