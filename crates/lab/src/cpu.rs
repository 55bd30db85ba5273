//! Whose CPU time it was while a trial went on.
//!
//! `/proc/stat` counts in ticks of 10 ms, sampled; there is no `/proc/schedstat` everywhere. So two
//! ticks of every difference are taken for rounding before anybody is blamed.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use layermark_model::CpuTime;
use layermark_probe::counters::beginning;
use rustix::{
    param::clock_ticks_per_second,
    time::{ClockId, clock_gettime},
};

/// Share of all CPUs above which foreign work or steal spoils a trial.
pub(crate) const LIMIT: f64 = 0.10;

/// Ticks that may be rounding.
const GRAIN: f64 = 2.0;

/// The kernel's own threads. What they do during a trial is mostly our write-back.
#[derive(Debug, Default)]
pub(crate) struct KernelThreads {
    /// Held open: they are read before each trial and after some, and reading again from the start
    /// takes one call instead of five.
    files: Vec<(u32, Times)>,
    listed: Option<Instant>,
}

/// Where the CPU time of a process is to be read.
#[derive(Debug)]
enum Times {
    /// `schedstat`, whose first number is nanoseconds. A fifth of the work of `stat`, for which the
    /// kernel collects fifty numbers under locks.
    Schedstat(File),
    /// Where the kernel has no such file, or keeps it at zero: ticks.
    Stat(File),
}

impl Times {
    /// Whether the kernel keeps `schedstat`.
    fn is_counted() -> bool {
        let own = File::open("/proc/self/schedstat").map(Self::Schedstat);
        own.is_ok_and(|own| own.ns() > Some(0))
    }

    fn open(pid: u32, counted: bool) -> Option<Self> {
        if counted {
            let file = File::open(format!("/proc/{pid}/schedstat")).ok()?;
            return Some(Self::Schedstat(file));
        }
        Some(Self::Stat(File::open(format!("/proc/{pid}/stat")).ok()?))
    }

    /// Nanoseconds; `None` once the process has ended.
    fn ns(&self) -> Option<u64> {
        match self {
            Self::Schedstat(file) => {
                let mut line = [0; 128];
                let length = file.read_at(&mut line, 0).ok()?;
                let text = str::from_utf8(&line[..length]).ok()?;
                text.split_ascii_whitespace().next()?.parse().ok()
            }
            Self::Stat(file) => {
                Some(read_stat(file)?.ticks * 1_000_000_000 / clock_ticks_per_second())
            }
        }
    }
}

/// Workers of the kernel come and go, but few in such a time.
const FRESH: Duration = Duration::from_secs(5);

impl KernelThreads {
    /// Lists them again when the list is old. That takes milliseconds, so not during a trial.
    pub(crate) fn refresh(&mut self) {
        if self.listed.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        self.listed = Some(Instant::now());
        let Ok(processes) = fs::read_dir("/proc") else {
            return;
        };
        let pids = processes
            .flatten()
            .filter_map(|e| e.file_name().to_str()?.parse().ok());
        let counted = Times::is_counted();
        // kthreadd is process 2 and the parent of all others.
        self.files = pids
            .filter(|pid| *pid == 2 || stat(*pid).is_some_and(|s| s.parent == 2))
            .filter_map(|pid| Some((pid, Times::open(pid, counted)?)))
            .collect();
    }

    /// What each has used by now.
    pub(crate) fn look(&self) -> Look {
        let all = self.files.iter();
        Look {
            at: Instant::now(),
            ns: all
                .filter_map(|(pid, time)| Some((*pid, time.ns()?)))
                .collect(),
        }
    }
}

/// CPU time of the kernel's threads at one moment, nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    at: Instant,
    ns: BTreeMap<u32, u64>,
}

/// A look may be so old when a trial begins: what the threads did since is far below the rounding
/// of everything else. So there is time for it while the probe makes the trial ready.
const EARLY: Duration = Duration::from_millis(2);

