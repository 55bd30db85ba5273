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

#[cfg(test)]
mod tests {
    use layermark_model::Settings;

    use super::*;
    use crate::{Workload, workloads::net::Net};

    fn host(boot: &str, cpus: std::ops::Range<u32>) -> Host {
        Host {
            boot: boot.into(),
            cpus: cpus.collect(),
        }
    }

    fn params(placement: &str, streams: u64) -> NetParams {
        let settings = serde_json::json!({
            "workload": "net", "op": "rr", "placement": placement, "streams": streams,
        });
        let settings: Settings = serde_json::from_value(settings).unwrap();
        Net.points(&settings, 1.0).unwrap()[0].typed().unwrap()
    }

    #[test]
    fn ends_on_one_machine_share_cpus_only_when_asked_to() {
        let (four, one) = (host("a", 0..4), host("a", 3..4));
        let on = |placement, streams, far| cpus(&params(placement, streams), &four, far);
        assert_eq!(on("other", 1, &four), [vec![0], vec![3]]);
        assert_eq!(on("other", 8, &four), [vec![0, 1], vec![3, 2]]);
        assert_eq!(on("same", 1, &four), [vec![0], vec![0]]);
        assert_eq!(on("same", 1, &one), [vec![3], vec![3]]);
        assert_eq!(on("free", 1, &four), [Vec::<u32>::new(), Vec::new()]);
        let alone = cpus(&params("other", 1), &one, &one);
        assert_eq!(
            alone,
            [Vec::<u32>::new(), Vec::new()],
            "one CPU is no other"
        );
        // Numbers of another machine's CPUs say nothing here.
        let guest = host("b", 0..1);
        assert_eq!(on("other", 1, &guest), [vec![0], vec![0]]);
        assert!(
            !host("", 0..1).is(&host("", 0..1)),
            "unknown is not the same"
        );
    }
}
