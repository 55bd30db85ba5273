//! The workload `file`, each operation for real.

use std::{fs, os::unix::fs::FileExt};

use crate::common::{Lab, disk, drop_caches, point, undisturbed};
use layermark_model::{DirectIo, protocol::FromProbe};
use serde_json::json;

#[test]
fn sequential_and_random_passes_move_every_byte() {
    let mut lab = Lab::new();
    for engine in ["pread", "sync"] {
        for op in [
            "write",
            "rewrite",
            "read",
            "reread",
            "rand-read",
            "rand-write",
        ] {
            let p = point(
                "file",
                json!({"op": op, "file_size": "1M", "record": "8K", "engine": engine, "passes": 2}),
            );
            let trial = lab.trial(&p);
            assert_eq!(
                (trial.passes.len(), trial.ops(), trial.bytes()),
                (2, 256, 2 << 20),
                "{}",
                p.label
            );
            assert!(trial.latency.is_some() && trial.ns_per_op().unwrap() > 0.0);
            assert_eq!(trial.debt.is_some(), op.contains("write"), "{op}");
            assert_eq!(trial.syncs, 0);
        }
    }
    lab.end();
}

#[test]
fn passes_are_repeated_until_the_trial_is_long_enough() {
    let mut lab = Lab::new();
    (lab.min_ms, lab.min_ops) = (30, 100);
    let trial = lab.trial(&point(
        "file",
        json!({"op": "read", "file_size": "64K", "record": "16K"}),
    ));
    assert!(trial.elapsed_ns() >= 30_000_000 && trial.ops() >= 100 && trial.passes.len() > 1);
    // Longer than 1 MiB: a pass is one time through the file (shorter ones are batched).
    (lab.min_ms, lab.min_ops) = (0, 100);
    let trial = lab.trial(&point(
        "file",
        json!({"op": "read", "file_size": "2M", "record": "128K"}),
    ));
    assert_eq!((trial.passes.len(), trial.ops()), (7, 112));
    lab.end();
}

#[test]
fn flushes_are_counted_by_how_the_write_is_made_durable() {
    let mut lab = Lab::new();
    for (sync, expected) in [
        ("none", 0),
        ("close", 0),
        ("fsync", 2),
        ("fdatasync", 2),
        ("fsync-close", 2),
        ("each", 64),
        ("each-data", 64),
        ("osync", 64),
        ("odsync", 64),
    ] {
        let p = point(
            "file",
            json!({"op": "write", "sync": sync, "file_size": "256K", "record": "8K", "passes": 2}),
        );
        let trial = lab.trial(&p);
        assert_eq!(
            (trial.syncs, trial.debt.is_some()),
            (expected, sync == "none" || sync == "close"),
            "{sync}"
        );
        if let Some(debt) = trial.debt {
            assert!(debt.seconds > 0.0);
        }
    }
    lab.end();
}

#[test]
fn write_back_debt_is_what_the_device_still_had_to_take() {
    let mut lab = Lab::new();
    if !disk(&lab) {
        return;
    }
    let p = json!({"op": "write", "file_size": "16M", "record": "1M", "passes": 1});
    let trial = lab.trial(&point("file", p));
    let debt = trial.debt.unwrap();
    let written = trial.device.unwrap().written + debt.bytes.unwrap();
    assert!(
        written >= 15 << 20,
        "{written} bytes reached the device: {debt:?}"
    );
    lab.end();
}

#[test]
fn a_debt_to_an_unknown_device_is_unknown_and_not_zero() {
    let mut lab = Lab::new();
    lab.device = Some("none".into());
    for p in [
        point("file", json!({"op": "write", "file_size": "1M"})),
        point("meta", json!({"op": "create", "files": 3})),
    ] {
        let debt = lab.trial(&p).debt.unwrap();
        assert_eq!(debt.bytes, None);
        assert!(debt.seconds > 0.0);
    }
    lab.end();
}

#[test]
fn threads_have_a_file_each_and_share_one_clock() {
    let mut lab = Lab::new();
    for op in ["write", "rand-read", "first-write"] {
        let p = point("file", json!({"op": op, "file_size": "256K", "threads": 4}));
        let trial = lab.trial(&p);
        let once = if op == "first-write" { 4 } else { 4 * 64 };
        assert!(
            trial.passes.iter().all(|pass| pass.ops % once == 0),
            "{op}: {:?}",
            trial.passes
        );
    }
    lab.end();
}