/// Counters at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    at: Instant,
    machine: Machine,
    /// Ticks of the probe, where it is a process here.
    probe: Option<u64>,
    lab_ns: u64,
    /// Nanoseconds of each of the kernel's threads; none where nothing is left to be theirs.
    kernel: BTreeMap<u32, u64>,
    upkeep_ns: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Machine {
    cpus: u64,
    busy: u64,
    /// In interrupts, hard and soft.
    interrupts: u64,
    steal: u64,
}

/// What happened between two snapshots.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    /// Share of all CPUs that neither we nor the kernel's threads used.
    pub foreign: f64,
    /// Share of all CPUs that the hypervisor took.
    pub steal: f64,
    /// Share of all CPUs that did anything, interrupts included. Coarse in a short trial; over many
    /// it averages out.
    pub busy: f64,
    /// Seconds that all CPUs had together.
    pub cpu_s: f64,
    /// CPU of the layer's helpers, nanoseconds.
    pub upkeep_ns: u64,
    /// Either share is above [`LIMIT`] by more than rounding.
    pub contaminated: bool,
}

impl Snapshot {
    /// Before a trial. `upkeep` is the layer's own count; `probe` its process here; `early` what the
    /// kernel's threads had used a while ago.
    pub(crate) fn take(
        threads: &KernelThreads,
        early: Look,
        probe: Option<u32>,
        upkeep: CpuTime,
    ) -> Self {
        let fresh = early.at.elapsed() <= EARLY;
        let look = if fresh { early } else { threads.look() };
        Self {
            kernel: look.ns,
            probe: ticks_of(probe),
            ..Self::machine_alone(upkeep)
        }
    }

    /// After the trial that `self` was before. The probe, and then the kernel's threads, some sixty,
    /// are asked only where a CPU was busy with more than is known of: in a trial of a millisecond
    /// hardly ever.
    pub(crate) fn after(
        &self,
        threads: &KernelThreads,
        probe: Option<u32>,
        upkeep: CpuTime,
    ) -> Self {
        let mut after = Self::machine_alone(upkeep);
        if self.others(&after, 0) > 0.0 {
            after.probe = ticks_of(probe);
        }
        if self.others(&after, 0) > 0.0 {
            after.kernel = threads.look().ns;
        }
        after
    }

    fn machine_alone(upkeep: CpuTime) -> Self {
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let own_ns = own.tv_sec as u64 * 1_000_000_000 + own.tv_nsec as u64;
        Self {
            at: Instant::now(),
            machine: machine(
                beginning(Path::new("/proc/stat"), &mut vec![0; 1 << 16]).unwrap_or_default(),
            ),
            probe: None,
            // What its threads do for the layer is counted there.
            lab_ns: own_ns.saturating_sub(upkeep.within_ns),
            kernel: BTreeMap::new(),
            upkeep_ns: upkeep.ns,
        }
    }

    /// Ticks of CPU time until `after` that were neither ours nor the kernel's, as far as those are
    /// known.
    fn others(&self, after: &Self, trial_ns: u64) -> f64 {
        let ticks = |ns: u64| ns as f64 * clock_ticks_per_second() as f64 / 1e9;
        let probe = match (self.probe, after.probe) {
            (Some(a), Some(b)) => (b.saturating_sub(a) as f64).max(ticks(trial_ns)),
            _ => ticks(trial_ns),
        };
        let kernel: u64 = after
            .kernel
            .iter()
            .filter_map(|(pid, b)| Some(b.saturating_sub(*self.kernel.get(pid)?)))
            .sum();
        let lab = after.lab_ns.saturating_sub(self.lab_ns);
        let upkeep = after.upkeep_ns.saturating_sub(self.upkeep_ns);
        let busy = after.machine.busy.saturating_sub(self.machine.busy) as f64;
        busy - probe - ticks(lab) - ticks(upkeep + kernel)
    }

