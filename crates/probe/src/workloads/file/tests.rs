use std::sync::Arc;

use layermark_model::{Point, Trial};
use proptest::prelude::*;
use rustix::fs::Advice;
use serde_json::{Map, Value, json};

use super::*;
use crate::{Purpose, Workload, param::read, workloads::tests::assert_pays_for_its_own_files};

fn settings(params: &Value) -> Settings {
    let params = params.as_object().cloned().unwrap_or_default();
    Settings {
        workload: "file".into(),
        label: None,
        params,
    }
}

pub fn points(params: &Value) -> Result<Vec<Point>, PointError> {
    WORKLOAD.points(&settings(params), 1.0)
}

fn labels(params: &Value) -> Vec<String> {
    points(params)
        .unwrap()
        .into_iter()
        .map(|p| p.label)
        .collect()
}

#[test]
fn lists_make_points_with_labels_of_what_differs() {
    assert_eq!(
        labels(&json!({"op": "read", "cache": "cold"})),
        ["read 4K of 64M, cold"]
    );
    let labels = labels(&json!({"op": "read,write", "sync": "none,fsync", "record": "4K,64K"}));
    let expected = [
        "read 4K of 64M, warm",
        "read 64K of 64M, warm",
        "write 4K of 64M",
        "write 4K of 64M, fsync of 16384 records",
        "write 64K of 64M",
        "write 64K of 64M, fsync of 1024 records",
    ];
    assert_eq!(labels, expected);
    let mut named = settings(&json!({"op": "read", "record": "4K,64K"}));
    named.label = Some("large read".into());
    let labels: Vec<String> = WORKLOAD
        .points(&named, 1.0)
        .unwrap()
        .into_iter()
        .map(|p| p.label)
        .collect();
    assert_eq!(labels, ["large read (4K)", "large read (64K)"]);
}

#[test]
fn impossible_points_are_refused_with_what_would_be_right() {
    for (params, says) in [
        (json!({"record": 0}), "between 1 and 256M"),
        (
            json!({"op": "read", "cache": "cold", "files": 1_000_000}),
            "`files` = 1000000: it must be between 1 and 256",
        ),
        (
            json!({"op": "mix", "threads": 2, "read_share": 101}),
            "`read_share` = 101: it must be at most 100",
        ),
        (
            json!({"record": "128M"}),
            "cannot be larger than its file (64M)",
        ),
        (json!({"record": -5}), "whole number"),
        (json!({"file_size": "-1K"}), "negative"),
        (json!({"file_size": "17T"}), "between 1 and 16T"),
        (json!({"threads": 0}), "between 1 and 256"),
        (json!({"threads": 257}), "between 1 and 256"),
        (json!({"files": 2}), "up to 256"),
        (
            json!({"op": "rand-read", "cache": "cold", "files": 2}),
            "up to 256",
        ),
        (
            json!({"op": "first-write", "files": 257}),
            "between 1 and 256",
        ),
        (
            json!({"op": "first-write", "files": 2, "threads": 2}),
            "up to 256",
        ),
        (json!({"direct": true, "record": 1000}), "O_DIRECT"),
        (json!({"verify": true, "record": 16}), "at least 32 bytes"),
        (
            json!({"engine": "null", "op": "first-write"}),
            "touches no file",
        ),
        (json!({"op": "first-write", "passes": 2}), "one pass"),
        (
            json!({"op": "read", "cache": "cold", "passes": 2}),
            "one pass",
        ),
        (json!({"op": "read", "sync": "fsync"}), "no effect"),
        (json!({"op": "write", "cache": "cold"}), "no effect"),
        (json!({"op": "read", "fill_record": "4K"}), "no effect"),
        (
            json!({"op": "backward-read", "no_advice": true}),
            "no effect",
        ),
        (
            json!({"op": "rewrite", "fill_record": "65M"}),
            "up to its own size",
        ),
        (
            json!({"record": "512M", "file_size": "1G"}),
            "between 1 and 256M",
        ),
        (
            json!({"record": "256M", "file_size": "1G", "threads": 8}),
            "all threads together",
        ),
        (json!({"recrod": 1}), "`recrod` is not a parameter"),
        (json!({"engine": "uring2"}), "not known"),
    ] {
        let e = points(&params).expect_err(&params.to_string());
        assert!(e.message.contains(says), "{params}: {e}");
    }
}

