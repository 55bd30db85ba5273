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
    engines::{After, PassProgress, RecordOrder, Seek, Stride, Task, Transfer},
    permutation::Permutation,
    run::{
        drive::{self, LoopError, OpRange, Span},
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

/// Amount of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// This many passes.
    Passes(u64),
    /// For this many nanoseconds. The end of a pass also ends it if another pass needs preparation.
    Time { ns: u64, counted: bool },
}

impl Amount {
    /// The rest of the time after `by_ns` has passed, at least one operation.
    pub fn shortened(self, by_ns: u64) -> Self {
        match self {
            Self::Time { ns, counted } => Self::Time {
                ns: ns.saturating_sub(by_ns).max(1),
                counted,
            },
            passes @ Self::Passes(_) => passes,
        }
    }
}

/// Result of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worked {
    pub span: Span,
    pub ops: u64,
    /// Number of completed passes.
    pub passes: u64,
}

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
        amount: Amount,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Worked, LoopError> {
        let (limit_ns, counted) = match amount {
            Amount::Passes(_) => (u64::MAX, true),
            Amount::Time { ns, counted } => (ns, counted),
        };
        let mut worked: Option<Worked> = None;
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
                    limit_ns - net_ns
                },
            };
            let generation = slot.generation;
            let way = self.part(slot, generation, part, counted, &mut |n| beat(so_far + n))?;
            slot.at = way.next;
            let over = way.next == self.ops;
            let mut sum = worked.unwrap_or(Worked {
                span: way.span,
                ops: 0,
                passes: 0,
            });
            if worked.is_some() {
                // Time in which an engine prepares the next pass is not work.
                sum.span.join(way.span);
            }
            sum.ops += way.ops;
            sum.passes += u64::from(over);
            let enough = match amount {
                Amount::Passes(n) => sum.passes >= n,
                Amount::Time { ns, .. } => {
                    sum.span.net_ns() >= ns || (over && needs_renewal(&self.p))
                }
            };
            if enough {
                return Ok(sum);
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
    ) -> Result<PassProgress, LoopError> {
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
            let done = drive::drive(self.clock, OpRange::whole(1), recorder, beat, &mut first)?;
            if self.p.sync.closes() {
                drop(file.take());
            }
            let span = Span {
                start: done.start_ns,
                end: monotonic_ns(),
                paused: done.paused_ns,
            };
            return Ok(PassProgress {
                span,
                next: 1,
                ops: 1,
            });
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
            sync_each: self.p.sync == Sync::Each && self.p.touches(),
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
    type Order = Amount;
    type Done = Worked;

    fn run(
        &mut self,
        slot: &mut ThreadSlot,
        amount: Amount,
        begin: Begin<'_>,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Worked, ProbeError> {
        let start_ns = begin();
        // With more threads than CPUs it had to wait for a CPU. A turn ends for all at the same
        // time, and that wait is part of it.
        let late_ns = match amount {
            Amount::Passes(_) => 0,
            Amount::Time { .. } => monotonic_ns() - start_ns,
        };
        let worked = self.work(slot, amount.shortened(late_ns), beat);
        let mut worked = worked.map_err(|stopped| failed(&self.p, slot, &stopped))?;
        worked.span.start -= late_ns;
        Ok(worked)
    }
}

/// The error of an operation.
pub fn failed(p: &FileParams, slot: &ThreadSlot, stopped: &LoopError) -> ProbeError {
    let what = if slot.op.writes() { "write" } else { "read" };
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

/// The action at the end of a pass for the durability of the point.
fn after(sync: Sync) -> After {
    match sync {
        Sync::Close => After::Close,
        Sync::Fsync => After::Fsync,
        Sync::Fdatasync => After::Fdatasync,
        Sync::FsyncClose => After::FsyncClose,
        Sync::None | Sync::Each | Sync::Osync | Sync::Odsync => After::Nothing,
    }
}
