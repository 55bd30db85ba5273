//! One thread's part of a pass: once or several times over its file.

use super::{
    first_write::FirstWrite,
    params::{FileParams, Op, Sync},
    prepare::Slot,
    touches,
};
use crate::{
    clock::{Source, monotonic_ns},
    drive::{self, Span, Stopped},
    engines::{After, Engine, Order, Seek, Stride, Task, Transfer},
    permutation::Permutation,
};

/// Which pass comes next.
pub struct Plan {
    job: Job,
    /// Times over the files in one pass.
    pub rounds: u64,
    /// Times over the files so far.
    done: u64,
}

impl Plan {
    pub fn new(p: &FileParams, engine: &'static dyn Engine, clock: Option<Source>) -> Self {
        let job = Job {
            p: p.clone(),
            engine,
            clock,
            ops: p.ops(),
            first: 0,
            rounds: 1,
        };
        Self {
            job,
            rounds: 1,
            done: 0,
        }
    }

    /// Once over a file, as generation 0, which every pass overwrites.
    pub fn rehearsal(&self) -> Job {
        self.job.clone()
    }

    pub fn next(&mut self) -> Job {
        let first = self.done + 1;
        self.done += self.rounds;
        Job {
            first,
            rounds: self.rounds,
            ..self.job.clone()
        }
    }
}

/// One pass: what a thread needs to know of it.
#[derive(Clone)]
pub struct Job {
    pub p: FileParams,
    engine: &'static dyn Engine,
    clock: Option<Source>,
    /// Operations of once over a file.
    pub ops: u64,
    /// Number of the first time over the file, from 1: the generation of what it writes.
    pub first: u64,
    /// Times over the file.
    pub rounds: u64,
}

impl Job {
    /// One thread's part of a pass; its clock starts and stops in here.
    pub fn work(&self, slot: &mut Slot, beat: &mut dyn FnMut(u64)) -> Result<Span, Stopped> {
        let mut span = self.round(slot, self.first, beat)?;
        for round in 1..self.rounds {
            let done = round * self.ops;
            let next = self.round(slot, self.first + round, &mut |n| beat(done + n))?;
            // What an engine makes ready between two rounds is not the work's either.
            span.paused += next.paused + (next.start - span.end);
            span.end = next.end;
        }
        Ok(span)
    }

    /// Once over the file.
    fn round(
        &self,
        slot: &mut Slot,
        generation: u64,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Span, Stopped> {
        let Slot {
            op,
            path,
            seed,
            buffer,
            recorder,
            file,
            checked,
        } = slot;
        let op = *op;
        if op == Op::FirstWrite {
            let mut first = FirstWrite {
                p: &self.p,
                path,
                seed: *seed,
                data: buffer.bytes_mut(),
                file,
            };
            first.mark();
            let done = drive::drive(self.clock, 1, recorder, beat, &mut first)?;
            if self.p.sync.closes() {
                drop(file.take());
            }
            return Ok(Span {
                start: done.start_ns,
                end: monotonic_ns(),
                paused: done.paused_ns,
            });
        }
        let task = Task {
            record: self.p.unit() as usize,
            piece: self.p.record as usize,
            ops: self.ops,
            size: self.p.file_size / self.p.unit() * self.p.unit(),
            order: self.order(op, *seed, generation),
            depth: self.p.iodepth as usize,
            transfer: if op.writes() {
                Transfer::Write(buffer.bytes_mut())
            } else {
                Transfer::Read(buffer.bytes_mut())
            },
            sync_each: self.p.sync == Sync::Each && touches(&self.p),
            after: if op.writes() {
                after(self.p.sync)
            } else {
                After::Nothing
            },
            mark: (self.p.verify && op.writes()).then_some((*seed, generation)),
            check: (self.p.verify && !op.writes()).then_some(checked),
            clock: self.clock,
            recorder,
            beat,
        };
        self.engine.pass(file, task)
    }

    /// Each time in an order of its own. Random reads and random writes of one seed share theirs.
    fn order(&self, op: Op, seed: u64, generation: u64) -> Order {
        let (p, n) = (&self.p, self.ops);
        match op {
            Op::RandRead | Op::RandWrite => {
                Order::Random(Permutation::new(n, seed.wrapping_add(generation)))
            }
            Op::BackwardRead => Order::Backward(n),
            Op::StrideRead => Order::Stride(Stride::new(n, p.stride)),
            Op::SeekRead => Order::Seek(Seek::new(p.distance / p.unit())),
            Op::RecordRewrite => Order::First,
            _ => Order::Sequential,
        }
    }
}

/// What the end of a pass does for the durability that the point asks for.
fn after(sync: Sync) -> After {
    match sync {
        Sync::Close => After::Close,
        Sync::Fsync => After::Fsync,
        Sync::Fdatasync => After::Fdatasync,
        Sync::FsyncClose => After::FsyncClose,
        Sync::None | Sync::Each | Sync::Osync | Sync::Odsync => After::Nothing,
    }
}
