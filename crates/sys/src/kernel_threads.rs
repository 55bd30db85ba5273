//! How long threads of the kernel wait for a CPU. Part of a flush is done by them: they start the next request of a
//! device, end writes, write a journal. Who waits for the flush waits for their CPU as well.

use std::{
    cell::Cell,
    fs::{self, File},
    io,
};

use crate::process::{self, Schedstat, Stat, children_of_first_thread};

/// The process that starts all threads of the kernel (`kthreadd`).
const FIRST: u32 = 2;
/// How the names of threads begin that work for file systems and block devices. Others, such as those that free memory,
/// are not waited for by a flush.
const WORK: &[&str] = &[
    // Workqueues: block devices, loop devices, ends of writes, XFS, Btrfs, dm-crypt.
    "kworker/",
    // Ends of requests, when there are many.
    "ksoftirqd/",
    "irq/",
    "jbd2/",
    "xfsaild/",
    "btrfs-",
    "dmcrypt_write/",
    // ZFS.
    "z_",
    "txg_",
];
/// More are not watched: reading each takes about a microsecond, and each is an open file.
const MOST: usize = 256;

/// The counter of a thread, which stays open.
struct WatchedThread {
    pid: u32,
    schedstat: File,
    /// What it showed last, ns.
    waited_ns: Cell<u64>,
}

/// These threads.
#[derive(Default)]
pub struct KernelThreads {
    each: Vec<WatchedThread>,
    /// All threads of the kernel when they were last listed, in order. Empty: none is watched.
    listed: Vec<u32>,
}

impl KernelThreads {
    /// Those that there are now. None where this process does not see them (a container), and where there are too many.
    pub fn open() -> Self {
        let mut all = Self::default();
        if !all.add(pids()) {
            all = Self::default();
        }
        all
    }

    /// Adds those that have started since, and leaves out those that have ended. The kernel starts and ends them as it has
    /// work. Takes some 25 us for 80 threads, and is for a moment outside the clock.
    pub fn renew(&mut self) {
        if self.listed.is_empty() {
            return;
        }
        // A kernel without lists of children needs milliseconds: there it stays with the first ones.
        let now = children_of_first_thread(FIRST);
        if !now.is_empty() {
            self.add(now);
        }
    }

    /// Takes these for all threads of the kernel. Returns whether each that works is watched: there may be too many threads or
    /// open files.
    fn add(&mut self, mut now: Vec<u32>) -> bool {
        now.sort_unstable();
        self.each
            .retain(|thread| now.binary_search(&thread.pid).is_ok());
        let mut all = true;
        for pid in &now {
            if self.listed.binary_search(pid).is_ok() || !works(*pid) {
                continue;
            }
            match File::open(format!("/proc/{pid}/schedstat")) {
                Ok(schedstat) if self.each.len() < MOST => self.each.push(WatchedThread {
                    pid: *pid,
                    schedstat,
                    waited_ns: Cell::default(),
                }),
                // It has ended.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                _ => all = false,
            }
        }
        self.listed = if self.each.is_empty() {
            Vec::new()
        } else {
            now
        };
        all
    }

    /// Nanoseconds for which they were ready to run and had no CPU since they started, over all of them. `None` if there
    /// are none, or the kernel does not count. A thread that has ended keeps its last number.
    pub fn waited_ns(&self) -> Option<u64> {
        if self.each.is_empty() {
            return None;
        }
        let mut counted = false;
        let mut sum = 0;
        for thread in &self.each {
            if let Some(now) = Schedstat::read(&thread.schedstat) {
                thread.waited_ns.set(now.wait_ns);
                counted |= now.is_counted();
            }
            sum += thread.waited_ns.get();
        }
        counted.then_some(sum)
    }
}

/// All threads of the kernel, the first one included. None where this process does not see them (a container).
pub fn pids() -> Vec<u32> {
    if name_of(FIRST).as_deref() != Some("kthreadd") {
        return Vec::new();
    }
    let mut all = children_of_first_thread(FIRST);
    if all.is_empty() {
        // A kernel without lists of children (CONFIG_PROC_CHILDREN).
        let is_child = |pid: &u32| Stat::of(*pid).is_some_and(|stat| stat.parent == FIRST);
        all = process::all().filter(is_child).collect();
    }
    all.push(FIRST);
    all
}

