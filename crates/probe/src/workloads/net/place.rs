//! On which CPUs the two ends work.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use super::params::{NetParams, Placement};

/// The machine as one end sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Of this start of its kernel; the same in all containers of a machine, another in a guest.
    boot: String,
    /// CPUs that this process may use.
    cpus: Vec<u32>,
}

impl Host {
    pub fn here() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        Self {
            boot: boot.trim().into(),
            cpus: cpus.map(|cpu| cpu as u32).collect(),
        }
    }

    /// Whether both see the same machine.
    pub fn is(&self, other: &Self) -> bool {
        !self.boot.is_empty() && self.boot == other.boot
    }
}

/// CPUs of the near and of the far end: as many as there are streams, if there are so many. Empty where
/// the scheduler is free.
pub fn cpus(p: &NetParams, near: &Host, far: &Host) -> [Vec<u32>; 2] {
    let most = p.streams as usize;
    let first = |cpus: &[u32]| cpus.iter().copied().take(most).collect::<Vec<u32>>();
    let shared = || {
        let both = near.cpus.iter().filter(|cpu| far.cpus.contains(cpu));
        both.copied().collect::<Vec<u32>>()
    };
    match p.placement {
        Placement::Free => Default::default(),
        _ if !near.is(far) => [first(&near.cpus), first(&far.cpus)],
        Placement::Same => [first(&shared()), first(&shared())],
        Placement::Other => {
            let mut others = far.cpus.clone();
            let half = first(&near.cpus[..near.cpus.len().div_ceil(2)]);
            others.retain(|cpu| !half.contains(cpu));
            others.reverse();
            if others.is_empty() {
                return Default::default();
            }
            [half, first(&others)]
        }
    }
}

/// The calling thread, and those that it starts, on these CPUs until this is dropped.
pub struct Kept {
    before: Option<CpuSet>,
}

impl Kept {
    pub fn on(cpus: &[u32]) -> Self {
        let mut set = CpuSet::new();
        for cpu in cpus {
            set.set(*cpu as usize);
        }
        let keep = || {
            let before = sched_getaffinity(None).ok()?;
            sched_setaffinity(None, &set).ok()?;
            Some(before)
        };
        Self {
            before: if cpus.is_empty() { None } else { keep() },
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}
