//! System calls without a safe wrapper: fork(2), wait4(2), prctl(2).
#![allow(unsafe_code)]

use std::{io, os::unix::process::CommandExt, process::Command};

use layermark_model::CpuUse;
use rustix::process::{
    Signal, WaitOptions, set_child_subreaper, set_parent_process_death_signal, setsid, waitpid,
};

/// Splits the process: 0 in the new one.
pub fn fork() -> io::Result<i32> {
    // SAFETY: the child runs only the guard, on memory of its own. The C library makes its
    // allocator usable after fork(2), and the guard takes no other lock that another thread of the
    // probe may hold: that one writes progress lines, and touches neither the environment nor the
    // standard error stream.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid),
    }
}

/// Ends the process without running anything that belongs to the one it was split from.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit(2) has no preconditions.
    unsafe { libc::_exit(code) }
}

/// A mount namespace of this process's own.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: unshare(2) takes flags; the guard has one thread, and nobody else shares its
    // namespace afterwards.
    match unsafe { libc::unshare(libc::CLONE_NEWNS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What makes a process the guard: a session of its own, orphans are its children, and a timer
/// that wakes up on time (the usual slack is 50 us).
pub fn become_guard() -> io::Result<()> {
    setsid()?;
    set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    timer_slack(1);
    Ok(())
}

fn timer_slack(ns: libc::c_ulong) {
    // SAFETY: PR_SET_TIMERSLACK takes a number and changes nothing but the caller's own timers. A
    // kernel that refuses it leaves them as they were.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns) };
}

/// The program gets a process group of its own, the usual timer slack, and dies with its guard.
/// With a root it sees nothing but what lies below it.
pub fn as_program(
    command: &mut Command,
    root: Option<std::path::PathBuf>,
    dir: std::path::PathBuf,
) {
    command.process_group(0);
    let setup = move || {
        timer_slack(50_000);
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if let Some(root) = &root {
            rustix::process::chroot(root)?;
        }
        rustix::process::chdir(&dir)?;
        Ok(())
    };
    // SAFETY: the closure makes system calls on paths that were made before fork(2); short paths
    // are put into C strings on the stack, and no lock is taken.
    unsafe { command.pre_exec(setup) };
}

/// A process that was waited for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reaped {
    pub pid: i32,
    /// Exit code, or 128 and the signal.
    pub code: i32,
    pub cpu: CpuUse,
    pub major_faults: u64,
    pub input_blocks: u64,
    /// Largest resident set it ever had, bytes. Never less than what its parent had when it was
    /// started, see `ru_maxrss` in getrusage(2).
    pub max_rss: u64,
}

/// Waits for a child that has ended, without waiting for it to end.
pub fn reap() -> Option<Reaped> {
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid `rusage`, which is plain integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live variables that only this call writes to.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
    if pid <= 0 {
        return None;
    }
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    Some(Reaped {
        pid,
        code: if libc::WIFEXITED(status) {
            libc::WEXITSTATUS(status)
        } else {
            128 + libc::WTERMSIG(status)
        },
        cpu: CpuUse {
            user_ns: ns(usage.ru_utime),
            sys_ns: ns(usage.ru_stime),
        },
        major_faults: usage.ru_majflt as u64,
        input_blocks: usage.ru_inblock as u64,
        max_rss: usage.ru_maxrss as u64 * 1024,
    })
}

/// Waits for one child to end.
pub fn wait_for(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = waitpid(Some(pid), WaitOptions::empty());
    }
}
