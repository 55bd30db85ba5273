//! Keeps the layers that take turns on one CPU.

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity},
};

/// Keeps the calling thread and others on the CPU on which the calling thread runs, until it is
/// dropped.
///
/// Two CPUs are rarely equally fast at the same moment, and one that has slept between two turns
/// begins the next one slowly. If turns moved between CPUs, most of the difference between two
/// layers would be the difference between two CPUs.
///
/// A layer that a process serves is left to the scheduler, and so is the baseline measured with it.
/// A probe that is kept on one CPU would have to wake another CPU for each request. One that shares
/// its CPU with the server never would. Neither is what an application finds.
pub(crate) struct OneCpu {
    /// Each thread with its original CPUs. `None` is the calling thread.
    before: Vec<(Option<Pid>, CpuSet)>,
}

impl OneCpu {
    /// Also keeps the main threads of these processes there. A thread that cannot be moved keeps
    /// its CPUs.
    pub(crate) fn with(processes: impl Iterator<Item = u32>) -> Self {
        let mut here = CpuSet::new();
        let cpu = sched_getcpu();
        if cpu < CpuSet::MAX_CPU {
            here.set(cpu);
        }
        let keep = |thread| {
            let before = sched_getaffinity(thread).ok()?;
            sched_setaffinity(thread, &here).ok()?;
            Some((thread, before))
        };
        let processes = processes.filter_map(|pid| Pid::from_raw(pid.cast_signed()).map(Some));
        Self {
            before: [None]
                .into_iter()
                .chain(processes)
                .filter_map(keep)
                .collect(),
        }
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        for (thread, before) in &self.before {
            // It may have ended.
            let _ = sched_setaffinity(*thread, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn all_are_on_one_cpu_and_free_again_afterwards() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let sets = || [sched_getaffinity(None), sched_getaffinity(Some(pid))].map(Result::unwrap);
        let before = sets();
        let gone = u32::try_from(i32::MAX).unwrap();
        let one = OneCpu::with([child.id(), gone].into_iter());
        let [own, other] = sets();
        assert_eq!((own.count(), own), (1, other));
        drop(one);
        assert_eq!(sets(), before);
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
