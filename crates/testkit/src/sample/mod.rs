//! An invented run for tests, examples and the browser test: plausible figures from a seed. Nothing
//! in it was measured, and its machine says so.

mod card;
mod launches;
pub mod matrix;
mod meaning;
mod place;
mod sequences;
mod shapes;
pub mod steps;

pub use card::card;
pub use launches::launches;
pub use sequences::{lost_sequence, unseen};

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use hdrhistogram::Histogram;
use layermark_model::{
    Cell, CpuUse, Debt, DeviceBackground, DeviceBytes, Latency, LayerRun, Pass, Plan, Point, Run,
    RunStatus, StoreOption, Trial, TrialRecord,
};
use serde_json::{Value, json};

use place::{layer, machine};
use shapes::{SHAPES, SampleWork, Shape, WORKS};

/// Parameters of the run.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Seed of the noise.
    pub seed: u64,
    /// Blocks, in one session.
    pub blocks: u32,
    /// Names of layers that are known here; `native` is always added first.
    pub layers: Vec<&'static str>,
    /// Labels of points that are known here.
    pub points: Vec<&'static str>,
    /// Whether native is measured a second time.
    pub control: bool,
}

impl Default for Sample {
    /// Four layers, five points, eleven blocks.
    fn default() -> Self {
        Self {
            seed: 7,
            blocks: 11,
            layers: vec!["overlay:upper", "overlay:volatile", "fuse"],
            points: vec![
                "open and stat",
                "small read, cold",
                "large read, warm",
                "random write, fsync each",
                "first write to a packaged file",
            ],
            control: true,
        }
    }
}

/// Everything that the report can show: all layers and points known here, and one layer that
/// failed.
pub fn full() -> Sample {
    Sample {
        blocks: 16,
        layers: SHAPES
            .iter()
            .map(|s| s.name)
            .filter(|n| *n != "native")
            .collect(),
        points: WORKS.iter().map(|w| w.label).collect(),
        ..Sample::default()
    }
}

/// `SplitMix64` (Steele, Lea, Flood 2014): enough for noise in an example.
struct Noise(u64);

impl Noise {
    /// Uniform in 0..1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Approximately normal around 0 with a standard deviation of 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

impl Sample {
    /// Makes the run.
    pub fn build(&self) -> (Run, Vec<TrialRecord>) {
        let mut shapes = vec![&SHAPES[0]];
        shapes.extend(
            self.layers
                .iter()
                .filter_map(|n| SHAPES.iter().find(|s| s.name == *n)),
        );
        let mut layers: Vec<LayerRun> = shapes.iter().map(|s| layer(s)).collect();
        if self.control {
            shapes.push(&SHAPES[0]);
            layers.push(LayerRun {
                name: "native (control)".into(),
                control: true,
                ..layer(&SHAPES[0])
            });
        }
        let works: Vec<&SampleWork> = self
            .points
            .iter()
            .filter_map(|l| WORKS.iter().find(|w| w.label == *l))
            .collect();
        let trials = self.trials(&shapes, &works);
        let last = trials.last().map_or(0, |t| t.at_ms.cast_signed());
        let points: Vec<Point> = works.iter().map(|w| point(w)).collect();
        let run = done(
            "01JSAMPLE0000000000000007",
            self.seed,
            layers,
            points,
            last + 400,
        );
        (run, trials)
    }

