//! Ways of doing one read or write. An engine is a name, what it can do, and two functions.
//!
//! To add one, write `engines/NAME.rs` with a type that is [`Io`], and its line in [`ALL`]. The
//! loop is compiled once for each engine, so an operation costs no virtual call.

use std::{io, marker::PhantomData, os::fd::BorrowedFd};

use layermark_model::Verified;

use crate::{
    clock::Source,
    data::{self, Stamp},
    drive::{self, Done, Step, Stopped},
    packaged::BLOCK,
    permutation::Permutation,
    recorder::Recorder,
};

mod null;
mod pread;
mod sync;
#[cfg(test)]
mod tests;

/// Every engine.
pub const ALL: &[&dyn Engine] = &[
    &Compiled::<pread::Pread>::NEW,
    &Compiled::<sync::Sync>::NEW,
    &Compiled::<null::Null>::NEW,
];

/// Ids of [`ALL`], in its order: the words that the parameter `engine` takes.
pub const IDS: &[&str] = &[pread::Pread::ID, sync::Sync::ID, null::Null::ID];

/// The engine of that name.
pub fn find(id: &str) -> Option<&'static dyn Engine> {
    ALL.iter().copied().find(|e| e.id() == id)
}

/// What an engine does to a file.
pub trait Io: Default + Send {
    /// Its name in plans, such as `pread`.
    const ID: &'static str;
    /// One line for help.
    const ABOUT: &'static str;
    /// Whether it touches a file. `false`: it measures the tool.
    const NEEDS_FILE: bool = true;
    /// Reads at `at`; returns how many bytes came, as read(2) does.
    fn read(&mut self, file: BorrowedFd<'_>, at: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes at `at`; returns how many bytes went.
    fn write(&mut self, file: BorrowedFd<'_>, at: u64, from: &[u8]) -> io::Result<usize>;
}

/// An engine as the workloads see it.
pub trait Engine: std::marker::Sync {
    /// Its name in plans.
    fn id(&self) -> &'static str;
    /// One line for help.
    fn about(&self) -> &'static str;
    /// Whether it touches a file.
    fn needs_file(&self) -> bool;
    /// One pass over a file.
    fn pass(&self, task: Task<'_>) -> Result<Done, Stopped>;
}

/// In what order records come.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    /// First to last.
    Sequential,
    /// Each once, in this order.
    Random(Permutation),
}

/// What is done to each record.
pub enum Transfer<'a> {
    /// Read into this buffer, one record long.
    Read(&'a mut [u8]),
    /// Write from this pool of data, a whole number of records that are used in turn.
    Write(&'a mut [u8]),
}

/// One pass over a file.
pub struct Task<'a> {
    /// The open file.
    pub file: BorrowedFd<'a>,
    /// Bytes of a record.
    pub record: usize,
    /// Records.
    pub ops: u64,
    /// Their order.
    pub order: Order,
    /// What is done.
    pub transfer: Transfer<'a>,
    /// fsync(2) after each record, as part of the operation.
    pub sync_each: bool,
    /// Mark each written record with this seed and generation.
    pub mark: Option<(u64, u64)>,
    /// Look at each record that was read, outside the clock, and count its blocks here.
    pub check: Option<&'a mut Verified>,
    /// The clock; `None` leaves it out.
    pub clock: Option<Source>,
    /// Where latencies go.
    pub recorder: &'a mut Recorder,
    /// Called now and then with the operations so far.
    pub beat: &'a mut dyn FnMut(u64),
}

/// The loop compiled for one engine.
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
    fn pass(&self, task: Task<'_>) -> Result<Done, Stopped> {
        let Task {
            file,
            record,
            ops,
            order,
            transfer,
            sync_each,
            mark,
            check,
            clock,
            recorder,
            beat,
        } = task;
        let place = Place {
            io: T::default(),
            file,
            record,
            order,
        };
        match (transfer, mark) {
            (Transfer::Read(buffer), _) if check.is_some() => {
                let read = Read {
                    place,
                    buffer: &mut buffer[..record],
                };
                let mut sum = Verified::default();
                let mut step = Checked {
                    read,
                    unseen: None,
                    sum: &mut sum,
                };
                let done = drive::drive(clock, ops, recorder, beat, &mut step);
                step.look();
                if let Some(all) = check {
                    all.records += sum.records;
                    all.bad += sum.bad;
                }
                done
            }
            (Transfer::Read(buffer), _) => {
                let mut step = Read {
                    place,
                    buffer: &mut buffer[..record],
                };
                drive::drive(clock, ops, recorder, beat, &mut step)
            }
            (Transfer::Write(pool), None) => {
                let mut step = Write {
                    place,
                    pool,
                    at: 0,
                    sync_each,
                };
                drive::drive(clock, ops, recorder, beat, &mut step)
            }
            (Transfer::Write(pool), Some((seed, generation))) => {
                let mut step = Marked {
                    write: Write {
                        place,
                        pool,
                        at: 0,
                        sync_each,
                    },
                    seed,
                    generation,
                };
                drive::drive(clock, ops, recorder, beat, &mut step)
            }
        }
    }
}

/// Where operations go.
struct Place<'a, T> {
    io: T,
    file: BorrowedFd<'a>,
    record: usize,
    order: Order,
}

