//! Detects whether work makes progress or hangs in the kernel, by its CPU time.
//!
//! A thread that waits for a dead server uses no CPU time. A thread that waits for a slow disk may
//! sleep during one fsync of many megabytes (4 s for 12 MiB were seen). So bytes that move on the
//! disk also count as progress while a thread waits for a disk.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use layermark_model::DeviceBytes;
use layermark_sys::{
    process::{self, InCall, Schedstat, Stat},
    served,
};
use rustix::{
    fs::statfs,
    time::{ClockId, clock_gettime},
};

use crate::counters;

/// Disks that hold the files of some work.
#[derive(Debug, Default)]
pub struct Disks {
    numbers: Vec<String>,
    moved: Option<DeviceBytes>,
}

impl Disks {
    /// The devices `major:minor`, unless a server is in front of them.
    pub fn below(dir: &Path, numbers: &[String]) -> Self {
        // A thread that waits for a server does not wait for a disk of this machine.
        let served = statfs(dir).is_ok_and(|s| served::is_numbered(s.f_type as u32));
        let numbers = if served { Vec::new() } else { numbers.to_vec() };
        Self {
            numbers,
            moved: None,
        }
    }

    /// Whether bytes have moved there since the last call, if a thread of this process waits.
    pub fn have_moved(&mut self) -> bool {
        if self.numbers.is_empty() {
            return false;
        }
        let now = counters::sum(&self.numbers);
        let moved = now.is_some() && self.moved.is_some() && now != self.moved;
        self.moved = now;
        moved && some_thread_waits()
    }
}

/// Whether a thread of this process is in an uninterruptible wait, as for a disk.
fn some_thread_waits() -> bool {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    threads.flatten().any(|thread| {
        let stat = File::open(thread.path().join("stat")).ok();
        stat.and_then(|file| Stat::read(&file))
            .is_some_and(|s| s.state == 'D')
    })
}

/// The threads or processes that work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// All threads of this process except the calling one, and its children.
    Others,
    /// These processes, and this thread of this process.
    These(Vec<u32>, i32),
}

/// Progress of some threads or processes, as last seen.
#[derive(Debug)]
pub struct Motion {
    who: Who,
    /// CPU time, minimum and maximum, ns.
    used: (u64, u64),
}

impl Motion {
    /// Records the current state.
    pub fn of(who: Who) -> Self {
        let used = who.used();
        Self { who, used }
    }

    /// Whether there was progress since the last call that returned true.
    pub fn is_seen(&mut self) -> bool {
        let now = self.who.used();
        // It decreases when a child has ended.
        let seen = now.0 > self.used.1 || now.1 < self.used.0;
        if seen {
            self.used = now;
        }
        seen || self.who.waits_for_a_time()
    }
}

impl Who {
    /// CPU time, minimum and maximum, ns.
    fn used(&self) -> (u64, u64) {
        match self {
            Self::Others => {
                // The process's clock runs while this thread reads it.
                let before = ns(ClockId::ThreadCPUTime);
                let all = ns(ClockId::ProcessCPUTime);
                let after = ns(ClockId::ThreadCPUTime);
                let children: u64 = workers().into_iter().filter_map(threads_run_ns).sum();
                let at = |own| children + all.saturating_sub(own);
                (at(after), at(before))
            }
            Self::These(pids, thread) => {
                let own = Schedstat::of(Path::new(&format!("/proc/self/task/{thread}")));
                let others = pids.iter().filter_map(|pid| threads_run_ns(*pid));
                let used = others.sum::<u64>() + own.map_or(0, |own| own.run_ns);
                (used, used)
            }
        }
    }

    /// Whether a child of this process waits for an event with a timeout.
    fn waits_for_a_time(&self) -> bool {
        *self == Self::Others && workers().into_iter().any(waits_for_a_time)
    }
}

/// Whether a child makes progress: it has used CPU time since `used`, which is updated, or it waits
/// with a timeout.
pub fn goes_on(child: u32, used: &mut u64) -> bool {
    let child = worker(child);
    let before = *used;
    *used = threads_run_ns(child).unwrap_or(before);
    *used != before || waits_for_a_time(child)
}

/// CPU time of all threads of an existing process, ns.
fn threads_run_ns(pid: u32) -> Option<u64> {
    Schedstat::of_threads(pid).map(|all| all.run_ns)
}

