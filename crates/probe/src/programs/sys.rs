//! System calls without a safe wrapper: fork(2), unshare(2), wait4(2), prctl(2), getrandom(2).
#![allow(unsafe_code)]

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::process::CommandExt,
    },
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    thread,
};

use layermark_model::CpuUse;
use layermark_sys::real_time;
use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change},
    process::{Pid, WaitOptions, set_child_subreaper, setsid, waitpid},
};

/// Runs `child` in a new process, which ends after it. With `apart` that is process 1 of a PID
/// namespace: when it ends, for whatever reason, the kernel ends all others in it.
pub fn spawn(apart: bool, child: &mut (dyn FnMut() + Send)) -> io::Result<i32> {
    let split = move || -> io::Result<i32> {
        if apart {
            unshare(libc::CLONE_NEWPID)?;
        }
        match fork()? {
            0 => {
                let ran = catch_unwind(AssertUnwindSafe(child));
                exit_now(i32::from(ran.is_err()))
            }
            pid => Ok(pid),
        }
    };
    if !apart {
        return split();
    }
    // Unsharing applies to this thread's own children: those of the probe's other threads stay in
    // the namespace they are in.
    let ended = thread::scope(|scope| {
        let thread = thread::Builder::new().name("fork".into());
        thread
            .spawn_scoped(scope, split)
            .map(thread::ScopedJoinHandle::join)
    })?;
    ended.unwrap_or_else(|_| Err(io::Error::other("the thread that forks has panicked")))
}

/// fork(2). Returns 0 in the new process.
pub fn fork() -> io::Result<i32> {
    // SAFETY: the child runs only the guard, on its own copy of the memory. The C library makes its
    // allocator usable after fork(2). Another thread of the probe may hold a lock: that thread
    // writes progress lines, and touches neither the environment nor the standard error stream. The
    // guard takes no lock that it uses.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid),
    }
}

/// Receives a datagram, with the sender's process id in this PID namespace (0 outside of it) and
/// its user (`SCM_CREDENTIALS`, unix(7)). The socket must have `SO_PASSCRED`.
pub fn receive_with_sender(
    socket: impl AsFd,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<(i32, u32)>)> {
    // Aligned, and enough for the sender and a few descriptors.
    let mut control = [0u64; 8];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all-zero is a message header without anything.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = size_of_val(&control);
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header names memory that outlives the call.
    let got = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut header, flags) };
    let length = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    let mut sender = None;
    // SAFETY: the kernel has filled the header in, and these macros stay within its control part.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&raw const header);
        while let Some(part) = next.as_ref() {
            let data = libc::CMSG_DATA(part);
            match (part.cmsg_level, part.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
                    let cred = data.cast::<libc::ucred>().read_unaligned();
                    sender = Some((cred.pid, cred.uid));
                }
                // Descriptors that a sender may add are not needed.
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    let bytes = part.cmsg_len - libc::CMSG_LEN(0) as usize;
                    for n in 0..bytes / size_of::<i32>() {
                        let fd = data.cast::<[u8; size_of::<i32>()]>().add(n).read();
                        libc::close(i32::from_ne_bytes(fd));
                    }
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(&raw const header, next);
        }
    }
    Ok((length, sender))
}

/// Ends the process without running destructors of the process it was forked from.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit(2) has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Makes a program end when this process ends, for whatever reason. It gets SIGTERM, so that it can
/// remove its files.
pub fn end_with_us(command: &mut Command) {
    let ask = || {
        let signal = Some(rustix::process::Signal::TERM);
        Ok(rustix::process::set_parent_process_death_signal(signal)?)
    };
    // SAFETY: the closure makes one system call, allocates nothing and touches no lock, which is
    // allowed between fork and exec.
    unsafe { command.pre_exec(ask) };
}

/// Gives a program a private `/tmp` in memory, which contains only `kept`.
pub fn own_tmp(command: &mut Command, kept: &'static str) {
    let enter = move || {
        own_mounts()?;
        // The working directory does not change when something is mounted over it.
        rustix::process::chdir(kept)?;
        mount(
            "tmpfs",
            "/tmp",
            "tmpfs",
            MountFlags::empty(),
            Some(c"mode=700"),
        )?;
        rustix::fs::mkdir(kept, rustix::fs::Mode::RWXU)?;
        Ok(mount_bind(".", kept)?)
    };
    // SAFETY: the closure makes system calls, whose short paths are put on the stack, and touches no
    // lock, which is allowed between fork and exec.
    unsafe { command.pre_exec(enter) };
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: unshare(2) takes flags, and neither of those used here touches memory or descriptors.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives this process, which has one thread, its own mount namespace.
pub fn own_mounts() -> io::Result<()> {
    unshare(libc::CLONE_NEWNS)?;
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    Ok(mount_change("/", private)?)
}

/// Makes descendants whose parents have ended children of this process (`PR_SET_CHILD_SUBREAPER`).
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Pid::from_raw(1))?)
}

/// Makes a process the guard: a new session, subreaper, a timer that wakes up on time (the usual
/// slack is 50 us), and a priority above all others, so that it sees events at once. Its children
/// inherit none of that.
pub fn become_guard() -> io::Result<()> {
    setsid()?;
    adopt_orphans()?;
    // SAFETY: PR_SET_TIMERSLACK takes a number, and affects only this process.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
    // If the kernel refuses, it sees them later.
    real_time::raise(None);
    Ok(())
}

/// A child that has ended and was waited for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reaped {
    pub pid: i32,
    /// Exit code, or 128 and the signal.
    pub code: i32,
    /// The signal that ended it. A shell whose command was ended by a signal exits normally, with
    /// the same code.
    pub signal: Option<i32>,
    pub cpu: CpuUse,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub input_blocks: u64,
    /// Largest resident set so far, bytes. Never less than its parent had when it was started, see
    /// `ru_maxrss` in getrusage(2).
    pub max_rss: u64,
}

/// Reaps a child that has ended, without blocking.
pub fn reap() -> Option<Reaped> {
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid `rusage`, which is plain integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live variables that only this call writes to.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
    if pid <= 0 {
        return None;
    }
    let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    Some(Reaped {
        pid,
        code: signal.map_or_else(|| libc::WEXITSTATUS(status), |signal| 128 + signal),
        signal,
        cpu: CpuUse {
            user_ns: ns(usage.ru_utime),
            sys_ns: ns(usage.ru_stime),
        },
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
        input_blocks: usage.ru_inblock as u64,
        max_rss: usage.ru_maxrss as u64 * 1024,
    })
}

/// Waits for one child to end. Returns its exit code, if it has one.
pub fn wait_for(pid: i32) -> Option<i32> {
    let ended = waitpid(Some(Pid::from_raw(pid)?), WaitOptions::empty());
    ended.ok().flatten()?.1.exit_status()
}
