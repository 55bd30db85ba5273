//! `layermark launch`: ready conditions, stopping, series, packages, hyperfine's habits.

use std::{fs, net::Ipv4Addr, os::fd::OwnedFd, process::Command};

use crate::common::{self, Lm, MOCK, is_root, result, skipped};
use serde_json::Value;

/// Launches with flags of `launch`; native twice.
fn launch(args: &[&str]) -> Lm {
    let lm = Lm::new();
    let work = lm.work();
    lm.args(["launch", "--runs", "2", "--json", "--dir"])
        .args([work])
        .args(args)
}

fn has(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    let found = found.is_ok_and(|o| o.status.success());
    if !found {
        skipped(&format!("{program} is not installed"));
    }
    found
}

#[track_caller]
fn series(report: &Value) -> &Value {
    let all = report["series"].as_array().expect("series");
    assert_eq!(all.len(), 1, "{report:#}");
    &all[0]
}

#[track_caller]
fn took(args: &[&str], least_ms: f64) -> Value {
    let said = launch(args).run().left_nothing().code(0);
    let report = said.json();
    let one = series(&report);
    for run in one["runs"].as_array().expect("runs") {
        let ms = run["elapsed_ms"].as_f64().expect("a time");
        assert!(ms >= least_ms, "{ms} ms: {args:?}");
    }
    one.clone()
}

#[test]
fn every_condition_is_seen_when_it_comes_true() {
    let one = took(&["--", "sleep", "0.1"], 100.0);
    assert_eq!(
        (&one["program"], &one["ready"]),
        (&"sleep".into(), &"exit".into())
    );
    assert_eq!(one["runs"][0]["stopped"], "itself");
    let say = "sleep 0.1; echo not yet; echo now ready >&1; sleep 60";
    let one = took(
        &["--ready", "stdout=^now|ready$", "--", "sh", "-c", say],
        100.0,
    );
    assert_eq!(one["runs"][0]["stopped"], "term");
    let say = "sleep 0.1; echo ready >&2; sleep 60";
    took(&["--ready", "stderr=ready", "--", "sh", "-c", say], 100.0);
    let touch = "sleep 0.1; mkdir -p a/b; touch a/b/c; sleep 60";
    let clean = [
        "--prepare",
        "rm -rf a",
        "--ready",
        "file=a/b/c",
        "--",
        "sh",
        "-c",
        touch,
    ];
    took(&clean, 100.0);
}

