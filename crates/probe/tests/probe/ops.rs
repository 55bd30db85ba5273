//! Every operation of the workload `file` with every engine.

use crate::common::{self, Lab, disk, point};
use layermark_model::{Point, protocol::FromProbe};
use serde_json::{Value, json};

const OPS: [&str; 13] = [
    "write",
    "rewrite",
    "read",
    "reread",
    "rand-read",
    "rand-write",
    "first-write",
    "backward-read",
    "stride-read",
    "seek-read",
    "record-rewrite",
    "append",
    "mix",
];
const ENGINES: [&str; 5] = ["pread", "sync", "preadv", "stdio", "mmap"];

/// The point, or why there is none.
fn points(params: Value) -> Result<Vec<Point>, String> {
    common::points("file", params, 1.0)
        .map_err(|e| format!("{} hint: {}", e.message, e.hint.unwrap_or_default()))
}

#[test]
fn every_operation_with_every_engine_moves_every_byte_and_verifies() {
    let mut lab = Lab::new();
    let mut made = 0;
    for engine in ENGINES {
        for op in OPS {
            let threads = if op == "mix" { 2 } else { 1 };
            let params = json!({"op": op, "file_size": "256K", "record": "4K", "engine": engine,
                "threads": threads, "verify": true});
            let p = match points(params) {
                Ok(mut points) => points.remove(0),
                Err(e) => {
                    let refused = [("append", "mmap"), ("first-write", engine)];
                    assert!(refused.contains(&(op, engine)), "{op} {engine}: {e}");
                    assert!(e.contains("hint: use engine"), "{e}");
                    continue;
                }
            };
            let trial = lab.trial(&p);
            let unit = if engine == "preadv" {
                64 << 10
            } else {
                4 << 10
            };
            let once = match op {
                "first-write" => 1,
                _ => threads * (256 << 10) / unit,
            };
            let (passes, ops) = (trial.passes.len() as u64, trial.ops());
            assert!(
                passes >= 1 && ops.is_multiple_of(once),
                "{op} {engine}: {ops}"
            );
            assert_eq!(trial.bytes(), ops * unit, "{op} {engine}");
            let verified = trial.verified.unwrap();
            assert!(
                verified.records > 0 && verified.bad == 0,
                "{op} {engine}: {verified:?} {:?}",
                trial.notes
            );
            let writes = !matches!(op, "read" | "reread") && !op.ends_with("-read");
            assert_eq!(trial.debt.is_some(), writes, "{op} {engine}");
            made += 1;
        }
    }
    assert_eq!(made, 5 * 13 - 4);
    lab.end();
}

#[test]
fn every_durability_works_with_every_engine() {
    let mut lab = Lab::new();
    for engine in ENGINES {
        for (sync, syncs) in [
            ("none", 0),
            ("close", 0),
            ("fsync", 2),
            ("fdatasync", 2),
            ("fsync-close", 2),
            ("each", 32),
            ("each-data", 32),
            ("osync", 32),
        ] {
            for op in ["write", "rand-write"] {
                let params = json!({"op": op, "sync": sync, "file_size": "64K", "record": "4K",
                    "vectors": 1, "passes": 2, "engine": engine, "verify": true});
                let params = without_vectors(params, engine);
                let Ok(points) = points(params) else {
                    assert!(engine == "mmap" && ["osync", "each-data"].contains(&sync));
                    continue;
                };
                let trial = lab.trial(&points[0]);
                assert_eq!(trial.syncs, syncs, "{engine} {sync} {op}");
                assert_eq!(trial.verified.unwrap().bad, 0, "{engine} {sync} {op}");
            }
        }
    }
    lab.end();
}

fn without_vectors(mut params: Value, engine: &str) -> Value {
    if engine != "preadv" {
        params.as_object_mut().unwrap().remove("vectors");
    }
    params
}

#[test]
fn a_mix_flushes_only_what_it_writes() {
    let mut lab = Lab::new();
    for (sync, share, syncs) in [
        ("fsync", 50, 4),
        ("osync", 25, 6 * 16),
        ("each", 75, 2 * 16),
    ] {
        let threads = if share == 50 { 4 } else { 8 };
        let params = json!({"op": "mix", "threads": threads, "read_share": share, "sync": sync,
            "file_size": "64K", "record": "4K", "passes": if share == 50 { 2 } else { 1 }, "verify": true});
        let trial = lab.trial(&points(params).unwrap()[0]);
        assert_eq!(
            (trial.syncs, trial.verified.unwrap().bad),
            (syncs, 0),
            "{sync}"
        );
    }
    lab.end();
}

#[test]
fn a_wrong_byte_is_found_by_every_engine_that_reads_it() {
    let mut lab = Lab::new();
    for engine in ENGINES {
        for op in ["backward-read", "stride-read", "seek-read"] {
            let p = points(
                json!({"op": op, "file_size": "512K", "record": "4K", "engine": engine,
                "verify": true}),
            )
            .unwrap()
            .remove(0);
            assert!(matches!(lab.prepare(&p), FromProbe::Ready { .. }));
            let path = lab.packaged("data-524288-0");
            let good = std::fs::read(&path).unwrap();
            let mut bad = good.clone();
            bad[200_000] ^= 1;
            std::fs::write(&path, bad).unwrap();
            let FromProbe::Trial { trial, .. } = lab.go() else {
                panic!("no trial")
            };
            std::fs::write(&path, good).unwrap();
            assert!(trial.verified.unwrap().bad > 0, "{op} {engine}");
            assert!(
                trial.notes.iter().any(|n| n.contains("inside the trial")),
                "{op} {engine}: {:?}",
                trial.notes
            );
        }
    }
    lab.end();
}

