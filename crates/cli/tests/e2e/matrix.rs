//! The matrix of iozone, small, end to end.

use std::collections::BTreeSet;

use crate::common::Lm;
use serde_json::Value;

fn cells(report: &Value) -> BTreeSet<(u64, u64, String, String)> {
    let rows = report["results"].as_array().expect("results");
    rows.iter()
        .map(|row| {
            let point = &row["point"];
            let text = |key: &str| point[key].as_str().expect("text").to_owned();
            let size = |key: &str| point[key].as_u64().expect("a size");
            (
                size("file_size"),
                size("record"),
                text("op"),
                text("engine"),
            )
        })
        .collect()
}

#[test]
fn a_small_matrix_measures_every_cell_in_every_layer() {
    let args = ["file", "--matrix", "iozone", "--max-file-size", "128K"];
    let said = Lm::new()
        .work_with(&args, &["overlay:upper"])
        .args(["--blocks", "2", "--json"])
        .run()
        .code(0)
        .left_nothing();
    let report = said.json();
    let rows = report["results"].as_array().expect("results");
    // 5 records of 64K and 6 of 128K, 13 tests, two layers.
    assert_eq!((rows.len(), cells(&report).len()), (11 * 13 * 2, 11 * 13));
    for row in rows {
        assert_eq!(row["trials"], 2, "{row:#}");
        assert!(row["value"].as_f64().is_some_and(|v| v > 0.0), "{row:#}");
    }
    let ratio = rows.iter().find_map(|r| r["ratio"].as_object());
    assert!(
        ratio.is_some_and(|r| r["interval"].is_null()),
        "below six blocks"
    );
    assert_eq!(report["fidelity"].as_array().map(Vec::len), Some(5));
}

#[test]
fn letters_of_iozone_and_three_blocks_without_being_told() {
    let args = ["file", "--like", "-Rac -i 0 -r 16 -s 64 -+n"];
    let said = Lm::new()
        .work_with(&args, &["overlay:upper"])
        .args(["--json"])
        .run()
        .code(0);
    let report = said.json();
    let rows = report["results"].as_array().expect("results");
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(
            (&row["point"]["sync"], &row["point"]["op"], &row["trials"]),
            (&"close".into(), &"write".into(), &3.into())
        );
    }
}

#[test]
fn letters_that_cannot_be_honoured_are_refused() {
    for (letters, says) in [
        ("-Ra -x", "-x is not among"),
        ("-ac -o", "-c and -o together"),
    ] {
        Lm::new()
            .work_with(&["file", "--like", letters], &["overlay:upper"])
            .run()
            .fails(2, &[says, "hint"])
            .left_nothing();
    }
    Lm::new()
        .work_with(
            &["file", "--matrix", "iozone", "--op", "read"],
            &["overlay:upper"],
        )
        .run()
        .fails(2, &["`--op` has no effect", "tests"]);
}

#[test]
fn every_engine_measures_a_layer_and_mmap_flushes_by_msync() {
    let args = [
        "file",
        "--op",
        "write,read",
        "--engine",
        "sync,pread,preadv,stdio,mmap",
        "--sync",
        "fsync",
        "--file-size",
        "64K",
        "--verify",
    ];
    let said = Lm::new()
        .work_with(&args, &["overlay:upper"])
        .args(["--blocks", "2", "--json"])
        .run()
        .code(0);
    let report = said.json();
    let rows = report["results"].as_array().expect("results");
    assert_eq!(rows.len(), 20);
    for row in rows {
        assert_eq!(row["trials"], 2, "{row:#}");
        assert!(row["untrusted"].is_null(), "{row:#}");
    }
}
