//! A fleet's run in the store, and its bad days: the coordinator is killed, a disk is full, the database is gone, another
//! fleet works beside it.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use layermark_testkit::postgres::Server;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    common::{self, Lm, Said, is_root, skipped, trials_stored, wait_for},
    fleet::{HERE, PLAN, nothing_left, storm},
};

/// Rounds of a block: two points, each in three own directories in turn, then with 1, 2 and 3 hosts.
const ROUNDS: usize = 12;

fn run_of(said: &Said) -> String {
    let json = said.json();
    json["run"]["id"].as_str().expect("an id").to_owned()
}

/// Rounds of the share at a point: block and hosts.
fn shared(json: &Value, point: usize) -> Vec<(u64, usize)> {
    let rounds = json["run"]["rounds"].as_array().expect("rounds");
    let of = rounds
        .iter()
        .filter(|r| r["point"] == point && r["place"] == "share");
    let mut all: Vec<(u64, usize)> = of
        .map(|r| {
            let turns = r["turns"].as_array().expect("turns");
            (r["block"].as_u64().expect("a block"), turns.len())
        })
        .collect();
    all.sort_unstable();
    all
}

/// The name of the host that was alone on the share in the block and at the point of this trial.
fn alone(fleet: &Value, trial: &Value) -> Value {
    let rounds = fleet["run"]["rounds"].as_array().expect("rounds");
    let label = |r: &Value| {
        let point = r["point"].as_u64().expect("a point") as usize;
        fleet["run"]["points"][point]["label"].clone()
    };
    let same = |r: &&Value| r["block"] == trial["block"] && label(r) == trial["point"];
    let shared = rounds.iter().filter(|r| r["place"] == "share").filter(same);
    let turns = shared.filter_map(|r| r["turns"].as_array());
    let turn = turns.filter(|t| t.len() == 1).flatten().next();
    let host = turn.expect("a host alone")["host"]
        .as_u64()
        .expect("a host");
    fleet["hosts"][host as usize]["name"].clone()
}

#[test]
fn a_run_is_in_the_store_as_other_runs_are() {
    let said = storm(Lm::new(), HERE, "3")
        .args(["--hosts", "a,b,c"])
        .run()
        .code(0);
    let (id, fleet) = (run_of(&said), said.json());
    assert!(
        said.stderr.contains(&format!("layermark report {id}")),
        "{}",
        said.stderr
    );
    let report = said.then().args(["report", &id, "--json"]).run().code(0);
    let json = report.json();
    assert_eq!(json["status"], "done", "{json:#}");
    assert_eq!(json["machine"]["label"], "a, b, c");
    // The same points as the run has printed, made from the store.
    assert_eq!(json["fleet"]["points"], fleet["points"]);
    assert_eq!(json["fleet"]["answer"], fleet["answer"]);
    let layers = json["layers"].as_array().expect("layers");
    let names: Vec<&str> = layers.iter().filter_map(|l| l["name"].as_str()).collect();
    assert_eq!(
        names,
        [
            "1 host on the share",
            "own disks",
            "2 hosts on the share",
            "3 hosts on the share"
        ]
    );
    let results = json["results"].as_array().expect("results");
    assert_eq!(results.len(), 8, "{json:#}");
    // A layer is compared by the host that is alone in the block: three blocks of three.
    assert!(results.iter().all(|r| r["trials"] == 3), "{results:#?}");
    let trials = json["trials"].as_array().expect("trials");
    for row in results {
        let seqs = row["seqs"].as_array().expect("trials of a row");
        let of_row = trials.iter().filter(|t| seqs.contains(&t["seq"]));
        let other = of_row.clone().find(|t| t["host"] != alone(&fleet, t));
        assert_eq!((of_row.count(), other), (3, None), "{row:#}");
    }
    // Trials of all hosts, each with its host.
    assert_eq!(trials.len(), 3 * 2 * (3 + 1 + 2 + 3));
    let of = |host: &str| trials.iter().filter(|t| t["host"] == host).count();
    assert_eq!(
        [of("a"), of("b"), of("c")].iter().sum::<usize>(),
        trials.len()
    );
    assert!(of("a") > 0 && of("b") > 0 && of("c") > 0);
    let said = in_files_and_lists(report, (&id, &fleet));
    let said = not_for_one_machine(said, &id);
    // The same once more, shorter, then both are compared.
    let dir = said.dir.path().to_owned();
    let second = storm(Lm::with(&dir), HERE, "1")
        .args(["--hosts", "a,b,c"])
        .run()
        .code(0);
    let other = run_of(&second);
    let compared = second.then().args(["compare", &id, &other, "--json"]).run();
    let json = compared.json();
    assert_eq!(json["compared"]["run"], *id, "{json:#}");
    assert!(json["fleet"].is_null());
    let rows = json["results"].as_array().map(Vec::len);
    assert_eq!(rows, Some(8));
}

