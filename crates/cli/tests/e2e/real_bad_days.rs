//! Real probes, servers and mounts that go away under a run: no hang, no wrong number, no rest.

use std::{
    fs,
    path::Path,
    process::{Child, Command},
    time::{Duration, Instant},
};

use crate::common::{
    self, Home, Lm, Said, has_fuse, history, machine, needs_root, trials_stored, wait_for,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn start(layers: &[&str]) -> (Child, Home) {
    let read = [
        "file",
        "--op",
        "read",
        "--op",
        "write",
        "--file-size",
        "64K",
        "--json",
    ];
    // In one session: its probes are ended at each end of one. Two blocks are made before anything happens to it, and there
    // are more left than are looked for: a block of two layers is half a second of a CPU. The budget is for a machine that is
    // busy with other tests.
    let rest = [
        "--budget",
        "1m",
        "--blocks",
        "9",
        "--silence",
        "3s",
        "--sessions",
        "1",
    ];
    let (child, dir) = Lm::new().work_with(&read, layers).args(rest).start();
    wait_for("trials", || (trials_stored(dir.path()) >= 6).then_some(()));
    (child, dir)
}

/// Processes of a run that do a part of its work, such as `probe`, in the order of their start.
fn helpers(child: &Child, part: &str) -> Vec<u32> {
    let mut found = machine::family(child.id());
    found.sort_by_key(|(_, start)| *start);
    let does = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).nth(1) == Some(part.as_bytes())
    };
    found.into_iter().map(|(pid, _)| pid).filter(does).collect()
}

fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).expect("signal");
}

/// The end of the run. One that waits for what does not answer has none, and fails the test.
#[track_caller]
fn finish(child: Child, dir: Home) -> Said {
    let family = machine::family(child.id());
    let said = Said::from(common::output(child), dir).left_nothing();
    machine::nothing_left(said.dir.path(), &family);
    said
}

fn layer<'a>(report: &'a Value, name: &str) -> &'a Value {
    let layers = report["layers"].as_array().expect("layers");
    layers
        .iter()
        .find(|l| l["name"] == name)
        .expect("the layer")
}

#[test]
fn a_killed_probe_is_started_again_once() {
    let (child, dir) = start(&["tmpfs"]);
    let probes = helpers(&child, "probe");
    assert_eq!(probes.len(), 2, "native's and tmpfs's");
    send(probes[1], Signal::KILL);
    let trials = trials_stored(dir.path());
    wait_for("trials after it", || {
        (trials_stored(dir.path()) >= trials + 6).then_some(())
    });
    let said = finish(child, dir)
        .says("tmpfs: the probe ended (killed by signal 9")
        .says("started again");
    assert!(matches!(said.code, Some(0 | 4)), "{}", said.stderr);
    assert_eq!(layer(&said.json(), "tmpfs")["status"], "ready");
}

#[test]
fn a_probe_that_hangs_is_given_up_and_killed() {
    let (child, dir) = start(&["tmpfs"]);
    send(helpers(&child, "probe")[1], Signal::STOP);
    finish(child, dir)
        .says("tmpfs: the probe was silent for 3s")
        .says("started again");
}

#[test]
fn a_baseline_that_keeps_dying_ends_the_run_with_its_trials() {
    let (child, dir) = start(&["tmpfs"]);
    let first = helpers(&child, "probe");
    send(first[0], Signal::KILL);
    let second = wait_for("its second probe", || {
        let mut now = helpers(&child, "probe").into_iter();
        now.find(|pid| !first.contains(pid))
    });
    send(second, Signal::KILL);
    let said = finish(child, dir).fails(
        3,
        &["the baseline `native` is not there", "killed by signal 9"],
    );
    let kept = said.json()["trials"].as_array().expect("trials").len() as u64;
    assert!(kept >= 6 && kept == trials_stored(said.dir.path()));
}

#[test]
fn a_file_system_whose_server_dies_is_left_out() {
    if !has_fuse() {
        return;
    }
    let (child, dir) = start(&["fuse", "tmpfs"]);
    let servers = helpers(&child, "fuse-serve");
    assert!(!servers.is_empty());
    for pid in servers {
        send(pid, Signal::KILL);
    }
    let said = finish(child, dir)
        .code(4)
        .says("layer fuse is left out")
        .says("hint: ");
    let report = said.json();
    assert_eq!(layer(&report, "fuse")["status"], "failed");
    assert_eq!(layer(&report, "tmpfs")["status"], "ready");
}