    /// What happened since `self`. `trial_ns` is the probe's own count of its CPU time, for a probe
    /// that is no process here.
    pub(crate) fn until(&self, after: &Self, trial_ns: u64) -> Usage {
        let second = clock_ticks_per_second() as f64;
        let all =
            after.at.duration_since(self.at).as_secs_f64() * second * after.machine.cpus as f64;
        let busy = after.machine.busy.saturating_sub(self.machine.busy) as f64;
        let steal = after.machine.steal.saturating_sub(self.machine.steal) as f64;
        let interrupts = after
            .machine
            .interrupts
            .saturating_sub(self.machine.interrupts) as f64;
        let foreign = self.others(after, trial_ns).max(0.0);
        let spoils = |x: f64| x - GRAIN > LIMIT * all;
        let share = |x: f64| if all > 0.0 { (x / all).min(1.0) } else { 0.0 };
        Usage {
            foreign: share(foreign),
            steal: share(steal),
            busy: share(busy + interrupts),
            cpu_s: all / second,
            upkeep_ns: after.upkeep_ns.saturating_sub(self.upkeep_ns),
            contaminated: all > 0.0 && (spoils(foreign) || spoils(steal)),
        }
    }
}

fn ticks_of(process: Option<u32>) -> Option<u64> {
    process.and_then(stat).map(|s| s.ticks)
}

