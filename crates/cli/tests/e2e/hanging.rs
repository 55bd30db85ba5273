//! File systems whose server takes a request and never answers it: a thread that waits for one cannot be
//! ended, and neither can its process. The run ends all the same, and cleans up when the server answers.
//!
//! `LAYERMARK_HANGS` is how many such runs the last test makes (8), or which of them: `6..7`. With it given,
//! each has to end within `--silence` and 10 s of the call.

use std::{
    collections::BTreeSet,
    fs,
    process::Child,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use crate::common::{
    self, Home, Lm, READ, Said, history, machine, needs_root, trials_stored, wait_for,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Calls of which each is held once.
const CALLS: [&str; 10] = [
    "statfs", "getattr", "setattr", "readdir", "create", "read", "write", "flush", "fsync",
    "unlink",
];
/// More of them, for many runs.
const MORE_CALLS: [&str; 7] = [
    "lookup",
    "mkdir",
    "open",
    "release",
    "opendir",
    "releasedir",
    "rmdir",
];
const SILENCE: Duration = Duration::from_secs(3);
/// How long after that a run may last.
const MORE: Duration = Duration::from_secs(10);

/// What is on the server: two layers, or all of them.
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
fn held(on: On, when: When, call: &str) -> Option<(Child, Home)> {
    let now = if when == When::AtOnce { call } else { "" };
    let before = format!(
        "cd $W/..; mkdir -p below/one below/two at
        LAYERMARK_FUSE_HOLDS=$PWD/holds \"$L\" fuse-serve $PWD/below $PWD/at fuse > said 2>&1 &
        while ! test -s said; do sleep 0.01; done
        printf '{now}' > holds"
    );
    // A mkdir that was held locks the directory, so the first `ls` lasts until it is done.
    let after = "echo $code > ended; rm -f holds; ls at > /dev/null
        for i in $(seq 600); do find below -name 'layermark-*' > left; test -s left || break; sleep 0.1; done
        umount at || umount -l at";
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
        "4",
    ];
    let lm = Lm::new().args(work);
    let at = lm.dir.path().join("at");
    let lm = match on {
        On::Layer => {
            let [one, two] = ["one", "two"].map(|n| format!("dir:{}/{n}", at.display()));
            let dir = lm.work();
            lm.args(["-l", &one, "-l", &two, "-l", "tmpfs", "--dir"])
                .args([dir])
        }
        On::WorkDir => lm.args(["-l", "tmpfs", "--dir"]).args([at]),
    };
    let (child, dir) = lm.around(&before, after)?.start();
    if when == When::AfterTrials {
        let trials = || (trials_stored(dir.path()) >= 8).then_some(());
        wait_for("trials", trials);
        fs::write(dir.path().join("holds"), call).expect("holds");
    }
    Some((child, dir))
}

/// The end of the run, while its server does not answer, and how long after the call that was. `None`: the
/// call was never made.
#[track_caller]
fn ends(child: Child, dir: Home, what: &str) -> (Said, Option<Duration>) {
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
    let time = |name| fs::metadata(said.dir.path().join(name)).and_then(|m| m.modified());
    let taken = time("holds.taken").ok();
    let after = taken.map(|taken| {
        let ended = time("ended").expect("its end");
        ended.duration_since(taken).unwrap_or_default()
    });
    eprintln!(
        "{what}: {took:.1?}, {after:.1?} after the call, code {:?}",
        said.code
    );
    assert!(alone, "{what}: it waits for the server: {}", said.stderr);
    let left = fs::read_to_string(said.dir.path().join("left")).expect("left");
    assert_eq!(left, "", "{what}: {}", said.stderr);
    machine::nothing_left(said.dir.path(), &[]);
    (said, after)
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
                    check(&ends(child, dir, &what).0, &what);
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
        // Both layers depend on the same server, so only one of them is waited for. A probe that reads can
        // be ended, so the other one is tried.
        let silent = silent_layers(said);
        let most = if what.starts_with("read held") { 2 } else { 1 };
        assert!(silent.len() <= most, "{what}: {silent:?}: {}", said.stderr);
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
        // The layers depend on the same server, so only one of them is waited for.
        let silent = silent_layers(said);
        assert!(silent.len() <= 1, "{what}: {silent:?}: {}", said.stderr);
    });
}