#[test]
fn large_sizes_are_left_to_the_check_of_free_space() {
    let p = &points(&json!({"op": "write", "file_size": 1_000_000_000_000u64, "threads": 3}))
        .unwrap()[0];
    assert_eq!(p.needs.space, 3_000_000_000_000);
    let p = &points(&json!({"op": "read", "file_size": "1T"})).unwrap()[0];
    assert_eq!((p.needs.space, p.needs.packaged[0].size), (0, 1 << 40));
    let p = &points(&json!({"op": "first-write", "file_size": "1G"})).unwrap()[0];
    assert_eq!((p.needs.space, p.needs.packaged.len()), (1 << 30, 1));
}

#[test]
fn what_writes_and_what_needs_a_refresh() {
    for p in points(&json!({"op": "write,rewrite,read,reread,rand-read,rand-write,first-write", "file_size": "1M"})).unwrap() {
        let op = p.text("op");
        assert_eq!(p.meaning.changes, op.contains("write"), "{op}");
        assert_eq!(p.needs.refresh, op == "first-write", "{op}");
        let packaged = ["read", "reread", "rand-read", "first-write"].contains(&op);
        assert_eq!(p.needs.packaged.len(), usize::from(packaged), "{op}");
    }
    let null = &points(&json!({"op": "write", "engine": "null"})).unwrap()[0];
    assert_eq!((null.meaning.changes, null.needs.space), (false, 0));
}

#[test]
fn a_scale_makes_files_smaller_and_keeps_whole_records() {
    let scaled = |scale| {
        WORKLOAD
            .points(&settings(&json!({"op": "read", "record": "64K"})), scale)
            .unwrap()[0]
            .number("file_size")
    };
    assert_eq!(
        (scaled(1.0), scaled(0.1), scaled(1e-9), scaled(2.0)),
        (64 << 20, 102 << 16, 64 << 10, 128 << 20)
    );
    // Points that differed only in the record still do.
    let sizes = WORKLOAD
        .points(
            &settings(&json!({"op": "read", "record": "32..4K", "file_size": "256M"})),
            0.021,
        )
        .unwrap();
    let whole = ((256u64 << 20) as f64 * 0.021) as u64 / 4096 * 4096;
    assert_eq!(sizes.len(), 8);
    assert!(sizes.iter().all(|p| p.number("file_size") == whole));
    assert!(
        WORKLOAD
            .points(&settings(&json!({"file_size": "1T"})), 1000.0)
            .is_err()
    );
}

#[test]
fn how_a_file_is_made_and_what_the_kernel_is_told() {
    let page = rustix::param::page_size() as u64;
    let made = |params: Value| {
        let p = read::<FileParams>(&points(&params).unwrap()[0]).unwrap();
        (p.filled_with(), open::advice(&p, p.op))
    };
    let (random, order) = (Some(Advice::Random), Some(Advice::Sequential));
    for (params, expected) in [
        (
            json!({"op": "rand-write", "record": "64K"}),
            (Some(65536), random),
        ),
        (json!({"op": "rewrite", "record": 32}), (Some(page), order)),
        (
            json!({"op": "rewrite", "fill_record": "1M", "no_advice": true}),
            (Some(1 << 20), None),
        ),
        (
            json!({"op": "rewrite", "engine": "preadv", "record": "4K"}),
            (Some(65536), order),
        ),
        (json!({"op": "record-rewrite"}), (Some(page), None)),
        (json!({"op": "rand-read"}), (None, random)),
        (json!({"op": "read"}), (None, order)),
        (json!({"op": "write"}), (None, order)),
        (json!({"op": "stride-read"}), (None, None)),
    ] {
        assert_eq!(made(params.clone()), expected, "{params}");
    }
    let labels = labels(&json!({"op": "rewrite", "fill_record": "1M", "no_advice": true}));
    assert_eq!(labels, ["rewrite 4K of 64M, warm, made with 1M, no advice"]);
    // Points stored before there was advice were measured without it.
    let mut old = points(&json!({"op": "read"})).unwrap().remove(0);
    old.params.remove("no_advice");
    assert!(read::<FileParams>(&old).unwrap().no_advice);
}

