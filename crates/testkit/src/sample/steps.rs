//! An invented run of two steps, with the costs of their system calls.

use std::sync::Arc;

use layermark_model::{
    Cell, FigureValues, Meaning, Pass, Point, Run, Target, Trial, TrialRecord, Untraced, calls,
};
use serde_json::json;

use super::{Noise, SHAPES, Shape, done, layer, meaning};

/// Parameters of the run.
#[derive(Debug, Clone)]
pub struct Steps {
    /// Operations of `meta` that have a point.
    pub costs: Vec<&'static str>,
    /// Whether the calls of the steps were counted.
    pub counted: bool,
    /// Part of the time of a step in `fuse` that no call explains, milliseconds.
    pub unexplained_ms: f64,
    /// Why the calls were not counted; `None`: no reason is stored.
    pub untraced: Option<Untraced>,
}

/// Each kind of call: how many `git status` and `untar` make of it.
pub const CALLS: [(&str, [f64; 2]); 4] = [
    ("stat", [4120.0, 0.0]),
    ("open", [30.0, 1.0]),
    ("create", [0.0, 1020.0]),
    ("set-attr", [0.0, 3000.0]),
];

/// Each operation of `meta`: its native time and what `fuse` adds, microseconds.
pub const COSTS: [(&str, f64, f64); 4] = [
    ("stat", 1.0, 31.0),
    ("open-stat", 2.0, 64.0),
    ("create", 9.0, 120.0),
    ("set-attr", 2.0, 40.0),
];

/// Native time of the steps, milliseconds.
const NATIVE_MS: [f64; 2] = [12.0, 40.0];
const LABELS: [&str; 2] = ["git status", "untar"];
const BLOCKS: u32 = 8;

impl Default for Steps {
    fn default() -> Self {
        Self {
            costs: COSTS.iter().map(|(op, ..)| *op).collect(),
            counted: true,
            unexplained_ms: 0.0,
            untraced: None,
        }
    }
}

impl Steps {
    /// Makes the run: native, an overlay that adds nothing, and `fuse`.
    pub fn build(&self) -> (Run, Vec<TrialRecord>) {
        let shapes: Vec<&Shape> = ["native", "overlay:upper", "fuse"]
            .iter()
            .filter_map(|name| SHAPES.iter().find(|s| s.name == *name))
            .collect();
        let layers: Vec<_> = shapes.iter().map(|s| layer(s)).collect();
        let costs = COSTS.iter().filter(|(op, ..)| self.costs.contains(op));
        let costs: Vec<_> = costs.collect();
        let mut points: Vec<Point> = LABELS.iter().map(|label| step(label)).collect();
        points.extend(costs.iter().map(|(op, ..)| cost(op)));
        let (mut noise, mut trials, mut at_ms) = (Noise(7), Vec::new(), 0);
        for block in 0..BLOCKS {
            for point in 0..points.len() {
                for (layer, shape) in shapes.iter().enumerate() {
                    let us = match point.checked_sub(LABELS.len()) {
                        None => self.step_us(point, shape),
                        Some(at) => costs[at].1 + added(shape, costs[at].2),
                    };
                    let ops = if point < LABELS.len() { 1 } else { 1000 };
                    let ns = us * 1e3 * (0.01 * noise.normal()).exp() * f64::from(ops);
                    let cell = Cell {
                        session: 0,
                        block,
                        layer,
                        point,
                    };
                    let mut trial = Trial::default();
                    trial.passes.push(Pass {
                        elapsed_ns: ns as u64,
                        ops: ops as u64,
                        bytes: 0,
                        ..Pass::default()
                    });
                    if layer == 0 && block == 0 && point < LABELS.len() {
                        self.count(point, &mut trial);
                    }
                    trials.push(TrialRecord {
                        seq: trials.len() as u64,
                        cell,
                        at_ms,
                        trial: Some(trial),
                        ..TrialRecord::default()
                    });
                    at_ms += 1 + ns as u64 / 1_000_000;
                }
            }
        }
        let run = done(
            "01JSTEPS0000000000000007",
            7,
            layers,
            points,
            at_ms.cast_signed(),
        );
        (run, trials)
    }

    /// Time of a step: natively, and what its calls take longer.
    fn step_us(&self, step: usize, shape: &Shape) -> f64 {
        let calls = CALLS.iter().zip(&COSTS);
        let calls = calls.map(|((_, n), (_, _, us))| n[step] * added(shape, *us));
        NATIVE_MS[step] * 1e3 + calls.sum::<f64>() + added(shape, self.unexplained_ms * 1e3)
    }

    fn count(&self, step: usize, trial: &mut Trial) {
        trial.untraced.clone_from(&self.untraced);
        if !self.counted {
            return;
        }
        let mut values = FigureValues::default();
        for (kind, n) in CALLS.iter().filter(|(_, n)| n[step] > 0.0) {
            values.set(&format!("{}.{kind}", calls::GROUP), n[step]);
        }
        values.set(calls::BUSIEST, 1000.0);
        trial.figures = values;
    }
}

/// Only `fuse` adds anything.
fn added(shape: &Shape, us: f64) -> f64 {
    if shape.name == "fuse" { us } else { 0.0 }
}

fn step(label: &str) -> Point {
    let meaning = Meaning {
        operation: label.into(),
        target: Target::Step,
        ..Meaning::default()
    };
    let params = json!({"run": label, "trace": true});
    Point {
        work: None,
        workload: "steps".into(),
        label: label.into(),
        params: params.as_object().cloned().unwrap_or_default(),
        meaning: meaning.part("run", label),
        needs: Arc::default(),
    }
}

fn cost(op: &str) -> Point {
    let params = json!({"op": op, "files": 50});
    let params = params.as_object().cloned().unwrap_or_default();
    Point {
        work: None,
        workload: "meta".into(),
        label: format!("{op}, 50 files"),
        meaning: meaning::of("meta", &params),
        params,
        needs: Arc::default(),
    }
}
