//! A flush of a file's data without its size, of which file systems have had bugs: the blocks are on the disk, and what
//! leads to them is not.
#![allow(unsafe_code)]

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::FileExt,
    },
};

use rustix::fs::{Mode, OFlags};

/// Bytes of the file that is flushed in place of the other.
const BLOCK: [u8; 4096] = [0; 4096];

/// Writes data of files back, and then empties the cache of the disk by way of another file, which never changes its
/// size: no journal is committed.
#[derive(Debug)]
pub(super) struct DataFlush {
    other: File,
}

impl DataFlush {
    /// `dir` is on the file system of the files. The other file has no name in it.
    pub(super) fn new(dir: impl AsFd) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let other = File::from(rustix::fs::openat(
            dir,
            ".",
            flags,
            Mode::RUSR | Mode::WUSR,
        )?);
        other.write_all_at(&BLOCK, 0)?;
        other.sync_all()?;
        Ok(Self { other })
    }

    pub(super) fn flush(&self, file: &File) -> io::Result<()> {
        let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        // SAFETY: the descriptor is open during the call, which reads no memory.
        if unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, all) } != 0 {
            return Err(io::Error::last_os_error());
        }
        self.other.write_all_at(&BLOCK, 0)?;
        self.other.sync_data()
    }
}
