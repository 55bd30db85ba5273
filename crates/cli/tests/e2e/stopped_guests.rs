//! QEMU, and what serves its devices, are stopped (SIGSTOP): such a guest is given up after `--silence`, whatever it
//! was asked for, and the run ends. A guest that does not answer is lost to all others, so each case boots its own; a
//! boot that is given up is tried a second time.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::common::{
    self, Lm, Said, all_guests, is_root, machine, skipped, trials_stored, wait_for,
};
use rustix::process::{Pid, Signal, kill_process};

/// A fixed limit of five minutes, for a guest that writes back, is longer; 20 s are usual.
const LONGEST: Duration = Duration::from_mins(3);

#[derive(Debug, Clone, Copy, PartialEq)]
enum When {
    /// As soon as the process is seen.
    Boot,
    /// After this many trials.
    Trials(u64),
}

/// Sends a signal to all processes of this name that a run has started. Whether there were any.
fn send(signal: Signal, run: u32, name: &str) -> bool {
    let tree = machine::tree(run);
    let is_it = |p: &&machine::Proc| {
        // A server's name has its directory behind it.
        p.command[0].contains(name) && !p.command.iter().any(|word| word == "--version")
    };
    let pids: Vec<i32> = tree
        .iter()
        .filter(is_it)
        .map(|p| p.pid.cast_signed())
        .collect();
    for pid in &pids {
        let pid = Pid::from_raw(*pid).expect("a process");
        let _ = kill_process(pid, signal);
    }
    !pids.is_empty()
}

/// A run with a guest of which this process is stopped; `None` where such a guest does not come up.
fn stopped(layer: &str, name: &str, when: When, cache: &str) -> Option<Said> {
    let work = ["file", "--op", "read", "--op", "write", "--cache", cache];
    let rest = [
        "--file-size",
        "64K",
        "--blocks",
        "4",
        "--silence",
        "3s",
        "--no-control",
    ];
    let layers = ["-l", layer, "-l", "tmpfs", "--json", "--dir"];
    let lm = Lm::new().args(work).args(rest).args(layers);
    let dir = lm.work();
    let (mut child, dir) = lm.args([dir]).start();
    let run = child.id();
    let due = || match when {
        When::Boot => true,
        When::Trials(n) => trials_stored(dir.path()) >= n,
    };
    let mut found = false;
    wait_for("its process", || {
        let over = child.try_wait().expect("wait").is_some();
        found = !over && due() && send(Signal::STOP, run, name);
        (found || over).then_some(())
    });
    let at = Instant::now();
    let family = machine::family(run);
    let said = Said::from(common::output(child), dir);
    let took = at.elapsed();
    let what = format!("{name} of {layer} stopped, {when:?}, {cache}");
    eprintln!(
        "{what}: the run ended {took:.1?} later, code {:?}",
        said.code
    );
    if !found {
        skipped(&format!("{layer} does not come up here: {}", said.stderr));
        return None;
    }
    assert!(took < LONGEST, "{what}: {took:?}: {}", said.stderr);
    // QEMU is started a second time. A server of its devices that is not ready in time is not, and the layer is left out.
    let left_out =
        when == When::Boot && said.stderr.contains(&format!("layer {layer} is left out"));
    let expected = matches!(said.code, Some(0 | 4)) || (left_out && said.code == Some(3));
    assert!(expected, "{what}: {}", said.stderr);
    machine::nothing_left(said.dir.path(), &family);
    Some(said)
}

type Case<'a> = (&'a str, &'a str, When, &'a str);

/// Of a second case, only what is stopped or the moment is another one.
fn each(case: Case<'_>, second: Case<'_>) {
    if !is_root() {
        return skipped("a guest's shared folder needs root");
    }
    thread::scope(|scope| {
        for (layer, name, when, cache) in [Some(case), all_guests().then_some(second)]
            .into_iter()
            .flatten()
        {
            scope.spawn(move || {
                let said = stopped(layer, name, when, cache);
                if when != When::Boot
                    && let Some(said) = said
                {
                    said.says(&format!("layer {layer} is left out"));
                }
            });
        }
    });
}

#[test]
fn a_guest_that_is_stopped_while_it_boots_is_given_up() {
    each(
        ("vm:disk=virtio-blk", "qemu-system", When::Boot, "warm"),
        ("vm:share=virtiofs", "virtiofsd", When::Boot, "warm"),
    );
}

#[test]
fn a_guest_that_is_stopped_in_a_trial_is_given_up() {
    each(
        ("vm:disk=virtio-blk", "qemu-system", When::Trials(6), "warm"),
        ("vm:share=virtiofs", "virtiofsd", When::Trials(6), "warm"),
    );
}

/// The guest waits for its server when it writes back before its caches are emptied.
#[test]
fn a_guest_whose_server_is_stopped_between_cold_trials_is_given_up() {
    each(
        ("vm:share=virtiofs", "virtiofsd", When::Trials(4), "cold"),
        ("vm:share=virtiofs", "virtiofsd", When::Trials(7), "cold"),
    );
}

/// QEMU 7.2 was seen to fail an assertion.
#[test]
fn a_guest_whose_qemu_crashes_while_it_boots_is_started_again() {
    if !is_root() {
        return skipped("a guest's disk needs root");
    }
    let work = [
        "file",
        "--file-size",
        "64K",
        "--blocks",
        "1",
        "--no-control",
    ];
    let lm = Lm::new()
        .args(work)
        .args(["-l", "vm:disk=virtio-blk,accel=tcg", "--json", "--dir"]);
    let dir = lm.work();
    let (mut child, dir) = lm.args([dir]).start();
    let run = child.id();
    let mut found = false;
    wait_for("QEMU", || {
        let over = child.try_wait().expect("wait").is_some();
        found = !over && send(Signal::ABORT, run, "qemu-system");
        (found || over).then_some(())
    });
    let said = Said::from(common::output(child), dir);
    if !found {
        return skipped(&format!("no guest comes up here: {}", said.stderr));
    }
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let boot = "the second: ";
    assert!(
        said.stdout.contains(boot) && said.stdout.contains("killed by signal 6"),
        "{}",
        said.stdout
    );
}
