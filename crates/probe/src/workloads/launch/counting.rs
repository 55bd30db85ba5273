//! What a launch's whole tree of processes has used, by counters that miss nobody: those of a
//! control group, and the kernel's own word on each process that is made.

use std::os::fd::BorrowedFd;

use layermark_model::Launch;

use super::{
    forks::Forks,
    group::{Counters, LaunchCgroup},
};

/// The counters that this machine keeps. None is no error: `/proc` tells the rest.
#[derive(Debug, Default)]
pub struct Counting {
    group: Option<LaunchCgroup>,
    forks: Option<Forks>,
}

impl Counting {
    /// Makes counters for a guard. Called by the probe: in a PID namespace the kernel tells nobody of
    /// processes, and what a killed guard leaves has to be removed.
    pub fn make() -> Self {
        Self {
            group: LaunchCgroup::make(),
            forks: Forks::listen(),
        }
    }

    /// Counts what this process starts from now on.
    pub fn enter(&mut self) {
        self.group.take_if(|group| group.enter().is_err());
    }

    /// Just before the clock.
    pub fn before(&mut self) -> Counters {
        self.forks.iter_mut().for_each(Forks::forget);
        self.counters()
    }

    /// Just after it: what was counted meanwhile goes into `launch`, and who counted.
    pub fn after(&mut self, before: Counters, main: BorrowedFd<'_>, launch: &mut Launch) {
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
