//! The priority of threads that take turns.

use layermark_sys::{io_priority, real_time};
use rustix::process::{Pid, getpriority_process, setpriority_process};

/// Nice value of a raised thread: beside a usual program of its session that wants the same CPU, it gets nine tenths of it
/// (weights 9548 and 1024, `sched_prio_to_weight` of the kernel).
const RAISED: i32 = -10;
/// Nice value of a process that nobody has set.
const USUAL: i32 = 0;

/// How threads are raised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Way {
    /// By a nice value. It counts only within a scheduler's group, and what the user runs in another terminal is in another
    /// one (`sched(7)`, the autogroup feature).
    #[default]
    Nice,
    /// Before all threads that have a nice value. Where one of these sleeps, the kernel wakes its own threads, such as those
    /// of a loop device, on another CPU, so this is for where the other way is too little.
    RealTime,
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
    /// Raises all of them in one way, this one if it is possible, or none: one that waits longer than the others would look
    /// slower. None is raised without the right to, or where the user has set another priority. `None` is the calling thread.
    pub(crate) fn with(way: Way, threads: &[Option<Pid>]) -> Option<Self> {
        let is_usual = |pid: &Option<Pid>| {
            getpriority_process(*pid) == Ok(USUAL) && real_time::is_usual(*pid) == Some(true)
        };
        if !threads.iter().all(is_usual) {
            return None;
        }
        Self::in_real_time(way, threads).or_else(|| Self::in_way(Way::Nice, threads))
    }

    /// Raises the calling thread while it sets layers up or takes them down, if that is the way. It sleeps for the disk
    /// thousands of times meanwhile, and each time waits for as long as a program of another session may run on. No time that
    /// is measured has this, but the budget has. With a nice value, what it starts would have that too.
    pub(crate) fn for_set_ups(way: Way) -> Option<Self> {
        Self::in_real_time(way, &[None])
    }

    fn in_real_time(way: Way, threads: &[Option<Pid>]) -> Option<Self> {
        (way == Way::RealTime && real_time::leaves_time())
            .then(|| Self::in_way(way, threads))
            .flatten()
    }

    /// The way for later rounds, where turns at this priority waited for a CPU for `much` of their time, or did not.
    pub(crate) fn way_after(&self, much: bool) -> Way {
        if much { Way::RealTime } else { self.way }
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

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn waiting() -> Child {
        Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()
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
            if let Some(raised) = &raised {
                assert_eq!(
                    [false, true].map(|much| raised.way_after(much)),
                    [way, Way::RealTime]
                );
            }
            drop(raised);
            assert_eq!(state(), before);
        }
        // The user has set the second one's.
        setpriority_process(pids[1], 19).unwrap();
        assert!(Raised::with(Way::RealTime, &pids).is_none());
        assert_eq!(state(), [before[0], (Ok(19), Some(true))]);
        for child in &mut children {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    #[test]
    fn set_ups_are_raised_where_a_nice_value_is_too_little_and_what_they_start_is_not() {
        assert!(Raised::for_set_ups(Way::Nice).is_none());
        let Some(raised) = Raised::for_set_ups(Way::RealTime) else {
            return eprintln!("skipped: no thread may run before all others here");
        };
        let mut child = waiting();
        let pid = Some(Pid::from_child(&child));
        let usual = [None, pid].map(real_time::is_usual);
        drop(raised);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(usual, [Some(false), Some(true)]);
        assert_eq!(real_time::is_usual(None), Some(true));
    }
}