/// CPU time of all living descendants of a process, ns.
pub fn descendants_cpu_ns(pid: u32) -> u64 {
    let each = process::children(pid).into_iter();
    each.map(|child| threads_run_ns(child).unwrap_or(0) + descendants_cpu_ns(child))
        .sum()
}

fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Child processes that work.
fn workers() -> Vec<u32> {
    let children = process::children("self");
    children.into_iter().map(worker).collect()
}

/// The first process of a PID namespace only waits for its child. Returns that child, or else the
/// process itself.
fn worker(pid: u32) -> u32 {
    let waits = poll_of(pid).is_some_and(|limited| !limited);
    let child = waits.then(|| process::children(pid).first().copied());
    child.flatten().unwrap_or(pid)
}

/// Whether a process is in poll(2) with a timeout. Returns true when this cannot be determined.
fn waits_for_a_time(pid: u32) -> bool {
    fs::metadata(format!("/proc/{pid}/syscall")).is_err() || poll_of(pid).unwrap_or(false)
}

/// For a process in poll(2) or ppoll(2): whether it has a timeout.
fn poll_of(pid: u32) -> Option<bool> {
    let of = PathBuf::from(format!("/proc/{pid}"));
    let InCall::Waits(call, arguments) = process::in_call(&of) else {
        return None;
    };
    let limit = *arguments.get(2)?;
    match call {
        // Milliseconds; a negative 32-bit number means no timeout. Newer architectures have only ppoll(2).
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => Some(limit & 0x8000_0000 == 0),
        // A pointer to the limit.
        libc::SYS_ppoll => Some(limit != 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        process::{Command, Stdio},
        sync::mpsc,
        thread,
        time::{Duration, Instant},
    };

    use super::*;

    /// Waits, far longer than anything takes on a busy machine.
    #[track_caller]
    fn until(what: &str, mut is: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is() {
            assert!(start.elapsed() < Duration::from_mins(3), "no {what}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_thread_that_sleeps_does_nothing_until_it_wakes() {
        // In a separate process, because other tests work in this one.
        let mut sleeper = Command::new("sh")
            .args(["-c", "read x; while :; do :; done"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = sleeper.id();
        let mut used = 0;
        until("it to wait", || !goes_on(pid, &mut used));
        assert!(!goes_on(pid, &mut used), "it waits for its input");
        drop(sleeper.stdin.take());
        until("its work", || goes_on(pid, &mut used));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn disks_behind_a_server_are_none_of_ours() {
        let here = Path::new("/");
        let mut none = Disks::below(here, &[]);
        assert!(!none.have_moved() && !Disks::default().have_moved());
        let numbers = ["254:0".to_owned()];
        assert_eq!(Disks::below(here, &numbers).numbers, numbers);
    }

    #[test]
    fn who_waits_with_a_limit_goes_on() {
        let text = "import select; select.poll().poll(60000)";
        let Ok(mut child) = Command::new("/usr/bin/python3").args(["-c", text]).spawn() else {
            eprintln!("skipped: /usr/bin/python3 is not installed");
            return;
        };
        until("its wait", || waits_for_a_time(child.id()));
        assert!(goes_on(child.id(), &mut 0) && goes_on(child.id(), &mut u64::MAX.clone()));
        assert!(process::children("self").contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn who_only_waits_for_its_child_is_that_child() {
        let text = "import os, select\npid = os.fork()\nselect.poll().poll(None if pid else 60000)";
        let Ok(mut first) = Command::new("/usr/bin/python3").args(["-c", text]).spawn() else {
            eprintln!("skipped: /usr/bin/python3 is not installed");
            return;
        };
        until("its child", || worker(first.id()) != first.id());
        let second = worker(first.id());
        assert_eq!(process::children(first.id()), [second]);
        assert!(!waits_for_a_time(first.id()));
        let second = rustix::process::Pid::from_raw(second.cast_signed()).unwrap();
        first.kill().unwrap();
        first.wait().unwrap();
        rustix::process::kill_process(second, rustix::process::Signal::KILL).unwrap();
    }

    #[test]
    fn a_thread_is_looked_at_by_its_number() {
        let (sender, work) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let worker = thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get())
                .unwrap();
            while work.recv().is_ok() {}
        });
        let mut motion = Motion::of(Who::These(Vec::new(), told.recv().unwrap()));
        // Its work may be counted late.
        until("it to wait", || !motion.is_seen());
        sender.send(()).unwrap();
        until("its work", || motion.is_seen());
        drop(sender);
        worker.join().unwrap();
    }
}