/// A port that no other program is given while the socket is open, and that a server with `SO_REUSEADDR` may listen on:
/// it is bound and does not listen.
fn port() -> (OwnedFd, u16) {
    use rustix::net::{
        AddressFamily, SocketAddrAny, SocketAddrV4, SocketType, bind, getsockname, socket,
        sockopt::set_socket_reuseaddr,
    };
    let kept = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    set_socket_reuseaddr(&kept, true).expect("SO_REUSEADDR");
    bind(&kept, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let at: SocketAddrAny = getsockname(&kept).expect("its address");
    let at = SocketAddrV4::try_from(at).expect("its address");
    (kept, at.port())
}

#[test]
fn servers_are_seen_by_port_http_and_notify() {
    if !has("python3") {
        return;
    }
    let (_kept, port) = port();
    let listen = format!(
        "import socket,time; time.sleep(.1); s=socket.create_server(('127.0.0.1',{port})); time.sleep(60)"
    );
    let ready = format!("port={port}");
    took(
        &["--ready", &ready, "--", "/usr/bin/python3", "-c", &listen],
        100.0,
    );
    let number = port.to_string();
    let serve = [
        "/usr/bin/python3",
        "-m",
        "http.server",
        &number,
        "--bind",
        "127.0.0.1",
    ];
    let url = format!("http=http://127.0.0.1:{port}/");
    let ready = ["--ready", &url, "--"];
    took(&[&ready[..], &serve[..]].concat(), 5.0);
    let notify = "import socket,os,time; time.sleep(.1); s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM); \
        s.sendto(b'X=1\\nREADY=1', b'\\0'+os.environ['NOTIFY_SOCKET'][1:].encode()); time.sleep(60)";
    took(
        &["--ready", "notify", "--", "/usr/bin/python3", "-c", notify],
        100.0,
    );
}

#[test]
fn windows_are_seen_with_their_titles() {
    // In a user namespace xterm may not give itself its terminal, and ends.
    let (program, title) = if is_root() {
        ("xterm", "Login here")
    } else {
        ("galculator", "galculator")
    };
    if !has("Xvfb") || !has(program) {
        return;
    }
    let command = ["--", program, "-T", title];
    let command = if is_root() {
        &command[..]
    } else {
        &command[..2]
    };
    let named = format!("window=^{title}");
    for ready in ["window", &named, "content", "settled=100"] {
        let one = took(&[&["--ready", ready], command].concat(), 1.0);
        assert_eq!(one["runs"][0]["window"], title, "{ready}");
    }
}

#[test]
fn what_never_gets_ready_says_why_and_leaves_nothing() {
    let (_kept, port) = port();
    let ready = format!("port={port}");
    let early = format!("ended (exit code 0) before port={port}");
    let cases: [(&[&str], &str); 6] = [
        (
            &["--", "sh", "-c", "echo broken >&2; exit 3"],
            "exit code 3; it said: broken",
        ),
        (&["--ready", &ready, "--", "true"], &early),
        (
            &[
                "--ready",
                "stdout=x",
                "--timeout",
                "200ms",
                "--",
                "sleep",
                "60",
            ],
            "not ready (stdout=x) after 200ms",
        ),
        (
            // Which prints without end.
            &["--ready", "stdout=x", "--timeout", "200ms", "--", "yes"],
            "not ready (stdout=x) after 200ms",
        ),
        (&["--", "./no-such-program"], "was not found"),
        (
            &["--prepare", "false", "--", "true"],
            "`prepare` ended with exit code 1",
        ),
    ];
    for (args, words) in cases {
        let said = launch(args).run().code(1).left_nothing();
        assert!(
            said.stderr.contains("every trial failed"),
            "{}",
            said.stderr
        );
        let report = said.json();
        let error = report["results"][0]["error"].as_str().unwrap_or_default();
        assert!(error.contains(words), "{args:?}: {error}");
        assert!(report.get("series").is_none(), "{report:#}");
        let again = said.then().args(["report"]).run();
        let again = again.fails(1, &["every trial failed", words]);
        let history = again
            .then()
            .args(["history", "--json"])
            .run()
            .code(0)
            .json();
        assert_eq!(history["runs"][0]["status"], "failed", "{args:?}");
    }
    // It is looked for before anything is measured.
    let said = launch(&["--", "no-such-program"]).run();
    let said = said.fails(3, &["`no-such-program` was not found"]);
    let history = said.then().args(["history", "--json"]).run().code(0).json();
    assert_eq!(history["runs"].as_array().map(Vec::len), Some(0));
    let ok = launch(&["--ignore-failure", "--", "false"]).run().code(0);
    assert_eq!(series(&ok.json())["runs"][0]["exit"], 1);
}

/// Programs that tell something without end, but not what is waited for.
#[test]
fn who_never_stops_telling_is_not_listened_to_for_ever() {
    let notify = "import socket,os\nfor _ in range(3): os.fork()\n\
        s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)\n\
        while True: s.sendto(b'STATUS=x', b'\\0'+os.environ['NOTIFY_SOCKET'][1:].encode())";
    let title = "while :; do printf '\\033]0;a\\007\\033]0;b\\007'; done";
    let python = ["--ready", "notify", "--", "/usr/bin/python3", "-c", notify];
    let xterm = [
        "--ready",
        "window=never",
        "--",
        "xterm",
        "-e",
        "sh",
        "-c",
        title,
    ];
    for (program, args) in [("python3", &python[..]), ("xterm", &xterm[..])] {
        if !has(program) || (program == "xterm" && !(is_root() && has("Xvfb"))) {
            continue;
        }
        let said = launch(&[&["--timeout", "2s"], args].concat())
            .run()
            .code(1)
            .left_nothing();
        let report = said.json();
        let error = report["results"][0]["error"].as_str().unwrap_or_default();
        assert!(error.contains("after 2s"), "{program}: {error}");
    }
}

#[test]
fn a_command_that_cannot_be_is_refused() {
    for (args, words) in [
        (&["--"][..], "no command"),
        (&[][..], "no command"),
        (&["'a"][..], "quote"),
        (&["--ready", "prot=1", "true"][..], "no such condition"),
        (&["-P", "n", "1", "x", "true"][..], "three numbers"),
        (&["--timeout", "soon", "true"][..], "timeout"),
    ] {
        let lm = Lm::new();
        lm.args(["launch"]).args(args).run().fails(2, &[words]);
    }
}

/// A process that leaves its parents, its session and its group behind.
const HIDES: &str =
    "trap '' TERM; (setsid sh -c 'exec -a LM_HIDDEN sleep 4711' &) ; echo up; sleep 4711";

fn hidden() -> bool {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    all.filter_map(|e| fs::read(e.path().join("cmdline")).ok())
        .any(|line| line.ends_with(b"sleep\x004711\x00") || line.starts_with(b"LM_HIDDEN"))
}

#[test]
fn the_whole_tree_is_stopped_also_when_layermark_is_killed() {
    if !has("bash") {
        return;
    }
    let args = [
        "--grace",
        "100ms",
        "--ready",
        "stdout=up",
        "--",
        "bash",
        "-c",
        HIDES,
    ];
    let said = launch(&args).run().left_nothing().code(0);
    assert_eq!(series(&said.json())["runs"][0]["stopped"], "kill");
    assert!(!hidden());

    let args = [
        "--grace",
        "100ms",
        "--ready",
        "stdout=never",
        "--",
        "bash",
        "-c",
        HIDES,
    ];
    let (mut child, _dir) = launch(&args).start();
    common::wait_for("the program", || hidden().then_some(()));
    child.kill().expect("kill");
    child.wait().expect("wait");
    common::wait_for("its end", || (!hidden()).then_some(()));
}

#[test]
fn habits_of_hyperfine_are_understood() {
    let lm = Lm::new();
    let work = lm.work();
    let said = lm
        .args([
            "launch",
            "-N",
            "--warmup",
            "1",
            "-r",
            "3",
            "--export-json",
            "times.json",
        ])
        .args([
            "-L",
            "t",
            "0.01,0.02",
            "-P",
            "n",
            "1",
            "2",
            "sleep {t}",
            "sh -c 'exit {n}'",
            "-i",
            "--dir",
        ])
        .args([work])
        .run();
    // `-i` is --ignore-failure there and here.
    let said = said.code(0);
    let text = fs::read_to_string(said.dir.path().join("times.json")).expect("times");
    let times: Value = serde_json::from_str(&text).expect("JSON");
    let all = times["results"].as_array().expect("results");
    // Each command with the values that stand in it.
    assert_eq!(all.len(), 4);
    for one in all {
        assert_eq!(one["times"].as_array().map(Vec::len), Some(3), "{one:#}");
        for key in ["mean", "stddev", "median", "user", "system", "min", "max"] {
            assert!(one[key].is_number(), "{key}: {one:#}");
        }
        assert!(one["parameters"]["t"].is_string() != one["parameters"]["n"].is_string());
        assert_eq!(one["exit_codes"].as_array().map(Vec::len), Some(3));
    }
    assert_eq!(all[0]["command"], "sleep 0.01");
}

#[test]
fn a_series_is_kept_in_order_and_told_in_every_format() {
    let lm = Lm::new();
    let work = lm.work();
    let said = lm
        .args([
            "launch",
            "--runs",
            "6",
            "-l",
            "native",
            "-l",
            "tmpfs",
            "--no-control",
            "--cmd",
            "tmpfs=sleep 0.02",
            "--dir",
        ])
        .args([work])
        .args([
            "-o",
            "r.html",
            "-o",
            "r.json",
            "-o",
            "r.full.md",
            "-o",
            "r.launches.csv",
            "--",
            "sleep",
            "0.01",
        ])
        .run();
    let dir = said.dir.path().to_owned();
    let said = said.prints("Launches").prints("sleep 0.01");
    let _said = said.left_nothing();
    let read = |name: &str| fs::read_to_string(dir.join(name)).expect(name);
    let report: Value = serde_json::from_str(&read("r.json")).expect("JSON");
    let all = report["series"].as_array().expect("series");
    assert_eq!(all.len(), 2);
    assert_eq!(
        (&all[0]["command"], &all[1]["command"]),
        (&"sleep 0.01".into(), &"sleep 0.02".into())
    );
    for one in all {
        let runs = one["runs"].as_array().expect("runs");
        let numbers: Vec<u64> = runs.iter().filter_map(|r| r["run"].as_u64()).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
        let starts: Vec<f64> = runs.iter().filter_map(|r| r["start_ms"].as_f64()).collect();
        assert!(starts.windows(2).all(|w| w[0] < w[1]), "{starts:?}");
    }
    // On a busy machine a launch takes many times these milliseconds.
    assert!(result(&report, "sleep 0.01", "tmpfs")["ratio"]["estimate"].is_number());
    let lines = read("r.launches.csv");
    assert!(
        lines.starts_with("time,elapsed ms,window,program"),
        "{lines}"
    );
    assert_eq!(lines.lines().count(), 13);
    assert!(read("r.html").contains("Launches in the order of the run"));
    assert!(read("r.full.md").contains("## Launches"));
}

#[test]
fn a_package_is_launched_from_the_layer_and_traced() {
    if !has("strace") {
        return;
    }
    let lm = Lm::new();
    let work = lm.work();
    let said = lm
        .args([
            "launch",
            "--runs",
            "2",
            "--package",
            "--trace",
            "--no-control",
            "--json",
        ])
        .args(["-l", "native", "-l", "fuse", "--cache", "cold", "--dir"])
        .args([work])
        // What the launch that made the package did not look at is not there: /usr/share is on
        // every machine.
        .args([
            "--",
            "sh",
            "-c",
            "test -e /etc/nothing; cd /tmp; for f in /usr/*; do echo $f; done",
        ])
        .run()
        .left_nothing();
    if said.stderr.contains("could not be packaged") || said.stderr.contains("fuse:") {
        return skipped(&said.stderr);
    }
    let report = said.json();
    let all = report["series"]
        .as_array()
        .unwrap_or_else(|| panic!("{report:#}\n{}", said.stderr));
    assert_eq!(all.len(), 2, "{report:#}");
    for one in all {
        let trace = &one["trace"];
        assert!(trace["opened"].as_u64() > Some(0), "{one:#}");
        assert!(trace["failed"].as_u64() > Some(0), "{one:#}");
        assert!(trace["lookups"].as_u64() > trace["failed"].as_u64());
    }
    if is_root() {
        assert_eq!(all[0]["runs"][0]["state"], "cold", "{:#}", all[0]);
    }
}

#[test]
fn the_mock_knows_no_launch_and_says_so_in_order() {
    // A scripted layer takes any workload: what it makes up has no series.
    let lm = Lm::new().work_with(&["launch", "--runs", "2", "--json", "true"], MOCK);
    let report = lm.run().json();
    assert!(
        report.get("series").is_none() && report["results"].is_array(),
        "{report:#}"
    );
}

/// `sleep` makes the times: what is slower is known, on a busy machine too.
#[test]
fn commands_are_compared_with_each_other() {
    let commands = ["sleep 0.05", "sleep 0.3", "sleep 0.051"];
    let lm = Lm::new();
    let work = lm.work();
    let said = lm
        .args(["launch", "--json", "--runs", "8", "--delta", "30%", "--dir"])
        .args([work])
        .args(commands)
        .args(["--reference", "2"])
        .run()
        .left_nothing()
        .code(0);
    let report = said.json();
    let label = |id: &Value| {
        let rows = report["results"].as_array().expect("results");
        let row = rows.iter().find(|r| &r["id"] == id).expect("a result");
        row["label"].as_str().expect("a label").to_owned()
    };
    let all = report["alternatives"].as_array().expect("alternatives");
    assert_eq!(all.len(), 2, "{report:#}");
    for (row, command) in all.iter().zip(["sleep 0.05", "sleep 0.051"]) {
        assert_eq!(label(&row["result"]), command);
        assert_eq!(label(&row["reference"]), "sleep 0.3");
        assert_eq!(
            (&row["verdict"], &row["blocks"]),
            (&"faster".into(), &8.into())
        );
        let ratio = row["ratio"]["estimate"].as_f64().expect("a ratio");
        assert!((0.1..0.8).contains(&ratio), "{row}");
        assert!(row["ratio"]["interval"][1].as_f64() < Some(1.0), "{row}");
    }
    let again = said.then().args(["report", "last"]).run().code(0);
    again.prints("Compared with each other").prints("reference");
}

/// As hyperfine has it: the reference is launched too, and a scan compares its values.
#[test]
fn a_reference_that_is_not_given_is_launched_too_and_values_of_a_scan_are_compared() {
    let said = launch(&["--reference", "sleep 0.001", "sleep 0.002"])
        .run()
        .code(0);
    let report = said.json();
    assert_eq!(report["results"][0]["label"], "sleep 0.001");
    assert_eq!(report["alternatives"].as_array().map(Vec::len), Some(1));
    let said = launch(&["-L", "t", "0.001,0.002,0.003", "sleep {t}"])
        .run()
        .code(0);
    let report = said.json();
    let all = report["alternatives"].as_array().expect("alternatives");
    assert_eq!(all.len(), 2, "{report:#}");
    assert!(
        all.iter().all(|a| a["more_blocks"] == 1),
        "two launches are too few: {all:?}"
    );
    assert!(report["alternatives"][0]["verdict"] == "undecided");
    let scan = [
        "--reference",
        "sleep 0.001",
        "-L",
        "t",
        "0.002,0.003",
        "sleep {t}",
    ];
    let report = launch(&scan).run().code(0).json();
    let labels = report["results"].as_array().expect("results").iter();
    let labels: Vec<_> = labels.map(|r| r["label"].as_str()).collect();
    assert_eq!(
        labels,
        [
            "sleep 0.001",
            "sleep 0.002, t=0.002",
            "sleep 0.003, t=0.003"
        ]
        .map(Some),
        "a reference without the value is launched once"
    );
    let all = report["alternatives"].as_array().expect("alternatives");
    let first = &report["results"][0]["id"];
    assert!(
        all.len() == 2 && all.iter().all(|a| a["reference"] == *first),
        "{all:?}"
    );
}

#[test]
fn a_gate_that_cannot_tell_says_how_many_launches_it_lacks() {
    let two = [
        "-l",
        "overlay:upper",
        "--no-control",
        "--fail-if",
        "slower=10%",
    ];
    let said = launch(&[&two[..], &["--", "true"]].concat()).run().code(0);
    said.says("gate cannot tell: overlay:upper at ")
        .says("1 more launch is needed")
        .says("gates: 0 passed, 0 failed, 1 cannot be told");
}
