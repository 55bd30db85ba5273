//! Several operations in flight: `io_uring(7)` with registered file and buffers.
//!
//! Operations that were started between two calls are submitted in one call, and one call reaps all
//! completed ones. Nothing is allocated between [`Queue::new`] and its end.
#![allow(unsafe_code)] // the kernel is handed pointers into the buffer

use std::{
    cell::RefCell,
    collections::VecDeque,
    io,
    mem::ManuallyDrop,
    os::fd::{AsRawFd, BorrowedFd},
    time::Duration,
};

use io_uring::{
    IoUring, opcode,
    types::{Fixed, SubmitArgs, Timespec},
};

use crate::ProbeError;

/// One read or write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueuedIo {
    /// Offset in the file, bytes.
    pub at: u64,
    /// Bytes.
    pub len: u32,
    /// Whether it is a write.
    pub write: bool,
    /// The caller's own number for it.
    pub number: u64,
}

/// An operation that is in flight or has ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    /// The operation.
    pub op: QueuedIo,
    /// Clock reading just before it was submitted.
    pub begun: u64,
    moved: u32,
}

/// An operation that ended with an error.
#[derive(Debug)]
pub struct FailedIo {
    /// The operation.
    pub op: QueuedIo,
    /// Its error.
    pub error: io::Error,
}

thread_local! {
    /// The ring of this thread's last queue: creating one takes longer than a short pass, and
    /// closing one is slow.
    static KEPT: RefCell<Option<(usize, IoUring)>> = const { RefCell::new(None) };
}

/// Up to `depth` operations on one file.
pub struct Queue<'a> {
    ring: ManuallyDrop<IoUring>,
    depth: usize,
    /// The buffer, cut into pieces of `piece` bytes, one for each slot.
    buffer: &'a mut [u8],
    piece: usize,
    /// Whether the kernel has registered the buffer's pages. It refuses if `RLIMIT_MEMLOCK` is too
    /// small.
    fixed: bool,
    slots: Vec<Slot>,
    free: VecDeque<usize>,
    /// Slots of operations started since the last call.
    fresh: Vec<usize>,
    /// Slots of operations that moved too few bytes or were interrupted: the rest is submitted
    /// again.
    again: Vec<usize>,
    in_flight: usize,
}