proptest! {
    #[test]
    fn no_settings_panic_and_labels_are_unique(
        op in "(read|write|rand-read|rewrite|first-write|x)(,(reread|rand-write))?",
        record in "[0-9]{1,6}[KM]?(,[0-9]{1,4}K?)?",
        size in "[0-9]{1,6}[KMG]?",
        threads in 0u64..300,
        sync in "(none|fsync|each|each-data|osync)(,close)?",
        cache in "(warm|cold|warm,cold)",
        switch: bool,
        scale in 0.0001f64..1000.0,
    ) {
        let params = json!({"op": op, "record": record, "file_size": size, "threads": threads, "sync": sync,
                            "cache": cache, "direct": switch, "verify": !switch});
        if let Ok(points) = WORKLOAD.points(&settings(&params), scale) {
            let mut labels: Vec<&str> = points.iter().map(|p| p.label.as_str()).collect();
            let count = labels.len();
            labels.sort_unstable();
            labels.dedup();
            prop_assert_eq!(labels.len(), count);
            for p in &points {
                prop_assert!(WORKLOAD.read(p, Purpose::Run).is_ok_and(|again| again == *p));
                prop_assert!(read::<FileParams>(p).is_ok());
            }
        }
    }

    #[test]
    fn no_stored_point_panics(key in "[a-z_]{0,9}", value: i64) {
        let mut params = Map::new();
        params.insert(key, json!(value));
        let meaning = layermark_model::Meaning::default();
        let p = Point { workload: "file".into(), label: String::new(), work: None, params, meaning, needs: Arc::default() };
        prop_assert!(WORKLOAD.read(&p, Purpose::Run).is_err());
        prop_assert!(WORKLOAD.read(&p, Purpose::Report).is_err());
    }
}

fn ready(dir: &Path, params: &Value) -> Box<dyn Work> {
    let p = points(params).unwrap().remove(0);
    let files = &p.needs.packaged;
    crate::packaged::write(&dir.join("packaged"), files, 3, &|| true).unwrap();
    if p.text("cache") != "cold" {
        for file in files {
            crate::files::evict(
                &std::fs::File::open(dir.join("packaged").join(&file.path)).unwrap(),
            )
            .unwrap();
        }
    }
    WORKLOAD.prepare(dir, &p, &Context::least()).unwrap()
}

#[test]
fn warming_up_is_done_when_the_work_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("packaged/data-262144-0");
    for op in ["read", "rand-read", "reread"] {
        let work = ready(dir.path(), &json!({"op": op, "file_size": "256K"}));
        assert_eq!(crate::resident::share(&file), Some(1.0), "{op}");
        drop(work);
    }
}

#[test]
fn a_pass_does_something_however_slow_the_machine_is() {
    let dir = tempfile::tempdir().unwrap();
    for threads in [1, 2] {
        let p = json!({"op": "rewrite", "file_size": "64K", "threads": threads});
        let p = read::<FileParams>(&points(&p).unwrap()[0]).unwrap();
        let mut work = prepare::prepare(dir.path(), p, &Context::least()).unwrap();
        assert!(work.rounds > 0);
        // The time is over before the first check of the clock.
        work.rehearse_for(0).unwrap();
        assert_eq!(work.rounds, 1);
        let mut trial = Trial::default();
        stretch(&mut Repeated::new(work), &mut trial);
        assert_eq!((trial.passes.len(), trial.ops()), (1, 16 * threads));
    }
}

#[test]
fn the_histogram_is_encoded_after_the_debt_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let mut work = ready(dir.path(), &json!({"op": "write", "file_size": "64K"}));
    let mut trial = Trial::default();
    stretch(work.as_mut(), &mut trial);
    work.settle(&mut trial).unwrap();
    assert!(trial.latency.is_none() && trial.debt.is_some());
    work.end(&mut trial).unwrap();
    assert!(trial.latency.is_some());
}

#[test]
fn verification_sees_what_the_timed_loop_read() {
    let dir = tempfile::tempdir().unwrap();
    for (op, record, threads) in [
        ("read", 4096, 1),
        ("rand-read", 12288, 1),
        ("reread", 5000, 2),
    ] {
        let params = json!({"op": op, "record": record, "file_size": 122_880, "verify": true, "threads": threads});
        let mut work = ready(dir.path(), &params);
        let path = dir.path().join("packaged/data-122880-0");
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[45_100] ^= 1;
        std::fs::write(&path, bad).unwrap();
        let mut trial = Trial::default();
        stretch(work.as_mut(), &mut trial);
        std::fs::write(&path, good).unwrap();
        work.settle(&mut trial).unwrap();
        work.end(&mut trial).unwrap();
        let verified = trial.verified.unwrap();
        assert!(verified.bad >= 1, "{op}: {verified:?}");
        assert!(
            trial.notes.iter().any(|n| n.contains("inside the trial")),
            "{:?}",
            trial.notes
        );
    }
}

