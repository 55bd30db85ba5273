//! An invented run of one program with given launch times, in order.

use std::sync::Arc;

use layermark_model::{
    Cell, FigureValues, Meaning, Pass, Point, Run, Target, Trial, TrialRecord, Unit,
};
use serde_json::json;

use super::{done, layer, shapes::PLAIN};

/// One native series; times in milliseconds.
pub fn launches(ms: &[f64]) -> (Run, Vec<TrialRecord>) {
    let params = json!({"command": "app --login", "ready": "window=Login", "cache": "as-is"});
    let point = Point {
        work: None,
        workload: "launch".into(),
        label: "app, window=Login".into(),
        params: params.as_object().cloned().unwrap_or_default(),
        meaning: Meaning {
            operation: "app --login".into(),
            target: Target::Program,
            unit: Unit::Launch,
            ..Meaning::default()
        }
        .part("ready", "until window=Login"),
        needs: Arc::default(),
    };
    let (layers, points) = (vec![layer(&PLAIN)], vec![point]);
    let started_ms = 1_400_000_000_000;
    let mut at_ms = 0;
    let mut record = |(n, ms): (usize, &f64)| {
        let seen = json!({
            "program": "app",
            "ready": "window=Login",
            "window": "Login",
            "error_ns": 100_000,
            "major_faults": 0,
            "input_blocks": 0,
            "read_bytes": 0,
            "peak_bytes": 80 << 20,
            "processes": 2,
            "stopped": "itself",
        });
        let made = TrialRecord {
            seq: n as u64,
            cell: Cell {
                session: 0,
                block: n as u32,
                layer: 0,
                point: 0,
            },
            at_ms,
            trial: Some(Trial {
                passes: vec![Pass {
                    elapsed_ns: (ms * 1e6) as u64,
                    ops: 1,
                    bytes: 0,
                    ..Pass::default()
                }],
                figures: FigureValues::of(&seen),
                ..Trial::default()
            }),
            ..TrialRecord::default()
        };
        at_ms += *ms as u64 + 500;
        made
    };
    let trials: Vec<TrialRecord> = ms.iter().enumerate().map(&mut record).collect();
    let ended = i64::try_from(at_ms).unwrap_or(0);
    let run = Run {
        version: env!("CARGO_PKG_VERSION").into(),
        started_ms,
        ended_ms: Some(started_ms + ended),
        ..done("01HZLAUNCHES0000000000SAMPLE", 7, layers, points, ended)
    };
    (run, trials)
}
