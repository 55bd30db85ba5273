//! I/O engines: ways of doing one read or write. An engine is a name, its properties, and two
//! functions.
//!
//! To add one, write `engines/NAME.rs` with a type that implements [`Io`], and add its line to
//! [`ALL`]. The loop is compiled once for each engine, so an operation costs no virtual call.

use std::{
    fs::File,
    io,
    marker::PhantomData,
    os::fd::{AsFd, BorrowedFd},
};

use layermark_model::Verified;
use rustix::fs::Advice;

use crate::{
    clock::Source,
    run::drive::{self, Done, LoopError, OpRange},
    run::recorder::Recorder,
};

pub(crate) mod mapping;
mod mmap;
mod null;
mod order;
mod pread;
mod preadv;
mod stdio;
mod steps;
mod stream;
mod sync;
#[cfg(test)]
mod tests;
mod uring;

pub(crate) use mapping::Mapping;
pub use order::{RecordOrder, Seek, Stride};
pub use preadv::MOST as MOST_VECTORS;
use steps::{Checked, IoPlace, Marked, Read, Write};

/// Every engine.
pub const ALL: &[&dyn Engine] = &[
    &Compiled::<pread::Pread>::NEW,
    &Compiled::<sync::SyncEngine>::NEW,
    &Compiled::<preadv::Preadv>::NEW,
    &Compiled::<stdio::Stdio>::NEW,
    &Compiled::<mmap::Mmap>::NEW,
    &Compiled::<null::Null>::NEW,
    &uring::Uring,
];

/// Ids of [`ALL`], in its order: the values of the parameter `engine`.
pub const IDS: &[&str] = &[
    pread::Pread::ID,
    sync::SyncEngine::ID,
    preadv::Preadv::ID,
    stdio::Stdio::ID,
    mmap::Mmap::ID,
    null::Null::ID,
    uring::Uring::ID,
];

/// The engine of that name.
pub fn find(id: &str) -> Option<&'static dyn Engine> {
    ALL.iter().copied().find(|e| e.id() == id)
}

/// The operations of an engine on a file.
pub trait Io: Default + Send + 'static {
    /// Its name in plans, such as `pread`.
    const ID: &'static str;
    /// One line for help.
    const ABOUT: &'static str;
    /// Whether it touches a file. `false`: it measures the tool itself.
    const NEEDS_FILE: bool = true;
    /// Prepares a pass before the clock starts: buffers, mappings. The pass may be done in several
    /// parts. An engine that takes the file gets [`rustix::fs::CWD`] in its place later.
    fn begin(&mut self, _file: &mut Option<File>, _shape: &Shape) -> io::Result<()> {
        Ok(())
    }
    /// Reads at `at`; returns the number of bytes, as read(2) does.
    fn read(&mut self, file: BorrowedFd<'_>, at: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes at `at`; returns the number of bytes.
    fn write(&mut self, file: BorrowedFd<'_>, at: u64, from: &[u8]) -> io::Result<usize>;
    /// Makes the `len` bytes that were just written at `at` durable, as part of the operation.
    fn sync(
        &mut self,
        file: BorrowedFd<'_>,
        _at: u64,
        _len: usize,
        flush: FlushEach,
    ) -> io::Result<()> {
        flush.apply(file)
    }
    /// Runs inside the clock, after the last operation: writes buffered data, then does what
    /// `after` says. Clean-up happens on drop, outside the clock.
    fn end(&mut self, file: &mut Option<File>, after: After) -> io::Result<()> {
        after.apply(file)
    }
}

/// Properties of a pass that an engine may need before it starts.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Bytes of one operation.
    pub record: usize,
    /// Bytes of one record, several of which may make an operation.
    pub piece: usize,
    /// Bytes of the file that the pass covers.
    pub size: u64,
    /// Whether it writes.
    pub writes: bool,
    /// The action after its last operation.
    pub after: After,
    /// Advice to the kernel about the order.
    pub advice: Option<Advice>,
}

/// The flush after each record, as part of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushEach {
    /// fsync(2).
    All,
    /// fdatasync(2).
    Data,
}

impl FlushEach {
    /// Does it on the file.
    pub fn apply(self, file: BorrowedFd<'_>) -> io::Result<()> {
        Ok(match self {
            Self::All => rustix::fs::fsync(file),
            Self::Data => rustix::fs::fdatasync(file),
        }?)
    }
}

/// The action at the end of a pass, inside the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Nothing more.
    Nothing,
    /// close(2).
    Close,
    /// fsync(2).
    Fsync,
    /// fdatasync(2).
    Fdatasync,
    /// fsync(2), then close(2).
    FsyncClose,
}

impl After {
    /// Whether the file is closed at the end.
    pub fn closes(self) -> bool {
        matches!(self, Self::Close | Self::FsyncClose)
    }

