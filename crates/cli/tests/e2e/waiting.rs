//! Time that waited for a CPU, in real runs: left out of what only the kernel serves, reported where a process does.

use std::fs;

use serde_json::Value;

use crate::common::{Lm, has_fuse};

const READ: &[&str] = &[
    "file",
    "--op",
    "read",
    "--record",
    "4K",
    "--file-size",
    "64K",
];

#[test]
fn it_is_left_out_of_a_bind_mount_and_reported_of_a_fuse_server() {
    if !has_fuse() {
        return;
    }
    let own = fs::read_to_string("/proc/thread-self/schedstat");
    if own.is_ok_and(|numbers| numbers.starts_with("0 0 0")) {
        return eprintln!("skipped: this kernel does not count run-queue delays");
    }
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    fs::create_dir(dir.path().join("work")).expect("work directory");
    let report = Lm::with(dir.path())
        .work_with(READ, &["bind:rw", "fuse:cache=none"])
        .args(["--blocks", "3", "--sessions", "1", "--json"])
        .args(["--allow-tmpfs"])
        .run()
        .json();
    let rows = report["results"].as_array().expect("results");
    let row = |layer: &str| -> &Value {
        let mut rows = rows.iter();
        rows.find(|r| r["layer"] == layer).expect("the layer")
    };
    for layer in ["native", "bind:rw"] {
        let waiting = &row(layer)["waiting"];
        assert_eq!(waiting["left_out"], true, "{layer}: {waiting}");
        assert!(
            waiting["share"].is_number() && waiting["helpers_us"].is_null(),
            "{waiting}"
        );
    }
    let ratio = row("bind:rw")["waiting"]["ratio_with"]["estimate"].as_f64();
    assert!(ratio.is_some_and(|ratio| ratio > 0.0), "{ratio:?}");
    let waiting = &row("fuse:cache=none")["waiting"];
    assert_eq!(waiting["left_out"], false, "{waiting}");
    assert!(
        waiting["helpers_us"].as_f64().is_some_and(|us| us > 0.0),
        "{waiting}"
    );
    let counted = report["trials"].as_array().expect("trials").iter();
    let mut apart: Vec<_> = counted.filter(|t| t["waiting_left_out"] == true).collect();
    assert!(apart.iter().all(|t| t["waited_us"].is_number()));
    apart.retain(|t| t["layer"] == "fuse:cache=none");
    assert!(apart.is_empty(), "{apart:?}");
}