    fn trials(&self, shapes: &[&Shape], works: &[&SampleWork]) -> Vec<TrialRecord> {
        let mut noise = Noise(self.seed);
        let mut records = Vec::new();
        let mut at_ms = 350;
        for block in 0..self.blocks {
            // Common to all layers, such as a warm CPU.
            let common = (0.05 * noise.normal()).exp();
            for (p, work) in works.iter().enumerate() {
                for (l, shape) in shapes.iter().enumerate() {
                    if shape.fails {
                        continue;
                    }
                    let value = cost_us(shape, work) * common * (0.02 * noise.normal()).exp();
                    let cell = Cell {
                        session: 0,
                        block,
                        layer: l,
                        point: p,
                    };
                    let disturbed = noise.uniform() < 0.02;
                    records.push(TrialRecord {
                        seq: records.len() as u64,
                        cell,
                        host: None,
                        at_ms,
                        trial: Some(trial(shape, work, value, &mut noise)),
                        error: None,
                        defect: None,
                        upkeep_ns: if shape.fs.starts_with("fuse") {
                            work.ops * 9_000
                        } else {
                            0
                        },
                        foreign_cpu: if disturbed { 0.17 } else { 0.01 },
                        steal: 0.0,
                        backing_resident: None,
                        flags: if disturbed {
                            vec![layermark_model::flags::CONTAMINATED.into()]
                        } else {
                            Vec::new()
                        },
                    });
                    at_ms += 60 + (value * work.ops as f64 / 1e3) as u64;
                }
            }
        }
        records
    }
}

/// Time of an operation without noise, microseconds.
fn cost_us(shape: &Shape, work: &SampleWork) -> f64 {
    let mut us = work.us * shape.factor + shape.extra_us;
    if work.sync == "each" && (!shape.honest || shape.memory) {
        us /= 30.0;
    }
    if work.cache == "cold" && shape.memory {
        us /= 60.0;
    }
    if work.op == "first-write" {
        us + shape.copy_up_us
    } else {
        us
    }
}

fn trial(shape: &Shape, work: &SampleWork, us: f64, noise: &mut Noise) -> Trial {
    let bytes = work.ops
        * work
            .record
            .max(if work.op.contains("small") { 4_096 } else { 0 });
    let syncs = if work.sync == "each" { work.ops } else { 0 };
    let writes = work.op.contains("write");
    let on_device = !shape.memory;
    let device = DeviceBytes {
        read: if work.cache == "cold" { bytes } else { 0 },
        written: if syncs > 0 && shape.honest { bytes } else { 0 },
        flushes: if shape.honest {
            syncs + u64::from(syncs > 0)
        } else {
            0
        },
    };
    let owes = writes && syncs == 0 && on_device;
    let elapsed_ns = (us * 1e3 * work.ops as f64) as u64;
    Trial {
        passes: vec![Pass {
            elapsed_ns,
            ops: work.ops,
            bytes,
            ..Pass::default()
        }],
        latency: Some(latency(us * 1e3, work.ops, noise)),
        cpu: CpuUse {
            user_ns: elapsed_ns / 10,
            sys_ns: elapsed_ns / 3,
        },
        device: on_device.then_some(device),
        debt: owes.then(|| Debt {
            bytes: Some(bytes),
            seconds: bytes as f64 / 1.1e9 + 0.004,
        }),
        resident: Some(if work.cache == "cold" && on_device {
            0.0
        } else {
            1.0
        }),
        syncs,
        background: on_device.then_some(DeviceBackground {
            flushes: 0,
            read: Some(0),
            written: Some(0),
            ns: 20_000_000,
        }),
        ..Trial::default()
    }
}

fn latency(ns: f64, ops: u64, noise: &mut Noise) -> Latency {
    let mut histogram =
        Histogram::<u64>::new(3).unwrap_or_else(|e| panic!("3 digits are allowed: {e}"));
    for _ in 0..ops {
        let slow = if noise.uniform() < 0.004 { 6.0 } else { 1.0 };
        let value = (ns * slow * (0.12 * noise.normal()).exp()).max(1.0) as u64;
        // An auto-resizing histogram accepts any value.
        let _ = histogram.record(value);
    }
    let bytes = layermark_stats::encode(&histogram).unwrap_or_default();
    Latency {
        min: histogram.min(),
        mean: histogram.mean(),
        p50: histogram.value_at_quantile(0.5),
        p99: histogram.value_at_quantile(0.99),
        p999: histogram.value_at_quantile(0.999),
        max: histogram.max(),
        histogram: STANDARD.encode(bytes),
    }
}

fn point(work: &SampleWork) -> Point {
    let mut params = json!({"op": work.op, "threads": 1, "engine": "sync"});
    let mut set = |key: &str, value: Value| params[key] = value;
    if work.workload == "file" {
        set("record", work.record.into());
        set("file_size", (16 << 20).into());
        set("sync", work.sync.into());
    }
    if !work.cache.is_empty() {
        set("cache", work.cache.into());
    }
    let params = params.as_object().cloned().unwrap_or_default();
    Point {
        work: None,
        workload: work.workload.into(),
        label: work.label.into(),
        meaning: meaning::of(work.workload, &params),
        params,
        needs: Arc::default(),
    }
}

/// A run that was done after this many milliseconds.
fn done(id: &str, seed: u64, layers: Vec<LayerRun>, points: Vec<Point>, ms: i64) -> Run {
    let started_ms = 1_795_000_000_000;
    Run {
        id: id.into(),
        version: "0.1.0".into(),
        started_ms,
        ended_ms: Some(started_ms + ms),
        status: RunStatus::Done,
        seed,
        dir: "/srv/scratch".into(),
        plan: plan(&layers, &points, seed),
        machine: machine(),
        layers,
        points,
        cut: None,
        sustained: Vec::new(),
        fleet: None,
        sent: false,
        store: StoreOption::default(),
    }
}

fn plan(layers: &[LayerRun], points: &[Point], seed: u64) -> Plan {
    let work: Vec<Value> = points
        .iter()
        .map(|p| {
            let mut table = p.params.clone();
            table.insert("workload".into(), p.workload.clone().into());
            table.insert("label".into(), p.label.clone().into());
            Value::Object(table)
        })
        .collect();
    let names: Vec<String> = layers
        .iter()
        .filter(|l| !l.control)
        .map(|l| l.spec.to_string())
        .collect();
    let plan = json!({"name": "sample", "about": "Made-up figures: nothing here was measured.", "layers": names,
        "budget": "2m", "precision": 0.05, "seed": seed, "work": work});
    serde_json::from_value(plan).unwrap_or_else(|e| panic!("the sample's plan is valid: {e}"))
}
