//! CPU time of a server and of its child processes, and whether the processes of a guest work.

use std::{collections::HashMap, time::Instant};

use layermark_sys::process::{self, Io, Stat};

use crate::child;

/// A process and all its descendants. Ended ones count with the CPU time at which they were last
/// seen.
#[derive(Debug, Default)]
pub(crate) struct ProcessTree {
    head: Option<u32>,
    /// Whether any thread may have started a process, as in programs in Go.
    of_threads: bool,
    /// CPU time by process, ns.
    seen: HashMap<u32, u64>,
}

impl ProcessTree {
    pub(crate) fn of(head: Option<u32>) -> Self {
        Self {
            head,
            ..Self::default()
        }
    }

    /// The trees of these processes. One that is in the tree of another is left out.
    pub(crate) fn apart(heads: [Option<u32>; 2]) -> Vec<Self> {
        let [first, second] = heads;
        let second = second.filter(|pid| !first.is_some_and(|first| descends(*pid, first)));
        [first, second]
            .into_iter()
            .flatten()
            .map(|head| Self {
                of_threads: true,
                ..Self::of(Some(head))
            })
            .collect()
    }

    /// CPU time of all of them so far, ns; it never decreases.
    pub(crate) fn cpu_ns(&mut self) -> u64 {
        let mut left: Vec<u32> = self.head.into_iter().collect();
        while let Some(pid) = left.pop() {
            left.extend(if self.of_threads {
                process::children(pid)
            } else {
                process::children_of_first_thread(pid)
            });
            // A process that has just ended keeps its last value.
            if let Ok(ns) = child::cpu_ns(pid) {
                let known = self.seen.entry(pid).or_default();
                *known = ns.max(*known);
            }
        }
        self.seen.values().sum()
    }
}

/// Whether `pid` is `of` or one of its descendants.
fn descends(pid: u32, of: u32) -> bool {
    let parent = |pid: &u32| Some(Stat::of(*pid)?.parent);
    std::iter::successors(Some(pid), parent).any(|pid| pid == of)
}

/// CPU share of processes that work, at least. An idle guest uses 1 to 5 % of a CPU for its timers, also one
/// that waits for a stopped server.
const WORKS: f64 = 0.1;
/// Bytes that such processes move in the time between two looks, at least. Timers and events move fewer.
const MOVES: u64 = 64 << 10;

/// Whether QEMU, or what serves its devices, does something for the guest.
pub(crate) struct GuestWork {
    of: Vec<ProcessTree>,
    last: (Instant, u64, u64),
}

impl GuestWork {
    pub(crate) fn of(pids: impl Iterator<Item = u32>) -> Self {
        let mut work = Self {
            of: pids.map(|pid| ProcessTree::of(Some(pid))).collect(),
            last: (Instant::now(), 0, 0),
        };
        work.last = work.now();
        work
    }

    fn now(&mut self) -> (Instant, u64, u64) {
        let cpu_ns = self.of.iter_mut().map(ProcessTree::cpu_ns).sum();
        let moved = self.of.iter().flat_map(|tree| tree.seen.keys());
        (
            Instant::now(),
            cpu_ns,
            moved.map(|pid| moved_by(*pid)).sum(),
        )
    }

    /// Whether they have worked since the last call.
    pub(crate) fn is_seen(&mut self) -> bool {
        let (then, cpu_ns, moved) = self.last;
        self.last = self.now();
        let (now, cpu_now, moved_now) = self.last;
        let share = cpu_now.saturating_sub(cpu_ns) as f64 / (now - then).as_nanos().max(1) as f64;
        share >= WORKS || moved_now.abs_diff(moved) >= MOVES
    }
}

/// Bytes that a process has read and written; 0 for one that has ended.
fn moved_by(pid: u32) -> u64 {
    let io = Io::of(pid);
    io.read_by_calls + io.written_by_calls + io.read + io.written + io.cancelled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, child::Process};

    #[test]
    fn children_count_also_when_they_have_ended() {
        assert_eq!(ProcessTree::of(None).cpu_ns(), 0);
        let script = "for n in 1 2 3 4 5 6 7 8 9; do :; done; cat & wait; read end";
        let mut process = Process::start(child::command("/bin/sh").args(["-c", script])).unwrap();
        let head = process.pid().unwrap();
        let mut process_tree = ProcessTree::of(Some(head));
        // The shell starts `cat`, which ends at once: a shell's background has no input.
        while process_tree.cpu_ns() == 0 {
            std::thread::yield_now();
        }
        let before = process_tree.cpu_ns();
        process.kill();
        process.wait(std::time::Duration::from_secs(5)).unwrap();
        assert!(before > 0 && process_tree.cpu_ns() >= before);
    }
}
