use std::{io, os::fd::BorrowedFd};

use super::Io;

/// pread(2) and pwrite(2): one system call per operation.
#[derive(Default)]
pub struct Pread;

impl Io for Pread {
    const ID: &'static str = "pread";
    const ABOUT: &'static str = "pread(2) and pwrite(2): one system call an operation";

    #[inline]
    fn read(&mut self, file: BorrowedFd<'_>, at: u64, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::pread(file, into, at)?)
    }

    #[inline]
    fn write(&mut self, file: BorrowedFd<'_>, at: u64, from: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::pwrite(file, from, at)?)
    }
}