/// The formats have the curve, and the list of runs has hosts and headline.
fn in_files_and_lists(report: Said, (id, fleet): (&str, &Value)) -> Said {
    let json = report.json();
    let files = [
        "-o",
        "r.html",
        "-o",
        "r.full.md",
        "-o",
        "r.csv",
        "-o",
        "r.xlsx",
        "-o",
        "r.lm",
    ];
    let report = report.then().args(["report", id]).args(files).run().code(0);
    let knee = fleet["points"][0]["text"].as_str().expect("text");
    let page = fs::read_to_string(report.dir.path().join("r.full.md")).expect("a page");
    let plain = |text: &str| text.replace(['\\', '`', '*'], "");
    assert!(plain(&page).contains(&plain(knee)), "{knee}\n{page}");
    let history = report.then().args(["history", "--json"]).run().code(0);
    let run = &history.json()["runs"][0];
    assert_eq!(run["label"], "a, b, c");
    assert_eq!(
        run["headline"],
        json["headline"].as_str().expect("text").replace('`', "")
    );
    let found = history
        .then()
        .args(["history", "--layer", "dir", "--json"])
        .run()
        .code(0);
    assert_eq!(found.json()["runs"].as_array().map(Vec::len), Some(1));
    let found = found.then().args(["history", "--host", "d", "--json"]);
    let found = found.run().code(0);
    assert_eq!(found.json()["runs"].as_array().map(Vec::len), Some(0));
    let found = found.then().args(["history", "--host", "b", "--json"]);
    let found = found.run().code(0);
    assert_eq!(found.json()["runs"][0]["hosts"], json!(["a", "b", "c"]));
    found
}

/// One machine cannot go on with it, and it is finished.
fn not_for_one_machine(found: Said, id: &str) -> Said {
    let said = found.then().args(["run", "--resume", id]).run();
    let said = said.fails(
        2,
        &[
            "a run of a fleet",
            "layermark fleet run --resume",
            "--hosts a,b,c",
        ],
    );
    let said = said.then().args(["run", "--replay", id]).run();
    let said = said.fails(2, &["a run of a fleet"]);
    // In a file that somebody has sent, its launcher is a command of theirs.
    let own = "layermark fleet run PLAN --share DIR --launcher LAUNCHER --hosts HOSTS";
    let said = said.then().args(["run", "--replay", "r.lm"]).run();
    let said = said.fails(2, &["a run of a fleet", own]);
    assert!(!said.stderr.contains(HERE), "{}", said.stderr);
    let again = [
        "fleet",
        "run",
        "--resume",
        id,
        "--launcher",
        HERE,
        "--hosts",
        "a,b,c",
    ];
    let said = said.then().args(again).run();
    let said = said.fails(2, &["is finished", "--blocks 6"]);
    let fewer = said.then().args(again).args(["--blocks", "2"]).run();
    fewer.fails(2, &["is finished", "--blocks 5"])
}

