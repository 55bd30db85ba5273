//! `sched_setscheduler(2)`, of a thread: the calling one for `None`.
#![allow(unsafe_code)]

use std::thread::available_parallelism;

use rustix::{process::Pid, system::uname};

/// The lowest priority before all threads that have a nice value (`sched(7)`).
const LOWEST: libc::c_int = 1;

/// The first release that keeps a twentieth of each CPU for threads with a nice value, without stopping those before them
/// on a quiet machine (`fair_server` of `kernel/sched/deadline.c`).
const FAIR: (u32, u32) = (6, 12);

/// Whether threads before all others leave time to those: layermark's own that watch a run are among them.
pub fn leaves_time() -> bool {
    let release = uname();
    let release = release.release().to_string_lossy();
    is_fair(&release) && available_parallelism().is_ok_and(|cpus| cpus.get() > 1)
}

fn is_fair(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse::<u32>().ok();
    next().zip(next()).is_some_and(|release| release >= FAIR)
}

/// Whether nobody has set another policy for it than the usual one. `None` if it has ended.
pub fn is_usual(thread: Option<Pid>) -> Option<bool> {
    // SAFETY: the argument is a number.
    let policy = unsafe { libc::sched_getscheduler(Pid::as_raw(thread)) };
    (policy >= 0).then_some(policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_OTHER)
}

/// It runs before all threads of the usual policy, whatever their control groups and sessions are. What it starts does not
/// inherit that. Returns whether the kernel permits it (`CAP_SYS_NICE`, or `RLIMIT_RTPRIO`).
pub fn raise(thread: Option<Pid>) -> bool {
    set(thread, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, LOWEST)
}

/// It has the usual policy again. The thread may have ended.
pub fn lower(thread: Option<Pid>) {
    // Who has no right to more may not take the flag away, which changes nothing for them.
    let _ = set(thread, libc::SCHED_OTHER, 0)
        || set(thread, libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0);
}

fn set(thread: Option<Pid>, policy: libc::c_int, priority: libc::c_int) -> bool {
    let priority = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the pointer is to a live variable. If the kernel refuses, nothing changes.
    unsafe { libc::sched_setscheduler(Pid::as_raw(thread), policy, &raw const priority) == 0 }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn real_time_is_for_kernels_that_keep_time_for_others() {
        let fair = ["6.12.0", "6.18.44-fc-v857", "7.0-rc1"];
        let unfair = ["6.11.9", "5.15.0-91-generic", "6", ""];
        assert!(fair.iter().all(|release| is_fair(release)));
        assert!(!unfair.iter().any(|release| is_fair(release)));
    }

    #[test]
    fn a_thread_is_raised_and_lowered_and_what_it_starts_is_not() {
        assert_eq!(is_usual(None), Some(true));
        if !raise(None) {
            assert_eq!(is_usual(None), Some(true));
            return eprintln!("skipped: this user may not raise a thread");
        }
        assert_eq!(is_usual(None), Some(false));
        assert_eq!(thread::spawn(|| is_usual(None)).join().unwrap(), Some(true));
        lower(None);
        // SAFETY: the argument is a number.
        assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_OTHER);
    }
}
