//! What the kernel is told of the order, seen by what it reads ahead.

use std::path::PathBuf;

use crate::common::{Lab, disk, point, undisturbed};
use layermark_model::protocol::FromProbe;
use layermark_probe::resident;
use serde_json::{Value, json};

const FILE: u64 = 4 << 20;

/// Bytes in the cache for each byte that was read, after half of a cold file was read at random.
fn cached(lab: &mut Lab, more: &Value) -> f64 {
    let mut params = json!({"op": "rand-read", "record": "4K", "file_size": FILE, "cache": "cold"});
    let all = params.as_object_mut().unwrap();
    all.extend(more.as_object().cloned().unwrap());
    let path: PathBuf = lab.packaged(&format!("data-{FILE}-0"));
    let mut said = lab.prepare(&point("file", params));
    let (mut bytes, mut round) = (0, 0);
    while bytes < FILE / 2 {
        said = lab.turn(round, 100_000);
        let FromProbe::Turned { turned, .. } = &said else {
            panic!("{said:?}");
        };
        (bytes, round) = (bytes + turned.turn.bytes, round + 1);
    }
    let share = resident::share(&path).expect("a share");
    assert!(matches!(lab.finish(said), FromProbe::Trial { .. }));
    share * FILE as f64 / bytes as f64
}

fn at_least(least: f64, lab: &mut Lab, more: &Value) -> f64 {
    undisturbed(|| cached(lab, more), |bytes| *bytes >= least)
}

/// Every operation of a cold random read is the device's: nothing has been read ahead for it.
#[test]
fn random_reads_are_not_read_ahead() {
    let mut lab = Lab::new();
    if !disk(&lab) {
        return;
    }
    for engine in ["pread", "sync", "mmap"] {
        let advised = at_least(0.99, &mut lab, &json!({"engine": engine}));
        assert!(
            (0.99..1.01).contains(&advised),
            "{engine}: {advised} bytes cached for each that was read"
        );
    }
    // A mapping without advice is read around each fault.
    let plain = json!({"engine": "mmap", "no_advice": true});
    let plain = at_least(1.2, &mut lab, &plain);
    assert!(plain >= 1.2, "{plain} bytes cached for each that was read");
    lab.end();
}
