//! SIGINT, SIGTERM and SIGKILL at any moment: what was measured is kept, nothing else is.

use std::{process::Child, thread, time::Duration};

use crate::common::{
    self, Home, Lm, Said, history, is_root, machine, skipped, trials_stored, wait_for,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).expect("signal");
}

/// A run of the scripted layers that takes some seconds.
fn slow() -> (Child, Home) {
    let read = [
        "file",
        "--op",
        "read",
        "--op",
        "rand-read",
        "--op",
        "reread",
        "--file-size",
        "64K",
        "--json",
    ];
    let layers = ["mock:take=30ms", "mock:ns=1500,take=30ms,noise=0.01"];
    Lm::new()
        .work_with(&read, &layers)
        .args(["--precision", "0.1%", "--budget", "3s", "--seed", "7"])
        .start()
}

/// Layers of every kind that can be built here: overlay, FUSE, loop device, image.
fn layers() -> Vec<&'static str> {
    if is_root() {
        return vec![
            "overlay:upper",
            "overlay:writecopy",
            "fuse",
            "loop:ext4",
            "image:squashfs",
            "tmpfs",
        ];
    }
    skipped("loop and image need root; overlay, fuse and tmpfs are killed");
    vec!["overlay:upper", "overlay:writecopy", "fuse", "tmpfs"]
}

/// A real run of all these layers, long enough to be killed anywhere.
fn real() -> (Child, Home) {
    let read = [
        "file",
        "--op",
        "read",
        "--op",
        "write",
        "--op",
        "first-write",
        "--file-size",
        "256K",
        "--json",
    ];
    Lm::new()
        .work_with(&read, &layers())
        // Not a budget: on a slow disk it would leave layers out.
        .args(["--blocks", "4", "--seed", "7"])
        .start()
}

fn until_trials(dir: &Home, count: u64) {
    wait_for("trials", || {
        (trials_stored(dir.path()) >= count).then_some(())
    });
}

fn finish(child: Child, dir: Home) -> Said {
    Said::from(common::output(child), dir)
}

/// Goes on with the run; everything of both parts is in the report, in the order of the seed.
#[track_caller]
fn resumes(dir: &Home, had: u64) -> Value {
    let id = history(dir.path())[0]["run"]
        .as_str()
        .expect("a run")
        .to_owned();
    let said = Lm::with(dir.path())
        .args(["run", "--resume", "last", "--json"])
        .run();
    assert!(
        matches!(said.code, Some(0 | 3 | 4)),
        "{:?} {}",
        said.code,
        said.stderr
    );
    let report = said.json();
    assert_eq!(
        (&report["run"], &report["status"], &report["seed"]),
        (&id.into(), &"done".into(), &7.into())
    );
    let trials = report["trials"].as_array().expect("trials");
    assert!(
        trials.len() as u64 > had,
        "{} trials, {had} before",
        trials.len()
    );
    let seqs: Vec<u64> = trials.iter().filter_map(|t| t["seq"].as_u64()).collect();
    assert!(seqs.is_sorted() && seqs.first() == Some(&0), "{seqs:?}");
    report
}

#[track_caller]
fn stops(signal: Signal) {
    let (child, dir) = slow();
    until_trials(&dir, 5);
    let family = machine::family(child.id());
    send(&child, signal);
    let said = finish(child, dir)
        .code(130)
        .says("stopping after this round");
    let said = said.says("layermark run --resume ").left_nothing();
    let report = said.json();
    assert_eq!(report["status"], "stopped");
    let had = report["trials"].as_array().expect("trials").len() as u64;
    assert_eq!(had, trials_stored(said.dir.path()));
    machine::nothing_left(said.dir.path(), &family);
    resumes(&said.dir, had);
}

#[test]
fn sigint_stops_after_the_trial_in_hand_and_reports() {
    stops(Signal::INT);
}

#[test]
fn sigterm_stops_after_the_trial_in_hand_and_reports() {
    stops(Signal::TERM);
}

#[test]
fn sighup_stops_after_the_trial_in_hand_and_reports() {
    stops(Signal::HUP);
}

/// What it says is written to a terminal that has gone.
#[test]
fn sighup_with_its_terminal_stops_and_reports() {
    let (mut child, dir) = slow();
    until_trials(&dir, 5);
    drop(child.stderr.take());
    send(&child, Signal::HUP);
    let said = finish(child, dir).code(130);
    assert_eq!(said.json()["status"], "stopped");
}

#[test]
fn a_second_sigint_ends_it_at_once() {
    let read = [
        "file",
        "--op",
        "read",
        "--file-size",
        "64K",
        "--json",
        "--seed",
        "7",
    ];
    let (mut child, dir) = Lm::new()
        .work_with(&read, &["mock:take=1h", "mock:take=1h,ns=1500"])
        .start();
    wait_for("the run", || history(dir.path()).pop());
    thread::sleep(Duration::from_millis(500));
    let pid = Pid::from_child(&child);
    common::interrupt(&mut child, pid);
    send(&child, Signal::INT);
    // A trial takes longer than the test waits.
    let said = finish(child, dir).says("--resume").left_nothing();
    assert_eq!(said.code, Some(130), "{}", said.stderr);
    assert_eq!(said.json()["status"], "stopped");
}