impl<'a> Queue<'a> {
    /// Sets up the queue. `buffer` holds at least `depth` pieces. If it has more, each operation
    /// takes the piece that has been idle longest.
    pub fn new(
        depth: usize,
        file: BorrowedFd<'_>,
        buffer: &'a mut [u8],
        piece: usize,
    ) -> io::Result<Self> {
        let pieces = buffer.len().checked_div(piece).unwrap_or(0);
        if depth == 0 || pieces < depth {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let ring = ring(depth)?;
        // A kept ring may still have the registrations of another pass.
        let _ = ring.submitter().unregister_files();
        let _ = ring.submitter().unregister_buffers();
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let whole = [libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        }];
        // SAFETY: the memory is borrowed for as long as this queue lives, and `drop` waits for all
        // operations that use it.
        let fixed = unsafe { ring.submitter().register_buffers(&whole) }.is_ok();
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            depth,
            buffer,
            piece,
            fixed,
            slots: vec![Slot::default(); pieces],
            free: (0..pieces).collect(),
            fresh: Vec::with_capacity(depth),
            again: Vec::with_capacity(depth),
            in_flight: 0,
        })
    }

    /// Maximum number of operations in flight.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Whether another operation may start.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.in_flight < self.depth
    }

    /// Number of operations in flight.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The piece that the next operation will use. It is idle.
    pub fn next_piece(&mut self) -> &mut [u8] {
        let start = self.free.front().map_or(0, |slot| slot * self.piece);
        &mut self.buffer[start..start + self.piece]
    }

    /// The piece that an operation used, until another takes it.
    pub fn last_piece(&mut self) -> &mut [u8] {
        let start = self.free.back().map_or(0, |slot| slot * self.piece);
        &mut self.buffer[start..start + self.piece]
    }

    /// Starts an operation. The next call to [`Queue::enter`] submits it. There must be room.
    #[inline]
    pub fn push(&mut self, op: QueuedIo) -> io::Result<()> {
        let full = || io::Error::other("the queue is full");
        if !self.has_room() || op.len as usize > self.piece {
            return Err(full());
        }
        let index = self.free.pop_front().ok_or_else(full)?;
        self.slots[index] = Slot::new(op, 0);
        self.fresh.push(index);
        self.in_flight += 1;
        self.submit(index)
    }

    /// Puts an operation, or the rest of one, into the submission queue.
    #[inline]
    fn submit(&mut self, index: usize) -> io::Result<()> {
        let Slot { op, moved, .. } = self.slots[index];
        let (at, len) = (op.at + u64::from(moved), self.slots[index].rest());
        // Stays in the piece: `moved <= len <= piece`.
        let memory = self.buffer[index * self.piece + moved as usize..].as_mut_ptr();
        let entry = match (op.write, self.fixed) {
            (false, true) => opcode::ReadFixed::new(Fixed(0), memory, len, 0)
                .offset(at)
                .build(),
            (false, false) => opcode::Read::new(Fixed(0), memory, len).offset(at).build(),
            (true, true) => opcode::WriteFixed::new(Fixed(0), memory, len, 0)
                .offset(at)
                .build(),
            (true, false) => opcode::Write::new(Fixed(0), memory, len).offset(at).build(),
        };
        // SAFETY: the memory is the slot's own and is not touched while the operation is in flight.
        // It lives as long as this queue, which waits for the operation before it ends.
        unsafe { self.ring.submission().push(&entry.user_data(index as u64)) }
            .map_err(|_| io::Error::other("the submission queue is full"))
    }

    /// Submits started operations, at clock reading `now`, and waits until `wanted` operations have
    /// completed or the time is over. A signal ends the wait early.
    #[inline]
    pub fn enter(&mut self, now: u64, wanted: usize, most: Option<Duration>) -> io::Result<()> {
        for index in self.fresh.drain(..) {
            self.slots[index].begun = now;
        }
        let result = match most {
            None => self.ring.submit_and_wait(wanted),
            Some(most) => {
                let time = Timespec::from(most);
                let args = SubmitArgs::new().timespec(&time);
                self.ring.submitter().submit_with_args(wanted, &args)
            }
        };
        match result {
            Ok(_) => Ok(()),
            Err(e) => match e.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ETIME) => Ok(()),
                _ => Err(e),
            },
        }
    }

    /// Reaps completed operations, all of them even after an error. Returns the first error.
    #[inline]
    pub fn reap(&mut self, mut ended: impl FnMut(&Slot)) -> Result<(), FailedIo> {
        let mut failed = None;
        for entry in self.ring.completion() {
            let index = entry.user_data() as usize;
            let slot = &mut self.slots[index];
            match slot.moved(entry.result()) {
                Ok(true) => ended(slot),
                Ok(false) => {
                    self.again.push(index);
                    continue;
                }
                Err(error) => {
                    failed.get_or_insert(FailedIo { op: slot.op, error });
                }
            }
            self.free.push_back(index);
            self.in_flight -= 1;
        }
        while let Some(index) = self.again.pop() {
            let op = self.slots[index].op;
            self.submit(index).map_err(|error| FailedIo { op, error })?;
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Slot {
    /// An operation that is submitted now.
    pub fn new(op: QueuedIo, begun: u64) -> Self {
        Self {
            op,
            begun,
            moved: 0,
        }
    }

    /// Number of bytes not moved yet.
    pub fn rest(&self) -> u32 {
        self.op.len - self.moved
    }

    /// Adds the bytes that a call moved, or returns its error, `-errno`. Returns whether the
    /// operation is complete.
    pub fn moved(&mut self, result: i32) -> io::Result<bool> {
        match result {
            0 if self.op.len > 0 => Err(self.nothing()),
            0.. => {
                self.moved += result as u32;
                Ok(self.moved >= self.op.len)
            }
            _ => match -result {
                libc::EINTR | libc::EAGAIN => Ok(false),
                errno => Err(io::Error::from_raw_os_error(errno)),
            },
        }
    }

    #[cold]
    fn nothing(&self) -> io::Error {
        if self.op.write {
            return io::ErrorKind::WriteZero.into();
        }
        let end = self.op.at + u64::from(self.moved);
        let what = format!("the file ends at byte {end}: it is shorter than it was made");
        io::Error::new(io::ErrorKind::UnexpectedEof, what)
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        // The kernel may still write into the buffer.
        while self.in_flight > 0 {
            let waited = self.enter(0, 1, None);
            let before = self.in_flight;
            let _ = self.reap(|_| {});
            if waited.is_err() && self.in_flight == before {
                break;
            }
        }
        // SAFETY: `self.ring` is not used again.
        let ring = unsafe { ManuallyDrop::take(&mut self.ring) };
        if self.in_flight == 0 {
            let _ = ring.submitter().unregister_buffers();
            let _ = ring.submitter().unregister_files();
            KEPT.set(Some((self.depth, ring)));
        } else {
            // Its pages must not be reused, and the end of the ring is not waited for.
            std::process::abort();
        }
    }
}

/// A ring for this many operations: the thread's last one, or a new one. Only this thread submits,
/// and the kernel works only when asked (Linux 6.1); older kernels get a plain ring.
fn ring(depth: usize) -> io::Result<IoUring> {
    if let Some((kept, ring)) = KEPT.take()
        && kept == depth
    {
        return Ok(ring);
    }
    let mut builder = IoUring::builder();
    builder
        .setup_submit_all()
        .setup_single_issuer()
        .setup_defer_taskrun();
    let ring = match builder.build(depth as u32) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => IoUring::new(depth as u32)?,
        other => other?,
    };
    // Linux 5.18; without it each call looks the descriptor up.
    let _ = ring.submitter().register_ring_fd();
    Ok(ring)
}

/// An error with a hint when `io_uring` cannot be used here. Only the point fails; the run
/// continues.
pub fn available() -> Result<(), ProbeError> {
    let Err(error) = IoUring::new(1) else {
        return Ok(());
    };
    let hint = match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            "this kernel has no io_uring (Linux 5.1), or a sandbox hides it: use engine pread"
        }
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is forbidden here, by `sysctl kernel.io_uring_disabled` or by a seccomp filter, as in containers: use engine pread"
        }
        Some(libc::ENOMEM) => "raise the limit of locked memory, `ulimit -l`, or use engine pread",
        _ => "use engine pread",
    };
    let refused = ProbeError {
        errno: error.raw_os_error(),
        ..ProbeError::new(format!("engine uring: io_uring is refused: {error}"))
    };
    Err(refused.hint(hint))
}

#[cfg(test)]
mod tests;
