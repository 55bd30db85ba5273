//! Turns: passes that span them, what is counted in them, and what is left for after them.

use std::{fs, io::Write, time::Instant};

use crate::common::{Lab, disk, point};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{Histogram, serialization::Deserializer};
use layermark_model::{Trial, protocol::FromProbe};
use serde_json::json;

/// Operations in a trial's histogram.
fn recorded(trial: &Trial) -> u64 {
    let latency = trial.latency.as_ref().unwrap();
    let bytes = STANDARD.decode(&latency.histogram).unwrap();
    let all: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .unwrap();
    all.len()
}

/// Whether this kernel counts how long threads wait for a CPU.
fn counts_delays() -> bool {
    let own = fs::read_to_string("/proc/thread-self/schedstat");
    own.is_ok_and(|numbers| !numbers.starts_with("0 0 0"))
}

#[test]
fn a_pass_spans_turns_and_the_lead_in_is_not_counted() {
    let mut lab = Lab::new();
    lab.lead_in_ns = 20_000;
    for params in [
        json!({"op": "read"}),
        json!({"op": "rand-read", "engine": "sync"}),
        json!({"op": "reread", "engine": "stdio"}),
        json!({"op": "read", "engine": "mmap"}),
        json!({"op": "rand-write"}),
        json!({"op": "rewrite", "sync": "osync"}),
        json!({"op": "write"}),
        json!({"op": "append"}),
        json!({"op": "rand-read", "engine": "uring", "iodepth": 8}),
        json!({"op": "backward-read", "engine": "null"}),
    ] {
        let mut params = params;
        params["file_size"] = "1M".into();
        let trial = lab.turns(&point("file", params.clone()), 7, 200_000);
        let rounds: Vec<u32> = trial.turns.iter().map(|t| t.round).collect();
        assert_eq!(rounds, [0, 1, 2, 3, 4, 5, 6], "{params}");
        for turn in &trial.turns {
            assert!(
                turn.ops > 0 && turn.elapsed_ns >= 180_000,
                "{params}: {turn:?}"
            );
            assert_eq!(turn.bytes, turn.ops * 4096, "{params}");
            // Operations in flight go on while the thread waits for a CPU.
            let known = counts_delays() && params["iodepth"].is_null();
            assert_eq!(turn.waited_ns.is_some(), known, "{params}");
            assert!(turn.waited_ns <= Some(turn.elapsed_ns), "{turn:?}");
        }
        let sum = |of: fn(&layermark_model::Turn) -> u64| trial.turns.iter().map(of).sum::<u64>();
        assert_eq!(
            (trial.passes.len(), trial.ops(), trial.elapsed_ns()),
            (1, sum(|t| t.ops), sum(|t| t.elapsed_ns)),
            "{params}"
        );
        assert_eq!(recorded(&trial), trial.ops(), "{params}");
        let faults = trial.faults.unwrap();
        assert!(params["engine"] != "mmap" || faults.minor > 0, "{faults:?}");
        let syncs = if params["sync"] == "osync" {
            trial.ops()
        } else {
            0
        };
        assert_eq!(trial.syncs, syncs, "{params}");
    }
    // No more than are under way at once: none is before or behind others.
    let few = json!({"op": "rand-read", "engine": "uring", "iodepth": 8, "file_size": "32K"});
    let trial = lab.turns(&point("file", few), 7, 1);
    assert_eq!(recorded(&trial), trial.ops());
    lab.end();
}

