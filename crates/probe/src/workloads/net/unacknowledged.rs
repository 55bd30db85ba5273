//! Data of a connection that is still in flight.
#![allow(unsafe_code)] // ioctl(2) with SIOCOUTQ has no safe wrapper

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

/// Bytes that the peer has not acknowledged yet.
pub fn bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open while it is borrowed; SIOCOUTQ, which is TIOCOUTQ, writes an int.
    let failed = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) } != 0;
    if failed {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes.max(0) as u64)
}