#[test]
fn a_killed_coordinator_goes_on_where_it_was() {
    let lm = storm(Lm::new(), HERE, "4").args(["--hosts", "a,b,c"]);
    let work = lm.work();
    let (mut child, home) = lm.start();
    // In the middle of the second block.
    wait_for("trials of two blocks", || {
        (trials_stored(home.path()) as usize > ROUNDS * 2).then_some(())
    });
    kill_process(Pid::from_child(&child), Signal::KILL).expect("kill");
    let _ = child.wait();
    nothing_left(&work);
    let kept = trials_stored(home.path());
    let lm = || Lm::with(home.path());
    let history = lm().args(["history", "--json"]).run().code(0).json();
    assert_eq!(history["runs"][0]["status"], "interrupted", "{history:#}");
    let id = history["runs"][0]["run"]
        .as_str()
        .expect("an id")
        .to_owned();
    // What there is, is a report.
    let report = lm().args(["report", &id, "--json"]).run().code(0).json();
    assert_eq!(
        report["trials"].as_array().map(Vec::len),
        Some(kept as usize)
    );
    let resume = |hosts: &str| {
        let args = ["fleet", "run", "--resume", &id, "--launcher", HERE];
        lm().args(args).args(["--hosts", hosts, "--json"]).run()
    };
    // Without one of its hosts, stopped at once by a limit of blocks: that is a loss, and no error.
    let said = resume("a,b,c").code(0);
    let json = said.json();
    assert_eq!(json["run"]["id"], *id);
    assert_eq!(json["run"]["stopped"], Value::Null);
    let all: Vec<(u64, usize)> = (0..4).flat_map(|b| [(b, 1), (b, 2), (b, 3)]).collect();
    assert_eq!(shared(&json, 0), all);
    assert_eq!(shared(&json, 1), all);
    assert!(trials_stored(home.path()) > kept);
    let report = lm().args(["report", &id, "--json"]).run().code(0).json();
    assert_eq!(report["status"], "done");
    assert_eq!(report["fleet"]["points"], json["points"]);
    let sessions = report["trials"].as_array().expect("trials").iter();
    let sessions: std::collections::BTreeSet<u64> =
        sessions.filter_map(|t| t["session"].as_u64()).collect();
    assert_eq!(sessions.into_iter().collect::<Vec<_>>(), [0, 1]);
    nothing_left(&work);
    // More of it, on fewer hosts.
    let more = ["fleet", "run", "--resume", &id, "--launcher", HERE];
    let more = lm()
        .args(more)
        .args(["--hosts", "a,b", "--blocks", "5", "--json"]);
    let json = more.run().code(0).json();
    assert_eq!(json["hosts"][2]["lost"], true, "{:#}", json["hosts"]);
    assert_eq!(shared(&json, 0)[12..], [(4, 1), (4, 2)]);
}

/// Three hosts whose own directories are `$W/a`, `$W/b` and `$W/c`.
fn in_own_dirs(lm: Lm, blocks: &str) -> Lm {
    let (work, path) = (lm.work(), |p: &Path| p.to_str().expect("UTF-8").to_owned());
    lm.args(["fleet", "run", "plan.toml", "--launcher", HERE])
        .args(["--hosts", "a,b,c", "--blocks", blocks, "--json"])
        .args(["--dir", &path(&work.join("{host}"))])
        .args(["--share", &path(&work.join("share"))])
}

/// The second host is as it says, and the others have all of their rounds.
fn only_the_second_failed(json: &Value, says: &[&str]) {
    let told = format!("{}{:#}", json["hosts"][1]["text"], json["run"]["rounds"]);
    assert!(
        says.iter().all(|says| told.contains(says)),
        "{says:?}: {told}"
    );
    let rounds = json["run"]["rounds"].as_array().expect("rounds");
    let turns = rounds
        .iter()
        .flat_map(|r| r["turns"].as_array().expect("turns"));
    let bad = turns.filter(|t| !t["error"].is_null() && t["host"] != 1);
    assert_eq!(bad.count(), 0, "{json:#}");
}

/// Checked before anything is written there.
#[test]
fn a_full_disk_of_one_host_is_a_result() {
    let fill = "head -c 15M /dev/zero >$W/b/filler;";
    let before =
        format!("mkdir -p $W/a $W/b $W/c $W/share; mount -t tmpfs -o size=16m none $W/b; {fill}");
    let lm = Lm::new().file("plan.toml", PLAN.replace("64K", "4M"));
    let lm = in_own_dirs(lm, "2").around(&before, "rm -f $W/b/filler");
    let Some(lm) = lm else { return };
    let json = lm.run().code(0).json();
    only_the_second_failed(&json, &["has too little space"]);
    let two = shared(&json, 0)
        .iter()
        .filter(|(_, hosts)| *hosts >= 2)
        .count();
    assert!(two >= 2, "{json:#}");
}

/// The share has room by its size, and none for names: nothing is known of it, and the hosts are not alike.
#[test]
fn a_share_on_which_no_host_can_make_files_is_named() {
    let before = "mkdir -p $W/share; mount -t tmpfs -o size=64m,nr_inodes=40 none $W/share";
    let lm = Lm::new();
    let (dir, share) = (lm.work(), lm.work().join("share"));
    let lm = lm.args(["fleet", "check", "--launcher", HERE, "--hosts", "a,b,c"]);
    let lm = lm.args(["--dir", dir.to_str().expect("UTF-8")]);
    let lm = lm.args(["--share", share.to_str().expect("UTF-8"), "--json"]);
    let lm = lm.args(["--point", "create", "--budget", "1s"]);
    let Some(lm) = lm.around(before, "") else {
        return;
    };
    let said = lm.run();
    let json = said.json();
    let words = json["hosts"].as_array().expect("hosts").iter();
    let words: Vec<&str> = words.filter_map(|h| h["word"].as_str()).collect();
    let known = |word: &&str| ["odd", "cannot-tell"].contains(word);
    assert!(words.len() == 3 && words.iter().all(known), "{json:#}");
    let nothing = json["nothing"][0].as_str().expect("text");
    let says = [
        "nothing could be measured on any host at create",
        "No space left",
    ];
    assert!(says.iter().all(|says| nothing.contains(says)), "{nothing}");
    let answer = json["answer"].as_str().expect("text");
    assert!(answer.contains("on any host at 1 result"), "{answer}");
}

