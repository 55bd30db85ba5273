//! Chooses the CPUs of the two ends.

use std::{fs, io};

use rustix::{
    io::Errno,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use serde::{Deserialize, Serialize};

use crate::param::words;

words! {
    /// CPUs of the two ends, if both see the same machine.
    pub enum Placement {
        /// Each end on different CPUs.
        Other = "other",
        /// Both ends on the same CPUs.
        Same = "same",
        /// Left to the scheduler.
        Free = "free",
    }
}

/// The machine as one end sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Boot id of the kernel: the same in all containers of a machine, different in a guest.
    boot: String,
    /// CPUs that this process may use.
    cpus: Vec<u32>,
}

impl Host {
    pub fn here() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Self {
            boot: boot.trim().into(),
            cpus: allowed(),
        }
    }

    /// Whether both are the same machine.
    pub fn is(&self, other: &Self) -> bool {
        !self.boot.is_empty() && self.boot == other.boot
    }
}

/// Number of threads for these CPUs: one each. With an empty list, one for each CPU that this
/// process may use.
pub fn threads(cpus: &[u32]) -> usize {
    match cpus.len() {
        0 => allowed().len().max(1),
        some => some,
    }
}

/// CPUs of the near and of the far end, up to `most` of each. Empty: left to the scheduler.
pub fn cpus(placement: Placement, most: usize, near: &Host, far: &Host) -> [Vec<u32>; 2] {
    let first = |cpus: &[u32]| cpus.iter().copied().take(most).collect::<Vec<u32>>();
    let shared = || {
        let both = near.cpus.iter().filter(|cpu| far.cpus.contains(cpu));
        both.copied().collect::<Vec<u32>>()
    };
    match placement {
        Placement::Free => Default::default(),
        _ if !near.is(far) => [first(&near.cpus), first(&far.cpus)],
        Placement::Same => [first(&shared()), first(&shared())],
        Placement::Other => {
            let half = first(&near.cpus[..near.cpus.len().div_ceil(2)]);
            let mut others = far.cpus.clone();
            others.retain(|cpu| !half.contains(cpu));
            others.reverse();
            if others.is_empty() {
                return Default::default();
            }
            [half, first(&others)]
        }
    }
}

/// CPUs of the two ends of the ceiling: those of the path, or two sets of this machine if the far
/// end is elsewhere.
pub fn of_ceiling(placement: Placement, most: usize, near: &Host, far: &Host) -> [Vec<u32>; 2] {
    if near.is(far) {
        return cpus(placement, most, near, far);
    }
    let apart = match placement {
        Placement::Free => Placement::Free,
        _ => Placement::Other,
    };
    // A machine without a known boot id is still this one.
    let here = Host {
        boot: "here".into(),
        cpus: near.cpus.clone(),
    };
    cpus(apart, most, &here, &here)
}

/// CPUs that the calling thread may use.
fn allowed() -> Vec<u32> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    cpus.map(|cpu| cpu as u32).collect()
}

/// Keeps the calling thread, and those that it starts, on some CPUs until dropped.
pub struct PinnedCpus {
    before: Option<CpuSet>,
}

impl PinnedCpus {
    /// Keeps it on these CPUs; on an empty list, changes nothing.
    pub fn on(cpus: &[u32]) -> io::Result<Self> {
        if cpus.is_empty() {
            return Ok(Self { before: None });
        }
        let mut set = CpuSet::new();
        for cpu in cpus {
            set.set(*cpu as usize);
        }
        let keep = || {
            let before = sched_getaffinity(None)?;
            sched_setaffinity(None, &set)?;
            Ok(before)
        };
        let failed = |e: Errno| {
            let text = format!("cannot keep its threads on CPUs {cpus:?}: {e}");
            io::Error::new(e.kind(), text)
        };
        Ok(Self {
            before: Some(keep().map_err(failed)?),
        })
    }

    /// CPUs as reported by the kernel; empty if left to the scheduler.
    pub fn cpus(&self) -> Vec<u32> {
        self.before.map_or_else(Vec::new, |_| allowed())
    }
}

impl Drop for PinnedCpus {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Placement::{Free, Other, Same},
        *,
    };

    fn host(boot: &str, cpus: std::ops::Range<u32>) -> Host {
        Host {
            boot: boot.into(),
            cpus: cpus.collect(),
        }
    }

    #[test]
    fn ends_on_one_machine_share_cpus_only_when_asked_to() {
        let (four, one) = (host("a", 0..4), host("a", 3..4));
        let on = |placement, most, far| cpus(placement, most, &four, far);
        assert_eq!(on(Other, 1, &four), [vec![0], vec![3]]);
        assert_eq!(on(Other, 8, &four), [vec![0, 1], vec![3, 2]]);
        assert_eq!(on(Same, 1, &four), [vec![0], vec![0]]);
        assert_eq!(on(Same, 1, &one), [vec![3], vec![3]]);
        assert_eq!(on(Free, 1, &four), [Vec::<u32>::new(), Vec::new()]);
        let alone = cpus(Other, 1, &one, &one);
        assert_eq!(
            alone,
            [Vec::<u32>::new(), Vec::new()],
            "one CPU is no other"
        );
        // CPU numbers of another machine mean nothing here.
        let guest = host("b", 0..1);
        assert_eq!(on(Other, 1, &guest), [vec![0], vec![0]]);
        let ceiling = |placement, far| of_ceiling(placement, 1, &four, far);
        assert_eq!(ceiling(Same, &four), [vec![0], vec![0]]);
        for placement in [Other, Same] {
            assert_eq!(ceiling(placement, &guest), [vec![0], vec![3]]);
        }
        assert_eq!(ceiling(Free, &guest), [Vec::<u32>::new(), Vec::new()]);
        assert!(
            !host("", 0..1).is(&host("", 0..1)),
            "unknown is not the same"
        );
    }

    #[test]
    fn what_the_kernel_makes_of_it_is_what_is_told() {
        let first = allowed()[0];
        let missing = CpuSet::MAX_CPU as u32 - 1;
        let pinned = PinnedCpus::on(&[first, missing]).unwrap();
        assert_eq!(pinned.cpus(), [first], "the other one does not exist");
        drop(pinned);
        assert!(allowed().len() >= PinnedCpus::on(&[first]).unwrap().cpus().len());
        let e = PinnedCpus::on(&[missing]).err().unwrap();
        assert!(e.to_string().contains("on CPUs [1023]"), "{e}");
    }
}
