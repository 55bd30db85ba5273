use std::{fs::File, io, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{Histogram, serialization::Deserializer};
use layermark_model::{Defect, Point, PointError, Settings, Trial, WorkGroup};
use serde_json::json;

use super::{WORKLOAD, kind::LockOp, params::LockParams, sys, work::LockWork};
use crate::{Context, TurnRequest, Work, Workload, run::Repeated};

fn params(op: LockOp, threads: u64) -> LockParams {
    LockParams {
        op,
        threads,
        latency: true,
    }
}

fn points(params: serde_json::Value) -> Result<Vec<Point>, PointError> {
    let settings: Settings = serde_json::from_value(params).unwrap();
    WORKLOAD.points(&settings, 1.0)
}

#[test]
fn points_are_kinds_by_threads() {
    let all = points(json!({"workload": "lock", "threads": "1,8", "op": "ofd,flock"})).unwrap();
    let labels: Vec<&str> = all.iter().map(|p| p.label.as_str()).collect();
    let clients = [
        "ofd lock, seen on the host, within 1s",
        "flock lock, seen on the host, within 1s",
    ];
    assert_eq!(labels[4..], clients);
    assert_eq!(
        (labels[0], labels[3]),
        ("ofd lock, 1 thread", "flock lock, 8 threads")
    );
    assert!(all[4..].iter().all(|p| p.workload == "coherence"));
    let said = &all[3].meaning;
    assert_eq!((said.group(), said.concurrency), (WorkGroup::Locking, 8));
    assert!(said.changes, "nothing of it is done in a read-only layer");
    let e = points(json!({"workload": "lock", "threads": 0})).unwrap_err();
    assert!(e.message.contains("`threads` = 0"), "{}", e.message);
    assert!(points(json!({"workload": "lock", "op": "lockf"})).is_err());
    let named = json!({"workload": "lock", "op": "ofd", "label": "mine"});
    let named: Vec<String> = points(named)
        .unwrap()
        .into_iter()
        .map(|p| p.label)
        .collect();
    assert_eq!(named, ["mine", "mine, two clients"]);
}

#[test]
fn every_kind_excludes_and_is_timed() {
    for op in [LockOp::Flock, LockOp::Fcntl, LockOp::Ofd] {
        for threads in [1, 4] {
            let dir = tempfile::tempdir().unwrap();
            let work = LockWork::prepare(dir.path(), params(op, threads), &Context::least());
            let mut work = Repeated::new(work.unwrap());
            let mut trial = Trial::default();
            for round in 0..3 {
                let ask = TurnRequest {
                    round,
                    ns: 2_000_000,
                    lead_in_ns: 200_000,
                };
                let turned = work.turn(&ask, &mut trial, &mut |_, _| {}).unwrap();
                assert!(
                    turned.more && turned.turn.ops >= threads,
                    "{op:?} {turned:?}"
                );
            }
            work.settle(&mut trial).unwrap();
            work.end(&mut trial).unwrap();
            let verified = trial.verified.unwrap();
            assert!(verified.records >= threads && verified.bad == 0);
            // Each operation of a turn is in the histogram, and none of a lead-in.
            let bytes = STANDARD.decode(trial.latency.as_ref().unwrap().histogram.as_bytes());
            let histogram: Histogram<u64> = Deserializer::new()
                .deserialize(&mut bytes.unwrap().as_slice())
                .unwrap();
            assert_eq!(histogram.len(), trial.ops(), "{op:?}");
            drop(work);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }
}

/// A thread with its own descriptors owns its record locks as a process would.
#[test]
fn a_lock_that_somebody_has_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("locked");
    File::create(&path).unwrap();
    let open = || File::options().read(true).write(true).open(&path).unwrap();
    for op in [LockOp::Flock, LockOp::Fcntl, LockOp::Ofd] {
        let tries = || {
            let tried = || {
                sys::own_descriptors().unwrap();
                sys::try_lock(op, &open()).unwrap()
            };
            std::thread::scope(|scope| scope.spawn(tried).join().unwrap())
        };
        let holder = open();
        assert!(tries(), "{op:?}: nobody has it");
        assert!(sys::try_lock(op, &holder).unwrap());
        assert!(!tries(), "{op:?}");
        sys::unlock(op, &holder).unwrap();
        assert!(tries(), "{op:?}: it was let go");
    }
}

#[test]
fn one_stretch_is_made_of_passes() {
    let dir = tempfile::tempdir().unwrap();
    let work = LockWork::prepare(dir.path(), params(LockOp::Flock, 2), &Context::least());
    let mut work = Repeated::new(work.unwrap());
    let ask = TurnRequest {
        round: 0,
        ns: 0,
        lead_in_ns: 0,
    };
    let mut trial = Trial::default();
    work.turn(&ask, &mut trial, &mut |_, _| {}).unwrap();
    assert_eq!((trial.passes.len(), trial.ops()), (1, 200));
}

/// As in a layer that gives everyone who opens the file a copy: the locks of the copies exclude nobody.
fn open_a_copy(_: LockOp, path: &Path) -> io::Result<File> {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let copy = path.with_extension(own);
    std::fs::copy(path, &copy)?;
    File::options().read(true).write(true).open(copy)
}

#[test]
fn locks_that_do_not_exclude_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let p = params(LockOp::Fcntl, 4);
    let made = LockWork::with(dir.path(), p, &Context::least(), open_a_copy);
    let e = made.err().expect("updates were lost");
    assert!(
        e.message.starts_with("the layer breaks fcntl locks: of "),
        "{e}"
    );
    assert!(
        e.message.contains("were lost in ") && e.hint.is_some(),
        "{e}"
    );
    assert_eq!(e.defect, Some(Defect::Breaks));
}

#[test]
fn a_kind_that_the_layer_has_not_is_named() {
    fn refuses<const ERRNO: i32>(_: LockOp, _: &Path) -> io::Result<File> {
        Err(io::Error::from_raw_os_error(ERRNO))
    }
    let dir = tempfile::tempdir().unwrap();
    let error = |open: fn(LockOp, &Path) -> io::Result<File>| {
        let made = LockWork::with(dir.path(), params(LockOp::Ofd, 2), &Context::least(), open);
        made.err().expect("no locks")
    };
    let e = error(refuses::<{ libc::ENOLCK }>);
    assert!(e.message.starts_with("cannot use ofd locks on "), "{e}");
    assert!(e.hint.unwrap().contains("the layer has no ofd locks"));
    assert_eq!(e.defect, Some(Defect::Lacks));
    let defect = error(refuses::<{ libc::EOPNOTSUPP }>).defect;
    assert_eq!(defect, Some(Defect::Lacks));
    assert_eq!(error(refuses::<{ libc::EIO }>).defect, None);
}
