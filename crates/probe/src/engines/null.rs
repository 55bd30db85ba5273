use std::{hint::black_box, io, os::fd::BorrowedFd};

use super::Io;

/// Does nothing, to measure the cost of measuring itself.
#[derive(Default)]
pub struct Null;

impl Io for Null {
    const ID: &'static str = "null";
    const ABOUT: &'static str = "nothing: measures what measuring costs";
    const NEEDS_FILE: bool = false;

    #[inline]
    fn read(&mut self, _: BorrowedFd<'_>, at: u64, into: &mut [u8]) -> io::Result<usize> {
        // Keeps the optimiser from removing the empty loop.
        Ok(black_box((at, into.len())).1)
    }

    #[inline]
    fn write(&mut self, _: BorrowedFd<'_>, at: u64, from: &[u8]) -> io::Result<usize> {
        Ok(black_box((at, from.len())).1)
    }
}
