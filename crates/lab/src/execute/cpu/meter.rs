//! Counters of CPU time: of the machine, of the lab and of the kernel's threads.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use layermark_sys::{
    kernel_threads,
    process::{Schedstat, Stat},
};
use rustix::{
    param::clock_ticks_per_second,
    time::{ClockId, clock_gettime},
};

use super::Used;

/// The kernel's own threads. During a trial they mostly do our write-back.
#[derive(Debug, Default)]
struct KernelThreads {
    /// No files of theirs are held open: a machine with many CPUs has thousands of such threads.
    pids: Vec<u32>,
    /// Whether the kernel keeps `schedstat`.
    counted: bool,
    listed: Option<Instant>,
}

/// Whether the kernel keeps `schedstat`.
fn is_counted() -> bool {
    Schedstat::of(Path::new("/proc/self")).is_some_and(|own| own.is_counted())
}

/// CPU time of a process, ns; `None` once it has ended. `counted`: from `schedstat`, in nanoseconds, which costs a fifth of
/// `stat`; otherwise in ticks.
fn cpu_time_ns(pid: u32, counted: bool) -> Option<u64> {
    if counted {
        return Schedstat::of(Path::new(&format!("/proc/{pid}"))).map(|s| s.run_ns);
    }
    let stat = Stat::of(pid)?;
    let ticks = stat.user_ticks + stat.kernel_ticks;
    Some(ticks * 1_000_000_000 / clock_ticks_per_second())
}

/// The list of kernel threads is renewed after this time. Few start or end within it.
const FRESH: Duration = Duration::from_secs(5);

impl KernelThreads {
    /// Lists the threads again when the list is old. That takes milliseconds, so it is not done
    /// during a trial.
    fn refresh(&mut self) {
        if self.listed.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        self.listed = Some(Instant::now());
        self.counted = is_counted();
        self.pids = kernel_threads::pids();
    }

    /// Reads the CPU time of each thread.
    fn look(&self) -> Kernel {
        let each = self.pids.iter();
        Kernel(each.map(|pid| cpu_time_ns(*pid, self.counted)).collect())
    }
}

/// CPU time of each kernel thread at one moment, ns; `None` for one that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Kernel(Vec<Option<u64>>);

impl Kernel {
    /// CPU time of all threads from `before` to this, ns.
    fn since(&self, before: &Self) -> u64 {
        let threads = before.0.iter().zip(&self.0);
        threads
            .filter_map(|(a, b)| Some((*b)?.saturating_sub((*a)?)))
            .sum()
    }
}

/// Counters of the machine. The files are kept open, since they are read between every two turns.
#[derive(Debug)]
pub(crate) struct Meter {
    stat: Option<File>,
    /// Bytes needed to read the lines of `/proc/stat` that are used: each has up to ten numbers of
    /// 20 digits.
    room: usize,
    threads: KernelThreads,
}

impl Meter {
    pub(crate) fn new() -> Self {
        let cpus = |text: &str| text.lines().filter(|l| l.starts_with("cpu")).count();
        Self {
            stat: File::open("/proc/stat").ok(),
            room: 256 * fs::read_to_string("/proc/stat").map_or(1, |text| cpus(&text)),
            threads: KernelThreads::default(),
        }
    }

    /// One whose counters are always zero.
    #[cfg(test)]
    pub(super) fn without_counters() -> Self {
        Self {
            stat: None,
            room: 0,
            threads: KernelThreads::default(),
        }
    }

    /// See [`KernelThreads::refresh`].
    pub(crate) fn refresh(&mut self) {
        self.threads.refresh();
    }

    /// Reads the counters.
    pub(crate) fn moment(&self) -> Moment {
        let own = clock_gettime(ClockId::ProcessCPUTime);
        Moment {
            at: Instant::now(),
            machine: self.machine().unwrap_or_default(),
            lab_ns: own.tv_sec as u64 * 1_000_000_000 + own.tv_nsec as u64,
        }
    }

    /// Reads the counters of the kernel's threads. This takes longer, so it is done only before and
    /// after the turns.
    pub(crate) fn kernel(&self) -> Kernel {
        self.threads.look()
    }

    /// Sum over the turns of a block, including the kernel's threads since `kernel`.
    pub(crate) fn total<'a>(&self, turns: impl Iterator<Item = &'a Used>, kernel: &Kernel) -> Used {
        let mut sum = Used {
            kernel_ns: self.kernel().since(kernel),
            ..Used::default()
        };
        turns.for_each(|of| sum += *of);
        sum
    }

    fn machine(&self) -> Option<MachineTicks> {
        let mut text = vec![0; self.room];
        let length = self.stat.as_ref()?.read_at(&mut text, 0).ok()?;
        Some(machine(&String::from_utf8_lossy(&text[..length])))
    }
}

/// Counters at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    pub(super) at: Instant,
    pub(super) machine: MachineTicks,
    pub(super) lab_ns: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MachineTicks {
    pub cpus: u64,
    pub busy: u64,
    /// Hard and soft interrupts.
    pub interrupts: u64,
    pub steal: u64,
}

/// The first line of `/proc/stat`, in ticks. Busy excludes interrupts, since those of our own I/O
/// cannot be told from others.
fn machine(text: &str) -> MachineTicks {
    let cpus = text
        .lines()
        .filter(|l| l.starts_with("cpu"))
        .count()
        .saturating_sub(1);
    let fields: Vec<u64> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .skip(1)
        .map(|f| f.parse().unwrap_or(0))
        .collect();
    let field = |i: usize| fields.get(i).copied().unwrap_or(0);
    MachineTicks {
        cpus: cpus as u64,
        busy: field(0) + field(1) + field(2),
        interrupts: field(5) + field(6),
        steal: field(7),
    }
}

#[cfg(test)]
mod tests {
    use layermark_model::CpuTime;

    use super::*;

    #[test]
    fn reads_proc() {
        let text = "cpu  10 2 3 400 5 6 7 8 0 0\ncpu0 1\ncpu1 1\nintr 5\n";
        assert_eq!(
            machine(text),
            MachineTicks {
                cpus: 2,
                busy: 15,
                interrupts: 13,
                steal: 8
            }
        );
        assert_eq!(machine(""), MachineTicks::default());
    }

    #[test]
    fn threads_that_came_or_went_are_not_counted() {
        let (a, b) = (
            Kernel(vec![Some(5), None, Some(1)]),
            Kernel(vec![Some(9), Some(7), None]),
        );
        assert_eq!(b.since(&a), 4);
    }

    #[test]
    fn this_machine_can_be_read() {
        let mut meter = Meter::new();
        meter.refresh();
        let before = meter.moment();
        // A container does not see them.
        let seen = fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n");
        assert_eq!(meter.kernel().0.is_empty(), !seen);
        let own = std::process::id();
        for counted in [is_counted(), false] {
            let [first, again] = [(); 2].map(|()| cpu_time_ns(own, counted).unwrap());
            assert!(again >= first, "{counted}: {again} after {first}");
        }
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        for counted in [true, false] {
            assert_eq!(cpu_time_ns(child.id(), counted), None, "it has ended");
        }
        assert!(before.machine.cpus > 0 && before.machine.busy > 0 && before.lab_ns > 0);
        let helped = CpuTime {
            ns: 5,
            within_ns: u64::MAX,
        };
        let mut used = Used::default();
        used.add([&before, &meter.moment()], [CpuTime::default(), helped], 0);
        assert_eq!(used.lab_ns, 0, "what is upkeep is not the lab's too");
        let usage = used.usage(&used);
        assert!(usage.upkeep_ns == 5 && usage.foreign <= 1.0);
    }
}
