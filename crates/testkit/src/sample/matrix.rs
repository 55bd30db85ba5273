//! An invented run over file sizes and record sizes, with the same limits as iozone's.

use std::sync::Arc;

use layermark_model::{
    Cell, CpuUse, LayerRun, Meaning, Pass, Point, Quantity, Run, Trial, TrialRecord, format_size,
};
use serde_json::json;

use super::{Noise, SHAPES, Shape, done, layer, meaning};

/// Parameters of the run.
#[derive(Debug, Clone)]
pub struct Matrix {
    /// Operations and their engines.
    pub works: Vec<(&'static str, &'static str)>,
    /// File sizes, bytes.
    pub files: Vec<u64>,
    /// Records, bytes.
    pub records: Vec<u64>,
    /// Names of layers that [`super::Sample`] knows; `native` is always added first.
    pub layers: Vec<&'static str>,
    /// Trials of every point in every layer.
    pub blocks: u32,
}

/// Sizes from one to another, doubling.
pub fn doubling(from: u64, to: u64) -> Vec<u64> {
    std::iter::successors(Some(from), |n| Some(n * 2))
        .take_while(|n| *n <= to)
        .collect()
}

/// The operations of iozone's thirteen tests, in its order.
pub const IOZONE: [(&str, &str); 13] = [
    ("write", "sync"),
    ("rewrite", "sync"),
    ("read", "sync"),
    ("reread", "sync"),
    ("rand-read", "sync"),
    ("rand-write", "sync"),
    ("backward-read", "sync"),
    ("record-rewrite", "sync"),
    ("stride-read", "sync"),
    ("write", "stdio"),
    ("rewrite", "stdio"),
    ("read", "stdio"),
    ("reread", "stdio"),
];

impl Default for Matrix {
    /// Four tests, three file sizes, three record sizes, two layers in addition to native.
    fn default() -> Self {
        Self {
            works: vec![
                ("write", "sync"),
                ("read", "sync"),
                ("rand-read", "sync"),
                ("read", "stdio"),
            ],
            files: vec![64 << 10, 1 << 20, 32 << 20],
            records: vec![4 << 10, 64 << 10, 1 << 20],
            layers: vec!["fuse", "loop:xfs"],
            blocks: 6,
        }
    }
}

/// Whether a cell exists. Records larger than the file, and small records in large files, are left
/// out, as in iozone.
fn exists(file: u64, record: u64) -> bool {
    record <= file && (file <= 16 << 20 || record >= 64 << 10)
}

impl Matrix {
    /// Makes the run.
    pub fn build(&self) -> (Run, Vec<TrialRecord>) {
        let shapes: Vec<&Shape> = std::iter::once("native")
            .chain(self.layers.iter().copied())
            .filter_map(|n| SHAPES.iter().find(|s| s.name == n))
            .collect();
        let layers: Vec<LayerRun> = shapes.iter().map(|s| layer(s)).collect();
        let points = self.points();
        let trials = self.trials(&shapes, &points);
        let last = trials.last().map_or(0, |t| t.at_ms.cast_signed());
        let run = done("01JMATRX0000000000000007", 7, layers, points, last);
        (run, trials)
    }

    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for (op, engine) in &self.works {
            for file in &self.files {
                for record in self.records.iter().filter(|r| exists(*file, **r)) {
                    let params = json!({"op": op, "record": record, "file_size": file, "threads": 1,
                        "sync": "none", "cache": "warm", "engine": engine});
                    let params = params.as_object().cloned().unwrap_or_default();
                    points.push(Point {
                        work: None,
                        workload: "file".into(),
                        label: format!(
                            "{op} {}/{}, {engine}",
                            format_size(*record),
                            format_size(*file)
                        ),
                        meaning: meaning::of("file", &params),
                        params,
                        needs: Arc::default(),
                    });
                }
            }
        }
        points
    }

    fn trials(&self, shapes: &[&Shape], points: &[Point]) -> Vec<TrialRecord> {
        let mut noise = Noise(7);
        let mut records: Vec<TrialRecord> = Vec::new();
        let mut at_ms = 100;
        for block in 0..self.blocks {
            for (p, point) in points.iter().enumerate() {
                for (l, shape) in shapes.iter().enumerate() {
                    let us = cost_us(shape, point) * (0.02 * noise.normal()).exp();
                    let trial = trial(point, us);
                    at_ms += 1 + trial.passes[0].elapsed_ns / 1_000_000;
                    records.push(TrialRecord {
                        seq: records.len() as u64,
                        cell: Cell {
                            session: 0,
                            block,
                            layer: l,
                            point: p,
                        },
                        at_ms,
                        trial: Some(trial),
                        foreign_cpu: 0.01,
                        ..TrialRecord::default()
                    });
                }
            }
        }
        records
    }
}

/// Time of an operation, microseconds: a call and its bytes. Files above 8 MiB do not fit into the
/// CPU's cache.
fn cost_us(shape: &Shape, point: &Point) -> f64 {
    let said = &point.meaning;
    let far = if size(said, Quantity::DataSize) > 8 << 20 {
        1.6
    } else {
        1.0
    };
    let byte_us = if said.changes { 4e-4 } else { 1e-4 };
    let random = if said.operation.starts_with("rand") {
        0.6
    } else {
        0.0
    };
    let record = size(said, Quantity::RequestSize) as f64;
    (0.4 + random + byte_us * far * record) * shape.factor + shape.extra_us
}

fn size(said: &Meaning, of: Quantity) -> u64 {
    said.value(of).unwrap_or(1)
}

fn trial(point: &Point, us: f64) -> Trial {
    let record = size(&point.meaning, Quantity::RequestSize);
    let ops = size(&point.meaning, Quantity::DataSize) / record;
    let elapsed_ns = (us * 1e3 * ops as f64) as u64;
    Trial {
        passes: vec![Pass {
            elapsed_ns,
            ops,
            bytes: ops * record,
            ..Pass::default()
        }],
        cpu: CpuUse {
            user_ns: elapsed_ns / 10,
            sys_ns: elapsed_ns / 2,
        },
        resident: Some(1.0),
        ..Trial::default()
    }
}