#[test]
fn a_work_directory_whose_server_never_answers_from_the_start_ends_the_run() {
    each_call(On::WorkDir, When::AtOnce, |said, what| {
        assert!(matches!(said.code, Some(0 | 3)), "{what}: {}", said.stderr);
    });
}

/// Layers of which a probe was waited for until `--silence`; none if the run was left without a report.
fn silent_layers(said: &Said) -> BTreeSet<String> {
    let report: Value = serde_json::from_str(&said.stdout).unwrap_or_default();
    let trials = report["trials"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let silent = trials.filter(|trial| text(&trial["error"]).contains("was silent for"));
    silent.map(|trial| text(&trial["layer"])).collect()
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

fn ends_by_user(child: Child, dir: Home) -> Said {
    wait_for("the end", || {
        dir.path().join("ended").exists().then_some(())
    });
    Said::from(common::output(child), dir)
}

/// Each call in turn, in a layer and below the work directory, from the start and in the middle.
#[test]
fn each_of_many_runs_whose_server_takes_a_call_ends() {
    if !needs_root() {
        return;
    }
    let asked = std::env::var("LAYERMARK_HANGS").ok();
    let numbers = asked.as_deref().map_or(0..8, |asked| {
        let (first, end) = asked.split_once("..").unwrap_or(("0", asked));
        first.parse().expect("a number")..end.parse().expect("a number")
    });
    let count = numbers.len();
    let calls = || MORE_CALLS.into_iter().chain(CALLS);
    let all: Vec<(On, When, &str)> = [On::Layer, On::WorkDir]
        .into_iter()
        .flat_map(|on| [When::AfterTrials, When::AtOnce].map(|when| (on, when)))
        .flat_map(|(on, when)| calls().map(move |call| (on, when, call)))
        .collect();
    let (next, late, made) = (
        AtomicUsize::new(numbers.start),
        Mutex::new(Vec::new()),
        AtomicUsize::new(0),
    );
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Relaxed);
                    if n >= numbers.end {
                        break;
                    }
                    // Not one after the other, so that a few are of every kind.
                    let (on, when, call) = all[n * 7 % all.len()];
                    let what = format!("{n}: {call} held, {on:?}, {when:?}");
                    let Some((child, dir)) = held(on, when, call) else {
                        break;
                    };
                    let (said, after) = ends(child, dir, &what);
                    made.fetch_add(usize::from(after.is_some()), Relaxed);
                    if after.is_some_and(|after| after > SILENCE + MORE) {
                        let text = format!("{what}: {after:?}: {}", said.stderr);
                        late.lock().unwrap().push(text);
                    }
                }
            });
        }
    });
    let (late, made) = (late.into_inner().unwrap(), made.into_inner());
    eprintln!(
        "{made} of {count} calls were taken; {} of the runs ended later than {:?} after it: {late:#?}",
        late.len(),
        SILENCE + MORE
    );
    // By chance a machine that is busy with other tests makes it late.
    assert!(asked.is_none() || late.is_empty(), "{late:#?}");
}

