//! The workload `iops`, for real.

use crate::common::{self, Lab, disk, point, undisturbed};
use layermark_model::{DirectIo, Point, PointError, Trial, protocol::FromProbe};
use serde_json::{Value, json};

fn iops(params: Value) -> Point {
    point("iops", with_small(params))
}

/// A small file and a short trial.
fn with_small(mut params: Value) -> Value {
    for (name, value) in [("file_size", "4M"), ("time", "200ms"), ("ramp", "10ms")] {
        if params.get(name).is_none() {
            params[name] = value.into();
        }
    }
    if params.get("iodepth").is_none() {
        params["iodepth"] = 1.into();
    }
    params
}

fn refused(params: Value) -> PointError {
    common::points("iops", params, 1.0).expect_err("an error")
}

fn per_second(trial: &Trial) -> f64 {
    trial.ops() as f64 / (trial.elapsed_ns() as f64 / 1e9)
}

#[test]
fn a_batch_is_how_many_are_handed_over_not_how_many_are_under_way() {
    let mut lab = Lab::new();
    for (batch, iodepth) in [(1, 8), (3, 8), (8, 8), (100, 8), (4, 1)] {
        let p = iops(json!({"spec": "4k-rand-read", "iodepth": iodepth, "batch": batch}));
        let trial = lab.trial(&p);
        assert!(trial.ops() > 0, "{}: {trial:?}", p.label);
        assert_eq!(trial.bytes(), trial.ops() * 4096);
    }
    lab.end();
    let refused = refused(json!({"spec": "4k-rand-read", "batch": 0}));
    assert!(refused.message.contains("batch"), "{refused:?}");
}

/// At two I/Os a second none is due from 10 to 60 ms.
#[test]
fn a_trial_at_a_rate_lasts_until_an_io_was_due() {
    let mut lab = Lab::new();
    let trial = lab.trial(&iops(json!({"rate": 2, "time": "50ms", "ramp": "10ms"})));
    assert!(
        trial.ops() > 0 && trial.response_ns > Some(0.0),
        "{trial:?}"
    );
    lab.end();
}

#[test]
fn every_engine_and_pattern_counts_what_ends_in_the_window() {
    let mut lab = Lab::new();
    for (engine, iodepth, workers) in [
        ("pread", 1, 1),
        ("pread", 1, 2),
        ("uring", 1, 1),
        ("uring", 16, 2),
    ] {
        for (spec, size) in [
            ("4k-rand-read", Some(4096)),
            ("4k-write", Some(4096)),
            ("iometer-default", Some(2048)),
            ("fileserver", None),
        ] {
            let p = iops(json!({
                "spec": spec, "engine": engine, "iodepth": iodepth, "workers": workers,
                "time": "200ms",
            }));
            let trial = undisturbed(
                || lab.trial(&p),
                |trial| spec != "4k-rand-read" || trial.resident == Some(1.0),
            );
            let [pass] = trial.passes[..] else {
                panic!("{trial:?}")
            };
            assert_eq!(pass.elapsed_ns, 200_000_000, "{}", p.label);
            let latency = trial.latency.clone().unwrap();
            assert!(pass.ops > 0 && latency.mean > 0.0, "{}: {pass:?}", p.label);
            if let Some(size) = size {
                assert_eq!(pass.bytes, pass.ops * size, "{}", p.label);
            } else {
                let sizes = 512 * pass.ops..=65_536 * pass.ops;
                assert!(sizes.contains(&pass.bytes), "{}: {pass:?}", p.label);
            }
            assert_eq!(trial.debt.is_some(), spec != "4k-rand-read", "{spec}");
            assert_eq!((trial.service.is_some(), trial.response_ns), (false, None));
            if spec == "4k-rand-read" {
                assert_eq!(trial.resident, Some(1.0));
            }
        }
    }
    lab.end();
}

/// Nothing is served before it was due: where one I/O takes long, those behind it wait, and that
/// counts. The same work without a rate looks fast.
#[test]
fn a_fixed_rate_keeps_its_moments_and_counts_the_wait() {
    let mut lab = Lab::new();
    for engine in ["pread", "uring"] {
        let p = iops(json!({"rate": 2000, "engine": engine, "time": "200ms"}));
        let trial = lab.trial(&p);
        let (response, service) = (
            trial.latency.clone().unwrap(),
            trial.service.clone().unwrap(),
        );
        let reached = per_second(&trial);
        // A busy machine may be behind, but none begins more than it was asked for.
        assert!(
            (1.0..2300.0).contains(&reached),
            "{engine}: {reached} a second"
        );
        assert!(
            response.mean >= service.mean,
            "{engine}: {response:?} {service:?}"
        );
        assert_eq!(trial.response_ns, Some(response.mean));
        assert_eq!(trial.ns_per_op(), Some(response.mean));
        assert!(trial.spun_ns > 0);
    }
    // More than anything can do: the wait grows and the trial says so.
    let trial = lab.trial(&iops(json!({"rate": 10_000_000, "engine": "pread"})));
    let (response, service) = (trial.latency.unwrap(), trial.service.unwrap());
    assert!(
        response.mean > 20.0 * service.mean,
        "{} {}",
        response.mean,
        service.mean
    );
    assert!(
        trial
            .notes
            .iter()
            .any(|n| n.contains("10000000 I/Os a second")),
        "{:?}",
        trial.notes
    );
    lab.end();
}