/// Shell text: after some rounds, takes all the space there is on the disk of `b`, and what is freed there.
const FILL_LATER: &str = "(exec </dev/null >/dev/null 2>&1; until [ -e $W/stop ] || $L history --json | grep -q '\"trials\": *[1-9][0-9]'; do sleep 0.1; done; \
    until cat /dev/zero >>$W/b/filler; [ -e $W/stop ]; do sleep 0.05; done) & filler=$!;";

#[test]
fn a_disk_of_one_host_that_becomes_full_is_a_result() {
    let before = format!(
        "mkdir -p $W/a $W/b $W/c $W/share; mount -t tmpfs -o size=64m none $W/b; {FILL_LATER}"
    );
    let after = ": >$W/stop; wait $filler; rm -f $W/b/filler $W/stop; ls -A $W/b >left";
    let lm = Lm::new().file("plan.toml", PLAN.replace("64K", "4M"));
    let Some(lm) = in_own_dirs(lm, "6").around(&before, after) else {
        return;
    };
    let said = lm.run().code(0);
    let json = said.json();
    assert_eq!(json["hosts"][1]["lost"], true, "{:#}", json["hosts"]);
    let text = json["hosts"][1]["text"].as_str().expect("text");
    let dir = said.dir.path().join("work/b");
    for says in [
        "its own disk has no room: ",
        "No space left on device",
        dir.to_str().expect("UTF-8"),
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
    only_the_second_failed(&json, &[]);
    // It had measured before, and the others have all of their blocks.
    let rounds = shared(&json, 0);
    assert!(rounds.contains(&(0, 3)), "{rounds:?}");
    let has = |round| rounds.contains(&round);
    assert!((0..6).all(|b| has((b, 1)) && has((b, 2))), "{rounds:?}");
    let left = fs::read_to_string(said.dir.path().join("left")).expect("what is left");
    assert_eq!(left, "");
    nothing_left(&said.dir.path().join("work/share"));
}

#[test]
fn one_interrupt_ends_a_fleet_whose_hosts_do_not_start() {
    let lm = storm(Lm::new(), "sh -c 'exec sleep 1d' sh {host}", "2");
    let (child, home) = lm.args(["--hosts", "a,b", "--patience", "1h"]).start();
    wait_for("both launchers", || {
        let launchers = layermark_sys::process::children(child.id());
        (launchers.len() == 2).then_some(())
    });
    kill_process(Pid::from_child(&child), Signal::INT).expect("a signal");
    let said = Said::from(common::output(child), home).code(130);
    let says = "stopped while its hosts were started";
    assert!(said.stderr.contains(says), "{}", said.stderr);
    assert!(!said.stderr.contains("warning: "), "{}", said.stderr);
}

/// Stops one thread of a process, and holds it until its own input ends.
const STOP_A_THREAD: &str = "
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
for request in (0x4206, 0x4207):  # PTRACE_SEIZE, PTRACE_INTERRUPT
    if libc.ptrace(request, int(sys.argv[1]), 0, 0):
        sys.exit('ptrace: %d' % ctypes.get_errno())
print('stopped', flush=True)
sys.stdin.read()
";

/// A process below this one with a thread of this name.
fn with_thread(pid: u32, name: &str) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let mut threads = threads.flatten().flatten();
    let is = |thread: fs::DirEntry| {
        fs::read_to_string(thread.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    if threads.any(is) {
        return Some(pid);
    }
    let below = layermark_sys::process::children(pid);
    below.into_iter().find_map(|child| with_thread(child, name))
}

/// Only its main thread hangs: the one that says that it is at work does not.
#[test]
fn a_task_whose_main_thread_hangs_is_lost_after_the_silence() {
    if !is_root() {
        return skipped("only root may stop a thread of another process");
    }
    let lm = storm(Lm::new(), HERE, "4");
    let lm = lm.args(["--hosts", "a,b,c", "--silence", "10s"]);
    let (child, home) = lm.start();
    wait_for("some trials", || {
        (trials_stored(home.path()) as usize > ROUNDS).then_some(())
    });
    let task = with_thread(child.id(), "alive").expect("a task");
    let number = task.to_string();
    let mut stopper = Command::new("/usr/bin/python3")
        .args(["-c", STOP_A_THREAD, &number])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut line = String::new();
    let said = stopper.stdout.take().expect("its output");
    let read = BufReader::new(said).read_line(&mut line);
    assert_eq!((read.is_ok(), line.trim()), (true, "stopped"));
    let said = Said::from(common::output(child), home);
    drop(stopper.stdin.take());
    let _ = stopper.wait();
    let json = said.code(0).json();
    let hosts = json["hosts"].as_array().expect("hosts");
    let lost: Vec<&Value> = hosts.iter().filter(|h| h["lost"] == true).collect();
    assert_eq!(lost.len(), 1, "{hosts:#?}");
    let text = lost[0]["text"].as_str().expect("text");
    assert!(text.contains("it did not answer for 10s"), "{text}");
    // The others have all of their rounds.
    let rounds = shared(&json, 1);
    let has = |round| rounds.contains(&round);
    let all = (0..4).all(|block| has((block, 1)) && has((block, 2)));
    assert!(all, "{rounds:?}");
}

/// Once a probe is started again; a host whose probe dies twice is lost.
#[test]
fn a_host_whose_probes_die_again_and_again_is_lost() {
    let lm = storm(Lm::new(), HERE, "8").args(["--hosts", "a,b,c"]);
    let (child, home) = lm.start();
    let kill_probes = |after: usize| {
        wait_for("more trials", || {
            (trials_stored(home.path()) as usize > after).then_some(())
        });
        let task = with_thread(child.id(), "alive").expect("a task");
        let probes = layermark_sys::process::children(task);
        assert!(!probes.is_empty());
        for probe in probes {
            let pid = Pid::from_raw(probe.cast_signed()).expect("a process");
            kill_process(pid, Signal::KILL).expect("kill");
        }
    };
    kill_probes(ROUNDS);
    kill_probes(trials_stored(home.path()) as usize + 3 * ROUNDS);
    let json = Said::from(common::output(child), home).code(0).json();
    let hosts = json["hosts"].as_array().expect("hosts");
    let lost: Vec<usize> = (0..3).filter(|at| hosts[*at]["lost"] == true).collect();
    assert_eq!(lost.len(), 1, "{hosts:#?}");
    let text = hosts[lost[0]]["text"].as_str().expect("text");
    assert!(text.contains("; hint: the kernel may say why"), "{text}");
    let rounds = json["run"]["rounds"].as_array().expect("rounds");
    let turns = rounds
        .iter()
        .flat_map(|r| r["turns"].as_array().expect("turns"));
    let (own, others): (Vec<&Value>, Vec<&Value>) = turns.partition(|t| t["host"] == lost[0]);
    assert!(others.iter().all(|t| t["error"].is_null()), "{others:#?}");
    let mut own = own.iter().map(|t| t["error"].as_str());
    let again = own.find_map(|error| error.filter(|e| e.contains("its probe was started again")));
    assert!(again.is_some(), "{json:#}");
    assert!(own.any(|error| error.is_none()), "{json:#}");
}

#[test]
fn a_database_that_is_gone_for_a_while_loses_nothing() {
    let Some(server) = Server::start() else {
        return skipped("no PostgreSQL; hint: apt-get install postgresql");
    };
    let url = server.database();
    let lm = storm(Lm::new(), HERE, "4").args(["--hosts", "a,b,c", "--store", &url]);
    let (child, home) = lm.start();
    let count = || {
        server
            .sql(&url, "SELECT count(*) FROM trials")
            .trim()
            .parse::<usize>()
    };
    wait_for("some trials", || {
        let tables = server.sql(
            &url,
            "SELECT count(*) FROM pg_tables WHERE tablename = 'trials'",
        );
        (tables.trim() == "1" && count().is_ok_and(|n| n > ROUNDS)).then_some(())
    });
    server.stop();
    std::thread::sleep(std::time::Duration::from_secs(3));
    server.begin("");
    let said = Said::from(common::output(child), home).code(0);
    let json = said.json();
    let rounds = json["run"]["rounds"].as_array().expect("rounds");
    let turns = rounds
        .iter()
        .map(|r| r["turns"].as_array().map_or(0, Vec::len));
    assert_eq!(count(), Ok(turns.sum::<usize>()));
    assert_eq!(shared(&json, 1).len(), 4 * 3, "{json:#}");
    let id = run_of(&said);
    // A store of others names no launcher and no directories of ours.
    let said = said
        .then()
        .args(["run", "--resume", &id, "--store", &url])
        .run();
    let said = said.fails(
        2,
        &["a run of a fleet", "--launcher LAUNCHER --hosts HOSTS"],
    );
    server.sql(&url, "UPDATE runs SET status = 'stopped'");
    let again = [
        "fleet",
        "run",
        "--resume",
        &id,
        "--launcher",
        HERE,
        "--hosts",
        "a,b,c",
    ];
    let said = said
        .then()
        .args(again)
        .args(["--store", &url, "--blocks", "5"])
        .run();
    let said = said.fails(2, &["has the directories of its store", "--share"]);
    // As a version in which a point has another name.
    server.sql(
        &url,
        "UPDATE runs SET points = replace(points, '\"names\"', '\"other\"')",
    );
    let work = said.dir.path().join("work");
    let (work, share) = (work.display(), work.join("share"));
    let dirs = format!("--dir {work} --share {}", share.display());
    let lm = said
        .then()
        .args(again)
        .args(["--store", &url, "--exe", "/opt/l m"]);
    let said = lm.args(dirs.split(' ')).run();
    let hint = format!(
        "layermark fleet run PLAN --launcher '{HERE}' --hosts a,b,c --exe '/opt/l m' {dirs}"
    );
    said.fails(2, &["has other work", &hint]);
}

/// The store waits for its server, and so does the end of the check: for a minute if the user says nothing else.
#[test]
fn hosts_of_a_check_have_their_words_when_the_database_is_gone() {
    let Some(server) = Server::start() else {
        return skipped("no PostgreSQL; hint: apt-get install postgresql");
    };
    let url = server.database();
    let lm = Lm::new();
    let dir = lm.work().to_str().expect("UTF-8").to_owned();
    let lm = lm.args(["fleet", "check", "--launcher", HERE, "--hosts", "a,b,c"]);
    let lm = lm.args(["--dir", &dir, "--store", &url, "--json"]);
    let lm = lm.env("LAYERMARK_STORE_PATIENCE", "3s");
    let (child, home) = lm.args(["--point", "open and stat"]).start();
    wait_for("some trials", || {
        let tables = "SELECT count(*) FROM pg_tables WHERE tablename = 'trials'";
        let is_there = server.sql(&url, tables).trim() == "1";
        let count = || server.sql(&url, "SELECT count(*) FROM trials");
        (is_there && count().trim() != "0").then_some(())
    });
    server.stop();
    let said = Said::from(common::output(child), home).code(1);
    let json = said.json();
    let words = json["hosts"].as_array().expect("hosts").iter();
    let words: Vec<&str> = words.filter_map(|h| h["word"].as_str()).collect();
    assert!(words.len() == 3 && !words.contains(&"lost"), "{json:#}");
    assert!(json["compared"]["runs"].is_array(), "{json:#}");
    for says in ["trials are kept in memory", "trials are not stored"] {
        assert!(said.stderr.contains(says), "{}", said.stderr);
    }
}

#[test]
fn two_fleets_at_once_disturb_only_each_others_times() {
    let dir = common::disk_dir();
    fs::create_dir(dir.path().join("work")).expect("a directory");
    let both = ["a,b", "c,d"].map(|hosts| {
        storm(Lm::with(dir.path()), HERE, "2")
            .args(["--hosts", hosts])
            .start()
    });
    let ids = both.map(|(child, home)| {
        let said = Said::from(common::output(child), home).code(0);
        let json = said.json();
        assert_eq!(shared(&json, 0).len(), 2 * 2, "{json:#}");
        let hosts = json["hosts"].as_array().expect("hosts");
        assert!(hosts.iter().all(|h| h["lost"] == false), "{json:#}");
        run_of(&said)
    });
    assert_ne!(ids[0], ids[1]);
    let history = Lm::with(dir.path())
        .args(["history", "--json"])
        .run()
        .code(0);
    let all = history.json();
    let runs = all["runs"].as_array().expect("runs");
    assert!(
        runs.len() == 2 && runs.iter().all(|r| r["status"] == "done"),
        "{all:#}"
    );
    nothing_left(&dir.path().join("work"));
}