/// Other users may mount what they like beside the work directory, under a name that a dead run could have had.
#[test]
fn a_mount_beside_the_work_directory_is_asked_nothing() {
    if !needs_root() {
        return;
    }
    let each = |call: &str| {
        let before = format!(
            "name=layermark-0123456789abcdef
            mkdir -p below $W/$name data/layermark/directories
            chmod 700 data data/layermark data/layermark/directories
            : > data/layermark/directories/$name
            printf '%s\\n' 'A work directory of layermark. It is removed when its run ends.' > below/.layermark
            chmod 600 below/.layermark
            LAYERMARK_FUSE_HOLDS=$PWD/holds \"$L\" fuse-serve $PWD/below $W/$name fuse > said 2>&1 &
            while ! test -s said; do sleep 0.01; done
            printf {call} > holds"
        );
        let after =
            "test ! -e holds.taken || cp holds.taken taken; rm -f holds; umount -l $W/$name";
        let lm = Lm::new().mock().args(["--silence", "10s"]);
        let Some(lm) = lm.around(&before, after) else {
            return;
        };
        let said = lm.run();
        assert_eq!(said.code, Some(4), "{call}: {}", said.stderr);
        assert!(
            !said.dir.path().join("taken").exists(),
            "{call}: {}",
            said.stderr
        );
        let marker = said.dir.path().join("below/.layermark");
        assert!(marker.exists(), "{call}: {}", said.stderr);
    };
    thread::scope(|scope| {
        for call in [
            "lookup", "getattr", "opendir", "readdir", "open", "read", "unlink",
        ] {
            scope.spawn(move || each(call));
        }
    });
}

/// The watcher waited 10 s for each directory that it had ever heard of there.
#[test]
fn the_watcher_gives_a_server_up_that_has_ended() {
    if !needs_root() {
        return;
    }
    let before = "cd $W/..; mkdir -p below/one below/two at
        \"$L\" fuse-serve $PWD/below $PWD/at fuse > said 2>&1 & echo $! > server
        while ! test -s said; do sleep 0.01; done";
    let lm = Lm::new();
    let [one, two] = ["one", "two"].map(|n| format!("dir:{}/at/{n}", lm.dir.path().display()));
    let lm = lm
        .work_with(READ, &[&one, &two])
        .args(["--sessions", "8", "--blocks", "64"]);
    let Some(lm) = lm.around(before, "umount -l at") else {
        return;
    };
    let (child, dir) = lm.start();
    let below = |pid: u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten();
        let paths = files.filter_map(|file| fs::read_link(file.path()).ok());
        paths
            .filter(|path| path.to_string_lossy().contains("/layermark-"))
            .count()
    };
    let watcher = wait_for("a watcher that knows of many directories", || {
        let all = machine::tree(child.id());
        let watcher = all
            .into_iter()
            .find(|p| p.command.get(1).is_some_and(|word| word == "janitor"))?;
        (below(watcher.pid) >= 16).then_some(watcher)
    });
    let server = fs::read_to_string(dir.path().join("server")).expect("its number");
    let tree = machine::tree(child.id());
    let is_run =
        |p: &&machine::Proc| p.pid != watcher.pid && p.pid != child.id() && p.command[0] != "sh";
    let ended = tree.iter().filter(is_run).map(|p| p.pid.to_string());
    for pid in [server.trim().to_owned()].into_iter().chain(ended) {
        let pid = pid.parse().ok().and_then(Pid::from_raw).expect("a number");
        // It may have ended with another one.
        let _ = kill_process(pid, Signal::KILL);
    }
    let begun = Instant::now();
    machine::wait_for_end(&[(watcher.pid, watcher.start)]);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(40), "{took:?}");
    drop(common::output(child));
}

/// The run waits for it, and says that something is left only if that is so.
#[test]
fn a_stopped_watcher_keeps_no_run_and_leaves_nothing() {
    let lm = Lm::new().measure(&["mock:take=20ms", "mock:ns=1500,take=20ms"]);
    let (child, dir) = lm.start();
    let watcher = wait_for("the watcher", || {
        let all = machine::tree(child.id()).into_iter();
        all.filter_map(|p| Some((p.pid, p.command.get(1)? == "janitor")))
            .find(|(_, is_watcher)| *is_watcher)
    });
    let watcher = Pid::from_raw(watcher.0.cast_signed()).expect("a number");
    kill_process(watcher, Signal::STOP).expect("signal");
    let said = Said::from(common::output(child), dir)
        .code(4)
        .left_nothing();
    assert!(!said.stderr.contains("what is left"), "{}", said.stderr);
    kill_process(watcher, Signal::KILL).expect("signal");
}
