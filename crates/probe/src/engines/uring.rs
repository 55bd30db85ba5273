//! `uring`: several operations in flight. It is the only engine with a queue, so it has its own
//! loop.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
};

use layermark_model::Verified;

use super::{After, Engine, FlushEach, RecordOrder, Runner, Task, Transfer, steps::look};
use crate::{
    clock::{Clock, Monotonic, Source, Tsc, monotonic_ns},
    data::{self, Stamp},
    limits::HEARTBEAT_NS,
    queue::{FailedIo, Queue, QueuedIo},
    run::recorder::Recorder,
    run::{
        drive::{Done, LoopError, OpRange, Span},
        waiting::Waited,
    },
};

/// The engine `uring`.
pub struct Uring;

impl Uring {
    pub const ID: &'static str = "uring";
}

impl Engine for Uring {
    fn id(&self) -> &'static str {
        Self::ID
    }
    fn about(&self) -> &'static str {
        "io_uring with registered file and buffers: `iodepth` operations at once"
    }
    fn needs_file(&self) -> bool {
        true
    }
    fn queues(&self) -> bool {
        true
    }
    fn runner(&self) -> Box<dyn Runner> {
        Box::new(Self)
    }
}

impl Runner for Uring {
    fn pass(&mut self, file: &mut Option<File>, task: Task<'_>) -> Result<Done, LoopError> {
        match task.clock {
            Some(Source::Tsc { mult }) => pass(Tsc { mult }, file, task),
            // Without latencies the clock is still read once per batch, for progress lines.
            Some(Source::Monotonic) | None => pass(Monotonic, file, task),
        }
    }
}

fn pass<C: Clock>(clock: C, file: &mut Option<File>, task: Task<'_>) -> Result<Done, LoopError> {
    let (write, buffer) = match task.transfer {
        Transfer::Read(buffer) => (false, buffer),
        Transfer::Write(pool) => (true, pool),
    };
    let stopped = |at| move |error| LoopError { at, error };
    let part = task.part;
    let depth = task.depth.clamp(1, part.to.max(1) as usize);
    if depth > 1 && (task.flush_each.is_some() || task.mark.is_some() || task.check.is_some()) {
        return Err(stopped(0)(io::ErrorKind::Unsupported.into()));
    }
    let open = file.as_ref().map_or(rustix::fs::CWD, AsFd::as_fd);
    let queue = Queue::new(depth, open, buffer, task.record).map_err(stopped(part.from))?;
    let mut pass = Pass {
        clock,
        queue,
        until: part.to,
        order: task.order,
        record: task.record,
        write,
        flush: task.flush_each.map(|flush| (flush, open)),
        mark: task.mark,
        check: task.check,
        unseen: None,
        recorder: task.clock.map(|_| task.recorder),
        outside: Vec::with_capacity(2 * depth),
        begun: part.from,
        ended: part.from,
        paused: 0,
        waited: Waited::default(),
    };
    let mut done = pass.run(part, task.beat)?;
    pass.look();
    done.span.paused = pass.paused;
    let before = done.span.waited.now();
    // Releases the registered memory, which is not part of the work, and the registered file.
    // Without that, the close would have no effect.
    drop(pass);
    if done.next == part.to && task.after != After::Nothing {
        if !task.after.closes() {
            done.span.paused += monotonic_ns() - done.span.end;
            done.span.waited.leave_out(before);
        }
        task.after.apply(file).map_err(stopped(part.to))?;
        done.span.ends_now();
    }
    Ok(done)
}

struct Pass<'a, C> {
    clock: C,
    queue: Queue<'a>,
    /// No operation is started from this moment on.
    until: u64,
    order: RecordOrder,
    record: usize,
    write: bool,
    flush: Option<(FlushEach, BorrowedFd<'a>)>,
    mark: Option<(u64, u64)>,
    check: Option<&'a mut Verified>,
    /// Offset of the record that was read last, until it is checked.
    unseen: Option<u64>,
    /// Absent without latencies.
    recorder: Option<&'a mut Recorder>,
    /// Latencies of operations before and after those that count, ns: up to twice the queue depth.
    outside: Vec<u64>,
    begun: u64,
    ended: u64,
    /// Time that did not belong to the work, ns.
    paused: u64,
    /// With one operation at a time.
    waited: Waited,
}

