//! Detects which runs have a live process, on this machine or, if the file system supports locks,
//! on another one.
//!
//! A process locks one byte of the file `STORE-lock` for each run it works on. The kernel releases
//! the lock when the process ends in any way. So no process ids are compared: they are reused, and
//! differ between PID namespaces. The file stays, and stays empty.
#![allow(unsafe_code)]

use std::{
    fs::{File, OpenOptions},
    io,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
};

use crate::connect::beside;

/// Locks on the runs that this process works on: one open file, also for thousands of runs. Released on drop.
#[derive(Debug)]
pub(crate) struct Locks(File);

/// Options that follow no symbolic link and do not wait for a FIFO.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

impl Locks {
    /// Locks on runs of this store, none yet.
    pub(crate) fn open(store: &Path) -> io::Result<Self> {
        let file = options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(beside(store, "-lock"))?;
        Ok(Self(file))
    }

    /// Locks the run. False if another process works on it.
    pub(crate) fn hold(&self, run: &str) -> io::Result<bool> {
        let mut lock = byte(run);
        // SAFETY: the descriptor is open, and `lock` is a valid `flock` for the time of the call.
        let done = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) };
        if done == 0 {
            return Ok(true);
        }
        match io::Error::last_os_error() {
            e if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            e => Err(e),
        }
    }

    /// Releases the run.
    pub(crate) fn release(&self, run: &str) {
        let mut lock = byte(run);
        lock.l_type = libc::F_UNLCK as i16;
        // SAFETY: as above. To release a lock does not fail on an open file.
        let _ = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) };
    }
}

/// Whether a process works on the run. True if that is unknown.
pub(crate) fn is_held(store: &Path, run: &str) -> bool {
    let file = match options().read(true).open(beside(store, "-lock")) {
        Ok(file) => file,
        Err(e) => return e.kind() != io::ErrorKind::NotFound,
    };
    let mut lock = byte(run);
    // SAFETY: as above.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    asked != 0 || lock.l_type != libc::F_UNLCK as i16
}

/// A run's id as a number (FNV-1a), different for each run of a store in practice.
pub(crate) fn hash(run: &str) -> u64 {
    run.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, b| {
        (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The byte of the lock file that represents a run.
fn byte(run: &str) -> libc::flock {
    // SAFETY: all of its fields are numbers, for which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    // The end of the byte's range must also be below the largest offset.
    lock.l_start = (hash(run) >> 2).cast_signed();
    lock.l_len = 1;
    lock
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_held_until_it_is_let_go() {
        let temp = tempfile::tempdir().unwrap();
        let store = temp.path().join("s.db");
        let locks = || Locks::open(&store).unwrap();
        assert!(!is_held(&store, "01A"));
        let own = locks();
        assert!(own.hold("01A").unwrap() && own.hold("01C").unwrap());
        assert!(is_held(&store, "01A") && is_held(&store, "01C") && !is_held(&store, "01B"));
        assert!(!locks().hold("01A").unwrap());
        assert!(locks().hold("01B").unwrap());
        own.release("01C");
        assert!(is_held(&store, "01A") && !is_held(&store, "01C"));
        drop(own);
        assert!(!is_held(&store, "01A"));
    }
}
