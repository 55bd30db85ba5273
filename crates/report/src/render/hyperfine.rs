//! The JSON of `hyperfine --export-json`, for programs that read it.

use serde_json::{Map, Value, json};

use super::{Exporter, Files};
use crate::{LaunchSeries, Report};

/// See the module.
pub struct Hyperfine;

impl Exporter for Hyperfine {
    fn id(&self) -> &'static str {
        "hyperfine"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["hyperfine.json"]
    }

    fn lacks(&self, report: &Report) -> Option<&'static str> {
        report.series.is_empty().then_some("launches")
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let out = out.open("")?;
        let layers = report.layers.iter().filter(|l| !l.control).count();
        let results: Vec<Value> = report
            .series
            .iter()
            .map(|s| result(s, layers > 1))
            .collect();
        serde_json::to_writer_pretty(
            &mut *out,
            &json!({ "generated_by": report.generated_by, "results": results }),
        )?;
        out.write_all(b"\n")?;
        Ok(())
    }
}

/// Times are seconds, as in hyperfine. All launches count, including the first and those on either
/// side of a step.
fn result(series: &LaunchSeries, name_layer: bool) -> Value {
    let seconds = |pick: fn(&crate::LaunchRun) -> f64| -> Vec<f64> {
        series.runs.iter().map(|r| pick(r) / 1e3).collect()
    };
    let times = seconds(|r| r.elapsed_ms);
    let mean = |x: &[f64]| layermark_stats::mean(x).unwrap_or(0.0);
    let n = times.len() as f64;
    let middle = mean(&times);
    let squares: f64 = times.iter().map(|t| (t - middle).powi(2)).sum();
    let stddev = (n > 1.0).then(|| (squares / (n - 1.0)).sqrt());
    let command = if name_layer {
        format!("{} ({})", series.command, series.layer)
    } else {
        series.command.clone()
    };
    let mut all = json!({
        "command": command,
        "mean": middle,
        "stddev": stddev,
        "median": layermark_stats::median(&times).unwrap_or(0.0),
        "user": mean(&seconds(|r| r.user_ms)),
        "system": mean(&seconds(|r| r.system_ms)),
        "min": times.iter().copied().fold(f64::INFINITY, f64::min),
        "max": times.iter().copied().fold(0.0, f64::max),
        "times": times,
        "exit_codes": series.runs.iter().map(|r| r.exit).collect::<Vec<_>>(),
        "memory_usage_byte": series.runs.iter().map(|r| r.peak_bytes).collect::<Vec<_>>(),
    });
    let values = parameters(series);
    if !values.is_empty() {
        all["parameters"] = Value::Object(values);
    }
    all
}

/// `--parameter-scan` and `--parameter-list`, by name.
fn parameters(series: &LaunchSeries) -> Map<String, Value> {
    let pairs = series.parameters.iter().filter_map(|p| p.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect()
}
