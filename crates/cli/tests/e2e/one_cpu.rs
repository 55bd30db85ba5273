//! Where those that take turns run, and with which priority.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::{Child, Command},
    thread,
};

use layermark_sys::real_time;
use rustix::process::{Pid, getpriority_process, setpriority_process};

use crate::common::{Lm, READ, Said, is_root, machine, needs_root, output, skipped};

/// The CPUs that a process may use now.
fn cpus(pid: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?;
    Some(line.trim().to_owned())
}

/// All that was seen of a process of a run.
#[derive(Debug, Default)]
struct Seen {
    /// Its first argument.
    name: String,
    /// CPUs that it could use.
    cpus: BTreeSet<String>,
    /// Whether it had the usual priority, when it was looked at.
    usual: BTreeSet<bool>,
    /// Whether it ran before all threads that have a nice value.
    real_time: BTreeSet<bool>,
}

/// Whether this test may raise a thread by the least of what a run does. The priority of the thread ends with it.
fn may_raise() -> bool {
    let tried = thread::spawn(|| {
        getpriority_process(None) == Ok(0) && setpriority_process(None, -10).is_ok()
    });
    tried.join().unwrap()
}

fn watched(work: &[&str], layers: &[&str], blocks: &str) -> Vec<Seen> {
    watched_of(Lm::new(), work, layers, blocks)
}

fn watched_of(lm: Lm, work: &[&str], layers: &[&str], blocks: &str) -> Vec<Seen> {
    let (mut child, dir) = lm
        .work_with(work, layers)
        .args(["--blocks", blocks, "--sessions", "1"])
        .start();
    let mut seen: BTreeMap<u32, Seen> = BTreeMap::new();
    while child.try_wait().unwrap().is_none() {
        for process in machine::tree(child.id()) {
            let Some(cpus) = cpus(process.pid) else {
                continue;
            };
            let this = seen.entry(process.pid).or_default();
            // One that ends has no arguments any more.
            if let Some(argument) = process.command.get(1) {
                this.name.clone_from(argument);
            }
            this.cpus.insert(cpus);
            let pid = Pid::from_raw(process.pid.cast_signed());
            this.usual.extend(has_usual_priority(pid));
            this.real_time
                .extend(real_time::is_usual(pid).map(|usual| !usual));
        }
    }
    Said::from(output(child), dir).code(0);
    seen.into_values().collect()
}

/// Whether nobody has raised it; `None` if it has ended.
fn has_usual_priority(pid: Option<Pid>) -> Option<bool> {
    let nice = getpriority_process(pid).ok()?;
    Some(nice == 0 && real_time::is_usual(pid)?)
}

/// How many of these sets are one CPU.
fn single(cpus: &BTreeSet<String>) -> usize {
    cpus.iter().filter(|c| c.parse::<u32>().is_ok()).count()
}

#[test]
fn what_the_kernel_serves_takes_turns_on_one_cpu() {
    let all = cpus(std::process::id()).unwrap();
    if all.parse::<u32>().is_ok() {
        return skipped("there is one CPU, or one that may be used");
    }
    let layers = if is_root() {
        &["tmpfs", "fuse"][..]
    } else {
        &["tmpfs"]
    };
    let seen = watched(READ, layers, "8");
    let kept = |cpus: &BTreeSet<String>| single(cpus) > 0;
    let probes: Vec<_> = seen.iter().filter(|s| s.name == "probe").collect();
    assert_eq!(probes.len(), layers.len() + 1, "{seen:?}");
    // Native and tmpfs, but not FUSE.
    let on_one = probes.iter().filter(|s| kept(&s.cpus)).count();
    assert_eq!(on_one, 2, "{seen:?}");
    assert!(
        probes.iter().all(|s| s.cpus.contains(&all)),
        "free outside of turns: {seen:?}"
    );
    // The run, not its keeper, which has the same arguments.
    let mut commands = seen.iter().filter(|s| s.name == "file");
    assert!(
        commands.any(|s| kept(&s.cpus) && s.cpus.contains(&all)),
        "{seen:?}"
    );
}

/// Busy programs, one for each CPU, until this is dropped.
struct Loops(Vec<Child>);

