//! What can be done once to a packaged file: it is a cell of its own, and never hidden in a lead-in.

use std::fs;

use serde_json::Value;

use crate::common::{Lm, is_root, result, skipped};

fn measured(args: &[&str]) -> Value {
    let lm = Lm::new();
    let work = lm.work();
    let (workload, rest) = args.split_at(1);
    lm.args(workload)
        .args(["--no-control", "--sessions", "1", "--json"])
        .args(["-l", "overlay:writecopy", "--dir"])
        .args([work])
        .args(rest)
        .run()
        .code(0)
        .left_nothing()
        .json()
}

fn ratio(report: &Value, label: &str) -> f64 {
    let row = result(report, label, "overlay:writecopy");
    let ratio = row["ratio"]["estimate"].as_f64();
    ratio.unwrap_or_else(|| panic!("{row:#}"))
}

/// Each copies 4 MiB. `set-attr`, of files that were made in the layer, was 1.7x.
#[test]
fn each_first_change_of_a_packaged_file_pays_for_its_copy() {
    if !is_root() {
        return skipped("needs root for an overlay");
    }
    let ops = [
        "first-chmod",
        "first-chown",
        "first-rename",
        "first-link",
        "first-open",
    ];
    let all = ops.join(",");
    let report = measured(&[
        "meta",
        "--op",
        &all,
        "--files",
        "5",
        "--file-size",
        "4M",
        "--blocks",
        "8",
    ]);
    for op in ops {
        let label = format!("{op} 5 files of 4M");
        let times = ratio(&report, &label);
        assert!(times > 10.0, "{op}: {times}");
        let row = result(&report, &label, "overlay:writecopy");
        assert_eq!(
            (&row["verdict"], &row["failed_trials"]),
            (&"slower".into(), &0.into())
        );
        let why = row["reasons"].to_string();
        assert!(why.contains("copy-up"), "{op}: {why}");
        // No file twice in a block.
        let trials = report["trials"].as_array().expect("trials").iter();
        let own = trials.filter(|t| t["point"] == label.as_str());
        let ops: Vec<u64> = own.filter_map(|t| t["ops"].as_u64()).collect();
        assert!(
            ops.len() >= 16 && ops.iter().all(|n| (1..=5).contains(n)),
            "{ops:?}"
        );
    }
}

/// The first `chmod` of a file copies it, and the others do not.
#[test]
fn the_first_execution_in_a_tree_is_a_cell_of_its_own() {
    if !is_root() {
        return skipped("needs root for an overlay");
    }
    let tree = tempfile::tempdir().expect("a directory");
    fs::write(tree.path().join("big"), vec![7; 48 << 20]).expect("a file");
    let tree = tree.path().to_str().expect("a path");
    let report = measured(&[
        "steps",
        "--tree",
        tree,
        "--blocks",
        "4",
        "--",
        "chmod 600 big",
    ]);
    let first = ratio(&report, "chmod 600 big, first");
    let later = ratio(&report, "chmod 600 big");
    assert!(first > 4.0 * later, "{first} {later}");
    let row = result(&report, "chmod 600 big, first", "native");
    assert_eq!(row["trials"], 4, "once in each block: {row:#}");
}