/// With nothing left to compare, the run fails; resumed, it sets the layer up again.
#[test]
fn a_layer_whose_server_died_is_set_up_again_by_resume() {
    if !has_fuse() {
        return;
    }
    let (child, dir) = start(&["fuse"]);
    for pid in helpers(&child, "fuse-serve") {
        send(pid, Signal::KILL);
    }
    let said = finish(child, dir).fails(3, &["no layer to compare with `native`"]);
    assert_eq!(layer(&said.json(), "fuse")["status"], "failed");
    let had = trials_stored(said.dir.path());
    let again = ["run", "--resume", "last", "--json"];
    let said = said.then().args(again).run().code(0);
    let report = said.json();
    let fuse = layer(&report, "fuse");
    assert!(
        fuse["status"] == "ready" && fuse["reason"].is_null(),
        "{fuse:#}"
    );
    assert!(trials_stored(said.dir.path()) > had);
    for row in report["results"].as_array().expect("results") {
        assert_ne!(row["verdict"], "untrusted", "{row:#}");
    }
}

/// A server that is stopped never answers: whoever asks it waits in the kernel.
#[test]
fn a_file_system_that_stops_answering_is_given_up() {
    if !has_fuse() {
        return;
    }
    let (child, dir) = start(&["fuse", "tmpfs"]);
    for pid in helpers(&child, "fuse-serve") {
        send(pid, Signal::STOP);
    }
    let said = finish(child, dir)
        .code(4)
        .says("layer fuse is left out")
        .says("hint: ");
    let report = said.json();
    let fuse = layer(&report, "fuse");
    assert_eq!(fuse["status"], "failed");
    let reason = fuse["reason"].as_str().expect("a reason");
    assert!(
        ["does not answer", "cannot be ended", "did not answer for 3"]
            .iter()
            .any(|why| reason.contains(why)),
        "{reason}"
    );
    for name in ["native", "tmpfs"] {
        assert_eq!(layer(&report, name)["status"], "ready");
        let rows = report["results"].as_array().expect("results").iter();
        let trials = rows
            .filter(|r| r["layer"] == name)
            .map(|r| r["trials"].as_u64());
        assert!(trials.min().flatten() > Some(5), "{report:#}");
    }
}

/// The user's own server: layermark may not end it, and must end all the same. Stops the server when
/// `now` says so of what the layer has left in the server's directory.
fn own_server_stops(mut now: impl FnMut(&[String]) -> bool) -> Option<(Said, Vec<String>)> {
    if !needs_root() {
        return None;
    }
    let mount = "cd $W/..; mkdir below at
        \"$L\" fuse-serve $PWD/below $PWD/at fuse > said 2>&1 & echo $! > pid
        while ! test -s said; do sleep 0.01; done";
    // The janitor waits for it, and cleans up when it answers again.
    let unmount = "for i in $(seq 300); do ls below | grep -q layermark- || break; sleep 0.1; done
        ls below > at_last; umount at";
    let lm = Lm::new();
    let at = format!("dir:{}", lm.dir.path().join("at").display());
    let read = [
        "file",
        "--op",
        "read",
        "--op",
        "write",
        "--file-size",
        "64K",
        "--json",
    ];
    let rest = ["--budget", "1m", "--blocks", "9", "--silence", "3s"];
    let lm = lm
        .work_with(&read, &[&at, "tmpfs"])
        .args(rest)
        .around(mount, unmount)?;
    let (child, dir) = lm.start();
    wait_for("trials", || (trials_stored(dir.path()) >= 6).then_some(()));
    let pid = fs::read_to_string(dir.path().join("pid")).expect("its number");
    let seen = || {
        let names = fs::read_dir(dir.path().join("below"))
            .expect("below")
            .flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names
            .filter(|name| name.starts_with("layermark-"))
            .collect::<Vec<_>>()
    };
    let until = Instant::now() + Duration::from_mins(2);
    while !now(&seen()) {
        assert!(Instant::now() < until, "never seen");
    }
    let pid = pid.trim().parse().expect("a number");
    send(pid, Signal::STOP);
    // The run ends without the server. A thread whose request it has taken cannot be ended before it answers
    // (fuse_dev.c: such a wait is not killable), and neither can the process.
    wait_for("the end of the run, without the server", || {
        let run = history(dir.path()).into_iter().next()?;
        (run["status"] != "running").then_some(())
    });
    let left = seen();
    send(pid, Signal::CONT);
    let said = finish(child, dir).code(4).says("is left out");
    let report = said.json();
    assert_eq!(layer(&report, &at)["status"], "failed");
    assert_eq!(layer(&report, "native")["status"], "ready");
    let at_last = fs::read_to_string(said.dir.path().join("at_last")).expect("seen");
    assert_eq!(at_last, "");
    Some((said, left))
}