#[test]
fn a_layer_pays_for_its_own_files_alone() {
    let params = json!({"op": "write", "file_size": "8M", "record": "64K"});
    let dirty = |dir: &Path| {
        let mut made = std::fs::read_dir(dir).unwrap();
        let made = made.find_map(|entry| {
            let path = entry.unwrap().path().join("file-0");
            path.exists().then_some(path)
        });
        let file = std::fs::File::open(made.unwrap()).unwrap();
        crate::resident::unwritten(&file)
    };
    assert_pays_for_its_own_files(|dir| ready(dir, &params), 5_000_000, dirty);
}

/// Otherwise each layer would have one place on the disk for all passes of a block.
#[test]
fn a_new_file_is_flushed_before_the_last_one_is_removed() {
    use crate::run::{Extent, Repeat};
    for (more, at_once) in [
        (json!({"sync": "fsync"}), 2),
        (json!({"sync": "each-data"}), 2),
        (json!({"sync": "none"}), 1),
        (json!({"sync": "fsync", "file_size": "65M"}), 1),
    ] {
        let mut params = json!({"op": "write", "file_size": "64K", "record": "4K"});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let point = points(&params).unwrap().remove(0);
        let p: FileParams = read(&point).unwrap();
        assert_eq!(point.needs.space, p.file_size * at_once, "{params}");
        let dir = tempfile::tempdir().unwrap();
        let mut work = prepare::prepare(dir.path(), p, &Context::least()).unwrap();
        let names = || {
            let work = std::fs::read_dir(dir.path()).unwrap().next().unwrap();
            let all = std::fs::read_dir(work.unwrap().path()).unwrap();
            let mut all: Vec<_> = all.map(|e| e.unwrap().file_name()).collect();
            all.sort();
            all
        };
        let mut last = Vec::new();
        for pass in 0..3 {
            work.renew(&mut |_| {}).unwrap();
            let two = pass > 0 && at_once == 2;
            assert_eq!(names().len(), 1 + usize::from(two), "{params}");
            assert!(work.go(Extent::PASS, &mut |_| {}).unwrap().over);
            work.passed().unwrap();
            assert_eq!(names().len(), 1, "{params}");
            assert_eq!(names() == last, pass > 0 && !two, "{params}");
            last = names();
        }
    }
}

/// Two files that grow beside each other from their first bytes on are in many pieces on an ext4.
#[test]
fn a_new_file_has_its_first_bytes_before_another_layer_has_its_turn() {
    use crate::run::{Extent, Repeat};
    for (op, file_size, record, ops) in [
        ("append", "1M", "4K", 16),
        ("write", "1M", "48K", 2),
        ("append", "32K", "4K", 8),
        ("rewrite", "1M", "4K", 1),
        ("rand-read", "1M", "4K", 1),
    ] {
        let params = json!({"op": op, "file_size": file_size, "record": record});
        let point = points(&params).unwrap().remove(0);
        let dir = tempfile::tempdir().unwrap();
        crate::packaged::write(
            &dir.path().join("packaged"),
            &point.needs.packaged,
            3,
            &|| true,
        )
        .unwrap();
        let p: FileParams = read(&point).unwrap();
        let mut work = prepare::prepare(dir.path(), p, &Context::least()).unwrap();
        let mut done = 0;
        work.renew(&mut |_| {}).unwrap();
        while done == 0 || !work.may_rest() {
            // Over before the first operation has ended.
            done += work.go(Extent::time(1, true), &mut |_| {}).unwrap().ops;
        }
        assert_eq!(done, ops, "{params}");
    }
}

/// Does all work in one stretch.
fn stretch(work: &mut dyn Work, trial: &mut Trial) {
    let ask = crate::TurnRequest {
        round: 0,
        ns: 0,
        lead_in_ns: 0,
    };
    let turned = work.turn(&ask, trial, &mut |_, _| {}).unwrap();
    assert_eq!(turned.turn.ops, trial.ops());
}
