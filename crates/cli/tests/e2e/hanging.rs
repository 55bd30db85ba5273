//! File systems whose server takes a request and never answers it: a thread that waits for one cannot be
//! ended, and neither can its process. The run ends all the same, and cleans up when the server answers.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use crate::common::{self, Home, Lm, Said, history, machine, needs_root, trials_stored, wait_for};
use rustix::process::{Pid, Signal, kill_process};

/// Calls of which each is held once.
const CALLS: [&str; 8] = [
    "statfs", "getattr", "readdir", "create", "write", "flush", "fsync", "unlink",
];

/// What is on the server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum On {
    Layer,
    WorkDir,
}

/// When the server stops to answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum When {
    AtOnce,
    AfterTrials,
}

/// A run on a server that is held while the file `holds` names a call. It is released when the command
/// has ended, or after two minutes by [`ends`].
fn held(on: On, when: When, call: &str) -> Option<(std::process::Child, Home)> {
    let now = if when == When::AtOnce { call } else { "" };
    let before = format!(
        "cd $W/..; mkdir below at
        LAYERMARK_FUSE_HOLDS=$PWD/holds \"$L\" fuse-serve $PWD/below $PWD/at fuse > said 2>&1 &
        while ! test -s said; do sleep 0.01; done
        printf '{now}' > holds"
    );
    let after = "echo $code > ended; rm -f holds
        for i in $(seq 600); do ls below | grep -q layermark- || break; sleep 0.1; done
        ls below > left; umount at || umount -l at";
    let work = [
        "file",
        "--op",
        "read",
        "--op",
        "write",
        "--op",
        "first-write",
        "--file-size",
        "64K",
        "--json",
        "--no-control",
        "--silence",
        "3s",
        "--blocks",
        "9",
    ];
    let lm = Lm::new().args(work);
    let at = lm.dir.path().join("at");
    let lm = match on {
        On::Layer => {
            let layer = format!("dir:{}", at.display());
            let dir = lm.work();
            lm.args(["-l", &layer, "-l", "tmpfs", "--dir"]).args([dir])
        }
        On::WorkDir => lm.args(["-l", "tmpfs", "--dir"]).args([at]),
    };
    let (child, dir) = lm.around(&before, after)?.start();
    if when == When::AfterTrials {
        wait_for("trials", || (trials_stored(dir.path()) >= 8).then_some(()));
        fs::write(dir.path().join("holds"), call).expect("holds");
    }
    Some((child, dir))
}

/// The end of the run, while its server does not answer.
#[track_caller]
fn ends(child: std::process::Child, dir: Home, what: &str) -> Said {
    let begun = Instant::now();
    let ended = dir.path().join("ended");
    // Read from the start: a report is longer than a pipe.
    let output = thread::spawn(move || common::output(child));
    while !ended.exists() && begun.elapsed() < Duration::from_mins(2) {
        thread::sleep(Duration::from_millis(20));
    }
    let took = begun.elapsed();
    let alone = ended.exists();
    let _ = fs::remove_file(dir.path().join("holds"));
    let said = Said::from(output.join().expect("its output"), dir);
    eprintln!("{what}: {took:?}, code {:?}", said.code);
    assert!(alone, "{what}: it waits for the server: {}", said.stderr);
    let left = fs::read_to_string(said.dir.path().join("left")).expect("left");
    assert_eq!(left, "", "{what}: {}", said.stderr);
    machine::nothing_left(said.dir.path(), &[]);
    said
}

fn each_call(on: On, when: When, check: impl Fn(&Said, &str) + Sync) {
    if !needs_root() {
        return;
    }
    thread::scope(|scope| {
        let check = &check;
        for call in CALLS {
            scope.spawn(move || {
                let what = format!("{call} held, {on:?}, {when:?}");
                if let Some((child, dir)) = held(on, when, call) {
                    check(&ends(child, dir, &what), &what);
                }
            });
        }
    });
}

#[test]
fn a_layer_whose_server_takes_a_call_and_never_answers_is_left_out() {
    each_call(On::Layer, When::AfterTrials, |said, what| {
        assert!(matches!(said.code, Some(0 | 4)), "{what}: {}", said.stderr);
        let report = said.json();
        assert_eq!(report["layers"][0]["status"], "ready", "{what}");
    });
}

#[test]
fn a_layer_whose_server_never_answers_from_the_start_ends_the_run() {
    each_call(On::Layer, When::AtOnce, |said, what| {
        assert!(
            matches!(said.code, Some(0 | 3 | 4)),
            "{what}: {}",
            said.stderr
        );
    });
}

#[test]
fn a_work_directory_whose_server_takes_a_call_and_never_answers_ends_the_run() {
    each_call(On::WorkDir, When::AfterTrials, |said, what| {
        assert!(matches!(said.code, Some(0 | 3)), "{what}: {}", said.stderr);
        assert!(trials_stored(said.dir.path()) >= 8, "{what}");
    });
}

#[test]
fn a_work_directory_whose_server_never_answers_from_the_start_ends_the_run() {
    each_call(On::WorkDir, When::AtOnce, |said, what| {
        assert!(matches!(said.code, Some(0 | 3)), "{what}: {}", said.stderr);
    });
}

/// `--silence` is far off: only the user ends it.
#[test]
fn ctrl_c_twice_ends_a_run_whose_work_directory_does_not_answer() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let at = lm.dir.path().join("at");
    let before = "cd $W/..; mkdir below at
        LAYERMARK_FUSE_HOLDS=$PWD/holds \"$L\" fuse-serve $PWD/below $PWD/at fuse > said 2>&1 &
        while ! test -s said; do sleep 0.01; done; printf getattr > holds
        exec 3>&2; \"$@\" & echo $! > pid; wait $! || code=$?
        echo ${code:-0} > ended; rm -f holds; sleep 0.2; umount at || umount -l at; exit ${code:-0}";
    let work = [
        "meta",
        "--no-control",
        "--silence",
        "10m",
        "-l",
        "tmpfs",
        "--dir",
    ];
    let Some(lm) = lm.args(work).args([at]).around(before, "") else {
        return;
    };
    let (child, dir) = lm.start();
    let pid = wait_for("its number", || {
        let text = fs::read_to_string(dir.path().join("pid")).ok()?;
        Pid::from_raw(text.trim().parse().ok()?)
    });
    // It waits in the kernel, with nothing in the store.
    thread::sleep(Duration::from_secs(1));
    assert!(history(dir.path()).is_empty());
    for _ in 0..2 {
        kill_process(pid, Signal::INT).expect("signal");
        thread::sleep(Duration::from_millis(300));
    }
    let said = ends_by_user(child, dir);
    assert_eq!(said.code, Some(130), "{}", said.stderr);
}

fn ends_by_user(child: std::process::Child, dir: Home) -> Said {
    wait_for("the end", || {
        dir.path().join("ended").exists().then_some(())
    });
    Said::from(common::output(child), dir)
}
