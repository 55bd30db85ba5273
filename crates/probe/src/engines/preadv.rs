use std::{
    array,
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    os::fd::BorrowedFd,
};

use super::{Io, Shape};

/// Maximum number of records per call, as in iozone.
pub const MOST: usize = 16;

/// preadv(2) and pwritev(2): one system call for several adjacent records.
#[derive(Default)]
pub struct Preadv {
    /// Bytes of one element of the vector.
    piece: usize,
}

impl Io for Preadv {
    const ID: &'static str = "preadv";
    const ABOUT: &'static str = "preadv(2) and pwritev(2): one system call for several records";

    fn begin(&mut self, _: &mut Option<File>, shape: &Shape) -> io::Result<()> {
        // More elements than a vector may have would be cut off.
        self.piece = shape.piece.max(shape.record.div_ceil(MOST)).max(1);
        Ok(())
    }

    #[inline]
    fn read(&mut self, file: BorrowedFd<'_>, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().div_ceil(self.piece);
        let mut pieces = into.chunks_mut(self.piece);
        let mut vector: [IoSliceMut<'_>; MOST] =
            array::from_fn(|_| IoSliceMut::new(pieces.next().unwrap_or_default()));
        Ok(rustix::io::preadv(file, &mut vector[..count], at)?)
    }

    #[inline]
    fn write(&mut self, file: BorrowedFd<'_>, at: u64, from: &[u8]) -> io::Result<usize> {
        let count = from.len().div_ceil(self.piece);
        let mut pieces = from.chunks(self.piece);
        let vector: [IoSlice<'_>; MOST] =
            array::from_fn(|_| IoSlice::new(pieces.next().unwrap_or_default()));
        Ok(rustix::io::pwritev(file, &vector[..count], at)?)
    }
}
