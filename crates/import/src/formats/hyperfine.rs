//! hyperfine, `--export-json`.

use layermark_model::ImportedPoint;
use serde::Deserialize;

use super::{Format, Found, some};
use crate::{document, values};

pub struct Hyperfine;

impl Format for Hyperfine {
    fn id(&self) -> &'static str {
        "hyperfine"
    }

    fn about(&self) -> &'static str {
        "hyperfine with --export-json"
    }

    fn knows(&self, text: &str) -> bool {
        text.contains("\"results\"") && text.contains("\"command\"") && text.contains("\"mean\"")
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        let document = document::find::<Output>(text)?;
        let mut found = Found {
            tool: "hyperfine".into(),
            ..Found::default()
        };
        for result in document.value.results {
            let name = values::clean(&result.command);
            let failed = result.exit_codes.iter().filter(|c| **c != Some(0)).count();
            if failed > 0 {
                let n = result.exit_codes.len();
                let text = format!("`{name}` failed in {failed} of {n} runs");
                found.notes.push(text);
            }
            let us = |what: &str, seconds: f64| {
                values::micros(&format!("`{name}`: {what}"), seconds * 1e6)
            };
            let middle = match result.median {
                Some(median) => us("median", median)?,
                None => us("mean", result.mean)?,
            };
            found.points.push(ImportedPoint {
                op: Some("command".into()),
                op_us: Some(middle),
                ops_per_s: (middle > 0.0).then(|| 1e6 / middle),
                max_us: result.max.map(|max| us("max", max)).transpose()?,
                samples: Some(result.times.len() as u64).filter(|n| *n > 0),
                name,
                ..ImportedPoint::default()
            });
        }
        some(found, "result")
    }
}

#[derive(Deserialize)]
struct Output {
    results: Vec<Timed>,
}

/// Seconds.
#[derive(Deserialize)]
struct Timed {
    command: String,
    mean: f64,
    median: Option<f64>,
    max: Option<f64>,
    #[serde(default)]
    times: Vec<f64>,
    #[serde(default)]
    exit_codes: Vec<Option<i64>>,
}