#[test]
fn a_directory_whose_server_stops_answering_is_given_up() {
    let Some((said, left)) = own_server_stops(|_| true) else {
        return;
    };
    said.says("is removed when it");
    assert!(!left.is_empty(), "it could not be removed");
}

/// Between two sessions its directory is removed and another one made.
#[test]
fn a_server_that_stops_while_its_layer_is_set_up_again_is_given_up() {
    let mut first = None;
    own_server_stops(|names| {
        let first = first.get_or_insert_with(|| names.to_vec());
        names.iter().any(|name| !first.contains(name))
    });
}

#[test]
fn a_server_that_stops_while_its_layer_is_torn_down_is_given_up() {
    let mut first = None;
    own_server_stops(|names| first.get_or_insert_with(|| names.to_vec()) != names);
}

/// Trap 3: what is below a lost mount must not be measured in its name.
#[test]
fn a_mount_that_is_lost_during_the_run_is_noticed() {
    if !needs_root() {
        return;
    }
    let (child, dir) = start(&["tmpfs", "overlay:upper"]);
    let runner = machine::runner(child.id());
    let mounts = machine::mounts_seen_by(runner, dir.path());
    let mut mounts = mounts.iter();
    let mount = mounts.find(|l| l.contains(" - tmpfs ")).expect("a tmpfs");
    let at = mount.split(' ').nth(4).expect("where");
    let enter = ["-m", "-t", &runner.to_string(), "umount", "-l", at];
    assert!(
        Command::new("nsenter")
            .args(enter)
            .status()
            .expect("nsenter")
            .success()
    );
    let said = finish(child, dir)
        .code(4)
        .says("layer tmpfs is left out")
        .says("hint: ");
    let report = said.json();
    let tmpfs = layer(&report, "tmpfs");
    assert_eq!(tmpfs["status"], "failed", "{tmpfs:#}");
    // Nothing that was measured on the file system below counts as tmpfs.
    let trials = report["trials"].as_array().expect("trials");
    let of_it: Vec<_> = trials.iter().filter(|t| t["layer"] == "tmpfs").collect();
    let (last, before) = of_it.split_last().expect("trials of tmpfs");
    assert_eq!(last["flags"], serde_json::json!(["layer lost"]), "{last:#}");
    assert!(last["op_us"].is_null() && before.iter().all(|t| t["op_us"].is_number()));
    let rows = report["results"].as_array().expect("results").iter();
    for row in rows.filter(|r| r["layer"] == "tmpfs") {
        assert_eq!(row["verdict"], "untrusted", "{row:#}");
    }
    let trust = report["trust"].as_array().expect("trust");
    let proof = trust.iter().find(|t| t["id"] == "proof").expect("proof");
    assert_eq!(proof["state"], "warn", "{proof:#}");
    assert_eq!(layer(&report, "overlay:upper")["status"], "ready");
}

/// Janitor and layermark killed at once: the next run in the directory cleans up.
#[test]
fn without_its_janitor_a_dead_run_is_cleaned_up_by_the_next() {
    let (mut child, dir) = start(&["tmpfs"]);
    let family = machine::family(child.id());
    machine::traces(dir.path(), &family);
    for pid in helpers(&child, "janitor") {
        send(pid, Signal::KILL);
    }
    child.kill().expect("kill");
    child.wait().expect("wait");
    wait_for("its processes to end", || {
        let left = machine::traces(dir.path(), &family);
        left.iter().all(|t| t.starts_with('/')).then_some(())
    });
    // Its mount point may be gone: that is below a directory of all runs, and the start of any removes
    // those of dead ones.
    let left = machine::traces(dir.path(), &[]);
    let work = dir.path().canonicalize().expect("directory").join("work");
    let is_work = |trace: &String| Path::new(trace).parent() == Some(&*work);
    assert!(left.iter().any(is_work), "its work directory: {left:?}");
    Lm::with(dir.path()).mock().run().code(4);
    machine::nothing_left(dir.path(), &family);
}