/// The first line of `/proc/stat`, in ticks. Interrupts are left out of busy: those of our own I/O
/// cannot be told from others.
fn machine(text: &str) -> Machine {
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
    Machine {
        cpus: cpus as u64,
        busy: field(0) + field(1) + field(2),
        interrupts: field(5) + field(6),
        steal: field(7),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    ticks: u64,
}

/// Room for a line of `stat`: 52 numbers of up to 20 digits and a short name.
const STAT: usize = 2048;

/// Parent, and CPU time of a process with its ended children, in ticks.
fn stat(pid: u32) -> Option<Stat> {
    parse_stat(beginning(
        Path::new(&format!("/proc/{pid}/stat")),
        &mut [0; STAT],
    )?)
}

/// The same from an open file; `None` once the process has ended.
fn read_stat(file: &File) -> Option<Stat> {
    let mut line = [0; STAT];
    let length = file.read_at(&mut line, 0).ok()?;
    parse_stat(&String::from_utf8_lossy(&line[..length]))
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name may hold anything, brackets and blanks too.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        ticks: number(11)? + number(12)? + number(13)? + number(14)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(
        at: Instant,
        busy: u64,
        steal: u64,
        probe: u64,
        upkeep_ns: u64,
        kernel: u64,
    ) -> Snapshot {
        Snapshot {
            at,
            machine: Machine {
                cpus: 2,
                busy,
                interrupts: busy / 10,
                steal,
            },
            probe: Some(probe),
            lab_ns: 0,
            kernel: BTreeMap::from([(2, kernel)]),
            upkeep_ns,
        }
    }

    #[test]
    fn reads_proc() {
        let text = "cpu  10 2 3 400 5 6 7 8 0 0\ncpu0 1\ncpu1 1\nintr 5\n";
        assert_eq!(
            machine(text),
            Machine {
                cpus: 2,
                busy: 15,
                interrupts: 13,
                steal: 8
            }
        );
        assert_eq!(machine(""), Machine::default());
        let line = "77 (a) b) S 2 0 0 0 -1 0 0 0 0 0 3 4 5 6 20 0 1";
        assert_eq!(
            parse_stat(line),
            Some(Stat {
                parent: 2,
                ticks: 18
            })
        );
        assert_eq!(parse_stat("rubbish"), None);
    }

    #[test]
    fn what_is_ours_is_not_foreign() {
        // One second of two CPUs is 2 * hz ticks.
        let hz = clock_ticks_per_second();
        let start = Instant::now();
        let end = start + Duration::from_secs(1);
        let before = snapshot(start, 0, 0, 0, 0, 0);
        let upkeep = 500_000_000;
        let ours = snapshot(end, hz * 2, 0, hz, upkeep, 500_000_000);
        let usage = before.until(&ours, 0);
        assert!(usage.foreign < 1e-9 && !usage.contaminated && usage.upkeep_ns == upkeep);
        assert!((usage.busy - 1.0).abs() < 1e-9, "all of both CPUs");
        let foreign = snapshot(end, hz, 0, 0, 0, 0);
        let usage = before.until(&foreign, 0);
        assert!(
            (usage.foreign - 0.5).abs() < 1e-9
                && usage.contaminated
                && (usage.busy - 0.55).abs() < 1e-9,
            "{usage:?}"
        );
        let stolen = before.until(&snapshot(end, 0, hz, 0, 0, 0), 0);
        assert!((stolen.steal - 0.5).abs() < 1e-9 && stolen.contaminated);
    }

    #[test]
    fn kernel_threads_are_asked_where_somebody_was_busy() {
        let mut threads = KernelThreads::default();
        threads.refresh();
        let old = Look {
            at: Instant::now().checked_sub(EARLY * 2).unwrap(),
            ns: BTreeMap::from([(2, u64::MAX)]),
        };
        let now = Snapshot::take(&threads, old.clone(), None, CpuTime::default());
        assert_ne!(now.kernel, old.ns, "too old");
        let idle = Snapshot {
            machine: Machine {
                busy: u64::MAX,
                ..now.machine
            },
            ..now
        };
        assert!(
            idle.after(&threads, None, CpuTime::default())
                .kernel
                .is_empty()
        );
        let busy = Snapshot {
            machine: Machine::default(),
            ..idle
        };
        let after = busy.after(&threads, None, CpuTime::default());
        assert_eq!(after.kernel.is_empty(), threads.files.is_empty());
    }

    #[test]
    fn two_ticks_of_a_short_trial_are_rounding() {
        let start = Instant::now();
        let end = start + Duration::from_millis(50);
        let before = snapshot(start, 0, 0, 0, 0, 0);
        assert!(!before.until(&snapshot(end, 2, 0, 0, 0, 0), 0).contaminated);
        assert!(before.until(&snapshot(end, 4, 0, 0, 0, 0), 0).contaminated);
        let unknown = Snapshot {
            probe: None,
            ..snapshot(end, 4, 0, 0, 0, 0)
        };
        assert!(
            !before.until(&unknown, 40_000_000).contaminated,
            "the probe's own count serves"
        );
    }

    #[test]
    fn this_machine_can_be_read() {
        let mut threads = KernelThreads::default();
        threads.refresh();
        let own = Some(std::process::id());
        let before = Snapshot::take(&threads, threads.look(), own, CpuTime::default());
        // A container does not see them.
        let seen = fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n");
        assert_eq!(threads.files.is_empty(), !seen);
        let own = std::process::id();
        let as_stat = Times::Stat(File::open(format!("/proc/{own}/stat")).unwrap());
        let counted = Times::is_counted();
        for time in [Times::open(own, counted).unwrap(), as_stat] {
            let (first, again) = (time.ns().unwrap(), time.ns().unwrap());
            assert!(again >= first, "{time:?}: {again} after {first}");
        }
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let gone = Times::open(child.id(), counted).unwrap();
        child.wait().unwrap();
        assert_eq!(gone.ns(), None, "its process has ended");
        assert!(before.machine.cpus > 0 && before.machine.busy > 0 && before.probe.is_some());
        let upkeep = CpuTime {
            ns: 5,
            within_ns: u64::MAX,
        };
        let after = before.after(&threads, None, upkeep);
        let usage = before.until(&after, 0);
        assert!(usage.upkeep_ns == 5 && usage.foreign <= 1.0);
        assert_eq!(after.lab_ns, 0, "what is upkeep is not the lab's too");
        assert!(before.lab_ns > 0);
    }
}
