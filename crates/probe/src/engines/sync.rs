use std::{io, os::fd::BorrowedFd};

use rustix::fs::SeekFrom;

use super::Io;

/// lseek(2) if the record is elsewhere, then read(2) or write(2), as most programs do.
#[derive(Default)]
pub struct SyncEngine {
    /// The file's offset; `None` before the first operation.
    position: Option<u64>,
}

impl SyncEngine {
    #[inline]
    fn seek(&mut self, file: BorrowedFd<'_>, at: u64) -> io::Result<()> {
        if self.position != Some(at) {
            self.position = None;
            rustix::fs::seek(file, SeekFrom::Start(at))?;
        }
        Ok(())
    }
}

impl Io for SyncEngine {
    const ID: &'static str = "sync";
    const ABOUT: &'static str = "lseek(2) when needed, then read(2) and write(2)";

    #[inline]
    fn read(&mut self, file: BorrowedFd<'_>, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.seek(file, at)?;
        let n = rustix::io::read(file, into)?;
        self.position = Some(at + n as u64);
        Ok(n)
    }

    #[inline]
    fn write(&mut self, file: BorrowedFd<'_>, at: u64, from: &[u8]) -> io::Result<usize> {
        self.seek(file, at)?;
        let n = rustix::io::write(file, from)?;
        self.position = Some(at + n as u64);
        Ok(n)
    }
}
