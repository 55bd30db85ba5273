//! `uring`: several operations under way at once. The only engine with a queue, so its loop is
//! its own.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
};

use layermark_model::Verified;

use super::{After, Engine, Order, Task, Transfer, steps::look};
use crate::{
    clock::{Clock, Monotonic, Source, Tsc, monotonic_ns},
    data::{self, Stamp},
    drive::{Span, Stopped},
    limits::BEAT_NS,
    queue::{Failed, Op, Queue},
    recorder::Recorder,
};

/// See the module.
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
    fn pass(&self, file: &mut Option<File>, task: Task<'_>) -> Result<Span, Stopped> {
        match task.clock {
            Some(Source::Tsc { mult }) => pass(Tsc { mult }, file, task),
            // Without latencies the clock is still read once a batch, for the progress lines.
            Some(Source::Monotonic) | None => pass(Monotonic, file, task),
        }
    }
}

fn pass<C: Clock>(clock: C, file: &mut Option<File>, task: Task<'_>) -> Result<Span, Stopped> {
    let (write, buffer) = match task.transfer {
        Transfer::Read(buffer) => (false, buffer),
        Transfer::Write(pool) => (true, pool),
    };
    let stopped = |at| move |error| Stopped { at, error };
    let depth = task.depth.clamp(1, task.ops.max(1) as usize);
    if depth > 1 && (task.sync_each || task.mark.is_some() || task.check.is_some()) {
        return Err(stopped(0)(io::ErrorKind::Unsupported.into()));
    }
    let open = file.as_ref().map_or(rustix::fs::CWD, AsFd::as_fd);
    let queue = Queue::new(depth, open, buffer, task.record).map_err(stopped(0))?;
    let mut pass = Pass {
        clock,
        queue,
        ops: task.ops,
        order: task.order,
        record: task.record,
        write,
        sync: task.sync_each.then_some(open),
        mark: task.mark,
        check: task.check,
        unseen: None,
        recorder: task.clock.map(|_| task.recorder),
        begun: 0,
        ended: 0,
        paused: 0,
    };
    let start = monotonic_ns();
    pass.run(task.beat)?;
    let mut end = monotonic_ns();
    pass.look();
    let mut paused = pass.paused;
    // Gives registered memory back, which is none of the work, and the registered file, without
    // which nothing would be closed.
    drop(pass);
    if task.after != After::Nothing {
        if !task.after.closes() {
            paused += monotonic_ns() - end;
        }
        task.after.apply(file).map_err(stopped(task.ops))?;
        end = monotonic_ns();
    }
    Ok(Span { start, end, paused })
}

struct Pass<'a, C> {
    clock: C,
    queue: Queue<'a>,
    ops: u64,
    order: Order,
    record: usize,
    write: bool,
    sync: Option<BorrowedFd<'a>>,
    mark: Option<(u64, u64)>,
    check: Option<&'a mut Verified>,
    /// Where the record that was read last comes from, while it was not looked at.
    unseen: Option<u64>,
    /// Absent without latencies.
    recorder: Option<&'a mut Recorder>,
    begun: u64,
    ended: u64,
    /// Nanoseconds that were not the work's.
    paused: u64,
}

impl<C: Clock> Pass<'_, C> {
    fn run(&mut self, beat: &mut dyn FnMut(u64)) -> Result<(), Stopped> {
        let mut beat_at = self.clock.now();
        while self.ended < self.ops {
            let now = self.fill()?;
            let stopped = |at| move |error| Stopped { at, error };
            self.queue
                .enter(now, 1, None)
                .map_err(stopped(self.ended))?;
            if let Some(file) = self.sync {
                rustix::fs::fsync(file).map_err(|e| stopped(self.ended)(e.into()))?;
            }
            let end = self.clock.now();
            self.reap(end)?;
            if self.clock.ns(end.saturating_sub(beat_at)) >= BEAT_NS {
                beat(self.ended);
                beat_at = self.clock.now();
                // What is under way goes on meanwhile; only where nothing is does the clock pause.
                if self.queue.in_flight() == 0 {
                    self.paused += self.clock.ns(beat_at.saturating_sub(end));
                }
            }
        }
        Ok(())
    }

    /// Begins as many operations as there is room for. Returns the clock's reading after it.
    #[inline]
    fn fill(&mut self) -> Result<u64, Stopped> {
        while self.begun < self.ops && self.queue.has_room() {
            let at = self.order.at(self.begun) * self.record as u64;
            if self.mark.is_some() || self.check.is_some() {
                self.prepare(at);
            }
            let op = Op {
                at,
                len: self.record as u32,
                write: self.write,
                number: self.begun,
            };
            self.queue.push(op).map_err(|error| Stopped {
                at: op.number,
                error,
            })?;
            self.begun += 1;
        }
        Ok(self.clock.now())
    }

    #[inline]
    fn reap(&mut self, end: u64) -> Result<(), Stopped> {
        let (clock, recorder, ended) = (self.clock, &mut self.recorder, &mut self.ended);
        let result = self.queue.reap(|slot| {
            *ended += 1;
            if let Some(recorder) = recorder {
                recorder.record(clock.ns(end.saturating_sub(slot.begun)));
            }
        });
        result.map_err(|Failed { op, error }| Stopped {
            at: op.number,
            error,
        })
    }

    /// With one operation at a time: outside the clock, marks what is written next, or looks at
    /// what was read before its place is taken.
    #[cold]
    fn prepare(&mut self, at: u64) {
        let start = monotonic_ns();
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
        self.paused += monotonic_ns() - start;
    }

    fn look(&mut self) {
        if let (Some(at), Some(sum)) = (self.unseen.take(), self.check.as_deref_mut()) {
            look(self.queue.last_piece(), at, sum);
        }
    }
}
