//! `layermark mmap-fault`: faults of a mapped file in a layer, with pages that are checked.

use crate::common::{Lm, result, skipped};

#[test]
fn faults_are_timed_and_their_pages_are_right() {
    let args = ["mmap-fault", "--file-size", "1M", "--blocks", "1", "--json"];
    let said = Lm::new()
        .work_with(&args, &["bind:rw"])
        .run()
        .left_nothing();
    if said.stderr.contains("the right to mount") {
        return skipped("nothing can be mounted here");
    }
    let report = said.json();
    let row = result(&report, "page faults of 1M, warm", "bind:rw");
    assert!(row["value"].as_f64() > Some(0.0), "{row:#}");
    assert_eq!(
        (&row["metric"], &row["unit"]),
        (&"rate".into(), &"ops/s".into())
    );
    let trust = report["trust"].as_array().expect("trust");
    let verified = trust
        .iter()
        .find(|t| t["id"] == "verified")
        .expect("a proof");
    assert_eq!(verified["state"], "ok", "{verified:#}");
}

#[test]
fn a_file_without_a_window_is_a_usage_error() {
    Lm::new()
        .work_with(&["mmap-fault", "--file-size", "4K"], &["native"])
        .run()
        .fails(2, &["--file-size", "4K", "between 64K"]);
}
