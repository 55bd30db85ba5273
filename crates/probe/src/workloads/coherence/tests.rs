use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use layermark_model::{Target, Trial, WorkGroup};
use serde_json::json;

use super::{
    WORKLOAD,
    params::Change,
    side::{Side, until},
};
use crate::{
    TurnRequest, Workload,
    workloads::ends::testing::{Ends, LOOPBACK, context, points},
};

/// The defaults.
const ALL: [Change; 12] = [
    Change::Create,
    Change::List,
    Change::Notify,
    Change::Append,
    Change::AppendOpen,
    Change::Overwrite,
    Change::Held,
    Change::Rename,
    Change::Remove,
    Change::Flock,
    Change::Fcntl,
    Change::Ofd,
];

/// All that one process can see of itself.
fn with_mapped() -> impl Iterator<Item = Change> {
    let defaults = ALL.into_iter().filter(|op| *op != Change::Fcntl);
    defaults.chain([Change::Mapped])
}

#[test]
fn points_are_changes_by_the_side_that_sees_them() {
    let all = points(&WORKLOAD, json!({})).unwrap();
    assert_eq!(all.len(), 2 * ALL.len());
    assert_eq!(all[0].label, "create, seen in the layer");
    assert!(all.iter().all(|p| p.meaning.group() == WorkGroup::Seeing));
    let targets = [0, 18].map(|at| (all[at].label.as_str(), all[at].meaning.target));
    assert_eq!(
        targets[1],
        ("flock lock, seen in the layer", Target::SharedLock)
    );
    assert_eq!(targets[0].1, Target::SharedDirectory);
    let needs = &all[0].needs;
    assert!(needs.near.has_two() && needs.near.is_other_side());
    let one = points(
        &WORKLOAD,
        json!({"op": "rename", "seen": "host", "wait": "30s"}),
    );
    assert_eq!(
        one.unwrap()[0].label,
        "rename, seen on the host, within 30s"
    );
    for (wrong, says) in [
        (json!({"wait": "1ms"}), "between 10ms and 60s"),
        (json!({"wait": "soon"}), "`wait`"),
        (json!({"op": "touch"}), "touch"),
        (json!({"seen": "guest"}), "guest"),
    ] {
        let e = points(&WORKLOAD, wrong).unwrap_err();
        assert!(e.message.contains(says), "{}", e.message);
    }
}

/// The record locks of a process exclude other processes, and both ends are one here.
#[test]
fn a_lock_that_excludes_nobody_is_a_result() {
    for seen in ["layer", "host"] {
        let params = json!({"op": "fcntl", "seen": seen, "wait": "20ms"});
        let mut ends = Ends::start(&WORKLOAD, params).expect(seen);
        let turned = ends.turn(0).expect(seen);
        assert_eq!(turned.turn.elapsed_ns, 20_000_000, "{turned:?}");
        let trial = ends.end();
        assert!(trial.not_seen);
        let number = |name: &str| trial.figures.number(name);
        assert_eq!((number("seen"), number("absent")), (Some(0.0), Some(1.0)));
    }
}

#[test]
fn each_change_is_seen_from_either_side_of_one_directory() {
    for op in with_mapped() {
        for seen in ["layer", "host"] {
            let name = op.id();
            let mut ends = Ends::start(&WORKLOAD, json!({"op": name, "seen": seen})).expect(name);
            let turned = ends.turn(0).expect(name);
            assert!(turned.turn.ops > 0 && !turned.more, "{op:?} {turned:?}");
            let trial = ends.end();
            let latency = trial.latency.as_ref().expect("latencies");
            assert!(latency.p50 < 1_000_000_000, "{op:?}: {latency:?}");
            let number = |name: &str| trial.figures.number(name);
            assert_eq!(number("seen"), Some(turned.turn.ops as f64));
            assert_eq!(number("absent"), Some(0.0));
            assert!(number("round_trip_ns") > Some(0.0));
        }
    }
}

