//! The priority of threads that take turns.

use layermark_sys::io_priority;
use rustix::process::{Pid, getpriority_process, setpriority_process};

/// Nice value of the threads in a block: beside a usual program that wants the same CPU, a thread gets nine tenths of it
/// (weights 9548 and 1024, `sched_prio_to_weight` of the kernel).
const RAISED: i32 = -10;
/// Nice value of a process that nobody has set.
const USUAL: i32 = 0;

/// Threads whose priority is raised until this is dropped.
///
/// What one thread waits for a CPU is left out of its times. But a turn that waits takes longer, so fewer fit into the
/// budget, and what runs meanwhile uses the CPU's caches.
///
/// Their I/O keeps the usual priority: some I/O schedulers (BFQ) take it from the nice value, and what a kernel thread does
/// for a loop device would wait where native does not.
pub(crate) struct Raised {
    threads: Vec<Thread>,
}

/// `None`: the calling one.
struct Thread {
    pid: Option<Pid>,
    holds_io: bool,
}

impl Raised {
    /// Raises all of them, or none: one that waits longer than the others would look slower. None is raised without the
    /// right to (`CAP_SYS_NICE`, or `RLIMIT_NICE`), or where the user has set another priority. `None` is the calling
    /// thread.
    pub(crate) fn with(threads: impl Iterator<Item = Option<Pid>>) -> Self {
        let mut all = Self {
            threads: Vec::new(),
        };
        for pid in threads {
            let usual = getpriority_process(pid) == Ok(USUAL);
            if !usual || setpriority_process(pid, RAISED).is_err() {
                // Those before it are lowered again.
                return Self {
                    threads: Vec::new(),
                };
            }
            all.threads.push(Thread {
                pid,
                holds_io: io_priority::hold_usual(pid),
            });
        }
        all
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        for thread in &self.threads {
            // Everybody may lower it. The thread may have ended.
            let _ = setpriority_process(thread.pid, USUAL);
            if thread.holds_io {
                io_priority::follow_nice(thread.pid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        process::{Child, Command, Stdio},
        thread,
    };

    use super::*;

    fn waiting() -> Child {
        Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()
    }

    /// Whether this thread may raise anything. Its end takes what it has set with it.
    fn may() -> bool {
        let tried = thread::spawn(|| {
            getpriority_process(None) == Ok(USUAL) && setpriority_process(None, RAISED).is_ok()
        });
        tried.join().unwrap()
    }

    #[test]
    fn all_are_raised_or_none_and_all_are_as_before_afterwards() {
        let mut children = [waiting(), waiting()];
        let pids = [0, 1].map(|at: usize| Some(Pid::from_child(&children[at])));
        let nice = || pids.map(|pid| getpriority_process(pid).unwrap());
        let before = nice();
        let raised = Raised::with(pids.into_iter());
        assert_eq!(nice(), if may() { [RAISED; 2] } else { before });
        drop(raised);
        assert_eq!(nice(), before);
        // The user has set the second one's.
        setpriority_process(pids[1], 19).unwrap();
        let raised = Raised::with(pids.into_iter());
        assert_eq!(nice(), [before[0], 19]);
        drop(raised);
        assert_eq!(nice(), [before[0], 19]);
        for child in &mut children {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
}
