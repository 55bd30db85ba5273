//! Resources used by the whole process tree of a launch. The counters miss no process: those of a
//! control group, and the kernel's events for each new process.

use std::os::fd::BorrowedFd;

use super::{
    figures::LaunchTrial,
    forks::Forks,
    group::{Counters, LaunchCgroup},
};

/// The counters available on this machine. Without any, `/proc` provides less exact values.
#[derive(Debug, Default)]
pub struct Counting {
    group: Option<LaunchCgroup>,
    forks: Option<Forks>,
}

impl Counting {
    /// Prepares the counters for a guard. Called by the probe, because in a PID namespace the kernel
    /// sends no process events, and because the probe must remove what a killed guard leaves.
    pub fn make() -> Self {
        Self {
            group: LaunchCgroup::named(),
            forks: Forks::listen(),
        }
    }

    /// Counts the processes that this process starts from now on.
    pub fn enter(&mut self) {
        self.group.take_if(|group| group.enter().is_err());
    }

    /// Called just before the clock starts.
    pub fn before(&mut self) -> Counters {
        self.forks.iter_mut().for_each(Forks::forget);
        self.counters()
    }

    /// Called just after the clock stops: adds the counters to `launch`, and their names.
    pub fn after(&mut self, before: Counters, main: BorrowedFd<'_>, launch: &mut LaunchTrial) {
        let now = self.counters();
        let since = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        launch.io_wait_ns = since(now.wait_ns, before.wait_ns);
        launch.device_bytes = since(now.read_bytes, before.read_bytes);
        launch.started = self.forks.as_mut().and_then(|f| f.count(f.number(main)?));
        launch.counted_by = ["/proc"]
            .into_iter()
            .chain(launch.io_wait_ns.map(|_| "io.pressure"))
            .chain(launch.device_bytes.map(|_| "io.stat"))
            .chain(launch.started.map(|_| "process connector"))
            .map(str::to_owned)
            .collect();
    }

    fn counters(&self) -> Counters {
        self.group
            .as_ref()
            .map(LaunchCgroup::counters)
            .unwrap_or_default()
    }
}
