//! A replay: a thread for each task, and the order between them.

use std::{
    hint, io,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use layermark_recording::KINDS;
use rustix::{
    io::Errno,
    thread::futex::{self, Flags, Timespec},
};

use super::{
    calls::{Buffers, Site},
    trace::Trace,
};
use crate::{clock::monotonic_ns, limits::HEARTBEAT_NS, run::barrier::SpinBarrier};

/// What a replay took.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// From the first call to the end of the last one, ns.
    pub elapsed_ns: u64,
    /// Of each kind, over all tasks, ns.
    pub kind_ns: [u64; KINDS.len()],
    /// How long tasks waited for each other, ns over all tasks.
    pub waited_ns: u64,
    /// Bytes that its reads and writes moved.
    pub bytes: u64,
    /// Clones that were copies, because the layer cannot share the data of files.
    pub copied: u64,
    /// Calls that ended in another way than recorded, and the first of them.
    pub wrong: u64,
    pub first_wrong: Option<WrongCall>,
}

/// A call that ended in another way than it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongCall {
    pub number: u32,
    pub outcome: i64,
}

/// How many of its calls a task has ended. On a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Done {
    calls: AtomicU32,
    waiting: AtomicU32,
}

impl Done {
    /// Waits until the task has ended so many of its calls.
    fn wait(&self, count: u32) {
        loop {
            let seen = self.calls.load(Ordering::SeqCst);
            if seen >= count {
                return;
            }
            self.waiting.fetch_add(1, Ordering::SeqCst);
            // Returns at once if the number has changed; and at any time.
            let _ = futex::wait(&self.calls, Flags::PRIVATE, seen, None);
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn add(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _ = futex::wake(&self.calls, Flags::PRIVATE, i32::MAX as u32);
        }
    }
}

/// Tells the thread that watches that a task has ended, however it ends.
struct Ending<'a>(&'a AtomicU32);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
        let _ = futex::wake(self.0, Flags::PRIVATE, 1);
    }
}

/// Makes all calls. `beat` is called at least once a second.
///
/// # Errors
/// If a thread cannot be started. Then no call was made.
pub fn replay(
    site: &Site,
    trace: &Trace,
    buffers: &mut [Buffers],
    beat: &mut dyn FnMut(),
) -> io::Result<Replay> {
    let tasks = trace.by_task.len();
    let mut done = Vec::new();
    done.resize_with(tasks, Done::default);
    let (done, barrier) = (&done[..], &SpinBarrier::new(tasks));
    let left = &AtomicU32::new(tasks as u32);
    let parts: io::Result<Vec<TaskPart>> = thread::scope(|scope| {
        let mut threads = Vec::with_capacity(tasks);
        for (task, own) in buffers.iter_mut().enumerate() {
            let started = thread::Builder::new().spawn_scoped(scope, move || {
                let _ending = Ending(left);
                let mut part = TaskPart::default();
                if barrier.wait(|| {}) {
                    part.run(site, trace, task, done, own);
                }
                part
            });
            match started {
                Ok(thread) => threads.push(thread),
                Err(e) => {
                    barrier.cancel();
                    return Err(e);
                }
            }
        }
        watch(left, beat);
        let parts = threads.into_iter().filter_map(|thread| thread.join().ok());
        Ok(parts.collect())
    });
    Ok(TaskPart::sum(&parts?, tasks))
}

/// Waits until all tasks have ended.
fn watch(left: &AtomicU32, beat: &mut dyn FnMut()) {
    let every = Timespec {
        tv_sec: 0,
        tv_nsec: HEARTBEAT_NS.cast_signed(),
    };
    loop {
        let running = left.load(Ordering::SeqCst);
        if running == 0 {
            return;
        }
        if futex::wait(left, Flags::PRIVATE, running, Some(&every)) == Err(Errno::TIMEDOUT) {
            beat();
        }
    }
}

/// Computes until this time, as the program does there: a server that is asked now and then is slower than one that is
/// asked all the time. Returns the time.
fn compute(until: u64) -> u64 {
    loop {
        let now = monotonic_ns();
        if now >= until {
            return now;
        }
        hint::spin_loop();
    }
}

/// What one task took.
struct TaskPart {
    begun: u64,
    ended: u64,
    kind_ns: [u64; KINDS.len()],
    waited_ns: u64,
    bytes: u64,
    copied: u64,
    wrong: u64,
    first_wrong: Option<WrongCall>,
}

impl Default for TaskPart {
    fn default() -> Self {
        Self {
            begun: 0,
            ended: 0,
            kind_ns: [0; KINDS.len()],
            waited_ns: 0,
            bytes: 0,
            copied: 0,
            wrong: 0,
            first_wrong: None,
        }
    }
}

impl TaskPart {
    fn run(
        &mut self,
        site: &Site,
        trace: &Trace,
        task: usize,
        done: &[Done],
        buffers: &mut Buffers,
    ) {
        self.begun = monotonic_ns();
        let mut now = self.begun;
        for number in &trace.by_task[task] {
            let ready = &trace.calls[*number as usize];
            if ready.think_ns > 0 {
                now = compute(now.saturating_add(ready.think_ns));
            }
            if !ready.call.waits.is_empty() {
                for (other, count) in &ready.call.waits {
                    done[*other as usize].wait(*count);
                }
                let after = monotonic_ns();
                self.waited_ns += after - now;
                now = after;
            }
            let mut outcome = site.call(ready, trace, buffers);
            if ready.is_clone_refused(outcome) {
                outcome = site.copies(&ready.call);
                self.copied += 1;
            }
            let after = monotonic_ns();
            self.kind_ns[ready.call.kind as usize] += after - now;
            now = after;
            if ready.call.kind.moves() {
                self.bytes += outcome.max(0) as u64;
            }
            if !ready.is_as_recorded(outcome) {
                self.wrong += 1;
                let number = *number;
                self.first_wrong
                    .get_or_insert(WrongCall { number, outcome });
            }
            done[task].add();
        }
        self.ended = now;
    }

    fn sum(parts: &[Self], tasks: usize) -> Replay {
        let begun = parts
            .iter()
            .map(|part| part.begun)
            .min()
            .unwrap_or_default();
        let ended = parts
            .iter()
            .map(|part| part.ended)
            .max()
            .unwrap_or_default();
        let mut kind_ns = [0; KINDS.len()];
        for part in parts {
            for (sum, own) in kind_ns.iter_mut().zip(part.kind_ns) {
                *sum += own;
            }
        }
        // A thread that panicked has made not all of its calls.
        let lost = (tasks - parts.len()) as u64;
        Replay {
            elapsed_ns: ended - begun,
            kind_ns,
            waited_ns: parts.iter().map(|part| part.waited_ns).sum(),
            bytes: parts.iter().map(|part| part.bytes).sum(),
            copied: parts.iter().map(|part| part.copied).sum(),
            wrong: parts.iter().map(|part| part.wrong).sum::<u64>() + lost,
            first_wrong: parts
                .iter()
                .filter_map(|part| part.first_wrong)
                .min_by_key(|wrong| wrong.number),
        }
    }
}