/// Of a thread alone a turn is what its operations took; of several, what all would have taken had
/// each gone on to the same moment.
#[test]
fn threads_live_through_turns_and_end_at_their_ends() {
    let mut lab = Lab::new();
    lab.lead_in_ns = 100_000;
    for params in [
        json!({"op": "read"}),
        json!({"op": "rand-read", "engine": "uring", "iodepth": 4}),
        json!({"op": "read", "engine": "mmap", "verify": true}),
        json!({"op": "mix", "record": "8K", "sync": "osync"}),
        json!({"op": "rewrite", "sync": "fsync"}),
        json!({"op": "write", "verify": true}),
    ] {
        let mut params = params;
        params["file_size"] = "1M".into();
        params["threads"] = 3.into();
        let unit = if params["op"] == "mix" { 8192 } else { 4096 };
        let trial = lab.turns(&point("file", params.clone()), 6, 2_000_000);
        let rounds: Vec<u32> = trial.turns.iter().map(|t| t.round).collect();
        assert_eq!(rounds, [0, 1, 2, 3, 4, 5], "{params}");
        for turn in &trial.turns {
            assert!(
                turn.ops >= 3 && turn.elapsed_ns >= 1_800_000,
                "{params}: {turn:?}"
            );
            assert_eq!(turn.bytes, turn.ops * unit, "{params}");
            assert_eq!(turn.waited_ns, None, "of three threads");
        }
        let sum = |of: fn(&layermark_model::Turn) -> u64| trial.turns.iter().map(of).sum::<u64>();
        assert_eq!(
            (trial.passes.len(), trial.ops(), trial.elapsed_ns()),
            (1, sum(|t| t.ops), sum(|t| t.elapsed_ns)),
            "{params}"
        );
        assert_eq!(recorded(&trial), trial.ops(), "{params}");
        if let Some(verified) = trial.verified {
            assert!(verified.bad == 0 && verified.records > 0, "{verified:?}");
        }
        let syncs = match params["sync"].as_str() {
            Some("osync") => 1..trial.ops(),
            Some(_) => trial.ops() / 256..trial.ops() / 256 + 1,
            None => 0..1,
        };
        assert!(syncs.contains(&trial.syncs), "{params}: {}", trial.syncs);
        // A pass of threads counts to the last one's end.
        let ends_together = params["op"] == "write" || params["sync"] == "fsync";
        let threads = trial.threads.clone().unwrap();
        assert!(threads.each.len() == 3 && threads.slowest() > 0.0);
        let together = trial.bytes() as f64 * 1e9 / trial.elapsed_ns() as f64;
        let all: f64 = threads.each.iter().sum();
        assert!(
            ends_together || (0.99..1.01).contains(&(together / all)),
            "{params}: {together} and {:?}",
            threads.each
        );
    }
    lab.end();
}

/// A cold file is gone over once. When one thread is through, the others would go on alone.
#[test]
fn what_threads_use_up_is_over_with_the_first_of_them() {
    let mut lab = Lab::new();
    let cold = json!({"op": "rand-read", "file_size": "1M", "cache": "cold", "threads": 2});
    let trial = lab.turns(&point("file", cold), 100_000, 100_000);
    assert!(trial.turns.len() > 1, "{}", trial.turns.len());
    assert!((257..=512).contains(&trial.ops()), "{}", trial.ops());
    lab.end();
}

#[test]
fn what_is_used_up_is_done_once_whatever_the_turns() {
    let mut lab = Lab::new();
    let cold = json!({"op": "rand-read", "file_size": "1M", "cache": "cold", "verify": true});
    let trial = lab.turns(&point("file", cold), 10_000, 10_000);
    assert!(trial.turns.len() > 1, "{}", trial.turns.len());
    // As it was read, and the whole file at the end.
    assert_eq!((trial.ops(), trial.verified.unwrap().records), (256, 512));
    let cold = json!({"op": "small-read", "files": 120, "file_size": "4K", "cache": "cold"});
    let trial = lab.turns(&point("meta", cold), 10_000, 50_000);
    assert!(trial.turns.len() > 1 && trial.ops() == 120, "{trial:?}");
    lab.end();
}

#[test]
fn of_several_files_each_is_a_turn_of_its_own() {
    let mut lab = Lab::new();
    for (params, ops) in [
        (
            json!({"op": "read", "file_size": "64K", "cache": "cold"}),
            16,
        ),
        (json!({"op": "first-write", "file_size": "64K"}), 1),
    ] {
        let mut params = params;
        params["files"] = 3.into();
        params["verify"] = true.into();
        let trial = lab.turns(&point("file", params.clone()), 10, 50_000_000);
        let done: Vec<u64> = trial.turns.iter().map(|turn| turn.ops).collect();
        assert_eq!(done, [ops; 3], "{params}");
        let verified = trial.verified.unwrap();
        assert!(verified.records >= 3 && verified.bad == 0, "{verified:?}");
        assert_eq!(recorded(&trial), 3 * ops);
        let few = lab.turns(&point("file", params.clone()), 2, 50_000_000);
        assert_eq!(
            (few.turns.len(), few.verified.unwrap().bad),
            (2, 0),
            "{params}"
        );
    }
    lab.end();
}

#[test]
fn a_pass_that_ends_with_a_flush_is_not_divided() {
    let mut lab = Lab::new();
    lab.lead_in_ns = 1_000_000;
    for sync in ["fsync", "fdatasync", "close", "fsync-close"] {
        let p = json!({"op": "write", "file_size": "256K", "record": "8K", "sync": sync});
        let trial = lab.turns(&point("file", p), 3, 1000);
        assert_eq!(trial.turns.len(), 3, "{sync}");
        assert!(
            trial.turns.iter().all(|t| t.ops == 32),
            "{sync}: {:?}",
            trial.turns
        );
        let syncs = if sync == "close" { 0 } else { 3 };
        assert_eq!(
            (trial.syncs, trial.debt.is_some()),
            (syncs, sync == "close")
        );
    }
    lab.end();
}

