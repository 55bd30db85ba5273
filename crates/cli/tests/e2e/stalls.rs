//! Stalls planted in the FUSE layer: periodic, random and at the first flush of a file are counted by three
//! workloads; a delay of each operation is not a stall. In memory, because there are a hundred operations
//! a block there however slow the disk is.

use std::fs;

use serde_json::Value;

use crate::common::{Lm, has_fuse};

const FILE: &[&str] = &[
    "file",
    "--op",
    "write",
    "--record",
    "4K",
    "--file-size",
    "1M",
    "--sync",
    "each",
];
const META: &[&str] = &["meta", "--op", "create"];
const IOPS: &[&str] = &["iops", "--file-size", "4M", "--iodepth", "1"];

/// How long a planted stall takes, microseconds.
const STALL: f64 = 50_000.0;

/// The result of a run's layer.
fn measured(work: &[&str], layer: &str) -> Value {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    fs::create_dir(dir.path().join("work")).expect("work directory");
    let said = Lm::with(dir.path())
        .work_with(work, &[layer])
        // Fewer than a change during the run is looked for in: a busy machine has some.
        .args(["--blocks", "14", "--sessions", "1", "--json"])
        .args(["--allow-tmpfs"])
        .run();
    let report = said.json();
    let rows = report["results"].as_array().expect("results");
    let row = rows.iter().find(|r| r["layer"] != "native");
    row.expect("the layer").clone()
}

fn has_stalls(row: &Value) -> bool {
    row["flags"]
        .as_array()
        .expect("flags")
        .iter()
        .any(|f| f == "stalls")
}

/// The operations that stalled are in the histogram, however short the turns are. Whether they are flagged
/// depends on how slow the others are while other programs use the CPUs: the report's own tests have that.
fn counts_the_stalls(work: &[&str], layer: &str) {
    let row = measured(work, layer);
    let longest = row["latency_us"]["max"].as_f64();
    // The kernel wakes a sleeper late, never early.
    assert!(longest.is_some_and(|us| us >= STALL), "{row}");
    assert!(row["ratio"]["average"]["estimate"].is_number(), "{row}");
}

#[test]
fn a_periodic_stall_of_each_workload() {
    if !has_fuse() {
        return;
    }
    counts_the_stalls(FILE, "fuse:stall=50ms,every=400");
    counts_the_stalls(META, "fuse:stall=50ms,every=200");
    counts_the_stalls(IOPS, "fuse:cache=none,stall=50ms,every=600");
}

#[test]
fn a_random_stall_of_each_workload() {
    if !has_fuse() {
        return;
    }
    counts_the_stalls(FILE, "fuse:stall=50ms,every=400,stalls=random");
    counts_the_stalls(META, "fuse:stall=50ms,every=200,stalls=random");
    counts_the_stalls(IOPS, "fuse:cache=none,stall=50ms,every=600,stalls=random");
}

#[test]
fn a_stall_at_the_first_flush_of_each_file() {
    if !has_fuse() {
        return;
    }
    counts_the_stalls(FILE, "fuse:stall=50ms,stalls=first");
}

#[test]
fn a_delay_of_each_operation_is_no_stall() {
    if !has_fuse() {
        return;
    }
    for work in [FILE, META, IOPS] {
        // Other programs may stall anything: not in each of three runs.
        let mut runs =
            std::iter::repeat_with(|| measured(work, "fuse:cache=none,delay=2ms")).take(3);
        assert!(runs.any(|row| !has_stalls(&row)), "{work:?}");
    }
}
