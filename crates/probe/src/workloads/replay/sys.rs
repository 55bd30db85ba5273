//! System calls without a safe wrapper.
#![allow(unsafe_code)]

use std::{
    ffi::CStr,
    os::fd::{AsRawFd, BorrowedFd},
};

use rustix::io::Errno;

/// `sync_file_range(2)`.
pub fn sync_range(file: BorrowedFd<'_>, offset: i64, bytes: i64, flags: u32) -> Result<(), Errno> {
    // SAFETY: the descriptor is open while it is borrowed; the other arguments are numbers.
    result(unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, flags) })
}

/// `truncate(2)`.
pub fn truncate(path: &CStr, size: i64) -> Result<(), Errno> {
    // SAFETY: the text ends in a zero and outlives the call.
    result(unsafe { libc::truncate(path.as_ptr(), size) })
}

/// `ioctl(2)` with `TCGETS`, which programs use to ask whether a file is a terminal. `isatty` of rustix asks for the size
/// of a window instead.
pub fn is_terminal(file: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: numbers, for which zero is a value.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open while it is borrowed, and `settings` outlives the call.
    result(unsafe { libc::ioctl(file.as_raw_fd(), libc::TCGETS, &raw mut settings) })
}

/// Takes or releases a lock on bytes without waiting. It belongs to the open file: threads of one process would share
/// a process lock.
pub fn lock(file: BorrowedFd<'_>, kind: i64, start: i64, bytes: i64) -> Result<(), Errno> {
    let kinds = [libc::F_RDLCK, libc::F_WRLCK, libc::F_UNLCK];
    let kind = kinds.get(kind as usize).ok_or(Errno::INVAL)?;
    // SAFETY: numbers, for which zero is a value.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = *kind as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_start = start;
    range.l_len = bytes;
    // SAFETY: the descriptor is open while it is borrowed, and `range` outlives the call.
    result(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) })
}

fn result(returned: libc::c_int) -> Result<(), Errno> {
    if returned >= 0 {
        return Ok(());
    }
    let number = std::io::Error::last_os_error().raw_os_error();
    Err(Errno::from_raw_os_error(number.unwrap_or(libc::EIO)))
}