impl Loops {
    /// Each of them is started by this command.
    fn started(by: &str) -> Self {
        let cpus = thread::available_parallelism().unwrap().get();
        let busy = || {
            let script = "while :; do :; done";
            let mut command = Command::new(by);
            command.args(["sh", "-c", script]).spawn().unwrap()
        };
        Self((0..cpus).map(|_| busy()).collect())
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn beside_busy_programs_those_that_the_kernel_serves_are_raised() {
    if !may_raise() {
        return skipped("who has not the usual priority, or no right to more, keeps it");
    }
    let layers = if is_root() {
        &["tmpfs", "fuse"][..]
    } else {
        &["tmpfs"]
    };
    let loops = Loops::started("env");
    let seen = watched(READ, layers, "12");
    drop(loops);
    let probes = seen.iter().filter(|s| s.name == "probe");
    // Native and tmpfs, but not FUSE; in rounds only.
    let raised = BTreeSet::from([true, false]);
    assert_eq!(
        probes.clone().filter(|s| s.usual == raised).count(),
        2,
        "{seen:?}"
    );
    let usual = BTreeSet::from([true]);
    assert_eq!(
        probes.filter(|s| s.usual == usual).count(),
        layers.len() - 1,
        "{seen:?}"
    );
}

/// A nice value counts only within a session where the kernel groups by them.
#[test]
fn beside_those_of_other_sessions_threads_run_before_all_with_a_nice_value() {
    let may = || {
        let tried = thread::spawn(|| real_time::raise(None));
        may_raise() && tried.join().unwrap() && real_time::leaves_time()
    };
    let groups = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    if !groups.is_ok_and(|groups| groups.trim() == "1") || !may() {
        return skipped(
            "sessions are no groups of the scheduler here, or no thread may be raised so far",
        );
    }
    let loops = Loops::started("setsid");
    // Who sleeps for each flush waits longest for a CPU afterwards.
    let flush = "file --record 4K --op rand-write --sync each --file-size 64K";
    let words: Vec<&str> = flush.split(' ').collect();
    let seen = watched(&words, &["bind:rw"], "12");
    drop(loops);
    let probes: Vec<_> = seen.iter().filter(|s| s.name == "probe").collect();
    let raised = BTreeSet::from([true, false]);
    assert!(
        probes.len() == 2 && probes.iter().all(|s| s.real_time == raised),
        "{seen:?}"
    );
}

/// All rounds of a block were on one CPU, and a disk's interrupts go to one of them. Whole blocks were fast or slow by that.
#[test]
fn what_waits_for_a_device_takes_each_round_on_another_cpu() {
    if cpus(std::process::id()).is_some_and(|all| all.parse::<u32>().is_ok()) {
        return skipped("there is one CPU, or one that may be used");
    }
    let flush = "file --record 4K --op rand-write --sync each --file-size 64K";
    // What is read once is no exception. A file system in memory has no cold reads.
    let cold = "meta --op small-read --cache cold --files 2000 --file-size 4K";
    let all = [(flush, "tmpfs"), (cold, "bind:rw")];
    for (work, layer) in all.into_iter().take(if is_root() { 2 } else { 1 }) {
        let mut words: Vec<&str> = work.split(' ').collect();
        // Long enough to be seen: a CPU on which other tests run is left out after two rounds there.
        words.extend(["--turn", "50ms"]);
        // All rounds of this block.
        let seen = watched(&words, &[layer], "1");
        let probes: Vec<_> = seen.iter().filter(|s| s.name == "probe").collect();
        assert!(
            probes.len() == 2 && probes.iter().all(|s| single(&s.cpus) > 1),
            "{work}: {seen:?}"
        );
    }
}

/// A quota does not hold for threads that run before all others, and for an application it does.
#[test]
fn under_a_quota_threads_keep_their_priority() {
    if !needs_root() {
        return;
    }
    if !may_raise() {
        return skipped("nothing is raised for who has no right to");
    }
    let Some(group) = machine::QuotaGroup::with(90_000) else {
        return skipped("no control group with a CPU quota can be made");
    };
    let enter = format!("echo $$ > {}", group.procs().display());
    let Some(lm) = Lm::new().around(&enter, "") else {
        return;
    };
    let loops = Loops::started("env");
    let seen = watched_of(lm, READ, &["tmpfs"], "12");
    drop(loops);
    let probes: Vec<_> = seen.iter().filter(|s| s.name == "probe").collect();
    assert!(
        probes.len() == 2 && probes.iter().all(|s| s.usual == BTreeSet::from([true])),
        "{seen:?}"
    );
}
