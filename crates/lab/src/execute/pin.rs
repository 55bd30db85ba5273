//! Keeps the layers that take turns on one CPU.

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity},
};

/// CPUs between which rounds change. With many, each round would begin on one that has slept for long.
const MOST: usize = 4;

/// Keeps the calling thread and others on one CPU, until it is dropped: at first the one on which the calling thread
/// runs.
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
    /// CPUs that all of them may use, first the one on which they are, and whether they waited for other programs there
    /// the last time.
    cpus: Vec<(usize, bool)>,
}

impl OneCpu {
    /// Also keeps the main threads of these processes there. A thread that cannot be moved keeps
    /// its CPUs.
    pub(crate) fn with(processes: impl Iterator<Item = u32>) -> Self {
        let processes = processes.filter_map(|pid| Pid::from_raw(pid.cast_signed()).map(Some));
        let threads = [None].into_iter().chain(processes);
        let before = threads.filter_map(|thread| Some((thread, sched_getaffinity(thread).ok()?)));
        let before: Vec<(Option<Pid>, CpuSet)> = before.collect();
        let may = |cpu: &usize| before.iter().all(|(_, cpus)| cpus.is_set(*cpu));
        let all = (0..CpuSet::MAX_CPU).filter(may).map(|cpu| (cpu, false));
        let mut cpus: Vec<(usize, bool)> = all.collect();
        let here = sched_getcpu();
        match cpus.iter().position(|(cpu, _)| *cpu == here) {
            Some(at) => cpus.rotate_left(at),
            None if cpus.is_empty() => cpus.push((here, false)),
            None => {}
        }
        let all = Self { before, cpus };
        all.keep();
        all
    }

    /// Moves all of them to the first of their CPUs for a block: the blocks begin on one after the other. What has an odd
    /// number of rounds would otherwise be on one CPU more often than on the other, in all of its blocks.
    pub(crate) fn begin(&mut self, block: u32) {
        self.cpus.sort_unstable();
        self.cpus = few(&self.cpus);
        let first = block as usize % self.cpus.len();
        self.cpus.rotate_left(first);
        self.keep();
    }

    /// Moves all of them to the next CPU in turn. One on which they `waited` for other programs in two rounds running is left
    /// out from then on, if there is another.
    pub(crate) fn next(&mut self, waited: bool) {
        let before = std::mem::replace(&mut self.cpus[0].1, waited);
        if before && waited && self.cpus.len() > 1 {
            self.cpus.remove(0);
        } else {
            self.cpus.rotate_left(1);
        }
        self.keep();
    }

    fn keep(&self) {
        let mut only = CpuSet::new();
        if let Some((cpu, _)) = self.cpus.first().filter(|(cpu, _)| *cpu < CpuSet::MAX_CPU) {
            only.set(*cpu);
        }
        for (thread, _) in &self.before {
            // It may have ended.
            let _ = sched_setaffinity(*thread, &only);
        }
    }
}

/// At most [`MOST`] of them, far from each other.
fn few<T: Copy>(all: &[T]) -> Vec<T> {
    let count = all.len().min(MOST);
    (0..count).map(|i| all[i * all.len() / count]).collect()
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
    fn few_cpus_of_many_take_part() {
        let all: Vec<usize> = (0..64).collect();
        assert_eq!(few(&all), [0, 16, 32, 48]);
        assert_eq!(few(&all[..5]), [0, 1, 2, 3]);
        assert_eq!(few(&all[..2]), [0, 1]);
    }

    #[test]
    fn all_are_on_one_cpu_and_free_again_afterwards() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let sets = || [sched_getaffinity(None), sched_getaffinity(Some(pid))].map(Result::unwrap);
        let before = sets();
        let gone = u32::try_from(i32::MAX).unwrap();
        let mut one = OneCpu::with([child.id(), gone].into_iter());
        let first = sets();
        assert_eq!((first[0].count(), first[0]), (1, first[1]));
        let mut seen = CpuSet::new();
        for _ in 0..before[0].count() {
            let [own, other] = sets();
            assert_eq!((own.count(), own), (1, other));
            let on = |cpu: &usize| own.is_set(*cpu);
            (0..CpuSet::MAX_CPU)
                .filter(on)
                .for_each(|cpu| seen.set(cpu));
            one.next(false);
        }
        assert_eq!((seen, sets()), (before[0], first), "each of them in turn");
        let count = before[0].count().min(MOST as u32);
        let begins = [0, 1, count].map(|block| {
            one.begin(block);
            sets()
        });
        assert_eq!(begins[0], begins[2]);
        assert!(count == 1 || begins[0] != begins[1], "blocks begin in turn");
        for waited in [true, false, true] {
            (0..count).for_each(|_| one.next(waited));
        }
        assert_eq!(sets(), begins[2], "none has waited twice running");
        (0..count).for_each(|_| one.next(true));
        let last = sets();
        one.next(true);
        one.next(false);
        assert_eq!(sets(), last, "one is left");
        drop(one);
        assert_eq!(sets(), before);
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
