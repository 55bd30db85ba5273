//! The workload `meta`, each operation for real.

use crate::common::{Lab, disk, drop_caches, point};
use layermark_model::protocol::FromProbe;
use serde_json::json;

#[test]
fn every_operation_touches_every_file_once_a_pass() {
    let mut lab = Lab::new();
    for (op, moves) in [
        ("open-stat", 0),
        ("small-read", 1000),
        ("small-write", 1000),
        ("create", 0),
        ("unlink", 0),
    ] {
        let p = point(
            "meta",
            json!({"op": op, "files": 150, "file_size": 1000, "passes": 3}),
        );
        let trial = lab.trial(&p);
        assert_eq!(
            (trial.passes.len(), trial.ops(), trial.bytes()),
            (3, 450, 450 * moves),
            "{op}"
        );
        assert_eq!(
            trial.debt.is_some(),
            ["small-write", "create", "unlink"].contains(&op)
        );
    }
    lab.end();
}

#[test]
fn fsync_is_counted_for_each_file() {
    let mut lab = Lab::new();
    for op in ["small-write", "create"] {
        let trial = lab.trial(&point(
            "meta",
            json!({"op": op, "files": 5, "sync": "fsync", "passes": 2}),
        ));
        assert_eq!((trial.syncs, trial.debt), (10, None), "{op}");
    }
    lab.end();
}

#[test]
fn cold_files_come_from_the_device() {
    let mut lab = Lab::new();
    if !disk(&lab) {
        return;
    }
    let p = point(
        "meta",
        json!({"op": "small-read", "files": 100, "cache": "cold"}),
    );
    assert!(matches!(lab.prepare(&p), FromProbe::Ready { .. }));
    if !drop_caches() {
        return lab.end();
    }
    let FromProbe::Trial { trial, .. } = lab.go() else {
        panic!("no trial")
    };
    let read = trial.device.unwrap().read as f64;
    assert!(
        trial.passes.len() == 1 && read >= 0.95 * trial.bytes() as f64,
        "{read}"
    );
    lab.end();
}

#[test]
fn a_missing_file_is_found_before_the_clock() {
    let mut lab = Lab::new();
    let p = point("meta", json!({"op": "small-read", "files": 3}));
    assert!(matches!(lab.prepare(&p), FromProbe::Ready { .. }));
    std::fs::remove_file(lab.packaged("small-16384-3-100/d0/f1")).unwrap();
    match lab.job(&p) {
        FromProbe::Error { message, errno, .. } => {
            assert!(message.contains("d0/f1"), "{message}");
            assert_eq!(errno, Some(2));
        }
        other => panic!("{other:?}"),
    }
    lab.end();
}
