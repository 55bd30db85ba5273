//! The priority of threads that take turns.

use std::time::Duration;

use layermark_model::Priority;
use layermark_sys::{io_priority, real_time};
use rustix::process::{Pid, getpriority_process, setpriority_process};

use crate::execute::waited::Waited;

/// Nice value of a raised thread: beside a usual program of its session that wants the same CPU, it gets nine tenths of it
/// (weights 9548 and 1024, `sched_prio_to_weight` of the kernel).
const RAISED: i32 = -10;
/// A priority is too little for those that wait for a CPU for one in so many parts of their time...
const MUCH: u64 = 3;
/// ... if that was at least so long: another program that comes once may run for 4 ms.
const ENOUGH: Duration = Duration::from_millis(100);
/// Nice value of a process that nobody has set.
const USUAL: i32 = 0;

fn raise(way: Priority, thread: Option<Pid>) -> bool {
    match way {
        Priority::RealTime => real_time::raise(thread),
        Priority::Nice => setpriority_process(thread, RAISED).is_ok(),
    }
}

/// Everybody may. The thread may have ended.
fn lower(way: Priority, thread: Option<Pid>) {
    match way {
        Priority::RealTime => real_time::lower(thread),
        Priority::Nice => drop(setpriority_process(thread, USUAL)),
    }
}

/// How threads are raised after they `waited` so long without [`Priority::RealTime`].
pub(crate) fn way_after(waited: Waited) -> Priority {
    if waited.is_over(MUCH) && waited.elapsed() >= ENOUGH {
        Priority::RealTime
    } else {
        Priority::Nice
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
    /// How.
    pub way: Priority,
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
    pub(crate) fn with(way: Priority, threads: &[Option<Pid>]) -> Option<Self> {
        let is_usual = |pid: &Option<Pid>| {
            getpriority_process(*pid) == Ok(USUAL) && real_time::is_usual(*pid) == Some(true)
        };
        if !threads.iter().all(is_usual) {
            return None;
        }
        Self::in_real_time(way, threads).or_else(|| Self::in_way(Priority::Nice, threads))
    }

    /// Raises the calling thread while it sets layers up or takes them down, if the way is [`Priority::RealTime`]. It sleeps
    /// for the disk thousands of times meanwhile, and each time waits for as long as another program may run on. No time that
    /// is measured has this, but the budget has. With a nice value, what it starts would have that too.
    pub(crate) fn for_set_ups(way: Priority) -> Option<Self> {
        Self::in_real_time(way, &[None])
    }

    fn in_real_time(way: Priority, threads: &[Option<Pid>]) -> Option<Self> {
        (way == Priority::RealTime && real_time::leaves_time())
            .then(|| Self::in_way(way, threads))
            .flatten()
    }

    fn in_way(way: Priority, threads: &[Option<Pid>]) -> Option<Self> {
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
            if !raise(way, *pid) {
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
            lower(self.way, thread.pid);
            if thread.holds_io {
                io_priority::follow_nice(thread.pid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use layermark_model::Turn;

    use super::*;

    fn waiting() -> Child {
        Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn a_nice_value_is_too_little_where_a_third_of_a_long_time_was_waited_for() {
        let after = |elapsed_ms: u64, waited_ms: u64| {
            let turn = Turn {
                elapsed_ns: elapsed_ms * 1_000_000,
                waited_ns: Some(waited_ms * 1_000_000),
                ..Turn::default()
            };
            way_after(Waited::of([turn].into_iter()))
        };
        assert_eq!(after(300, 101), Priority::RealTime);
        assert_eq!(after(300, 99), Priority::Nice);
        // The first chmod of packaged files, beside loops of the same session.
        assert_eq!(after(10, 4), Priority::Nice);
        assert_eq!(way_after(Waited::default()), Priority::Nice);
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
            (Priority::RealTime, (Ok(USUAL), Some(false))),
            (Priority::Nice, (Ok(RAISED), Some(true))),
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
        assert!(Raised::with(Priority::RealTime, &pids).is_none());
        assert_eq!(state(), [before[0], (Ok(19), Some(true))]);
        for child in &mut children {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    #[test]
    fn set_ups_are_raised_where_a_nice_value_is_too_little_and_what_they_start_is_not() {
        assert!(Raised::for_set_ups(Priority::Nice).is_none());
        let Some(raised) = Raised::for_set_ups(Priority::RealTime) else {
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