    /// Does it on the file.
    pub fn apply(self, file: &mut Option<File>) -> io::Result<()> {
        match (self, file.as_ref()) {
            (Self::Fsync, Some(open)) => open.sync_all(),
            (Self::Fdatasync, Some(open)) => open.sync_data(),
            (Self::Close, _) => {
                drop(file.take());
                Ok(())
            }
            (Self::FsyncClose, Some(open)) => {
                open.sync_all()?;
                drop(file.take());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// An engine as the workloads see it.
pub trait Engine: Sync {
    /// Its name in plans.
    fn id(&self) -> &'static str;
    /// One line for help.
    fn about(&self) -> &'static str;
    /// Whether it touches a file.
    fn needs_file(&self) -> bool;
    /// Whether it can have several operations in flight: [`Task::depth`].
    fn queues(&self) -> bool {
        false
    }
    /// Prepares it for one file.
    fn runner(&self) -> Box<dyn Runner>;
}

/// An engine that works on the file of one thread, for the duration of a trial.
pub trait Runner: Send {
    /// Runs a part of a pass over the open file; `None` for engines that touch no file. A pass that
    /// ends with a close takes the file.
    fn pass(&mut self, file: &mut Option<File>, task: Task<'_>) -> Result<Done, LoopError>;
    /// Ends a pass early, outside the clock: writes buffered data.
    fn leave(&mut self, _file: &mut Option<File>) -> io::Result<()> {
        Ok(())
    }
}

/// What is done to each record.
pub enum Transfer<'a> {
    /// Read into this buffer, one record for each operation that may be in flight.
    Read(&'a mut [u8]),
    /// Write from this pool of data: a whole number of records, used in turn.
    Write(&'a mut [u8]),
}

/// A part of a pass over a file.
pub struct Task<'a> {
    /// Bytes of one operation.
    pub record: usize,
    /// Bytes of one record, several of which may make an operation.
    pub piece: usize,
    /// Operations; `part.to` is the end of the whole pass.
    pub part: OpRange,
    /// Bytes of the file, as far as records reach.
    pub size: u64,
    /// Order of the records.
    pub order: RecordOrder,
    /// Advice to the kernel about the order, for mappings, where advice on the file is not enough.
    pub advice: Option<Advice>,
    /// Operations in flight, for an engine with a queue: [`Engine::queues`].
    pub depth: usize,
    /// Direction and buffer.
    pub transfer: Transfer<'a>,
    /// The flush after each record.
    pub flush_each: Option<FlushEach>,
    /// The action after the last record of the pass, as part of it.
    pub after: After,
    /// Mark each written record with this seed and generation.
    pub mark: Option<(u64, u64)>,
    /// Check each record that was read, outside the clock, and count its blocks here.
    pub check: Option<&'a mut Verified>,
    /// The clock; `None`: operations are not timed.
    pub clock: Option<Source>,
    /// Recorder of latencies.
    pub recorder: &'a mut Recorder,
    /// Called from time to time with the number of operations so far.
    pub beat: &'a mut dyn FnMut(u64),
}

/// The loop, compiled for one engine.
struct Compiled<T>(PhantomData<fn() -> T>);

impl<T> Compiled<T> {
    const NEW: Self = Self(PhantomData);
}

impl<T: Io> Engine for Compiled<T> {
    fn id(&self) -> &'static str {
        T::ID
    }
    fn about(&self) -> &'static str {
        T::ABOUT
    }
    fn needs_file(&self) -> bool {
        T::NEEDS_FILE
    }
    fn runner(&self) -> Box<dyn Runner> {
        Box::new(EngineRunner::<T>(None))
    }
}

/// State of an engine during a pass.
struct EngineRunner<T>(Option<T>);

impl<T: Io> Runner for EngineRunner<T> {
    fn pass(&mut self, file: &mut Option<File>, task: Task<'_>) -> Result<Done, LoopError> {
        let (part, after) = (task.part, task.after);
        let shape = Shape {
            record: task.record,
            piece: task.piece,
            size: task.size,
            writes: matches!(task.transfer, Transfer::Write(_)),
            after,
            advice: task.advice,
        };
        let stopped = |at| move |error| LoopError { at, error };
        // Taken out, so that it is dropped after an error.
        let mut io = if let Some(io) = self.0.take() {
            io
        } else {
            let mut io = T::default();
            io.begin(file, &shape).map_err(stopped(part.from))?;
            io
        };
        let open = file.as_ref().map_or(rustix::fs::CWD, AsFd::as_fd);
        let mut done = records(&mut io, open, task)?;
        let over = done.next == part.to;
        if over {
            io.end(file, after).map_err(stopped(part.to))?;
            done.span.ends_now();
        }
        self.0 = (!over).then_some(io);
        Ok(done)
    }

    fn leave(&mut self, file: &mut Option<File>) -> io::Result<()> {
        let io = self.0.take();
        io.map_or(Ok(()), |mut io| io.end(file, After::Nothing))
    }
}

/// The loop over the records.
fn records<T: Io>(io: &mut T, file: BorrowedFd<'_>, task: Task<'_>) -> Result<Done, LoopError> {
    let Task {
        record,
        part,
        order,
        transfer,
        flush_each,
        mark,
        check,
        clock,
        recorder,
        beat,
        ..
    } = task;
    let place = IoPlace {
        io,
        file,
        record,
        order,
    };
    match transfer {
        Transfer::Read(buffer) => {
            let buffer = &mut buffer[..record];
            let mut read = Read { place, buffer };
            let Some(sum) = check else {
                return drive::drive(clock, part, recorder, beat, &mut read);
            };
            let mut step = Checked {
                read,
                unseen: None,
                sum,
            };
            let done = drive::drive(clock, part, recorder, beat, &mut step);
            step.look();
            done
        }
        Transfer::Write(pool) => {
            // The pool holds a whole number of records.
            let at = (part.from * record as u64 % pool.len() as u64) as usize;
            let mut write = Write {
                place,
                pool,
                at,
                flush_each,
            };
            let Some((seed, generation)) = mark else {
                return drive::drive(clock, part, recorder, beat, &mut write);
            };
            let mut step = Marked {
                write,
                seed,
                generation,
            };
            drive::drive(clock, part, recorder, beat, &mut step)
        }
    }
}
