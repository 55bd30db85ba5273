//! Submits the I/Os of a worker: through a queue, or one after the other.

use std::{io, os::fd::BorrowedFd, time::Duration};

use crate::queue::{FailedIo, Queue, QueuedIo, Slot};

/// An engine for a worker. The methods mean the same as those of [`Queue`].
pub trait IoEngine {
    fn has_room(&self) -> bool;
    fn in_flight(&self) -> usize;
    fn push(&mut self, op: QueuedIo) -> io::Result<()>;
    fn enter(&mut self, now: u64, wanted: usize, most: Option<Duration>) -> io::Result<()>;
    fn reap(&mut self, ended: impl FnMut(&Slot)) -> Result<(), FailedIo>;
}

impl IoEngine for Queue<'_> {
    #[inline]
    fn has_room(&self) -> bool {
        self.has_room()
    }
    #[inline]
    fn in_flight(&self) -> usize {
        self.in_flight()
    }
    #[inline]
    fn push(&mut self, op: QueuedIo) -> io::Result<()> {
        self.push(op)
    }
    #[inline]
    fn enter(&mut self, now: u64, wanted: usize, most: Option<Duration>) -> io::Result<()> {
        self.enter(now, wanted, most)
    }
    #[inline]
    fn reap(&mut self, ended: impl FnMut(&Slot)) -> Result<(), FailedIo> {
        self.reap(ended)
    }
}

/// pread(2) and pwrite(2).
pub struct PreadEngine<'a> {
    file: BorrowedFd<'a>,
    buffer: &'a mut [u8],
    piece: usize,
    /// Offset of the next I/O's data in the buffer.
    at: usize,
    slot: Option<Slot>,
    error: Option<io::Error>,
}

impl<'a> PreadEngine<'a> {
    pub fn new(file: BorrowedFd<'a>, buffer: &'a mut [u8], piece: usize) -> Self {
        Self {
            file,
            buffer,
            piece,
            at: 0,
            slot: None,
            error: None,
        }
    }

    /// Transfers all bytes: continues after short transfers and interruptions.
    fn transfer(&mut self, slot: &mut Slot) -> io::Result<()> {
        let QueuedIo { at, len, write, .. } = slot.op;
        loop {
            let rest = slot.rest();
            let from = at + u64::from(len - rest);
            let memory = &mut self.buffer[self.at..][..len as usize][(len - rest) as usize..];
            let result = if write {
                rustix::io::pwrite(self.file, memory, from)
            } else {
                rustix::io::pread(self.file, memory, from)
            };
            let result = result.map_or_else(
                |e| -e.raw_os_error(),
                |n| i32::try_from(n).unwrap_or(i32::MAX),
            );
            if slot.moved(result)? {
                return Ok(());
            }
        }
    }
}

impl IoEngine for PreadEngine<'_> {
    #[inline]
    fn has_room(&self) -> bool {
        self.slot.is_none()
    }
    #[inline]
    fn in_flight(&self) -> usize {
        usize::from(self.slot.is_some())
    }
    #[inline]
    fn push(&mut self, op: QueuedIo) -> io::Result<()> {
        self.slot = Some(Slot::new(op, 0));
        Ok(())
    }
    #[inline]
    fn enter(&mut self, now: u64, _: usize, _: Option<Duration>) -> io::Result<()> {
        if let Some(slot) = &self.slot {
            let mut slot = Slot::new(slot.op, now);
            self.error = self.transfer(&mut slot).err();
            self.slot = Some(slot);
            self.at += self.piece;
            if self.at + self.piece > self.buffer.len() {
                self.at = 0;
            }
        }
        Ok(())
    }
    #[inline]
    fn reap(&mut self, mut ended: impl FnMut(&Slot)) -> Result<(), FailedIo> {
        let Some(slot) = self.slot.take() else {
            return Ok(());
        };
        if let Some(error) = self.error.take() {
            return Err(FailedIo { op: slot.op, error });
        }
        ended(&slot);
        Ok(())
    }
}
