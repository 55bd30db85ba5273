//! System calls without a safe wrapper.
#![allow(unsafe_code)]

use std::{fs::File, io, os::fd::AsRawFd};

use rustix::{
    fs::{FlockOperation, flock},
    thread::{UnshareFlags, unshare_unsafe},
};

use super::kind::LockOp;

/// Waits for the lock on the whole file.
pub fn lock(op: LockOp, file: &File) -> io::Result<()> {
    match op {
        LockOp::Flock => again(|| Ok(flock(file, FlockOperation::LockExclusive)?)),
        LockOp::Fcntl => record(file, libc::F_SETLKW, libc::F_WRLCK),
        LockOp::Ofd => record(file, libc::F_OFD_SETLKW, libc::F_WRLCK),
    }
}

/// Takes the lock on the whole file without waiting; `false`: somebody else has it.
pub fn try_lock(op: LockOp, file: &File) -> io::Result<bool> {
    let taken = match op {
        LockOp::Flock => again(|| Ok(flock(file, FlockOperation::NonBlockingLockExclusive)?)),
        LockOp::Fcntl => record(file, libc::F_SETLK, libc::F_WRLCK),
        LockOp::Ofd => record(file, libc::F_OFD_SETLK, libc::F_WRLCK),
    };
    match taken {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(e) => Err(e),
    }
}

pub fn unlock(op: LockOp, file: &File) -> io::Result<()> {
    match op {
        LockOp::Flock => again(|| Ok(flock(file, FlockOperation::Unlock)?)),
        LockOp::Fcntl => record(file, libc::F_SETLK, libc::F_UNLCK),
        LockOp::Ofd => record(file, libc::F_OFD_SETLK, libc::F_UNLCK),
    }
}

fn record(file: &File, command: libc::c_int, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: numbers, for which zero is a value: from the first byte to the end of the file.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    again(|| {
        // SAFETY: the descriptor is open, and `range` outlives the call.
        match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const range) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    })
}

fn again(call: impl Fn() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Gives this thread its own table of descriptors. The kernel identifies the owners of process
/// locks by these tables, so the thread owns its locks as a separate process would.
pub fn own_descriptors() -> io::Result<()> {
    // SAFETY: the new table is a copy, so descriptors that were open before keep their numbers: the
    // device counters are read through it. A descriptor that another thread opens later must not be
    // used here, nor may this thread close one of another thread. It opens and closes only the file
    // that it locks.
    Ok(unsafe { unshare_unsafe(UnshareFlags::FILES) }?)
}