#[test]
fn passes_of_threads_outlast_their_start() {
    let mut lab = Lab::new();
    (lab.min_ms, lab.min_ops) = (50, 1);
    let params = |op, more| json!({"op": op, "file_size": "64K", "threads": 2, "verify": true, "passes": more});
    for op in ["read", "reread", "rand-write"] {
        let trial = lab.trial(&point("file", params(op, 0)));
        // About 5 ms are meant; a machine busy with other things is generous in one way only.
        assert!(trial.passes.len() <= 100, "{op}: {}", trial.passes.len());
        assert!(trial.passes.iter().all(|p| p.ops > 32 && p.ops % 32 == 0));
        assert_eq!(trial.verified.unwrap().bad, 0, "{op}: {:?}", trial.notes);
        let fixed = lab.trial(&point("file", params(op, 3)));
        assert_eq!((fixed.passes.len(), fixed.ops()), (3, 96), "{op}");
    }
    lab.end();
}

#[test]
fn more_threads_than_processors_come_to_their_end() {
    let mut lab = Lab::new();
    let p = point(
        "file",
        json!({"op": "rand-write", "file_size": "16K", "threads": 32, "sync": "fsync", "passes": 5}),
    );
    let trial = lab.trial(&p);
    assert_eq!(
        (trial.passes.len(), trial.ops(), trial.syncs),
        (5, 5 * 32 * 4, 5 * 32)
    );
    lab.end();
}

#[test]
fn a_first_write_opens_writes_once_and_leaves_the_file_as_it_was() {
    let mut lab = Lab::new();
    let settings = json!({"op": "first-write", "file_size": "1M", "record": "4K", "sync": "fsync", "verify": true});
    let p = point("file", settings);
    packaged(&lab, &p);
    let path = lab.packaged("first-1048576-0");
    let state = || {
        (
            fs::read(&path).unwrap(),
            path.metadata().unwrap().modified().unwrap(),
        )
    };
    let before = state();
    let trial = lab.trial(&p);
    assert_eq!((trial.ops(), trial.passes.len(), trial.syncs), (1, 1, 1));
    // The record was there when it was read again.
    assert_eq!(trial.verified.map(|v| (v.records, v.bad)), Some((1, 0)));
    assert!(
        state() == before,
        "the record or the file's time is another"
    );
    lab.end();
}

#[test]
fn a_cold_file_is_not_read_before_its_first_write() {
    let mut lab = Lab::new();
    let settings = json!({"op": "first-write", "file_size": "1M", "record": "4K", "cache": "cold"});
    let p = point("file", settings);
    packaged(&lab, &p);
    let path = lab.packaged("first-1048576-0");
    let before = fs::read(&path).unwrap();
    assert_eq!(lab.trial(&p).ops(), 1);
    let after = fs::read(&path).unwrap();
    let blocks = before.chunks(4096).zip(after.chunks(4096));
    assert_eq!(
        blocks.filter(|(a, b)| a != b).count(),
        1,
        "the layer puts it back"
    );
    lab.end();
}

#[test]
fn a_first_write_changes_no_file_that_others_read() {
    let mut lab = Lab::new();
    let settings = |op| {
        point(
            "file",
            json!({"op": op, "file_size": "1M", "record": "4K", "verify": true}),
        )
    };
    lab.trial(&settings("read"));
    let data = fs::read(lab.packaged("data-1048576-0")).unwrap();
    lab.trial(&settings("first-write"));
    assert!(fs::read(lab.packaged("data-1048576-0")).unwrap() == data);
    let trial = lab.trial(&settings("read"));
    assert_eq!(trial.verified.unwrap().bad, 0, "{:?}", trial.notes);
    lab.end();
}

fn packaged(lab: &Lab, p: &layermark_model::Point) {
    let files = &p.needs.packaged;
    layermark_probe::packaged::write(&lab.dir.path().join("packaged"), files, 99, &|| true)
        .unwrap();
}

#[test]
fn verification_passes_over_good_data_and_finds_a_changed_byte() {
    let mut lab = Lab::new();
    for op in ["write", "rewrite", "rand-write"] {
        let p = point(
            "file",
            json!({"op": op, "file_size": "300K", "record": "4K", "passes": 3, "verify": true, "threads": 2}),
        );
        let verified = lab.trial(&p).verified.unwrap();
        assert_eq!((verified.records, verified.bad), (150, 0), "{op}");
    }
    let p = point(
        "file",
        json!({"op": "rand-read", "file_size": "300K", "record": 100, "verify": true}),
    );
    let verified = lab.trial(&p).verified.unwrap();
    assert_eq!((verified.records, verified.bad), (75, 0));
    let file = fs::OpenOptions::new()
        .write(true)
        .open(lab.packaged("data-307200-0"))
        .unwrap();
    file.write_all_at(b"!", 123_456).unwrap();
    let trial = lab.trial(&p);
    assert_eq!(trial.verified.unwrap().bad, 1);
    assert!(
        trial.notes.iter().any(|n| n.contains("byte 122880")),
        "{:?}",
        trial.notes
    );
    lab.end();
}

