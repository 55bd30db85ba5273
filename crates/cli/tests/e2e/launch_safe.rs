//! `layermark launch` beside other users, and what is left of it when any of its processes is killed.

use std::{fs, path::Path, process::Child};

use crate::common::{self, Home, Lm, Said, is_root, machine, skipped, wait_for};
use rustix::process::{Pid, Signal, kill_process};

fn has(programs: &[&str]) -> bool {
    let dirs = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];
    let there = |p: &&&str| dirs.iter().any(|d| Path::new(d).join(p).exists());
    let all = programs.iter().filter(there).count() == programs.len();
    if !all {
        skipped(&format!("one of {programs:?} is not installed"));
    }
    all
}

fn launch(args: &[&str]) -> Lm {
    let lm = Lm::new();
    let work = lm.work();
    lm.args([
        "launch", "--runs", "1", "--json", "--grace", "100ms", "--dir",
    ])
    .args([work])
    .args(args)
}

/// Issue 11: the working directory of a program run as root was `/tmp/layermark-capture-PID`.
#[test]
fn what_another_user_has_planted_is_not_worked_in() {
    if !is_root() || !has(&["python3", "strace", "setpriv"]) {
        return skipped("only root has something to lose");
    }
    let plant = machine::own_tmp_in_shell()
        + "
setpriv --reuid nobody --regid nogroup --clear-groups /usr/bin/python3 -c '
import os
most = int(open(\"/proc/sys/kernel/pid_max\").read())
for pid in range(os.getpid(), os.getpid() + 5000):
    at = f\"/tmp/layermark-capture-{pid % most}\"
    os.mkdir(at)
    open(at + \"/json.py\", \"w\").write(\"open(\\\"/tmp/owned\\\", \\\"w\\\")\")
'";
    let look = "if [ -e /tmp/owned ]; then echo 'nobody is root' >&2; code=99; fi";
    let import = ["--package", "--", "/usr/bin/python3", "-c", "import json"];
    let Some(lm) = launch(&import).around(&plant, look) else {
        return;
    };
    lm.run().code(0).left_nothing();
}

/// Checks in the place of a program with a window; xterm comes when they have passed.
const STRANGER: &str = "set -e
xdpyinfo >/dev/null
[ $(stat -c %a:%u $XAUTHORITY) = 600:0 ]
! grep \"@/tmp/.X11-unix/X${DISPLAY#:}\\$\" /proc/net/unix
if setpriv --reuid nobody --regid nogroup --clear-groups xdpyinfo >$HOME/said 2>&1; then
    echo 'a stranger was let in' >&2; exit 9
fi
grep -q Authorization $HOME/said || { cat $HOME/said >&2; exit 8; }
exec xterm -T Mine";

#[test]
fn the_x_server_lets_nobody_in_without_the_cookie() {
    if !is_root() || !has(&["Xvfb", "xterm", "xdpyinfo", "setpriv"]) {
        return skipped("only root can become somebody else");
    }
    let said = launch(&["--ready", "window=Mine", "--", "sh", "-c", STRANGER]).run();
    let report = said.code(0).json();
    assert_eq!(
        report["series"][0]["runs"][0]["window"], "Mine",
        "{report:#}"
    );
}

/// A process that leaves its parents, its session and its group behind, and one that stays.
const LEAVES: &str = "trap '' TERM; (setsid sleep 4713 &); sleep 4713";

/// Until the run of `child` has as many processes of that command.
fn until(child: &Child, command: &[&str], count: usize) -> Vec<machine::Proc> {
    let is = |p: &machine::Proc| {
        p.command
            .iter()
            .map(String::as_str)
            .eq(command.iter().copied())
    };
    wait_for("the program", || {
        let tree = machine::tree(child.id());
        (tree.iter().filter(|p| is(p)).count() == count).then_some(tree)
    })
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
    kill_process(pid, Signal::KILL).expect("kill");
}

fn ids(tree: &[machine::Proc]) -> Vec<machine::Process> {
    tree.iter().map(|p| (p.pid, p.start)).collect()
}

/// Those of its launch are itself and who starts it.
#[test]
fn a_program_sees_the_processes_of_its_launch_alone() {
    if !is_root() {
        return skipped("not every user may make a process namespace");
    }
    let count = "set -- /proc/[0-9]*; [ $# -le 4 ] || { echo $# processes >&2; exit 9; }";
    launch(&["--", "sh", "-c", count]).run().code(0);
}

#[test]
fn a_killed_launcher_takes_the_whole_tree_with_it() {
    let never = ["--ready", "stdout=never", "--", "sh", "-c", LEAVES];
    let (child, dir) = launch(&never).start();
    let tree = until(&child, &["sleep", "4713"], 2);
    let shell = tree
        .iter()
        .find(|p| p.command[0] == "sh")
        .expect("the program");
    let guard = shell.parent;
    let below: Vec<_> = machine::tree(guard);
    assert!(below.len() >= 4, "{below:#?}");
    kill(guard);
    // layermark itself goes on.
    let said = Said::from(common::output(child), dir).code(1);
    let report = said.json();
    let error = report["results"][0]["error"].as_str().unwrap_or_default();
    assert!(error.contains("killed from outside"), "{report:#}");
    machine::nothing_left(said.left_nothing().dir.path(), &ids(&tree));
}

#[track_caller]
fn killed(mut child: Child, dir: &Home, tree: &[machine::Proc]) {
    child.kill().expect("kill");
    child.wait().expect("wait");
    machine::nothing_left(dir.path(), &ids(tree));
}

#[test]
fn layermark_killed_while_it_makes_a_package_leaves_nothing() {
    if !has(&["strace"]) {
        return;
    }
    let args = [
        "--package",
        "--ready",
        "stdout=never",
        "--",
        "sh",
        "-c",
        LEAVES,
    ];
    let (child, dir) = launch(&args).start();
    let tree = until(&child, &["sleep", "4713"], 2);
    assert!(tree.iter().any(|p| p.command[0] == "strace"), "{tree:#?}");
    killed(child, &dir, &tree);
}

#[test]
fn the_home_of_a_read_only_layer_goes_with_a_killed_layermark() {
    if !is_root() || !has(&["mksquashfs"]) {
        return skipped("images need root");
    }
    let args = ["--no-control", "-l", "image:squashfs"];
    // The other layer may come first.
    let ready = ["--ready", "stdout=never", "--timeout", "3s"];
    let program = ["--", "sh", "-c", LEAVES];
    let (child, dir) = launch(&[&args[..], &ready, &program].concat()).start();
    let (home, tree) = wait_for("a home outside the layer", || {
        let tree = machine::tree(child.id());
        let home = tree.iter().find_map(|p| {
            let env = fs::read(format!("/proc/{}/environ", p.pid)).ok()?;
            let env = String::from_utf8(env).ok()?;
            let home = env.split('\0').find_map(|v| v.strip_prefix("HOME="))?;
            let layer = fs::read_link(format!("/proc/{}/cwd", p.pid)).ok()?;
            let found = home.contains("work-") && !Path::new(home).starts_with(layer);
            found.then(|| Path::new(home).to_owned())
        });
        Some((home?, tree))
    });
    // Neither the probe nor the guard is left to remove it.
    for signal in [Signal::STOP, Signal::KILL] {
        let probes = |p: &&machine::Proc| p.command.get(1).is_some_and(|word| word == "probe");
        for probe in tree.iter().filter(probes) {
            let pid = Pid::from_raw(probe.pid.cast_signed()).expect("a process");
            let _ = kill_process(pid, signal);
        }
    }
    killed(child, &dir, &tree);
    wait_for("its end", || (!home.exists()).then_some(()));
}
