//! Stalls planted in the FUSE layer: periodic, random and at the first flush of a file are told as what
//! they are, by three workloads; a delay of each operation is no stall. In memory, because there are a
//! hundred operations a block there however slow the disk is.

use std::fs;

use serde_json::Value;

use crate::common::Lm;

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

/// The report of a run, and the result of its layer.
fn measured(work: &[&str], layer: &str) -> (Value, Value) {
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
    let row = rows
        .iter()
        .find(|r| r["layer"] != "native")
        .expect("the layer")
        .clone();
    (report, row)
}

fn has_stalls(row: &Value) -> bool {
    row["flags"]
        .as_array()
        .expect("flags")
        .iter()
        .any(|f| f == "stalls")
}

/// Other programs on the CPUs make usual operations as slow as a stall: then it is measured anew.
fn reports_a_stall(work: &[&str], layer: &str) {
    let mut runs = std::iter::repeat_with(|| measured(work, layer)).take(3);
    let (report, row) = runs
        .find(|(_, row)| has_stalls(row))
        .unwrap_or_else(|| panic!("none of three runs of {layer} has stalls"));
    let ratio = &row["ratio"];
    let (typical, average) = (&ratio["estimate"], &ratio["average"]["estimate"]);
    assert!(average.as_f64() > typical.as_f64(), "{ratio}");
    let here = &row["stalls"]["here"];
    let (slow, operations) = (here["slow"].as_f64(), here["operations"].as_f64());
    let share = slow.zip(operations).map(|(slow, all)| slow / all);
    assert!(
        share.is_some_and(|share| share > 0.0 && share < 0.05),
        "{here}"
    );
    // The kernel wakes a sleeper late, never early.
    assert!(
        here["slow_us"][1].as_f64().is_some_and(|us| us >= STALL),
        "{here}"
    );
    let findings = report["findings"].to_string();
    assert!(
        findings.contains("on average: ") && findings.contains("of its operations take "),
        "{findings}"
    );
}

/// An I/O that takes longer than a turn is counted. How slow the others are depends on what else runs, so
/// the flag is not asked for.
fn counts_long_ios(layer: &str) {
    let (_, row) = measured(IOPS, layer);
    let longest = row["latency_us"]["max"].as_f64();
    assert!(longest.is_some_and(|us| us >= STALL), "{row}");
}

#[test]
fn a_periodic_stall_of_each_workload() {
    reports_a_stall(FILE, "fuse:stall=50ms,every=400");
    reports_a_stall(META, "fuse:stall=50ms,every=200");
    counts_long_ios("fuse:cache=none,stall=50ms,every=600");
}

#[test]
fn a_random_stall_of_each_workload() {
    reports_a_stall(FILE, "fuse:stall=50ms,every=400,stalls=random");
    reports_a_stall(META, "fuse:stall=50ms,every=200,stalls=random");
    counts_long_ios("fuse:cache=none,stall=50ms,every=600,stalls=random");
}

#[test]
fn a_stall_at_the_first_flush_of_each_file() {
    reports_a_stall(FILE, "fuse:stall=50ms,stalls=first");
}

#[test]
fn a_delay_of_each_operation_is_no_stall() {
    for work in [FILE, META, IOPS] {
        let (_, row) = measured(work, "fuse:cache=none,delay=5ms");
        assert!(!has_stalls(&row), "{}", row["ratio"]);
    }
}
