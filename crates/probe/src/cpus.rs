//! Limits the CPUs of a job.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::Path,
};

use layermark_model::protocol::JobCpus;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::ProbeError;

/// Directory of the kernel's CPUs. The first one cannot be switched off.
const CPUS: &str = "/sys/devices/system/cpu";

/// The CPUs of the calling thread, and of the threads and processes that it starts.
pub(crate) struct Cpus {
    /// The CPUs at its start.
    started_with: Option<CpuSet>,
    limited_to: Option<u32>,
}

impl Cpus {
    pub(crate) fn of_this_thread() -> Self {
        Self {
            started_with: sched_getaffinity(None).ok(),
            limited_to: None,
        }
    }

    /// Sets the CPUs that a job requests. Fails unless exactly that number is available afterwards.
    pub(crate) fn set(&mut self, wanted: Option<JobCpus>) -> Result<(), ProbeError> {
        match wanted {
            Some(JobCpus::Online(count)) => online(Path::new(CPUS), count),
            Some(JobCpus::Kept(count)) => self.keep(Some(count)),
            None => self.keep(None),
        }
    }

    fn keep(&mut self, count: Option<u32>) -> Result<(), ProbeError> {
        let Some(all) = self.started_with.filter(|_| self.limited_to != count) else {
            return Ok(());
        };
        let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu));
        let mut set = CpuSet::new();
        cpus.take(count.map_or(usize::MAX, |n| n as usize))
            .for_each(|cpu| set.set(cpu));
        if count.is_some_and(|n| n != set.count()) {
            let (wanted, there) = (count.unwrap_or_default(), all.count());
            return Err(ProbeError::new(format!(
                "{wanted} CPUs are requested, and {there} are available"
            )));
        }
        sched_setaffinity(None, &set).map_err(|e| {
            ProbeError::new(format!(
                "cannot keep the probe on {} CPUs: {e}",
                set.count()
            ))
        })?;
        self.limited_to = count;
        Ok(())
    }
}

/// Switches the first `count` CPUs of this kernel on and all others off; `None`: all on.
fn online(dir: &Path, count: Option<u32>) -> Result<(), ProbeError> {
    let failed = |what: &Path| {
        let what = what.to_owned();
        move |e: io::Error| ProbeError::io("set which CPUs are online in", &what, &e)
    };
    let number = |name: &str| name.strip_prefix("cpu")?.parse::<u32>().ok();
    let entries = fs::read_dir(dir).map_err(failed(dir))?.flatten();
    let mut cpus: Vec<u32> = entries
        .filter_map(|entry| number(entry.file_name().to_str()?))
        .collect();
    cpus.sort_unstable();
    let count = count.map_or(cpus.len(), |n| n as usize);
    if count > cpus.len() {
        let there = cpus.len();
        return Err(ProbeError::new(format!(
            "{count} CPUs are requested, and this kernel has {there}"
        )));
    }
    for (place, cpu) in cpus.into_iter().enumerate().skip(1) {
        let switch = dir.join(format!("cpu{cpu}/online"));
        let wanted = if place < count { "1" } else { "0" };
        let is = fs::read_to_string(&switch);
        // A CPU without the switch is always online.
        let is = match is {
            Err(e) if e.kind() == io::ErrorKind::NotFound => "1".into(),
            is => is.map_err(failed(&switch))?,
        };
        if is.trim() != wanted {
            let file = OpenOptions::new().write(true).open(&switch);
            file.and_then(|mut file| file.write_all(wanted.as_bytes()))
                .map_err(failed(&switch))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_as_many_as_it_asks_for_and_the_next_one_all() {
        let all = || sched_getaffinity(None).unwrap().count();
        let (mut cpus, before) = (Cpus::of_this_thread(), all());
        cpus.set(Some(JobCpus::Kept(1))).unwrap();
        assert_eq!(all(), 1);
        // Threads that it starts are limited too.
        assert_eq!(std::thread::spawn(all).join().unwrap(), 1);
        let child = std::process::Command::new("nproc").output().unwrap();
        assert_eq!(child.stdout, b"1\n");
        let e = cpus.set(Some(JobCpus::Kept(before + 1))).unwrap_err();
        assert!(
            e.message.contains(&format!("and {before} are available")),
            "{}",
            e.message
        );
        cpus.set(None).unwrap();
        assert_eq!(all(), before);
    }

    #[test]
    fn cpus_of_a_guest_are_switched_on_and_off() {
        let temp = tempfile::tempdir().unwrap();
        let switch = |cpu: u32| temp.path().join(format!("cpu{cpu}/online"));
        for cpu in [0, 1, 2, 3, 10] {
            fs::create_dir(switch(cpu).parent().unwrap()).unwrap();
            if cpu > 0 {
                fs::write(switch(cpu), "1\n").unwrap();
            }
        }
        fs::create_dir(temp.path().join("cpufreq")).unwrap();
        let set = |count| online(temp.path(), count);
        let on = || [1, 2, 3, 10].map(|cpu| fs::read_to_string(switch(cpu)).unwrap().trim() == "1");
        set(Some(2)).unwrap();
        assert_eq!(on(), [true, false, false, false]);
        set(Some(4)).unwrap();
        assert_eq!(on(), [true, true, true, false]);
        set(Some(1)).unwrap();
        assert_eq!(on(), [false; 4]);
        set(None).unwrap();
        assert_eq!(on(), [true; 4]);
        assert!(set(Some(6)).unwrap_err().message.contains("has 5"));
        // If the kernel cannot switch one off, that is an error.
        fs::remove_file(switch(3)).unwrap();
        assert!(set(Some(1)).is_err());
    }
}
