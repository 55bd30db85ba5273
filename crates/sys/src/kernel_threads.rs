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

/// The counters of these threads, which stay open.
#[derive(Default)]
pub struct KernelThreads {
    each: Vec<(File, Cell<u64>)>,
}

impl KernelThreads {
    /// Those that there are now. None where this process does not see them (a container), and where there are too many.
    pub fn open() -> Self {
        let works = |pid: &u32| {
            let name = name_of(*pid);
            name.is_some_and(|name| WORK.iter().any(|begins| name.starts_with(begins)))
        };
        let all: Vec<u32> = pids().into_iter().filter(works).collect();
        if all.len() > MOST {
            return Self::default();
        }
        let mut each = Vec::with_capacity(all.len());
        for pid in all {
            match File::open(format!("/proc/{pid}/schedstat")) {
                Ok(file) => each.push((file, Cell::default())),
                // It has ended.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                // Too many open files: part of the threads would be taken for all.
                Err(_) => return Self::default(),
            }
        }
        Self { each }
    }

    /// Nanoseconds for which they were ready to run and had no CPU since they started, over all of them. `None` if there
    /// are none, or the kernel does not count. A thread that has ended keeps its last number.
    pub fn waited_ns(&self) -> Option<u64> {
        if self.each.is_empty() {
            return None;
        }
        let mut counted = false;
        let mut sum = 0;
        for (file, last) in &self.each {
            if let Some(now) = Schedstat::read(file) {
                last.set(now.wait_ns);
                counted |= now.is_counted();
            }
            sum += last.get();
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
        let threads = KernelThreads::open();
        let Some(before) = threads.waited_ns() else {
            return eprintln!("skipped: no thread of the kernel is seen, or it does not count");
        };
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        if fstatfs(&file).unwrap().f_type == TMPFS {
            return eprintln!("skipped: /var/tmp is in memory");
        }
        let over = AtomicBool::new(false);
        let all = thread::available_parallelism().unwrap().get();
        let flushes = || {
            for round in 0..200_u32 {
                std::os::unix::fs::FileExt::write_all_at(&file, &round.to_le_bytes(), 0).unwrap();
                file.sync_data().unwrap();
            }
        };
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
            flushes();
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
        let file = File::open(format!("/proc/{}/schedstat", own.id())).unwrap();
        let threads = KernelThreads {
            each: vec![
                (file, Cell::new(7)),
                (File::open("/proc/self/schedstat").unwrap(), Cell::new(0)),
            ],
        };
        own.kill().unwrap();
        own.wait().unwrap();
        if let Some(sum) = threads.waited_ns() {
            assert!(sum >= 7);
        }
        assert_eq!(KernelThreads::default().waited_ns(), None);
    }
}