/// Whether it works for file systems and block devices.
fn works(pid: u32) -> bool {
    name_of(pid).is_some_and(|name| WORK.iter().any(|begins| name.starts_with(begins)))
}

/// The name of a process, up to 15 bytes.
fn name_of(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use rustix::{
        fs::fstatfs,
        thread::{CpuSet, sched_setaffinity},
    };

    use super::*;

    /// `TMPFS_MAGIC` of linux/magic.h.
    const TMPFS: i64 = 0x0102_1994;

    /// Each flush of a file on a disk is ended by a thread of the kernel, which busy loops keep waiting.
    #[test]
    fn threads_of_the_kernel_wait_beside_busy_loops() {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        if fstatfs(&file).unwrap().f_type == TMPFS {
            return eprintln!("skipped: /var/tmp is in memory");
        }
        let flushes = || {
            for round in 0..200_u32 {
                std::os::unix::fs::FileExt::write_all_at(&file, &round.to_le_bytes(), 0).unwrap();
                file.sync_data().unwrap();
            }
        };
        // The kernel starts some of these threads only when there is work.
        flushes();
        let threads = KernelThreads::open();
        let Some(before) = threads.waited_ns() else {
            return eprintln!("skipped: no thread of the kernel is seen, or it does not count");
        };
        let over = AtomicBool::new(false);
        let all = thread::available_parallelism().unwrap().get();
        thread::scope(|scope| {
            for cpu in 0..2 * all {
                let over = &over;
                scope.spawn(move || {
                    let mut one = CpuSet::new();
                    one.set(cpu % all);
                    // Where it may not choose, it is busy somewhere.
                    let _ = sched_setaffinity(None, &one);
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            for _ in 0..20 {
                flushes();
                if threads.waited_ns() > Some(before) {
                    break;
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        let waited = threads.waited_ns().unwrap() - before;
        assert!(waited > 0, "{} threads", threads.each.len());
    }

    #[test]
    fn a_thread_that_has_ended_keeps_its_number() {
        let mut own = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let of = |pid: u32, waited_ns| WatchedThread {
            pid,
            schedstat: File::open(format!("/proc/{pid}/schedstat")).unwrap(),
            waited_ns: Cell::new(waited_ns),
        };
        let threads = KernelThreads {
            each: vec![of(own.id(), 7), of(std::process::id(), 0)],
            listed: Vec::new(),
        };
        own.kill().unwrap();
        own.wait().unwrap();
        if let Some(sum) = threads.waited_ns() {
            assert!(sum >= 7);
        }
        assert_eq!(KernelThreads::default().waited_ns(), None);
    }

    /// What kworkers waited that started after the first list counted as the operation's own time.
    #[test]
    fn threads_that_start_later_are_watched_and_those_that_end_are_not() {
        if children_of_first_thread(FIRST).is_empty() {
            return eprintln!("skipped: this kernel has no lists of children");
        }
        let mut threads = KernelThreads::open();
        let softirq = |t: &WatchedThread| name_of(t.pid).is_some_and(|n| n == "ksoftirqd/0");
        let Some(at) = threads.each.iter().position(softirq) else {
            return eprintln!("skipped: no thread of the kernel is seen");
        };
        // As if it had not been there.
        let late = threads.each.swap_remove(at);
        threads.listed.retain(|pid| *pid != late.pid);
        // As if this process had been a thread of the kernel.
        let ended = std::process::id();
        threads.each.push(WatchedThread { pid: ended, ..late });
        threads.renew();
        let is_watched = |pid| threads.each.iter().any(|t| t.pid == pid);
        assert!(is_watched(late.pid) && !is_watched(ended));
        let mut none = KernelThreads::default();
        none.renew();
        assert_eq!(none.waited_ns(), None);
    }
}
