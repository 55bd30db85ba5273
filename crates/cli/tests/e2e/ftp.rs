//! `layermark ftp`: files between two ends, by our own server and by vsftpd; and what cannot be asked for.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Lm, figures, machine, result, skipped, wait_for};

/// Through a network namespace; `None` where none can be made.
fn beside_a_namespace(args: &[&str]) -> Option<Value> {
    let args = [&["ftp"], args, &["--blocks", "3", "--json"]].concat();
    let report = Lm::new()
        .work_with(&args, &["netns"])
        .run()
        .left_nothing()
        .json();
    // Absent where nothing is.
    let mut left_out = report["left_out"].as_array().into_iter().flatten();
    if let Some(why) = left_out.find(|l| l["layer"] == "netns") {
        skipped(&format!("no network namespace: {}", why["reason"]));
        return None;
    }
    Some(report)
}

/// Both ways, natively and through the namespace, with their phases.
fn goes_both_ways(server: &str, named: &str) {
    let args = ["--op", "get,put", "--file-size", "1M", "--server", server];
    let Some(report) = beside_a_namespace(&args) else {
        return;
    };
    for op in ["get", "put"] {
        let at = match server {
            "own" => format!("{op}, 1M file, own server"),
            _ => format!("{op}, 1M file, {server}"),
        };
        let through = result(&report, &at, "netns");
        assert_eq!(through["unit"], "B/s", "{through:#}");
        assert!(
            through["ratio"]["estimate"].as_f64() > Some(0.0),
            "{through:#}"
        );
        for layer in ["native", "netns"] {
            let row = figures(&report, &at, layer);
            assert_eq!(row["file_size"], 1 << 20, "{row:#}");
            let server = row["server"].as_str().expect("a name");
            assert!(server.starts_with(named), "{row:#}");
            for figure in [
                "mib_s",
                "p50_us",
                "connect_us",
                "login_us",
                "passive_us",
                "first_byte_us",
                "data_us",
                "complete_us",
                "near_cpu_us",
                "far_cpu_us",
            ] {
                assert!(row[figure].as_f64() > Some(0.0), "{figure}: {row:#}");
            }
        }
    }
}

#[test]
fn our_own_server_serves_both_ways() {
    goes_both_ways("own", "layermark's own");
}

#[test]
fn vsftpd_serves_both_ways() {
    if vsftpd_is_missing() {
        return;
    }
    goes_both_ways("vsftpd", "vsftpd ");
}

fn vsftpd_is_missing() -> bool {
    let missing = !std::path::Path::new("/usr/sbin/vsftpd").exists();
    if missing {
        skipped("vsftpd is not installed: scripts/setup.sh test");
    }
    missing
}

#[test]
fn what_a_small_file_leaves_in_a_file_or_in_memory_is_checked() {
    let args = [
        "--op",
        "get",
        "--file-size",
        "4K",
        "--clients",
        "2",
        "--sink",
        "memory,file",
    ];
    let Some(report) = beside_a_namespace(&args) else {
        return;
    };
    for sink in ["memory", "file"] {
        let at = format!("get, 4K file, 2 clients, to {sink}");
        assert_eq!(figures(&report, &at, "netns")["clients"], 2);
    }
    let mut trust = report["trust"].as_array().expect("reasons").iter();
    let verified = trust.find(|t| t["id"] == "verified").expect("a check");
    assert_eq!(verified["state"], "ok", "{verified:#}");
}

#[test]
fn nothing_is_left_of_a_server_when_all_is_killed() {
    if vsftpd_is_missing() {
        return;
    }
    let lm = Lm::new().work_with(
        &["ftp", "--server", "vsftpd", "--blocks", "100"],
        &["native"],
    );
    let (mut child, home) = lm.start();
    let seen = wait_for("a server", || {
        let tree = machine::tree(child.id());
        let serves = tree.iter().any(|p| p.command[0].ends_with("vsftpd"));
        let ended = child.try_wait().expect("a child").is_some();
        assert!(!ended, "it ended before it was killed");
        serves.then_some(tree)
    });
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process");
    kill_process(pid, Signal::KILL).expect("kill");
    child.wait().expect("a child");
    let all: Vec<_> = seen.iter().map(|p| (p.pid, p.start)).collect();
    machine::nothing_left(home.path(), &all);
}

#[test]
fn what_cannot_be_asked_for_is_a_usage_error() {
    for (args, words) in [
        (&["--op", "mget"][..], &["mget", "get"][..]),
        (&["--file-size", "0"], &["`--file-size` = 0"]),
        (&["--clients", "65"], &["`--clients` = 65"]),
        (&["--sink", "tape"], &["tape"]),
        (
            &["--op", "get", "--server", "vsftpd", "--source", "null"],
            &["`--source` = null"],
        ),
        (&["--op", "put", "--file-size", "2G"], &["2G of memory"]),
    ] {
        let args = [&["ftp"], args].concat();
        Lm::new()
            .work_with(&args, &["native"])
            .run()
            .fails(2, words);
    }
}
