//! One thread's work on its file: passes, whole or in parts.

use super::{
    first_write::FirstWrite,
    open::{advice, refused},
    params::{FileParams, Op, Sync},
    slot::ThreadSlot,
};
use crate::{
    ProbeError,
    clock::{Source, monotonic_ns},
    engines::{After, FlushEach, RecordOrder, Seek, Stride, Task, Transfer},
    permutation::Permutation,
    run::{
        Extent,
        drive::{self, Done, LoopError, OpRange, Span},
        team::{Begin, Member},
    },
};

/// Common parameters of all passes of a trial.
#[derive(Clone)]
pub struct FileJob {
    pub p: FileParams,
    pub clock: Option<Source>,
    /// Operations of a pass.
    pub ops: u64,
}

/// What a thread has done, and the number of completed passes.
pub type Worked = (Done, u64);

impl FileJob {
    pub fn new(p: FileParams, clock: Option<Source>) -> Self {
        Self {
            ops: p.ops(),
            p,
            clock,
        }
    }

    /// One thread's work; its clock starts and stops here. Continues where the last call ended.
    pub fn work(
        &self,
        slot: &mut ThreadSlot,
        extent: Extent,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Worked, LoopError> {
        let (mut worked, mut passes): (Option<Done>, u64) = (None, 0);
        loop {
            if slot.at == self.ops || slot.generation == 0 {
                (slot.generation, slot.at) = (slot.generation + 1, 0);
            }
            let so_far = worked.map_or(0, |w| w.ops);
            let net_ns = worked.map_or(0, |w| w.span.net_ns());
            let part = OpRange {
                from: slot.at,
                to: self.ops,
                limit_ns: if ends_together(&self.p) {
                    u64::MAX
                } else {
                    extent.ns - net_ns
                },
            };
            let generation = slot.generation;
            let way = self.part(slot, generation, part, extent.counted, &mut |n| {
                beat(so_far + n);
            })?;
            slot.at = way.next;
            let over = way.next == self.ops;
            passes += u64::from(over);
            let mut sum = way;
            if let Some(before) = worked {
                // Time in which an engine prepares the next pass is not work.
                sum.span = before.span;
                sum.span.join(way.span);
                sum.ops += before.ops;
            }
            let ends = over && !extent.is_pass() && needs_renewal(&self.p);
            if passes >= extent.passes || sum.span.net_ns() >= extent.ns || ends {
                return Ok((sum, passes));
            }
            worked = Some(sum);
        }
    }

    /// One pass over the file, untimed, as generation 0, which every later pass overwrites.
    pub fn rehearse(&self, slot: &mut ThreadSlot) -> Result<Span, LoopError> {
        let way = self.part(slot, 0, OpRange::whole(self.ops), true, &mut |_| {})?;
        Ok(way.span)
    }

    /// A part of a pass.
    fn part(
        &self,
        slot: &mut ThreadSlot,
        generation: u64,
        part: OpRange,
        counted: bool,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Done, LoopError> {
        let ThreadSlot {
            op,
            path,
            seed,
            buffer,
            recorder,
            spare,
            runner,
            file,
            checked,
            ..
        } = slot;
        let (op, recorder) = (*op, if counted { recorder } else { spare });
        if op == Op::FirstWrite {
            let mut first = FirstWrite {
                p: &self.p,
                path,
                seed: *seed,
                data: buffer.bytes_mut(),
                file,
            };
            first.mark();
            let one = OpRange::whole(1);
            let mut done = drive::drive(self.clock, one, recorder, beat, &mut first)?;
            if self.p.sync.closes() {
                drop(file.take());
                done.span.ends_now();
            }
            return Ok(done);
        }
        let task = Task {
            record: self.p.unit() as usize,
            piece: self.p.record as usize,
            part,
            size: self.p.file_size / self.p.unit() * self.p.unit(),
            order: order(&self.p, op, *seed, generation),
            advice: advice(&self.p, op),
            depth: self.p.iodepth as usize,
            transfer: if op.writes() {
                Transfer::Write(buffer.bytes_mut())
            } else {
                Transfer::Read(buffer.bytes_mut())
            },
            flush_each: flush_each(self.p.sync).filter(|_| self.p.touches()),
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
        runner.pass(file, task)
    }
}

impl Member for FileJob {
    type Slot = ThreadSlot;
    type Order = Extent;
    type Done = Worked;

    fn run(
        &mut self,
        slot: &mut ThreadSlot,
        extent: Extent,
        begin: Begin<'_>,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Worked, ProbeError> {
        let start_ns = begin();
        // With more threads than CPUs it had to wait for a CPU. A turn ends for all at the same
        // time, and that wait is part of it.
        let late_ns = if extent.is_pass() {
            0
        } else {
            monotonic_ns() - start_ns
        };
        let worked = self.work(slot, extent.late(late_ns), beat);
        let (mut done, passes) = worked.map_err(|stopped| failed(&self.p, slot, &stopped))?;
        done.span.start -= late_ns;
        Ok((done, passes))
    }
}

/// The error of an operation.
pub fn failed(p: &FileParams, slot: &ThreadSlot, stopped: &LoopError) -> ProbeError {
    let what = match (slot.op.writes(), p.sync.leaves_debt()) {
        (false, _) => "read",
        (true, true) => "write",
        (true, false) => "write and flush",
    };
    if stopped.at == 0 {
        return refused(p, &slot.path, what, &stopped.error);
    }
    ProbeError::io(
        &format!("{what} record {} of", stopped.at),
        &slot.path,
        &stopped.error,
    )
}

/// Order of the records. It differs for each pass. Random reads and random writes with the same
/// seed use the same order.
pub fn order(p: &FileParams, op: Op, seed: u64, generation: u64) -> RecordOrder {
    let n = p.ops();
    match op {
        Op::RandRead | Op::RandWrite => {
            RecordOrder::Random(Permutation::new(n, seed.wrapping_add(generation)))
        }
        Op::BackwardRead => RecordOrder::Backward(n),
        Op::StrideRead => RecordOrder::Stride(Stride::new(n, p.stride)),
        Op::SeekRead => RecordOrder::Seek(Seek::new(p.distance / p.unit())),
        Op::RecordRewrite => RecordOrder::First,
        _ => RecordOrder::Sequential,
    }
}

/// Whether a pass is done as a whole, because its end belongs to all of it, or because threads
/// start the next pass together with new files.
pub fn ends_together(p: &FileParams) -> bool {
    let new_files = p.threads > 1 && p.op.makes();
    let each_once = p.files > 1 || p.op == Op::FirstWrite;
    each_once || new_files || (p.op.writes() && after(p.sync) != After::Nothing)
}

/// Whether a pass needs a new file and cannot continue with that of the previous one.
fn needs_renewal(p: &FileParams) -> bool {
    p.once() || p.op.makes() || p.sync.closes()
}

/// The flush after each record for the durability of the point.
fn flush_each(sync: Sync) -> Option<FlushEach> {
    match sync {
        Sync::Each => Some(FlushEach::All),
        Sync::EachData => Some(FlushEach::Data),
        _ => None,
    }
}

/// The action at the end of a pass for the durability of the point.
fn after(sync: Sync) -> After {
    match sync {
        Sync::Close => After::Close,
        Sync::Fsync => After::Fsync,
        Sync::Fdatasync => After::Fdatasync,
        Sync::FsyncClose => After::FsyncClose,
        Sync::None | Sync::Each | Sync::EachData | Sync::Osync | Sync::Odsync => After::Nothing,
    }
}