#[test]
fn sigint_during_set_up_leaves_nothing() {
    let (child, dir) = real();
    wait_for("the work directory", || {
        machine::traces(dir.path(), &[]).into_iter().next()
    });
    let family = machine::family(child.id());
    send(&child, Signal::INT);
    let said = finish(child, dir).code(130).says("--resume").left_nothing();
    machine::nothing_left(said.dir.path(), &family);
}

#[test]
fn a_finished_run_is_not_resumed() {
    let said = Lm::new().mock().run().code(4);
    let said = said.then().args(["run", "--resume", "last"]).run();
    said.fails(2, &["is finished", "layermark report", "--replay"]);
}

#[track_caller]
fn killed(child: Child, dir: &Home) -> u64 {
    let family = machine::family(child.id());
    // Where its mounts are now is looked at again afterwards.
    machine::traces(dir.path(), &family);
    let had = trials_stored(dir.path());
    let mut child = child;
    child.kill().expect("kill");
    child.wait().expect("wait");
    machine::nothing_left(dir.path(), &family);
    let kept = trials_stored(dir.path());
    assert!(kept >= had, "{kept} of {had} trials are left");
    kept
}

#[test]
fn sigkill_while_every_layer_is_up_leaves_nothing_and_loses_nothing() {
    let (child, dir) = real();
    until_trials(&dir, 12);
    let up = machine::traces(dir.path(), &machine::family(child.id()));
    for word in ["mount seen by", "process "] {
        assert!(
            up.iter().any(|t| t.contains(word)),
            "no `{word}` in {up:#?}"
        );
    }
    let loops = up
        .iter()
        .filter(|t| t.starts_with("/sys/block/loop"))
        .count();
    assert_eq!(loops, if is_root() { 2 } else { 0 }, "{up:#?}");
    let kept = killed(child, &dir);
    assert!(kept >= 12);
    let report = resumes(&dir, kept);
    for layer in report["layers"].as_array().expect("layers") {
        let ready = layer["status"] == "ready";
        assert!(ready || !is_root(), "{layer:#}");
    }
}

#[test]
fn sigkill_during_set_up_leaves_nothing() {
    // From before the janitor is there until the last layers come up.
    for ms in [0, 10, 30, 60, 100, 160, 250, 400, 600] {
        let (child, dir) = real();
        thread::sleep(Duration::from_millis(ms));
        killed(child, &dir);
    }
    let (child, dir) = real();
    wait_for("the first mount", || {
        let traces = machine::traces(dir.path(), &[]);
        traces.into_iter().find(|t| t.starts_with("mount"))
    });
    let kept = killed(child, &dir);
    resumes(&dir, kept);
}

#[test]
fn sigkill_between_and_in_trials_loses_none() {
    let (child, dir) = slow();
    until_trials(&dir, 3);
    thread::sleep(Duration::from_millis(17));
    let kept = killed(child, &dir);
    // Killed a second time while it is resumed.
    let again = ["run", "--resume", "last", "--json"];
    let (child, _) = Lm::with(dir.path()).args(again).start();
    until_trials(&dir, kept + 3);
    let kept = killed(child, &dir);
    let report = resumes(&dir, kept);
    assert_eq!(history(dir.path()).len(), 1);
    assert_eq!(report["layers"].as_array().map(Vec::len), Some(2));
}

/// Other processes of the machine see no mount of a run.
#[test]
fn mounts_are_seen_by_the_run_alone() {
    let (child, dir) = real();
    until_trials(&dir, 2);
    let seen = |pid| machine::mounts_seen_by(pid, dir.path());
    let inside = seen(machine::runner(child.id()));
    assert!(inside.len() > 1, "{inside:#?}");
    let outside = seen(std::process::id());
    assert!(outside.is_empty(), "{outside:#?}");
    killed(child, &dir);
}

/// The terminal's Ctrl-C reaches the whole process group.
#[test]
fn probes_do_not_hear_the_terminals_interrupt() {
    let (child, dir) = Lm::new()
        .work_with(&["file", "--op", "read", "--file-size", "64K"], &["tmpfs"])
        .start();
    until_trials(&dir, 2);
    let groups = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let group = |pid| {
        groups(pid).and_then(|t| {
            t.rsplit_once(')')?
                .1
                .split_whitespace()
                .nth(2)
                .map(str::to_owned)
        })
    };
    let own = group(child.id()).expect("its group");
    let others: Vec<_> = machine::family(child.id())
        .into_iter()
        .filter(|p| p.0 != child.id())
        .collect();
    assert!(others.len() >= 3, "two probes and a janitor: {others:?}");
    for (pid, _) in others {
        assert_ne!(
            group(pid).as_ref(),
            Some(&own),
            "process {pid} is in the terminal's group"
        );
    }
    send(&child, Signal::INT);
    finish(child, dir).code(130).left_nothing();
}
