//! `layermark launch` from layers: restarted ones, slow ones, and programs that refuse to be root.

use crate::common::{Lm, Said, is_root, skipped};
use serde_json::Value;

fn installed(program: &str) -> bool {
    let dirs = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];
    let found = dirs
        .iter()
        .any(|d| std::path::Path::new(d).join(program).exists());
    if !found {
        skipped(&format!("{program} is not installed"));
    }
    found
}

/// Two launches in native and one more layer, cold, packaged.
fn cold(layer: &str, flags: &[&str], command: &[&str]) -> Said {
    let lm = Lm::new();
    let work = lm.work();
    lm.args([
        "launch",
        "--runs",
        "2",
        "--package",
        "--cache",
        "cold",
        "--no-control",
        "--json",
    ])
    .args(["-l", "native", "-l", layer, "--dir"])
    .args([work])
    .args(flags)
    .args(["--"])
    .args(command)
    .run()
    .left_nothing()
}

fn series<'a>(report: &'a Value, layer: &str) -> &'a Value {
    let all = report["series"].as_array();
    let found = all.and_then(|all| all.iter().find(|s| s["layer"] == layer));
    found.unwrap_or_else(|| panic!("no series in {layer}: {report:#}"))
}

fn says(series: &Value) -> String {
    let all = series["says"].as_array().into_iter().flatten();
    let texts: Vec<&str> = all.filter_map(Value::as_str).collect();
    texts.join("; ")
}

#[test]
fn a_cold_launch_may_restart_its_layer() {
    if !is_root() || !installed("strace") || !installed("mkfs.erofs") {
        return skipped("images need root");
    }
    for layer in ["fuse", "image:erofs"] {
        let said = cold(layer, &["--restart"], &["sh", "-c", "exit 0"]).code(0);
        let report = said.json();
        let its = series(&report, layer);
        assert!(
            says(its).contains("set down and up again before each launch"),
            "{its:#}"
        );
        // What a trial keeps proves it: the kernel has given the mount another number.
        let mut numbers = Vec::new();
        for run in its["runs"].as_array().expect("runs") {
            assert_eq!(run["state"], "cold", "{run:#}");
            let proof = &run["restarted"];
            assert!(proof["ns"].as_u64() > Some(0), "{run:#}");
            numbers.push(proof["mount_before"].as_u64().expect("a mount"));
            numbers.push(proof["mount_after"].as_u64().expect("a mount"));
        }
        assert_ne!(numbers[0], numbers[1]);
        assert_ne!(numbers[2], numbers[3]);
        // A directory of the disk is nothing that could be restarted.
        let native = series(&report, "native");
        assert!(native["runs"][0]["restarted"].is_null());
    }
}

#[test]
fn restart_is_for_cold_points() {
    let lm = Lm::new();
    let args = ["launch", "--restart", "--", "true"];
    lm.args(args).run().fails(2, &["`--restart` has no effect"]);
}

#[test]
fn what_made_it_slow_is_said_with_its_time_for_each() {
    if !installed("strace") {
        return;
    }
    let names: Vec<String> = (0..40).map(|n| format!("/etc/nothing{n}")).collect();
    let looks = format!("for f in {}; do test -e $f; done; :", names.join(" "));
    let layer = "fuse:delay=6ms";
    let said = cold(layer, &["--trace"], &["sh", "-c", &looks]);
    if said.stderr.contains("could not be packaged") || said.stderr.contains("fuse:") {
        return skipped(&said.stderr);
    }
    let report = said.json();
    let its = series(&report, layer);
    let text = says(its);
    assert!(
        text.contains("failed lookups, ") && text.contains(" ms each: "),
        "{text}"
    );
    let trace = &its["trace"];
    let (failed, ms) = (trace["failed"].as_u64(), trace["failed_ms"].as_f64());
    let each = ms.expect("a time") / failed.expect("a number") as f64;
    assert!(failed >= Some(40), "{trace:#}");
    assert!((5.0..50.0).contains(&each), "{each} ms: {trace:#}");
}

#[test]
fn a_program_may_be_another_user_and_all_of_its_processes_count() {
    if !installed("strace") {
        return;
    }
    let script = "id -u; (/bin/true; /bin/true); touch $HOME/x; exec sleep 60";
    let flags = ["--user", "nobody", "--ready", "stdout=^65534$", "--trace"];
    let said = cold("fuse", &flags, &["sh", "-c", script]);
    if !is_root() {
        let why = "only root may do that";
        assert!(said.stderr.contains(why), "{}", said.stderr);
        return;
    }
    let report = said.json();
    for layer in ["native", "fuse"] {
        let its = series(&report, layer);
        let by = its["counted_by"].to_string();
        for run in its["runs"].as_array().expect("runs") {
            if by.contains("process connector") {
                assert!(run["started"].as_u64() >= Some(2), "sh and id: {run:#}");
            }
            if by.contains("io.pressure") {
                assert!(run["io_wait_ms"].as_f64() >= Some(0.0), "{run:#}");
            }
        }
    }
}

/// Programs flush files of their own, which nobody can count: only the device tells.
#[test]
fn a_layer_that_skips_the_flushes_of_launched_programs_is_named() {
    if !is_root() {
        return skipped("a volatile overlay needs root");
    }
    let script = "for i in 1 2 3 4 5 6 7 8; do echo $$ > f$i; sync f$i; done";
    let lm = Lm::new();
    let work = lm.work();
    let layers = [
        "-l",
        "native",
        "-l",
        "overlay:upper",
        "-l",
        "overlay:volatile",
    ];
    let said = lm
        .args(["launch", "--runs", "20", "--no-control", "--json", "--dir"])
        .args([work])
        .args(layers)
        .args(["--", "sh", "-c", script])
        .run()
        .left_nothing();
    let report = said.json();
    let flushed = |layer: &str| {
        let mut rows = report["results"].as_array().expect("results").iter();
        rows.find(|r| r["layer"] == layer).expect("its row")["durability"].clone()
    };
    let [native, honest, liar] = ["native", "overlay:upper", "overlay:volatile"].map(flushed);
    assert_ne!(honest["verdict"], "absorbed", "{honest:#}");
    // Other tests flush the same disk: whose flushes were counted is then not known.
    if native["flushes"].is_null() || liar["verdict"] == "cannot tell" {
        return skipped(&format!(
            "the disk counts no flush, or others flushed: {liar:#}"
        ));
    }
    assert_eq!(liar["verdict"], "absorbed", "{liar:#}");
    // A headline leads with the slower layer where a busy machine made one of them slower.
    let findings = report["findings"].as_array().expect("findings").iter();
    let mut said = findings.chain([&report["headline"]]).map(Value::to_string);
    assert!(
        said.any(|text| text.contains("`overlay:volatile` skips fsync")),
        "{report:#}"
    );
}
