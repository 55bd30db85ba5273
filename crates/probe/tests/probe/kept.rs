//! What makes a matrix of short trials quick: files that stay, and debts that are not waited for.

use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

use crate::common::{Lab, point, points};
use layermark_model::Point;
use serde_json::json;

fn kept(op: &str, engine: &str) -> Point {
    let threads = if op == "mix" { 2 } else { 1 };
    point(
        "file",
        json!({"op": op, "engine": engine, "threads": threads, "file_size": "256K", "record": "4K",
            "keep": true, "verify": true}),
    )
}

fn path(lab: &Lab, thread: u64) -> PathBuf {
    lab.dir.path().join(format!("kept/data-262144-{thread}"))
}

#[test]
fn a_kept_file_is_made_once_and_written_over() {
    let mut lab = Lab::new();
    let mut inodes = Vec::new();
    for (op, engine) in [
        ("rewrite", "sync"),
        ("rand-write", "stdio"),
        ("record-rewrite", "pread"),
        ("rewrite", "mmap"),
    ] {
        let trial = lab.trial(&kept(op, engine));
        assert_eq!(trial.verified.unwrap().bad, 0, "{op} {engine}");
        assert!(trial.debt.is_some(), "{op} {engine}");
        inodes.push(path(&lab, 0).metadata().unwrap().ino());
    }
    assert!(inodes.iter().all(|i| *i == inodes[0]), "{inodes:?}");
    lab.trial(&kept("mix", "pread"));
    assert_eq!(path(&lab, 1).metadata().unwrap().len(), 256 << 10);
    lab.end();
}

#[test]
fn what_a_cut_off_trial_left_is_made_anew() {
    let mut lab = Lab::new();
    lab.trial(&kept("rewrite", "sync"));
    let file = fs::File::options().write(true).open(path(&lab, 0)).unwrap();
    file.set_len(10_000).unwrap();
    let trial = lab.trial(&kept("rand-write", "sync"));
    assert_eq!(trial.verified.unwrap().bad, 0);
    assert_eq!(path(&lab, 0).metadata().unwrap().len(), 256 << 10);
    // Not what a link there points to.
    let elsewhere = lab.dir.path().join("elsewhere");
    fs::write(&elsewhere, vec![0; 256 << 10]).unwrap();
    fs::remove_file(path(&lab, 0)).unwrap();
    std::os::unix::fs::symlink(&elsewhere, path(&lab, 0)).unwrap();
    lab.trial(&kept("rewrite", "sync"));
    assert!(fs::read(&elsewhere).unwrap().iter().all(|b| *b == 0));
    lab.end();
}

#[test]
fn the_lab_knows_what_stays() {
    let mix = kept("mix", "pread");
    let stays = &mix.needs.kept_files;
    assert_eq!(
        (stays.len(), stays[0].path.as_str(), stays[0].size),
        (1, "kept/data-262144-1", 256 << 10)
    );
    let own = point("file", json!({"op": "rewrite"}));
    assert!(own.needs.kept_files.is_empty());
}

#[test]
fn a_debt_is_counted_unless_it_is_not_wanted() {
    let mut lab = Lab::new();
    for (op, no_debt) in [
        ("write", false),
        ("write", true),
        ("append", true),
        ("rewrite", true),
        ("rand-write", false),
    ] {
        let p = point(
            "file",
            json!({"op": op, "file_size": "256K", "no_debt": no_debt, "sync": "close"}),
        );
        assert_eq!(lab.trial(&p).debt.is_some(), !no_debt, "{op}");
    }
    lab.end();
}

#[test]
fn what_has_no_effect_is_refused() {
    for (params, name) in [
        (json!({"op": "read", "keep": true}), "keep"),
        (json!({"op": "write", "keep": true}), "keep"),
        (json!({"op": "read", "no_debt": true}), "no_debt"),
        (
            json!({"op": "write", "sync": "fsync", "no_debt": true}),
            "no_debt",
        ),
    ] {
        let e = points("file", params.clone(), 1.0).expect_err(&params.to_string());
        let says = format!("`{name}` has no effect");
        assert!(
            e.message.contains(&says) && e.hint.is_some(),
            "{params}: {e}"
        );
    }
}

#[test]
fn threads_are_told_apart() {
    let mut lab = Lab::new();
    for op in ["write", "read", "mix"] {
        let p = point("file", json!({"op": op, "file_size": "256K", "threads": 3}));
        let trial = lab.trial(&p);
        let rates = trial.threads.clone().expect("three threads");
        assert_eq!(rates.each.len(), 3, "{op}");
        let (low, mean, high) = (rates.slowest(), rates.mean(), rates.fastest());
        assert!(low > 0.0 && low <= mean && mean <= high, "{op}: {rates:?}");
        assert!((0.0..=1.0).contains(&rates.least_done), "{op}: {rates:?}");
        assert!(rates.stonewall > 0.0, "{op}: {rates:?}");
    }
    let alone = lab.trial(&point("file", json!({"op": "read", "file_size": "256K"})));
    assert_eq!(alone.threads, None);
    lab.end();
}
