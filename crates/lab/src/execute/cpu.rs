//! Which processes used the CPU during a trial.
//!
//! `/proc/stat` counts sampled ticks of 10 ms, and `/proc/schedstat` is not available everywhere. A
//! turn is shorter than a tick, so foreign work is measured over all turns of a block together. The
//! sampling error is subtracted before work counts as foreign.

mod meter;

use std::{collections::VecDeque, ops::AddAssign};

use layermark_model::CpuTime;
use rustix::param::clock_ticks_per_second;

pub(crate) use meter::{Kernel, Meter, Moment};

/// Share of all CPUs above which foreign work or steal contaminates a trial.
pub(crate) const LIMIT: f64 = 0.10;

/// Ticks of possible rounding error.
const GRAIN: f64 = 2.0;

/// A block of fewer ticks of all CPUs does not show a busy loop beside it.
const FEW: f64 = 10.0;
/// Ticks of all CPUs from which on the sampling error is small beside [`LIMIT`].
const ENOUGH: f64 = 400.0;

/// Sampling error of `n` samples of a CPU, in ticks: two standard deviations of a share of one
/// half.
fn sampling(n: f64) -> f64 {
    n.sqrt().max(GRAIN)
}

/// CPU use in the turns of a trial. Foreign work and steal are those of the whole block.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    /// Share of all CPUs that neither layermark nor the kernel's threads used.
    pub foreign: f64,
    /// Share of all CPUs that the hypervisor took.
    pub steal: f64,
    /// Share of all CPUs that were busy, interrupts included. Coarse in a short turn; over many
    /// turns it averages out.
    pub busy: f64,
    /// Seconds of CPU time available on all CPUs together.
    pub cpu_s: f64,
    /// CPU of the layer's helpers, nanoseconds.
    pub upkeep_ns: u64,
    /// Foreign work or steal is above [`LIMIT`] by more than rounding.
    pub contaminated: bool,
}

/// CPU use added up over turns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Used {
    /// Ticks of all CPUs: total, busy, in interrupts, and lost to the hypervisor.
    all: f64,
    busy: u64,
    interrupts: u64,
    steal: u64,
    /// Nanoseconds of the probe, the lab, the kernel's threads and the layer's helpers.
    probe_ns: u64,
    lab_ns: u64,
    kernel_ns: u64,
    upkeep_ns: u64,
}

impl Used {
    /// Adds a turn. `probe_ns` is the probe's CPU time in it, or 0 if the probe is one of the
    /// layer's helpers.
    pub(crate) fn add(&mut self, moments: [&Moment; 2], upkeep: [CpuTime; 2], probe_ns: u64) {
        let [before, after] = moments;
        let second = clock_ticks_per_second() as f64;
        let passed = after.at.duration_since(before.at).as_secs_f64();
        self.all += passed * second * after.machine.cpus as f64;
        let (a, b) = (before.machine, after.machine);
        self.busy += b.busy.saturating_sub(a.busy);
        self.interrupts += b.interrupts.saturating_sub(a.interrupts);
        self.steal += b.steal.saturating_sub(a.steal);
        self.probe_ns += probe_ns;
        self.upkeep_ns += upkeep[1].ns.saturating_sub(upkeep[0].ns);
        // Work that the lab's own threads do for the layer counts as upkeep.
        let within = upkeep[1].within_ns.saturating_sub(upkeep[0].within_ns);
        let lab = after.lab_ns.saturating_sub(before.lab_ns);
        self.lab_ns += lab.saturating_sub(within);
    }

    /// The share of this trial, in a block whose turns used `all` together.
    pub(crate) fn usage(&self, all: &Self) -> Usage {
        let second = clock_ticks_per_second() as f64;
        let foreign = all.foreign();
        let steal = all.steal as f64;
        let share = |x: f64, of: f64| if of > 0.0 { (x / of).min(1.0) } else { 0.0 };
        Usage {
            foreign: share(foreign, all.all),
            steal: share(steal, all.all),
            busy: share((self.busy + self.interrupts) as f64, self.all),
            cpu_s: self.all / second,
            upkeep_ns: self.upkeep_ns,
            contaminated: all.is_contaminated(),
        }
    }

    /// Ticks that neither layermark nor the kernel's threads used.
    fn foreign(&self) -> f64 {
        let known = self.probe_ns + self.lab_ns + self.kernel_ns + self.upkeep_ns;
        let known = known as f64 * clock_ticks_per_second() as f64 / 1e9;
        (self.busy as f64 - known).max(0.0)
    }

    /// Whether foreign work or steal is above [`LIMIT`] by more than rounding.
    pub(crate) fn is_contaminated(&self) -> bool {
        let spoils = |ticks: f64| ticks - sampling(self.all) > LIMIT * self.all;
        self.all > 0.0 && (spoils(self.foreign()) || spoils(self.steal as f64))
    }
}

impl AddAssign for Used {
    fn add_assign(&mut self, more: Self) {
        self.all += more.all;
        self.busy += more.busy;
        self.interrupts += more.interrupts;
        self.steal += more.steal;
        self.probe_ns += more.probe_ns;
        self.lab_ns += more.lab_ns;
        self.kernel_ns += more.kernel_ns;
        self.upkeep_ns += more.upkeep_ns;
    }
}

/// CPU use in the latest blocks. A launch is shorter than a tick of the kernel's clock, and the sampling error of
/// a block of launches hides any work of others.
#[derive(Debug, Default)]
pub(crate) struct Recent(VecDeque<Used>);

