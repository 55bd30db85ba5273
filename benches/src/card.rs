//! What the default plan decides in its time, and whether a second run agrees.

use std::{collections::BTreeMap, path::Path, time::Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{report::report, results::Claim};

/// Time limit of the plan, including set-up and report, s.
const SECONDS: f64 = 120.0;

/// Comparisons, by point and layer.
type Cells = BTreeMap<(String, String), Cell>;

struct Cell {
    word: String,
    /// The weaker verdict, if there is no firm one.
    probably: Option<String>,
    /// Logarithms of the lower and upper end of the ratio's interval.
    interval: Option<[f64; 2]>,
}

impl Cell {
    fn decided(&self) -> bool {
        matches!(self.word.as_str(), "slower" | "faster" | "same")
    }

    /// Direction of the verdict, firm or weak: -1 faster, 1 slower.
    fn direction(&self) -> Option<i32> {
        match self.probably.as_deref().unwrap_or(&self.word) {
            "slower" => Some(1),
            "faster" => Some(-1),
            _ => None,
        }
    }

    fn half_width(&self) -> Option<f64> {
        self.interval.map(|[low, high]| (high - low) / 2.0)
    }

    /// Whether the two differ by less than the sum of their half-widths.
    fn agrees(&self, other: &Self) -> Option<bool> {
        let [centre, theirs] =
            [self.interval?, other.interval?].map(|[low, high]| f64::midpoint(low, high));
        Some((centre - theirs).abs() < self.half_width()? + other.half_width()?)
    }
}

/// Two runs with different seeds.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let (first, seconds) = run(binary, dir.path(), "1")?;
    let (second, _) = run(binary, dir.path(), "2")?;
    let mut widths: Vec<f64> = first.values().filter_map(Cell::half_width).collect();
    widths.sort_by(f64::total_cmp);
    let share = |n: usize| n as f64 / first.len() as f64;
    let both = || {
        first
            .iter()
            .filter_map(|(at, a)| Some((a, second.get(at)?)))
    };
    let agree: Vec<bool> = both().filter_map(|(a, b)| a.agrees(b)).collect();
    let apart = agree.iter().filter(|agree| !**agree).count();
    let opposed =
        |(a, b): &(&Cell, &Cell)| a.direction().is_some_and(|d| b.direction() == Some(-d));
    let at_least = |what: &str, value: f64, least: f64| Claim {
        what: what.into(),
        value: 1.0 - value,
        interval: None,
        at_most: Some(1.0 - least),
    };
    Ok(vec![
        Claim {
            what: "the default plan: seconds".into(),
            value: seconds,
            interval: None,
            at_most: Some(SECONDS),
        },
        at_least(
            "the same: share of its cells that are not decided",
            share(first.values().filter(|c| c.decided()).count()),
            0.95,
        ),
        Claim {
            what: "the same: median half-width of its ratios".into(),
            value: widths.get(widths.len() / 2).context("no ratio")?.exp_m1(),
            interval: None,
            at_most: Some(0.02),
        },
        Claim {
            what: "run again: share of its cells that differ by more than both half-widths".into(),
            value: apart as f64 / agree.len().max(1) as f64,
            interval: None,
            at_most: Some(0.07),
        },
        Claim {
            what: "run again: cells with the opposite word".into(),
            value: both().filter(opposed).count() as f64,
            interval: None,
            at_most: Some(0.0),
        },
    ])
}

fn run(binary: &Path, dir: &Path, seed: &str) -> Result<(Cells, f64)> {
    let start = Instant::now();
    let report = report(binary, dir, "run", &["--seed", seed])?;
    let seconds = start.elapsed().as_secs_f64();
    let rows = report["results"].as_array().context("no results")?;
    let cell = |row: &Value| {
        let word = row["verdict"].as_str()?;
        if word == "baseline" || row["layer"] == "native (control)" {
            return None;
        }
        let bound = |n: usize| row["ratio"]["interval"][n].as_f64();
        let interval = bound(0).zip(bound(1));
        let text = |key: &str| row[key].as_str().map(str::to_owned);
        let cell = Cell {
            word: word.into(),
            probably: text("probably"),
            interval: interval.map(|(low, high)| [low.ln(), high.ln()]),
        };
        Some(((text("label")?, text("layer")?), cell))
    };
    let cells: Cells = rows.iter().filter_map(cell).collect();
    if cells.is_empty() {
        bail!("layermark run compared nothing");
    }
    Ok((cells, seconds))
}