#[test]
fn a_file_that_was_cut_is_an_error_with_every_engine() {
    let mut lab = Lab::new();
    for engine in ENGINES {
        let p = point(
            "file",
            json!({"op": "read", "file_size": "64K", "record": "4K", "engine": engine}),
        );
        std::fs::remove_dir_all(lab.dir.path().join("packaged")).unwrap_or_default();
        assert!(matches!(lab.prepare(&p), FromProbe::Ready { .. }));
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(lab.packaged("data-65536-0"))
            .unwrap();
        file.set_len(10_000).unwrap();
        match lab.go() {
            FromProbe::Error { message, .. } => assert!(
                message.contains("data-65536-0") && message.contains("ends at byte 10000"),
                "{engine}: {message}"
            ),
            other => panic!("{engine}: {other:?}"),
        }
    }
    lab.end();
}

#[test]
fn vectors_go_past_the_cache_too() {
    let mut lab = Lab::new();
    if !disk(&lab) {
        return;
    }
    for op in ["read", "write"] {
        let p = point(
            "file",
            json!({"op": op, "file_size": "4M", "record": "4K", "engine": "preadv", "direct": true}),
        );
        let answer = match lab.prepare(&p) {
            FromProbe::Ready { .. } => lab.go(),
            refused => refused,
        };
        match answer {
            FromProbe::Trial { trial, .. } => {
                assert_eq!(
                    trial.direct,
                    Some(layermark_model::DirectIo::Honoured),
                    "{op}"
                );
            }
            FromProbe::Error { message, .. } => {
                assert!(message.contains("O_DIRECT refused"), "{message}");
                eprintln!("skipped: {message}");
            }
            other => panic!("{op}: {other:?}"),
        }
    }
    lab.end();
}

#[test]
fn what_cannot_be_is_refused_with_a_way_out() {
    for (params, says, hint) in [
        (
            json!({"direct": true, "engine": "stdio"}),
            "not aligned",
            "leave `direct` out",
        ),
        (
            json!({"direct": true, "engine": "mmap"}),
            "the page cache",
            "leave `direct` out",
        ),
        (
            json!({"op": "append", "engine": "mmap"}),
            "does not grow",
            "use engine",
        ),
        (
            json!({"op": "write", "engine": "mmap", "sync": "osync"}),
            "through a mapping",
            "sync = each",
        ),
        (
            json!({"op": "first-write", "engine": "stdio"}),
            "one open(2)",
            "use engine pread",
        ),
        (
            json!({"matrix": "iozone", "min_file_size": "0"}),
            "at least 1 byte",
            "",
        ),
        (json!({"op": "mix"}), "at least 2 threads", "threads = 2"),
        (
            json!({"op": "mix", "threads": 2, "read_share": 100}),
            "some to write",
            "between 1 and 99",
        ),
        (
            json!({"op": "mix", "threads": 2, "read_share": 0}),
            "some to write",
            "between 1 and 99",
        ),
        (
            json!({"op": "seek-read", "distance": "5000"}),
            "whole number of operations of 4K",
            "multiple of 4K",
        ),
        (
            json!({"op": "seek-read", "distance": "33M"}),
            "half of the file (32M)",
            "larger `file_size`",
        ),
        (json!({"op": "stride-read", "stride": 0}), "at least 1", ""),
        (
            json!({"op": "read", "stride": 3}),
            "`stride` has no effect",
            "stride-read",
        ),
        (
            json!({"op": "read", "distance": "4K"}),
            "`distance` has no effect",
            "seek-read",
        ),
        (
            json!({"op": "read", "read_share": 3}),
            "`read_share` has no effect",
            "mix",
        ),
        (
            json!({"op": "read", "vectors": 3}),
            "`vectors` has no effect",
            "preadv",
        ),
        (
            json!({"op": "read", "vectors": 17, "engine": "preadv"}),
            "between 1 and 16",
            "",
        ),
        (
            json!({"op": "read", "vectors": 0, "engine": "preadv"}),
            "between 1 and 16",
            "",
        ),
    ] {
        let e = points(params.clone()).expect_err(&params.to_string());
        assert!(e.contains(says) && e.contains(hint), "{params}: {e}");
    }
}

#[test]
fn labels_say_what_an_operation_alone_has() {
    let label = |params| points(params).unwrap().remove(0).label;
    assert_eq!(
        label(json!({"op": "seek-read", "distance": "1M", "cache": "cold"})),
        "seek-read 4K of 64M, cold, distance 1M"
    );
    assert_eq!(
        label(json!({"op": "stride-read"})),
        "stride-read 4K of 64M, warm"
    );
    assert_eq!(
        label(json!({"op": "stride-read", "stride": 5})),
        "stride-read 4K of 64M, warm, stride 5"
    );
    assert_eq!(label(json!({"op": "append"})), "append 4K of 64M");
    assert_eq!(
        label(json!({"op": "mix", "threads": 4, "read_share": 75})),
        "mix 4K of 64M, warm, 4 threads, 75 % readers"
    );
    assert_eq!(
        label(json!({"op": "read", "engine": "preadv", "file_size": "16K"})),
        "read 4K of 16K, warm, engine preadv, 4 records a call"
    );
}

#[test]
fn a_scale_brings_distances_nearer() {
    let params = json!({"op": "seek-read", "file_size": "64M", "distance": "4K,1M,32M"});
    let scaled: Vec<(u64, u64)> = common::points("file", params, 0.01)
        .unwrap()
        .iter()
        .map(|p| (p.number("file_size"), p.number("distance")))
        .collect();
    assert_eq!(
        scaled,
        [(163 << 12, 4096), (163 << 12, 8192), (163 << 12, 81 << 12)]
    );
}