#[test]
fn a_delay_leaves_time_between_bursts() {
    let mut lab = Lab::new();
    let p = iops(json!({"burst": 4, "delay": "10ms", "iodepth": 4, "time": "100ms"}));
    let trial = lab.trial(&p);
    assert!((4..=44).contains(&trial.ops()), "{}", trial.ops());
    assert!(trial.response_ns.is_some());
    lab.end();
}

#[test]
fn direct_ios_are_proved_at_every_depth() {
    let mut lab = Lab::new();
    if !disk(&lab) {
        return;
    }
    for (spec, depth) in [("4k-rand-read", 1), ("4k-rand-read", 16), ("database", 16)] {
        let p = iops(json!({"spec": spec, "iodepth": depth, "direct": true, "time": "150ms"}));
        let answer = match lab.prepare(&p) {
            FromProbe::Ready { .. } => lab.go(),
            refused => refused,
        };
        match answer {
            FromProbe::Trial { trial, .. } => {
                assert_eq!(
                    trial.direct,
                    Some(DirectIo::Honoured),
                    "{}: {trial:?}",
                    p.label
                );
                assert!(trial.resident.is_none() && trial.debt.is_none());
            }
            FromProbe::Error { message, .. } => {
                assert!(message.contains("O_DIRECT refused"), "{message}");
                eprintln!("skipped: {message}");
            }
            other => panic!("{other:?}"),
        }
    }
    lab.end();
}

#[test]
fn a_mix_of_writes_touches_no_file_but_its_own() {
    let mut lab = Lab::new();
    let read = iops(json!({"spec": "4k-rand-read"}));
    lab.trial(&read);
    let name = "data-4194304-0";
    let before = std::fs::read(lab.packaged(name)).unwrap();
    lab.trial(&iops(json!({"spec": "database", "iodepth": 8})));
    assert!(std::fs::read(lab.packaged(name)).unwrap() == before);
    lab.end();
}

#[test]
fn a_short_file_is_an_error_and_not_a_hang() {
    let mut lab = Lab::new();
    let p = iops(json!({"spec": "4k-rand-read", "workers": 3, "iodepth": 4}));
    let FromProbe::Ready { .. } = lab.prepare(&p) else {
        panic!("not ready")
    };
    let file = std::fs::File::options()
        .write(true)
        .open(lab.packaged("data-4194304-0"));
    file.unwrap().set_len(4096).unwrap();
    match lab.go() {
        FromProbe::Error { message, .. } => {
            assert!(
                message.contains("data-4194304-0") && message.contains("shorter"),
                "{message}"
            );
        }
        other => panic!("{other:?}"),
    }
    lab.end();
}

#[test]
fn what_cannot_be_is_refused_with_what_would_be_right() {
    for (params, says) in [
        (json!({"spec": "4K 120% read"}), "not a whole percentage"),
        (json!({"spec": "databse"}), "databse"),
        (json!({"spec": "4K burst 8"}), "without a delay"),
        (json!({"spec": "4K @50%"}), "50% instead of 100%"),
        (
            json!({"spec": "database", "read": 50}),
            "no effect without `spec` = own",
        ),
        (json!({"read": 101}), "at most 100"),
        (
            json!({"engine": "pread", "iodepth": 4}),
            "one I/O in flight",
        ),
        (json!({"engine": "sync"}), "not known"),
        (json!({"iodepth": 0}), "between 1 and 1024"),
        (json!({"workers": 0}), "between 1 and 256"),
        (json!({"size": "0"}), "between 1 byte and 256M"),
        (
            json!({"size": "1G", "file_size": "2G"}),
            "between 1 byte and 256M",
        ),
        (
            json!({"size": "4M", "file_size": "1M"}),
            "larger than the file",
        ),
        (json!({"size": "4M", "iodepth": 1024}), "up to 1G"),
        (json!({"size": "100", "direct": true}), "O_DIRECT"),
        (json!({"delay": "1ms", "rate": 100}), "contradict"),
        (json!({"burst": 4}), "no effect without `delay`"),
        (json!({"time": 300}), "unit"),
        (json!({"time": "2h"}), "`time`"),
        (
            json!({"align": "1G", "file_size": "1M"}),
            "larger than the file",
        ),
    ] {
        let e = refused(params.clone());
        assert!(e.message.contains(says), "{params}: {e}");
    }
    let hint = refused(json!({"spec": "databse"})).hint.unwrap();
    assert!(hint.contains("`database`"), "{hint}");
}

#[test]
fn points_say_what_they_do() {
    let p = iops(json!({"spec": "4K 67% read; 64K sequential @20%", "iodepth": 4}));
    assert_eq!(p.text("op"), "read-write");
    assert_eq!(
        p.text("spec"),
        "4K 67% read 100% random @80%; 64K 100% read 0% random @20%"
    );
    assert_eq!(
        (p.number("size"), p.number("read"), p.number("random")),
        (16384, 73, 80)
    );
    let p = iops(json!({"engine": "pread", "read": 0, "iodepth": 1}));
    assert_eq!((p.text("op"), p.number("iodepth")), ("write", 1));
    assert_eq!(
        p.label,
        "4K 0% read 100% random, iodepth 1, engine pread, file 4M"
    );
}
