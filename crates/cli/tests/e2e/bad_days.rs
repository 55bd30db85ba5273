//! Probes and mounts that fail: the others are measured all the same, and the user is told.

use crate::common::{Lm, Said, machine, needs_root, result, trials_stored};

/// One scripted layer beside a good one and the scripted baseline.
fn beside(bad: &str) -> Said {
    Lm::new()
        .measure(&["mock", bad, "mock:ns=1500"])
        .args(["--silence", "1s", "--json"])
        .run()
        .left_nothing()
}

/// A layer that was left out, with the reason in the report, and the good one measured.
/// Exit code 4: nothing proves where a scripted layer is, and that comes before 3.
#[track_caller]
fn left_out(bad: &str, words: &[&str]) {
    let said = words
        .iter()
        .fold(beside(bad).code(4), |said, w| said.says(w));
    let said = said.says("is left out").says("hint: ");
    let report = said.json();
    let layers = report["layers"].as_array().expect("layers");
    let layer = layers
        .iter()
        .find(|l| l["name"] == bad)
        .expect("the layer is in the report");
    assert_eq!(layer["status"], "failed");
    assert!(layer["reason"].as_str().is_some_and(|r| !r.is_empty()));
    let good = report["results"].as_array().expect("results");
    let good = good
        .iter()
        .find(|r| r["layer"] == "mock:ns=1500")
        .expect("the good one was measured");
    assert_eq!(good["verdict"], "slower");
}

#[test]
fn a_probe_that_dies_once_is_started_again() {
    let said = Lm::new()
        .measure(&["mock", "mock:die-after=5", "mock:ns=1500"])
        .args(["--silence", "1s", "--sessions", "1", "--json"])
        .run()
        .left_nothing()
        .says("the probe ended")
        .says("started again");
    assert_eq!(said.json()["layers"][1]["status"], "ready");
}

#[test]
fn a_probe_that_keeps_dying_is_given_up() {
    left_out(
        "mock:die-after=0",
        &["the probe ended (exit code 101)", "last words"],
    );
}

#[test]
fn a_probe_that_prints_rubbish_is_given_up_with_the_line_shown() {
    left_out(
        "mock:rubbish-after=0",
        &[
            "sent an invalid message",
            "`rubbish, as the mock was asked to`",
        ],
    );
}

#[test]
fn a_probe_that_falls_silent_is_given_up_after_the_stated_time() {
    left_out("mock:silent-after=0", &["silent for 1s", "last words"]);
}

#[test]
fn a_probe_that_cannot_do_the_work_says_so() {
    let said = beside("mock:error-after=0");
    let report = said.json();
    let rows = report["results"].as_array().expect("results");
    let row = rows
        .iter()
        .find(|r| r["layer"] == "mock:error-after=0")
        .expect("a row");
    assert!(
        row["failed_trials"].as_u64() > Some(0) && row["error"].is_string(),
        "{row:#}"
    );
}

#[test]
fn a_probe_of_another_version_is_refused() {
    left_out(
        "mock:protocol=9",
        &["version 9 of the protocol", "the same layermark"],
    );
}

#[test]
fn a_layer_that_fails_half_way_is_left_out() {
    left_out("mock:fail-open=on", &["open", "the mock was asked to"]);
    left_out("mock:fail-mount=on", &["mount", "the mock was asked to"]);
    left_out("mock:fail-start=on", &["start the probe"]);
    left_out("mock:fail-facts=on", &["the layer is not there"]);
}

#[test]
fn without_the_baseline_there_is_no_run() {
    let lm = Lm::new().measure(&["mock:fail-open=on", "mock:ns=1500"]);
    lm.run()
        .fails(3, &["the baseline `mock:fail-open=on` is not there"])
        .left_nothing();
}

#[test]
fn without_any_layer_to_compare_there_is_no_run() {
    let lm = Lm::new().measure(&["mock", "mock:fail-mount=on"]);
    lm.run()
        .fails(3, &["no layer to compare with `mock`"])
        .left_nothing();
}

#[test]
fn what_a_failed_layer_had_measured_stays_in_the_store() {
    // One death is forgiven: the second ends the layer after four trials.
    // It was lost while it was measured: 4 comes before 3.
    let said = beside("mock:die-after=2").code(4);
    let report = said.json();
    let trials = report["trials"].as_array().expect("trials");
    let of_the_dead = trials
        .iter()
        .filter(|t| t["layer"] == "mock:die-after=2")
        .count();
    assert!(of_the_dead >= 4, "{of_the_dead}");
    assert_eq!(trials.len() as u64, trials_stored(said.dir.path()));
}

/// A `/dev` without loop devices, as in most containers.
#[test]
fn a_layer_that_finds_no_loop_device_is_left_out() {
    if !needs_root() {
        return;
    }
    let hide = "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/random c 1 8; mknod -m 666 /dev/urandom c 1 9";
    let Some(lm) = Lm::new()
        .measure(&["loop:ext4", "tmpfs"])
        .args(["--json"])
        .around(hide, "")
    else {
        return;
    };
    let said = lm
        .run()
        .code(3)
        .says("loop:ext4 is left out")
        .says("hint: ")
        .left_nothing();
    machine::nothing_left(said.dir.path(), &[]);
    let report = said.json();
    assert_eq!(report["layers"][1]["status"], "failed");
    result(&report, "read 4K of 64K, warm, 50 passes", "tmpfs");
}

/// mkfs dies half-way: the image file and the directories must go.
#[test]
fn a_mkfs_that_fails_leaves_nothing_behind() {
    if !needs_root() {
        return;
    }
    let broken = "printf '#!/bin/sh\\necho mkfs: no luck >&2\\nexit 9\\n' > bad; chmod 755 bad; \
        for d in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do \
        [ ! -e $d/mkfs.ext4 ] || mount --bind bad $(readlink -f $d/mkfs.ext4); done";
    let Some(lm) = Lm::new()
        .measure(&["loop:ext4", "tmpfs"])
        .around(broken, "")
    else {
        return;
    };
    let said = lm
        .run()
        .code(3)
        .says("loop:ext4 is left out")
        .says("mkfs: no luck")
        .says("hint: ");
    machine::nothing_left(said.left_nothing().dir.path(), &[]);
}
