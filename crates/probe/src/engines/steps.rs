//! The work on one record: the body of the measuring loop, compiled for each engine.
//!
//! Operations are always inlined into the loop. On kernels that flush the return predictor, a
//! function that makes a system call returns with an empty predictor. That costs a 4 KiB write 200
//! ns of 500.
#![allow(clippy::inline_always)]

use std::{io, os::fd::BorrowedFd};

use layermark_model::Verified;

use super::{FlushEach, Io, RecordOrder};
use crate::{
    data::{self, Stamp},
    packaged::BLOCK,
    run::drive::Step,
};

/// An engine, its file and the order of records.
pub struct IoPlace<'a, T> {
    /// The engine.
    pub io: &'a mut T,
    /// The open file.
    pub file: BorrowedFd<'a>,
    /// Bytes of a record.
    pub record: usize,
    /// Order of the records.
    pub order: RecordOrder,
}

impl<T> IoPlace<'_, T> {
    #[inline]
    fn offset(&self, i: u64) -> u64 {
        self.order.at(i) * self.record as u64
    }
}

/// Reads.
pub struct Read<'a, T> {
    pub place: IoPlace<'a, T>,
    /// One record.
    pub buffer: &'a mut [u8],
}

impl<T: Io> Step for Read<'_, T> {
    #[inline(always)]
    fn run(&mut self, i: u64) -> io::Result<()> {
        let at = self.place.offset(i);
        match self.place.io.read(self.place.file, at, self.buffer) {
            Ok(n) if n == self.buffer.len() => Ok(()),
            other => read_rest(&mut self.place, at, self.buffer, other),
        }
    }
}

/// Reads of packaged files whose blocks are checked outside the clock, each record before the next
/// one overwrites it.
pub struct Checked<'a, T> {
    pub read: Read<'a, T>,
    /// Offset of the record in the buffer, until it is checked.
    pub unseen: Option<u64>,
    pub sum: &'a mut Verified,
}

impl<T> Checked<'_, T> {
    pub fn look(&mut self) {
        if let Some(at) = self.unseen.take() {
            look(self.read.buffer, at, self.sum);
        }
    }
}

/// Checks the whole blocks of a record read at `at`. A part of a block cannot be checked.
pub fn look(record: &[u8], at: u64, sum: &mut Verified) {
    let skip = at.next_multiple_of(BLOCK as u64) - at;
    let whole = record.get(skip as usize..).unwrap_or_default();
    for (i, block) in whole.chunks_exact(BLOCK).enumerate() {
        let offset = at + skip + (i * BLOCK) as u64;
        let good = data::read_stamp(block).is_some_and(|s| s.offset == offset && s.generation == 0);
        sum.records += 1;
        sum.bad += u64::from(!good);
    }
}

impl<T: Io> Step for Checked<'_, T> {
    const PREPARES: bool = true;
    fn prepare(&mut self, i: u64) {
        self.look();
        self.unseen = Some(self.read.place.offset(i));
    }
    #[inline(always)]
    fn run(&mut self, i: u64) -> io::Result<()> {
        self.read.run(i)
    }
}

/// Continues after short reads and interruptions. The end of the file is an error.
#[cold]
fn read_rest<T: Io>(
    place: &mut IoPlace<'_, T>,
    at: u64,
    buffer: &mut [u8],
    first: io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    let mut result = first;
    loop {
        match result {
            Ok(0) => {
                let end = at + done as u64;
                let what = format!("the file ends at byte {end}: it is shorter than it was made");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
            }
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if done >= buffer.len() {
            return Ok(());
        }
        result = place
            .io
            .read(place.file, at + done as u64, &mut buffer[done..]);
    }
}

/// Writes.
pub struct Write<'a, T> {
    pub place: IoPlace<'a, T>,
    pub pool: &'a mut [u8],
    /// Offset of the next record's data in the pool.
    pub at: usize,
    pub flush_each: Option<FlushEach>,
}

impl<T: Io> Step for Write<'_, T> {
    #[inline(always)]
    fn run(&mut self, i: u64) -> io::Result<()> {
        let offset = self.place.offset(i);
        let data = &self.pool[self.at..self.at + self.place.record];
        match self.place.io.write(self.place.file, offset, data) {
            Ok(n) if n == data.len() => {}
            other => write_rest(&mut self.place, offset, data, other)?,
        }
        if let Some(flush) = self.flush_each {
            let (io, file) = (&mut *self.place.io, self.place.file);
            io.sync(file, offset, data.len(), flush)?;
        }
        self.at += self.place.record;
        if self.at >= self.pool.len() {
            self.at = 0;
        }
        Ok(())
    }
}

/// Continues after short writes and interruptions. A write of zero bytes is an error.
#[cold]
fn write_rest<T: Io>(
    place: &mut IoPlace<'_, T>,
    at: u64,
    data: &[u8],
    first: io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    let mut result = first;
    loop {
        match result {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if done >= data.len() {
            return Ok(());
        }
        result = place.io.write(place.file, at + done as u64, &data[done..]);
    }
}

/// Writes whose records carry a header, put there outside the clock.
pub struct Marked<'a, T> {
    pub write: Write<'a, T>,
    pub seed: u64,
    pub generation: u64,
}

impl<T: Io> Step for Marked<'_, T> {
    const PREPARES: bool = true;
    fn prepare(&mut self, i: u64) {
        let Write {
            place, pool, at, ..
        } = &mut self.write;
        let stamp = Stamp {
            seed: self.seed,
            offset: place.offset(i),
            generation: self.generation,
        };
        data::stamp(&mut pool[*at..*at + place.record], stamp);
    }
    #[inline(always)]
    fn run(&mut self, i: u64) -> io::Result<()> {
        self.write.run(i)
    }
}