impl<T> Place<'_, T> {
    #[inline]
    fn offset(&self, i: u64) -> u64 {
        let index = match &self.order {
            Order::Sequential => i,
            Order::Random(permutation) => permutation.at(i),
        };
        index * self.record as u64
    }
}

struct Read<'a, T> {
    place: Place<'a, T>,
    buffer: &'a mut [u8],
}

impl<T: Io> Step for Read<'_, T> {
    #[inline]
    fn run(&mut self, i: u64) -> io::Result<()> {
        let at = self.place.offset(i);
        match self.place.io.read(self.place.file, at, self.buffer) {
            Ok(n) if n == self.buffer.len() => Ok(()),
            other => read_rest(&mut self.place, at, self.buffer, other),
        }
    }
}

/// Reads of packaged files whose blocks are looked at outside the clock, each record before the
/// next one takes its place.
struct Checked<'a, T> {
    read: Read<'a, T>,
    /// Where the record in the buffer comes from, while it was not looked at.
    unseen: Option<u64>,
    sum: &'a mut Verified,
}

impl<T> Checked<'_, T> {
    /// Blocks that lie in the record as a whole; a checksum says nothing of a part.
    fn look(&mut self) {
        let Some(at) = self.unseen.take() else {
            return;
        };
        let skip = at.next_multiple_of(BLOCK as u64) - at;
        let whole = self.read.buffer.get(skip as usize..).unwrap_or_default();
        for (i, block) in whole.chunks_exact(BLOCK).enumerate() {
            let offset = at + skip + (i * BLOCK) as u64;
            let good =
                data::read_stamp(block).is_some_and(|s| s.offset == offset && s.generation == 0);
            self.sum.records += 1;
            self.sum.bad += u64::from(!good);
        }
    }
}

impl<T: Io> Step for Checked<'_, T> {
    const PREPARES: bool = true;
    fn prepare(&mut self, i: u64) {
        self.look();
        self.unseen = Some(self.read.place.offset(i));
    }
    #[inline]
    fn run(&mut self, i: u64) -> io::Result<()> {
        self.read.run(i)
    }
}

/// Short reads and interruptions are gone on with; the end of the file is an error.
#[cold]
fn read_rest<T: Io>(
    place: &mut Place<'_, T>,
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

struct Write<'a, T> {
    place: Place<'a, T>,
    pool: &'a mut [u8],
    /// Where in the pool the next record's data lies.
    at: usize,
    sync_each: bool,
}

impl<T: Io> Step for Write<'_, T> {
    #[inline]
    fn run(&mut self, i: u64) -> io::Result<()> {
        let offset = self.place.offset(i);
        let data = &self.pool[self.at..self.at + self.place.record];
        match self.place.io.write(self.place.file, offset, data) {
            Ok(n) if n == data.len() => {}
            other => write_rest(&mut self.place, offset, data, other)?,
        }
        if self.sync_each {
            rustix::fs::fsync(self.place.file)?;
        }
        self.at += self.place.record;
        if self.at >= self.pool.len() {
            self.at = 0;
        }
        Ok(())
    }
}

/// Short writes and interruptions are gone on with; a write of nothing is an error.
#[cold]
fn write_rest<T: Io>(
    place: &mut Place<'_, T>,
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
struct Marked<'a, T> {
    write: Write<'a, T>,
    seed: u64,
    generation: u64,
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
    #[inline]
    fn run(&mut self, i: u64) -> io::Result<()> {
        self.write.run(i)
    }
}
