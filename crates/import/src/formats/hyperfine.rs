//! hyperfine, `--export-json`.

use layermark_model::ImportedPoint;
use serde::{Deserialize, Deserializer};

use super::{Format, Found, bounded, each, some};
use crate::{document, values};

pub struct Hyperfine;

impl Format for Hyperfine {
    fn id(&self) -> &'static str {
        "hyperfine"
    }

    fn about(&self) -> &'static str {
        "hyperfine with --export-json"
    }

    fn example(&self) -> &'static str {
        "hyperfine --export-json FILE COMMAND"
    }

    fn knows(&self, text: &str) -> bool {
        text.contains("\"results\"") && text.contains("\"command\"") && text.contains("\"mean\"")
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        let documents = document::find::<Output>(text, "\"results\"")?;
        let mut found = Found {
            tool: "hyperfine".into(),
            ..Found::default()
        };
        let outputs = document::latest(documents.values, Output::key, &mut found);
        for result in outputs.into_iter().flat_map(|output| output.results) {
            let name = values::clean(&result.command);
            let Exits { failed, all: n } = result.exit_codes;
            if failed > 0 {
                let text = format!("`{name}` failed in {failed} of {n} runs");
                found.note(text);
            }
            let us = |what: &str, seconds: f64| {
                values::micros(&format!("`{name}`: {what}"), seconds * 1e6)
            };
            let middle = match result.median {
                Some(median) => us("median", median)?,
                None => us("mean", result.mean)?,
            };
            found.point(ImportedPoint {
                op: Some("command".into()),
                // Of what was quicker than its clock, nothing is known.
                op_us: Some(middle).filter(|us| *us > 0.0),
                ops_per_s: (middle > 0.0).then(|| 1e6 / middle),
                max_us: result.max.map(|max| us("max", max)).transpose()?,
                samples: Some(result.times.0).filter(|n| *n > 0),
                name,
                ..ImportedPoint::default()
            })?;
        }
        some(found, "result")
    }
}

#[derive(Deserialize)]
struct Output {
    #[serde(deserialize_with = "bounded")]
    results: Vec<Timed>,
}

impl Output {
    /// What is the same in two reports of the same commands.
    fn key(&self) -> String {
        let commands: Vec<&str> = self.results.iter().map(|r| r.command.as_str()).collect();
        format!("{commands:?}")
    }
}

/// Seconds.
#[derive(Deserialize)]
struct Timed {
    command: String,
    mean: f64,
    median: Option<f64>,
    max: Option<f64>,
    #[serde(default)]
    times: Count,
    #[serde(default)]
    exit_codes: Exits,
}

/// The number of entries.
#[derive(Default)]
struct Count(u64);

/// How many commands exited, and how many of them failed or were killed.
#[derive(Default)]
struct Exits {
    failed: u64,
    all: u64,
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(of: D) -> Result<Self, D::Error> {
        let mut all = 0;
        each(of, |_: f64| all += 1)?;
        Ok(Self(all))
    }
}

impl<'de> Deserialize<'de> for Exits {
    fn deserialize<D: Deserializer<'de>>(of: D) -> Result<Self, D::Error> {
        let mut exits = Self::default();
        each(of, |code: Option<i64>| {
            exits.all += 1;
            exits.failed += u64::from(code != Some(0));
        })?;
        Ok(exits)
    }
}