/// Each kind of look tells the state before from the state after, and neither is assumed.
#[test]
fn no_change_is_seen_before_it_is_made() {
    for op in with_mapped() {
        let dir = tempfile::tempdir().unwrap();
        let [mut changer, mut watcher] = [(); 2].map(|()| Side::new(dir.path().to_owned(), op));
        for n in 0..3 {
            changer.release();
            changer.make(n).unwrap();
            assert!(watcher.sees_before(n).unwrap(), "{op:?} {n}");
            assert!(!watcher.sees(n).unwrap(), "{op:?} {n}");
            changer.change(n).unwrap();
            assert!(watcher.sees(n).unwrap(), "{op:?} {n}");
        }
    }
}

/// Two directories that are not the same: nothing is seen, and that is an error and no time.
#[test]
fn what_is_never_seen_is_an_error() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let point = &points(
        &WORKLOAD,
        json!({"op": "create", "seen": "layer", "wait": "50ms"}),
    )
    .unwrap()[0];
    let far = WORKLOAD.serve(other.path(), point, &context(0)).unwrap();
    let e = WORKLOAD.prepare(one.path(), point, &context(far.port()));
    let e = e.err().expect("an error");
    assert!(
        e.message.contains("not seen on this host within 50ms"),
        "{}",
        e.message
    );
    assert_eq!(fs::read_dir(one.path()).unwrap().count(), 0, "left");
    let mut told = 0;
    let mut busy = || {
        told += 1;
        Ok(())
    };
    let seen = until(Duration::from_millis(1200), &mut busy, || Ok(false));
    assert!(!seen.unwrap() && (1..=2).contains(&told), "{told}");
    let gone = &mut || Err(std::io::ErrorKind::BrokenPipe.into());
    let ended = until(Duration::from_mins(10), gone, || Ok(false));
    assert!(ended.is_err(), "nobody waits for the answer");
}

/// A connection that begins as a data connection has no secret, and none is served without it.
#[test]
fn who_does_not_say_the_secret_is_not_served() {
    let dir = tempfile::tempdir().unwrap();
    let point = &points(&WORKLOAD, json!({"op": "create", "seen": "layer"})).unwrap()[0];
    let far = WORKLOAD.serve(dir.path(), point, &context(0)).unwrap();
    let mut stream = TcpStream::connect((LOOPBACK, far.port())).unwrap();
    let hello = r#"{"hello":"lane","token":"x","number":0}"#;
    let _ = stream.write_all(format!("{hello}\n{{\"ask\":\"change\",\"n\":0}}\n").as_bytes());
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert_eq!(answer, "");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "changed");
}

/// A change that was not seen failed the trial: a finding without a verdict.
#[test]
fn a_change_that_is_not_seen_in_time_is_a_result() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let params = json!({"op": "create", "seen": "host", "wait": "50ms"});
    let point = &points(&WORKLOAD, params).unwrap()[0];
    let far = WORKLOAD.serve(other.path(), point, &context(0)).unwrap();
    let over = AtomicBool::new(false);
    // This side has the directory of the other one, and never its files.
    let trial = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for made in fs::read_dir(other.path()).unwrap() {
                    let name = made.unwrap().file_name();
                    let _ = fs::create_dir(one.path().join(name));
                }
                thread::yield_now();
            }
        });
        let work = WORKLOAD.prepare(one.path(), point, &context(far.port()));
        over.store(true, Ordering::Relaxed);
        let (mut work, mut trial) = (work.expect("prepared"), Trial::default());
        let ask = TurnRequest {
            round: 0,
            ns: 1_000_000,
            lead_in_ns: 0,
        };
        let turned = work.turn(&ask, &mut trial, &mut |_, _| {}).unwrap();
        assert_eq!((turned.turn.ops, turned.turn.elapsed_ns), (1, 50_000_000));
        work.end(&mut trial).unwrap();
        trial
    });
    assert!(trial.not_seen);
    let number = |name: &str| trial.figures.number(name);
    assert_eq!(number("longest_ns"), None, "none was seen");
    assert_eq!((number("seen"), number("absent")), (Some(0.0), Some(1.0)));
}
