//! Which record size to use: the smallest that is nearly as good as the best.

use layermark_model::{Run, TrialRecord, format_size};
use layermark_stats::{self as stats, Pair, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    ResultRow,
    analysis::{
        cost::trusted,
        family,
        index::{Index, cost},
        points,
        results::LEVEL,
    },
    number,
    types::{Cell, DataTable, Section},
};

/// `Nearly` is within this share of the best.
const NEARLY: f64 = 0.05;

/// The record sizes to choose for one kind of work in one layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BufferRow {
    /// The workload.
    pub workload: String,
    /// What the points share, in words.
    pub label: String,
    /// The points' parameters without the record.
    pub point: Map<String, Value>,
    /// The layer's name.
    pub layer: String,
    /// Record sizes, bytes, going up.
    pub records: Vec<u64>,
    /// For throughput: the smallest size with at least 95 % of the best.
    pub wall: Pick,
    /// For the CPU time of the program: the smallest size with at most 105 % of the least. Absent
    /// when CPU time was too short to be counted.
    pub cpu: Option<Pick>,
}

/// A record size that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pick {
    /// The size, bytes.
    pub record: u64,
    /// Between which sizes it lies at the report's level, by resampling blocks. Absent below six.
    pub between: Option<[u64; 2]>,
    /// The size that is best of all, bytes.
    pub best: u64,
    /// Seconds for each byte at `record`.
    pub seconds_per_byte: f64,
    /// Seconds for each byte at `best`.
    pub best_seconds_per_byte: f64,
}

/// Recommendations for every family with enough record sizes, by family and within it by layer.
pub fn rows(run: &Run, index: &Index, results: &[ResultRow]) -> Vec<BufferRow> {
    let mut rows = Vec::new();
    for family in family::families(run, "record") {
        if !points::is_bulk(&family.common) || family.steps.len() < stats::MIN_SIZES {
            continue;
        }
        let layers = run.layers.iter().enumerate().filter(|(_, l)| !l.control);
        for (number, layer) in layers {
            let steps = |value: fn(&TrialRecord) -> Option<f64>| -> Vec<Step> {
                let at = family.steps.iter();
                at.filter(|(_, at)| trusted(results, &layer.name, &run.points[*at].label))
                    .map(|(size, at)| step(*size, &index.trials(number, *at), value))
                    .filter(|s| !s.pairs.is_empty())
                    .collect()
            };
            let wall = pick(&steps(cost), 1.0 / (1.0 - NEARLY), run.seed);
            let records = steps(cost).iter().map(|s| s.size as u64).collect();
            let Some(wall) = wall else { continue };
            rows.push(BufferRow {
                workload: family.common.workload.clone(),
                label: family.describe(),
                point: family::params(&family),
                layer: layer.name.clone(),
                records,
                wall,
                cpu: pick(&steps(cpu), 1.0 + NEARLY, run.seed),
            });
        }
    }
    rows
}

fn step(size: u64, trials: &[&TrialRecord], value: fn(&TrialRecord) -> Option<f64>) -> Step {
    let pair = |record: &&TrialRecord| {
        let cost = value(record)?;
        Some(Pair::new(
            (record.cell.session, record.cell.block),
            cost,
            cost,
        ))
    };
    Step {
        size: size as f64,
        pairs: trials.iter().filter_map(pair).collect(),
    }
}

/// Nanoseconds of CPU time of the probe an operation.
fn cpu(record: &TrialRecord) -> Option<f64> {
    let trial = record.trial.as_ref()?;
    let ns = (trial.cpu.user_ns + trial.cpu.sys_ns) as f64 / trial.ops() as f64;
    (ns.is_finite() && ns > 0.0).then_some(ns)
}

fn pick(steps: &[Step], limit: f64, seed: u64) -> Option<Pick> {
    if steps.len() < stats::MIN_SIZES {
        return None;
    }
    let choice = stats::choose_size(steps, limit, LEVEL, stats::CURVE_RESAMPLES, seed)?;
    let size = |at: usize| steps[at].size as u64;
    let seconds = |at: usize| {
        let costs: Vec<f64> = steps[at].pairs.iter().map(|p| p.layer).collect();
        stats::median(&costs).map(|ns| ns / steps[at].size / 1e9)
    };
    Some(Pick {
        record: size(choice.step),
        between: choice.between.map(|(low, high)| [size(low), size(high)]),
        best: size(choice.best),
        seconds_per_byte: seconds(choice.step)?,
        best_seconds_per_byte: seconds(choice.best)?,
    })
}

/// `1K (512 to 2K)`.
pub fn chosen(pick: &Pick) -> String {
    let size = format_size(pick.record);
    match pick.between {
        Some([low, high]) if low != high => {
            format!("{size} ({} to {})", format_size(low), format_size(high))
        }
        Some(_) => format!("{size} (in every resample)"),
        None => size,
    }
}

/// The recommendations as a section of the report; `None` when there are none.
pub fn section(rows: &[BufferRow], level: f64) -> Option<Section> {
    if rows.is_empty() {
        return None;
    }
    let line = |row: &BufferRow| {
        let pick = |pick: &Pick| Cell::number(chosen(pick), pick.record as f64);
        let speed = |seconds: f64| {
            let speed = 1.0 / seconds;
            Cell::number(number::value(speed, "B/s"), speed)
        };
        let cpu = |pick: &Pick| {
            let per_gib = pick.seconds_per_byte * (1u64 << 30) as f64;
            Cell::number(format!("{} s", number::sig3(per_gib)), per_gib)
        };
        vec![
            Cell::text(&row.label),
            Cell::text(&row.layer),
            pick(&row.wall),
            speed(row.wall.seconds_per_byte),
            speed(row.wall.best_seconds_per_byte),
            row.cpu.as_ref().map_or_else(Cell::default, pick),
            row.cpu.as_ref().map_or_else(Cell::default, cpu),
        ]
    };
    Some(Section {
        name: "buffer".into(),
        title: "Which record size to use".into(),
        about: format!(
            "The smallest record with at least {} of the best throughput, and the smallest with at most {} of the least CPU time of the program; in brackets where it lies in {} of the resamples of the blocks, from six blocks on.",
            number::percent(1.0 - NEARLY),
            number::percent(1.0 + NEARLY),
            number::percent(level)
        ),
        tables: vec![DataTable {
            title: "Smallest record that is nearly as good as the best".into(),
            note: String::new(),
            head: [
                "operation",
                "layer",
                "for throughput",
                "reaches",
                "best",
                "for CPU time",
                "CPU a GiB",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: rows.iter().map(line).collect(),
        }],
        charts: Vec::new(),
        conclusions: Vec::new(),
        files: Vec::new(),
    })
}