#[test]
fn a_short_file_is_an_error_with_its_path() {
    let mut lab = Lab::new();
    let p = point("file", json!({"op": "read", "file_size": "64K"}));
    assert!(matches!(lab.prepare(&p), FromProbe::Ready { .. }));
    fs::OpenOptions::new()
        .write(true)
        .open(lab.packaged("data-65536-0"))
        .unwrap()
        .set_len(10_000)
        .unwrap();
    match lab.go() {
        FromProbe::Error { message, .. } => {
            assert!(
                message.contains("data-65536-0") && message.contains("ends at byte 10000"),
                "{message}"
            );
        }
        other => panic!("{other:?}"),
    }
    match lab.job(&p) {
        FromProbe::Error { message, .. } => assert!(
            message.contains("10000 bytes instead of 65536"),
            "{message}"
        ),
        other => panic!("{other:?}"),
    }
    lab.end();
}

#[test]
fn warm_is_in_the_cache_and_cold_comes_from_the_device() {
    let mut lab = Lab::new();
    let warm = point(
        "file",
        json!({"op": "read", "file_size": "8M", "record": "64K"}),
    );
    let warm = undisturbed(|| lab.trial(&warm), |trial| trial.resident == Some(1.0));
    assert_eq!(warm.resident, Some(1.0));
    if !disk(&lab) || !drop_caches() {
        return lab.end();
    }
    for op in ["read", "rand-read", "rewrite"] {
        let p = point(
            "file",
            json!({"op": op, "file_size": "8M", "record": "64K", "cache": "cold"}),
        );
        assert!(matches!(lab.prepare(&p), FromProbe::Ready { .. }));
        assert!(drop_caches());
        let FromProbe::Trial { trial, .. } = lab.go() else {
            panic!("no trial")
        };
        assert_eq!((trial.passes.len(), trial.resident), (1, Some(0.0)), "{op}");
        if op != "rewrite" {
            let read = trial.device.unwrap().read as f64;
            assert!(
                read >= 0.95 * trial.bytes() as f64,
                "{op}: {read} bytes from the device"
            );
        }
    }
    lab.end();
}

#[test]
fn direct_transfers_are_proved_on_a_disk() {
    let mut lab = Lab::new();
    if !disk(&lab) {
        return;
    }
    for op in ["read", "rand-read", "write", "rand-write"] {
        let p = point(
            "file",
            json!({"op": op, "file_size": "4M", "record": "64K", "direct": true}),
        );
        let answer = match lab.prepare(&p) {
            FromProbe::Ready { .. } => lab.go(),
            refused => refused,
        };
        match answer {
            FromProbe::Trial { trial, .. } => {
                assert_eq!(trial.direct, Some(DirectIo::Honoured), "{op}: {trial:?}");
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
fn direct_transfers_on_tmpfs_are_refused_or_unmasked() {
    let shm = std::path::Path::new("/dev/shm");
    if !rustix::fs::statfs(shm).is_ok_and(|s| s.f_type == 0x0102_1994) {
        eprintln!("skipped: /dev/shm is no tmpfs");
        return;
    }
    let mut lab = Lab::in_dir(shm);
    let p = point(
        "file",
        json!({"op": "read", "file_size": "1M", "record": "64K", "direct": true}),
    );
    let answer = match lab.prepare(&p) {
        FromProbe::Ready { .. } => lab.go(),
        refused => refused,
    };
    match answer {
        FromProbe::Trial { trial, .. } => assert_eq!(trial.direct, Some(DirectIo::Ignored)),
        FromProbe::Error {
            message,
            hint,
            errno,
            ..
        } => {
            assert!(message.contains("O_DIRECT refused at"), "{message}");
            assert!(hint.is_some_and(|h| h.contains("`direct`")));
            assert_eq!(errno, Some(22));
        }
        other => panic!("{other:?}"),
    }
    lab.end();
}

#[test]
fn without_latency_there_is_no_histogram_but_the_same_work() {
    let mut lab = Lab::new();
    let p = point(
        "file",
        json!({"op": "rand-read", "file_size": "1M", "latency": false, "passes": 3}),
    );
    let trial = lab.trial(&p);
    assert_eq!(
        (trial.latency.is_none(), trial.ops(), trial.passes.len()),
        (true, 768, 3)
    );
    lab.end();
}

#[test]
fn modules_form_no_circle() {
    let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    crate::circles::assert_none(&src, &["workloads", "file"]);
}
