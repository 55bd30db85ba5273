//! The priority of threads that take turns.

use std::thread::available_parallelism;

use layermark_sys::{io_priority, real_time};
use rustix::{
    process::{Pid, getpriority_process, setpriority_process},
    system::uname,
};

/// Nice value of a raised thread: beside a usual program of its session that wants the same CPU, it gets nine tenths of it
/// (weights 9548 and 1024, `sched_prio_to_weight` of the kernel).
const RAISED: i32 = -10;
/// Nice value of a process that nobody has set.
const USUAL: i32 = 0;
/// The first release that keeps a twentieth of each CPU for threads with a nice value, without stopping those before them
/// on a quiet machine (`fair_server` of `kernel/sched/deadline.c`).
const FAIR: (u32, u32) = (6, 12);

/// How threads are raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Before all threads that have a nice value.
    RealTime,
    /// By a nice value. It counts only within a scheduler's group, and what the user runs in another terminal is in another
    /// one (`sched(7)`, the autogroup feature).
    Nice,
}

impl Way {
    fn raise(self, thread: Option<Pid>) -> bool {
        match self {
            Self::RealTime => real_time::raise(thread),
            Self::Nice => setpriority_process(thread, RAISED).is_ok(),
        }
    }

    /// Everybody may. The thread may have ended.
    fn lower(self, thread: Option<Pid>) {
        match self {
            Self::RealTime => real_time::lower(thread),
            Self::Nice => drop(setpriority_process(thread, USUAL)),
        }
    }
}

/// Threads whose priority is raised until this is dropped.
///
/// What one thread waits for a CPU is left out of its times. But a turn that waits takes longer, so fewer fit into the
/// budget, and what runs meanwhile uses the CPU's caches.
///
/// Their I/O keeps the usual priority: some I/O schedulers (BFQ) take it from the thread's, and what a kernel thread does
/// for a loop device would wait where native does not.
pub(crate) struct Raised {
    way: Way,
    threads: Vec<Thread>,
}

/// `None`: the calling one.
struct Thread {
    pid: Option<Pid>,
    holds_io: bool,
}

impl Raised {
    /// Raises all of them in one way, or none: one that waits longer than the others would look slower. None is raised
    /// without the right to, or where the user has set another priority. `None` is the calling thread.
    pub(crate) fn with(threads: &[Option<Pid>]) -> Option<Self> {
        let is_usual = |pid: &Option<Pid>| {
            getpriority_process(*pid) == Ok(USUAL) && real_time::is_usual(*pid) == Some(true)
        };
        if !threads.iter().all(is_usual) {
            return None;
        }
        let ways = [Way::RealTime, Way::Nice].into_iter();
        let mut ways = ways.filter(|way| *way == Way::Nice || leaves_time());
        ways.find_map(|way| Self::in_way(way, threads))
    }

    fn in_way(way: Way, threads: &[Option<Pid>]) -> Option<Self> {
        let mut all = Self {
            way,
            threads: Vec::new(),
        };
        for pid in threads {
            let holds_io = io_priority::hold_usual(*pid);
            all.threads.push(Thread {
                pid: *pid,
                holds_io,
            });
            if !way.raise(*pid) {
                // Those before it are lowered again.
                return None;
            }
        }
        Some(all)
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        for thread in &self.threads {
            self.way.lower(thread.pid);
            if thread.holds_io {
                io_priority::follow_nice(thread.pid);
            }
        }
    }
}

/// Whether threads before all others leave time to those: layermark's own that watch a run are among them.
fn leaves_time() -> bool {
    let release = uname();
    let release = release.release().to_string_lossy();
    is_fair(&release) && available_parallelism().is_ok_and(|cpus| cpus.get() > 1)
}

fn is_fair(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse::<u32>().ok();
    next().zip(next()).is_some_and(|release| release >= FAIR)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn waiting() -> Child {
        Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn real_time_is_for_kernels_that_keep_time_for_others() {
        let fair = ["6.12.0", "6.18.44-fc-v857", "7.0-rc1"];
        let unfair = ["6.11.9", "5.15.0-91-generic", "6", ""];
        assert!(fair.iter().all(|release| is_fair(release)));
        assert!(!unfair.iter().any(|release| is_fair(release)));
    }

    #[test]
    fn all_are_raised_in_each_way_or_none_and_all_are_as_before_afterwards() {
        let mut children = [waiting(), waiting()];
        let pids = [0, 1].map(|at: usize| Some(Pid::from_child(&children[at])));
        let state = || pids.map(|pid| (getpriority_process(pid), real_time::is_usual(pid)));
        let before = state();
        if before != [(Ok(USUAL), Some(true)); 2] {
            return eprintln!("skipped: the tests have not the usual priority");
        }
        for (way, expected) in [
            (Way::RealTime, (Ok(USUAL), Some(false))),
            (Way::Nice, (Ok(RAISED), Some(true))),
        ] {
            let raised = Raised::in_way(way, &pids);
            if raised.is_none() {
                eprintln!("skipped: this user may not raise a thread ({way:?})");
            }
            assert_eq!(
                state(),
                if raised.is_some() {
                    [expected; 2]
                } else {
                    before
                }
            );
            drop(raised);
            assert_eq!(state(), before);
        }
        // The user has set the second one's.
        setpriority_process(pids[1], 19).unwrap();
        assert!(Raised::with(&pids).is_none());
        assert_eq!(state(), [before[0], (Ok(19), Some(true))]);
        for child in &mut children {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
}