impl<C: Clock> Pass<'_, C> {
    /// Runs a part. When the time is over no operation is started, and those in flight are waited
    /// for.
    ///
    /// With several operations in flight, the queue of a turn fills at its start and drains at its
    /// end. The counted part begins when the first operation completes. It ends with the last
    /// completion after which another operation was started.
    fn run(&mut self, part: OpRange, beat: &mut dyn FnMut(u64)) -> Result<Done, LoopError> {
        let in_part = part.limit_ns != u64::MAX && self.queue.depth() > 1;
        let (waited, start) = Waited::begin();
        if self.queue.depth() == 1 {
            // Several operations go on while the thread waits.
            self.waited = waited;
        }
        let mut beat_at = self.clock.now();
        // The time begins when any have ended.
        let mut stop_at = if in_part {
            u64::MAX
        } else {
            beat_at.saturating_add(self.clock.ticks(part.limit_ns))
        };
        let (mut first, mut last) = (None, None);
        while self.ended < self.until {
            let paused = self.paused;
            let now = self.fill()?;
            let stopped = |at| move |error| LoopError { at, error };
            self.queue
                .enter(now, 1, None)
                .map_err(stopped(self.ended))?;
            if let Some((flush, file)) = self.flush {
                flush.apply(file).map_err(stopped(self.ended))?;
            }
            let end = self.clock.now();
            self.reap(end, !in_part || (first.is_some() && last.is_none()))?;
            if self.clock.ns(end.saturating_sub(beat_at)) >= HEARTBEAT_NS {
                let before = self.waited.now();
                beat(self.ended - part.from);
                self.waited.leave_out(before);
                beat_at = self.clock.now();
                // Operations in flight continue meanwhile; the clock is paused only where there are
                // none.
                if self.queue.in_flight() == 0 {
                    self.paused += self.clock.ns(beat_at.saturating_sub(end));
                }
            }
            stop_at = stop_at.saturating_add(self.clock.ticks(self.paused - paused));
            let here = || Some((monotonic_ns(), self.ended));
            if in_part && first.is_none() && self.ended > part.from {
                first = here();
                stop_at = end.saturating_add(self.clock.ticks(part.limit_ns));
            }
            if end >= stop_at {
                self.until = self.begun;
            }
            if in_part && self.begun == self.until {
                last = last.or_else(here);
            }
        }
        let end = monotonic_ns();
        self.waited.end(end);
        let done = |start, end, ops| {
            let span = Span {
                start,
                end,
                paused: self.paused,
                waited: self.waited,
            };
            let next = self.ended;
            Done { span, ops, next }
        };
        Ok(match (first, last) {
            (Some((start, from)), Some((end, to))) if to > from => done(start, end, to - from),
            _ => {
                // Too few to tell those apart: all count.
                if let Some(recorder) = &mut self.recorder {
                    self.outside.iter().for_each(|ns| recorder.record(*ns));
                }
                done(start, end, self.ended - part.from)
            }
        })
    }

    /// Begins as many operations as there is room for. Returns the clock's reading after that.
    #[inline]
    fn fill(&mut self) -> Result<u64, LoopError> {
        while self.begun < self.until && self.queue.has_room() {
            let at = self.order.at(self.begun) * self.record as u64;
            if self.mark.is_some() || self.check.is_some() {
                self.prepare(at);
            }
            let op = QueuedIo {
                at,
                len: self.record as u32,
                write: self.write,
                number: self.begun,
            };
            self.queue.push(op).map_err(|error| LoopError {
                at: op.number,
                error,
            })?;
            self.begun += 1;
        }
        Ok(self.clock.now())
    }

    #[inline]
    fn reap(&mut self, end: u64, counts: bool) -> Result<(), LoopError> {
        let (clock, recorder, ended) = (self.clock, &mut self.recorder, &mut self.ended);
        let outside = &mut self.outside;
        let result = self.queue.reap(|slot| {
            *ended += 1;
            let Some(recorder) = recorder.as_mut() else {
                return;
            };
            let ns = clock.ns(end.saturating_sub(slot.begun));
            if counts {
                recorder.record(ns);
            } else if outside.len() < outside.capacity() {
                outside.push(ns);
            }
        });
        result.map_err(|FailedIo { op, error }| LoopError {
            at: op.number,
            error,
        })
    }

    /// With one operation at a time: outside the clock, marks what is written next, or checks what
    /// was read before it is overwritten.
    #[cold]
    fn prepare(&mut self, at: u64) {
        let (start, before) = (monotonic_ns(), self.waited.now());
        self.look();
        if let Some((seed, generation)) = self.mark {
            let stamp = Stamp {
                seed,
                offset: at,
                generation,
            };
            data::stamp(self.queue.next_piece(), stamp);
        }
        if self.check.is_some() {
            self.unseen = Some(at);
        }
        self.waited.leave_out(before);
        self.paused += monotonic_ns() - start;
    }

    fn look(&mut self) {
        if let (Some(at), Some(sum)) = (self.unseen.take(), self.check.as_deref_mut()) {
            look(self.queue.last_piece(), at, sum);
        }
    }
}
