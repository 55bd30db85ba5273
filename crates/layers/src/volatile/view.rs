//! A surviving image that is written nowhere.

use std::{fs::File, io, os::unix::fs::FileExt};

use super::journal::Piece;

/// What bytes can be read from at any place.
pub trait ReadAt {
    /// Fills `into` from `offset`.
    ///
    /// # Errors
    ///
    /// As for `pread(2)`; `UnexpectedEof` where there are fewer bytes.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(into, offset)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let from = self.get(start..).and_then(|from| from.get(..into.len()));
        into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A disk as a power cut left it: what it held at the start, and the pieces that survived.
#[derive(Debug)]
pub struct View<'a, R: ReadAt + ?Sized> {
    pub(super) start: &'a R,
    pub(super) log: &'a R,
    /// In the order in which they were written.
    pub(super) pieces: Vec<Piece>,
}

impl<R: ReadAt + ?Sized> ReadAt for View<'_, R> {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.start.read_at(into, offset)?;
        let end = offset + into.len() as u64;
        for piece in &self.pieces {
            let (from, to) = (
                piece.offset.max(offset),
                (piece.offset + piece.length).min(end),
            );
            if from < to {
                let part = &mut into[(from - offset) as usize..(to - offset) as usize];
                self.log.read_at(part, piece.data + (from - piece.offset))?;
            }
        }
        Ok(())
    }
}