impl Recent {
    /// Adds a block. Returns the sum of the latest blocks that are together at least as long as [`ENOUGH`], or the
    /// block itself if it is long enough to tell.
    pub(crate) fn with(&mut self, block: Used) -> Used {
        self.0.push_back(block);
        let mut sum = Used::default();
        let mut kept = 0;
        for used in self.0.iter().rev() {
            if sum.all >= ENOUGH {
                break;
            }
            sum += *used;
            kept += 1;
        }
        self.0.drain(..self.0.len() - kept);
        if block.all < FEW { sum } else { block }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{meter::MachineTicks, *};

    fn moment(at: Instant, busy: u64, steal: u64) -> Moment {
        Moment {
            at,
            machine: MachineTicks {
                cpus: 2,
                busy,
                interrupts: busy / 10,
                steal,
            },
            lab_ns: 0,
        }
    }

    fn upkeep(ns: u64) -> CpuTime {
        CpuTime { ns, within_ns: 0 }
    }

    fn usage(moments: [&Moment; 2], upkeep_ns: u64, probe_ns: u64) -> Usage {
        let mut used = Used::default();
        used.add(moments, [upkeep(0), upkeep(upkeep_ns)], probe_ns);
        used.usage(&used)
    }

    #[test]
    fn what_is_ours_is_not_foreign() {
        // One second of two CPUs is 2 * hz ticks.
        let hz = clock_ticks_per_second();
        let start = Instant::now();
        let end = start + Duration::from_secs(1);
        let before = moment(start, 0, 0);
        let ours = moment(end, hz * 2, 0);
        let of = usage([&before, &ours], 500_000_000, 1_500_000_000);
        assert!(of.foreign < 1e-9 && !of.contaminated && of.upkeep_ns == 500_000_000);
        assert!((of.busy - 1.0).abs() < 1e-9, "all of both CPUs");
        let of = usage([&before, &moment(end, hz, 0)], 0, 0);
        assert!(
            (of.foreign - 0.5).abs() < 1e-9 && of.contaminated && (of.busy - 0.55).abs() < 1e-9,
            "{of:?}"
        );
        let stolen = usage([&before, &moment(end, 0, hz)], 0, 0);
        assert!((stolen.steal - 0.5).abs() < 1e-9 && stolen.contaminated);
    }

    #[test]
    fn some_ticks_of_a_short_trial_are_rounding() {
        let start = Instant::now();
        let end = start + Duration::from_millis(50);
        let before = moment(start, 0, 0);
        let contaminated =
            |busy, probe| usage([&before, &moment(end, busy, 0)], 0, probe).contaminated;
        assert!(!contaminated(3, 0));
        assert!(contaminated(5, 0));
        assert!(!contaminated(5, 40_000_000));
    }

    #[test]
    fn what_happens_between_turns_is_in_none_of_them() {
        let start = Instant::now();
        let hz = clock_ticks_per_second();
        let at = |ms, busy| moment(start + Duration::from_millis(ms), busy, 0);
        let mut used = Used::default();
        // Two turns of 100 ms, a second of both CPUs busy between them.
        let moments = [at(0, 0), at(100, 0), at(1100, 2 * hz), at(1200, 2 * hz)];
        for pair in [[&moments[0], &moments[1]], [&moments[2], &moments[3]]] {
            used.add(pair, [upkeep(0); 2], 0);
        }
        assert!((used.usage(&used).cpu_s - 0.4).abs() < 1e-9, "{used:?}");
        assert_eq!((used.busy, used.usage(&used).contaminated), (0, false));
    }

    /// In turns of 2 ms, a tick of another program hardly ever falls into the right turn.
    #[test]
    fn foreign_work_is_looked_for_in_all_turns_of_a_block() {
        let start = Instant::now();
        let hz = clock_ticks_per_second();
        let at = |ms, busy| moment(start + Duration::from_millis(ms), busy, 0);
        let moments = [at(0, 0), at(1000, 2 * hz), at(2000, 2 * hz)];
        let mut used = [Used::default(); 2];
        for (of, pair) in used.iter_mut().zip(moments.windows(2)) {
            of.add([&pair[0], &pair[1]], [upkeep(0); 2], 500_000_000);
        }
        let meter = Meter::without_counters();
        let all = meter.total(used.iter(), &meter.kernel());
        let [first, second] = used.map(|of| of.usage(&all));
        assert!((first.foreign - 0.25).abs() < 1e-9 && first.contaminated);
        assert!((second.foreign - 0.25).abs() < 1e-9 && second.contaminated);
        assert!((first.busy - 1.0).abs() < 1e-9 && second.busy.abs() < 1e-9);
    }

    /// Launches of 5 ms beside a busy loop: no tick, or one, falls into each.
    #[test]
    fn foreign_work_beside_short_blocks_is_found_in_many() {
        let launch = |ticks| Used {
            all: 1.0,
            busy: ticks,
            probe_ns: 4_000_000,
            ..Used::default()
        };
        let flagged = |is_busy: fn(u64) -> bool| {
            let mut recent = Recent::default();
            let sums = (0..600).map(|n| recent.with(launch(u64::from(is_busy(n)))));
            sums.filter(Used::is_contaminated).count()
        };
        // 4 of 7 ms are its own.
        let beside = flagged(|n| n % 10 < 7);
        assert!(beside > 500, "{beside}");
        assert_eq!(flagged(|n| n % 5 == 0 || n % 5 == 2), 0);
        // What was seconds ago flags no block that shows its own.
        let mut recent = Recent::default();
        let long = Used {
            all: 300.0,
            busy: 300,
            ..Used::default()
        };
        let quiet = Used { busy: 0, ..long };
        assert_eq!(
            [long, long, quiet].map(|block| recent.with(block)),
            [long, long, quiet]
        );
        assert!((recent.with(launch(0)).all - 601.0).abs() < 1e-9);
    }
}