#[test]
fn what_was_written_in_a_part_of_a_pass_is_verified() {
    let mut lab = Lab::new();
    for (op, file_size) in [
        ("rewrite", "64K"),
        ("rand-write", "64K"),
        ("write", "64K"),
        ("write", "64M"),
        ("rand-write", "16M"),
        ("record-rewrite", "64K"),
    ] {
        let p = json!({"op": op, "file_size": file_size, "verify": true});
        let trial = lab.turns(&point("file", p), 5, 300_000);
        let verified = trial.verified.unwrap();
        assert!(
            verified.bad == 0 && verified.records > 0,
            "{op} {file_size}: {verified:?} of {} writes",
            trial.ops()
        );
    }
    lab.end();
}

#[test]
fn small_files_are_made_and_removed_across_turns() {
    let mut lab = Lab::new();
    lab.lead_in_ns = 30_000;
    for op in ["open-stat", "small-read", "small-write", "create", "unlink"] {
        let p = json!({"op": op, "files": 30, "file_size": 5000});
        let trial = lab.turns(&point("meta", p), 6, 300_000);
        assert_eq!(trial.turns.len(), 6, "{op}");
        let bytes = if op.starts_with("small") { 5000 } else { 0 };
        assert_eq!(trial.bytes(), trial.ops() * bytes, "{op}");
        assert_eq!(recorded(&trial), trial.ops(), "{op}");
    }
    lab.end();
}

/// Trap of short turns: between two of one layer all others use the same device.
#[test]
fn what_crosses_the_device_between_turns_is_not_the_trials() {
    let mut lab = Lab::new();
    if !disk(&lab) {
        return;
    }
    let p = point("file", json!({"op": "read", "file_size": "1M"}));
    assert!(matches!(lab.prepare(&p), FromProbe::Ready { .. }));
    let before = layermark_probe::counters::sum(&[lab.device()]).unwrap();
    let mut last = None;
    for round in 0..3 {
        last = Some(lab.turn(round, 1_000_000));
        let mut other = fs::File::create(lab.dir.path().join("other")).unwrap();
        other.write_all(&vec![7; 8 << 20]).unwrap();
        other.sync_all().unwrap();
    }
    let after = layermark_probe::counters::sum(&[lab.device()]).unwrap();
    assert!(
        after.written - before.written >= 24 << 20,
        "the others' bytes"
    );
    let FromProbe::Trial { trial, .. } = lab.finish(last.unwrap()) else {
        panic!("no trial")
    };
    // Other programs use this disk too.
    let device = trial.device.unwrap();
    assert!(device.written < 8 << 20, "{device:?}");
    lab.end();
}

#[test]
fn to_be_asked_for_a_turn_takes_little() {
    let mut lab = Lab::new();
    let p = json!({"op": "read", "file_size": "64K", "engine": "null"});
    assert!(matches!(
        lab.prepare(&point("file", p)),
        FromProbe::Ready { .. }
    ));
    // The best of many: on a busy machine the probe waits for a CPU.
    let took = (0..300).map(|round| {
        let start = Instant::now();
        assert!(matches!(lab.turn(round, 1), FromProbe::Turned { .. }));
        start.elapsed().as_micros()
    });
    let best = took.min().unwrap();
    assert!(best <= 200, "{best} us");
    lab.end();
}

#[test]
fn a_file_that_was_cut_between_turns_is_an_error_and_the_probe_lives_on() {
    let mut lab = Lab::new();
    let p = point("file", json!({"op": "read", "file_size": "64K"}));
    assert!(matches!(lab.prepare(&p), FromProbe::Ready { .. }));
    assert!(matches!(lab.turn(0, 1000), FromProbe::Turned { .. }));
    let file = fs::OpenOptions::new()
        .write(true)
        .open(lab.packaged("data-65536-0"));
    file.unwrap().set_len(4096).unwrap();
    match lab.turn(1, 1_000_000) {
        FromProbe::Error { message, .. } => assert!(message.contains("data-65536-0"), "{message}"),
        other => panic!("{other:?}"),
    }
    match lab.turn(2, 1000) {
        FromProbe::Error { message, .. } => assert!(message.contains("not ready"), "{message}"),
        other => panic!("{other:?}"),
    }
    let good = point("file", json!({"op": "read", "file_size": "128K"}));
    assert_eq!(lab.turns(&good, 3, 1000).turns.len(), 3);
    lab.end();
}
