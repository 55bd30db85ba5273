//! The priority of threads that take turns.

use layermark_sys::{io_priority, real_time};
use rustix::process::{Pid, getpriority_process};

/// Nice value of a process that nobody has set.
const USUAL: i32 = 0;

/// Threads whose priority is raised until this is dropped.
///
/// What one thread waits for a CPU is left out of its times. But a turn that waits takes longer, so fewer fit into the
/// budget, and what runs meanwhile uses the CPU's caches. A nice value would help within a scheduler's group only, and what
/// the user runs in another terminal is in another one (`sched(7)`, the autogroup feature).
///
/// Their I/O keeps the usual priority: some I/O schedulers (BFQ) take it from the thread's, and what a kernel thread does
/// for a loop device would wait where native does not.
#[derive(Default)]
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
    /// right to, or where the user has set another priority. `None` is the calling thread.
    pub(crate) fn with(threads: impl Iterator<Item = Option<Pid>>) -> Self {
        let mut all = Self::default();
        for pid in threads {
            let usual = getpriority_process(pid) == Ok(USUAL) && real_time::is_usual(pid);
            if !usual {
                // Those before it are lowered again.
                return Self::default();
            }
            let holds_io = io_priority::hold_usual(pid);
            all.threads.push(Thread { pid, holds_io });
            if !real_time::raise(pid) {
                return Self::default();
            }
        }
        all
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        for thread in &self.threads {
            real_time::lower(thread.pid);
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
        let tried =
            thread::spawn(|| getpriority_process(None) == Ok(USUAL) && real_time::raise(None));
        tried.join().unwrap()
    }

    #[test]
    fn all_are_raised_or_none_and_all_are_as_before_afterwards() {
        let mut children = [waiting(), waiting()];
        let pids = [0, 1].map(|at: usize| Some(Pid::from_child(&children[at])));
        let usual = || pids.map(real_time::is_usual);
        let raised = Raised::with(pids.into_iter());
        assert_eq!(usual(), [!may(); 2]);
        drop(raised);
        assert_eq!(usual(), [true; 2]);
        // The user has set the second one's.
        rustix::process::setpriority_process(pids[1], 19).unwrap();
        let raised = Raised::with(pids.into_iter());
        assert_eq!(usual(), [true; 2]);
        drop(raised);
        assert_eq!(getpriority_process(pids[1]), Ok(19));
        for child in &mut children {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
}
