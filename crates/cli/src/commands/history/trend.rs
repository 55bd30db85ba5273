//! One figure over many runs.

use std::{fmt::Write as _, process::ExitCode};

use layermark_model::nearest;
use layermark_report::{Change, Estimate, changes, figure, ratio_with, time_with};
use layermark_store::{Store, Summary};
use serde_json::{Value, json};

use super::{output, print_json, time};
use crate::failure::Failure;

/// What one run says.
struct Measured<'a> {
    run: &'a Summary,
    value: Estimate,
}

/// A point in a layer over runs.
struct Trend<'a> {
    point: &'a str,
    layer: &'a str,
    /// Whether it is the baseline, of which the time is told.
    times: bool,
    /// The oldest first.
    measured: Vec<Measured<'a>>,
    changes: Vec<Change>,
}

/// Prints how a point in a layer changed over runs, which come newest first.
pub fn show(
    store: &mut Store,
    runs: &[Summary],
    point: &str,
    layer: &str,
    json: bool,
) -> Result<ExitCode, Failure> {
    let mut labels: Vec<String> = Vec::new();
    let mut measured = Vec::new();
    for run in runs.iter().rev() {
        // A run that cannot be read is none of the trend's.
        let Ok((loaded, trials)) = store.load(&run.id) else {
            continue;
        };
        if let Some(value) = figure(&loaded, &trials, layer, point) {
            measured.push(Measured { run, value });
        }
        labels.extend(loaded.points.into_iter().map(|p| p.label));
    }
    if measured.is_empty() {
        return Err(nothing(runs, &labels, point, layer));
    }
    let is_baseline = |m: &Measured| m.run.layers.first().is_some_and(|name| name == layer);
    let times = measured.iter().any(is_baseline);
    // A layer that was a baseline in some runs only has a time there and a ratio elsewhere.
    measured.retain(|m| is_baseline(m) == times);
    let values: Vec<f64> = measured.iter().map(|m| m.value.estimate).collect();
    let trend = Trend {
        point,
        layer,
        times,
        changes: changes(&values),
        measured,
    };
    if json {
        print_json(&trend.json())?;
    } else {
        output::print(&trend.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn nothing(runs: &[Summary], labels: &[String], point: &str, layer: &str) -> Failure {
    let layers = || runs.iter().flat_map(|r| &r.layers).map(String::as_str);
    let text = format!("no run has measured \"{point}\" in {layer}");
    let near = if layers().any(|l| l == layer) {
        nearest(point, labels.iter().map(String::as_str))
    } else {
        nearest(layer, layers())
    };
    let near = near.map(|near| format!("did you mean `{near}`? "));
    let hint = "layermark history --trend 'small read, warm' fuse";
    Failure::usage(text).hint(format!("{}{hint}", near.unwrap_or_default()))
}

impl Trend<'_> {
    fn unit(&self) -> &'static str {
        if self.times { "us" } else { "ratio" }
    }

    fn shown(&self, value: &Estimate) -> String {
        if self.times {
            time_with(value)
        } else {
            ratio_with(value)
        }
    }

    fn text(&self) -> String {
        let what = if self.times {
            "time an operation"
        } else {
            "time in the layer / natively"
        };
        let plain = |estimate: f64| {
            self.shown(&Estimate {
                estimate,
                interval: None,
            })
        };
        let values = || self.measured.iter().map(|m| m.value.estimate);
        let (low, high) = values().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        let runs = match self.measured.len() {
            1 => "1 run".to_owned(),
            n => format!("{n} runs"),
        };
        let mut text = format!(
            "{} at \"{}\": {what}, {runs}\n{}  {} to {}\n",
            self.layer,
            self.point,
            sparkline(&values().collect::<Vec<_>>()),
            plain(low),
            plain(high)
        );
        for change in &self.changes {
            let run = self.measured[change.at].run;
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "changed with #{} of {}: {} before, {} since",
                run.number,
                time(run.started_ms),
                plain(change.before),
                plain(change.after)
            );
        }
        if self.changes.is_empty() {
            text += match self.measured.len() {
                n if n < ENOUGH => "too few runs to look for changes: ten are needed\n",
                _ => "no change for good\n",
            };
        }
        text += "\n";
        for Measured { run, value } in &self.measured {
            let (started, shown) = (time(run.started_ms), self.shown(value));
            let _ = writeln!(
                text,
                "{:>4}  {:<26}  {started}  {shown}",
                run.number, run.id
            );
        }
        text
    }

    fn json(&self) -> Value {
        let runs = self.measured.iter().map(|m| {
            json!({
                "run": m.run.id, "number": m.run.number, "started_ms": m.run.started_ms,
                "value": m.value.estimate, "interval": m.value.interval,
            })
        });
        let changes = self.changes.iter().map(|c| {
            let run = self.measured[c.at].run;
            json!({
                "run": run.id, "number": run.number, "started_ms": run.started_ms,
                "before": c.before, "after": c.after,
            })
        });
        json!({
            "schema": "layermark.trend/1", "point": self.point, "layer": self.layer, "unit": self.unit(),
            "runs": runs.collect::<Vec<_>>(), "changes": changes.collect::<Vec<_>>(),
        })
    }
}

/// Fewest runs in which a change can be seen.
const ENOUGH: usize = 10;

/// A letter for each value, of eight heights between the lowest and the highest, on the logarithm.
fn sparkline(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    let (low, high) = logs
        .iter()
        .fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
    let bar = |log: &f64| {
        let share = if high > low {
            (log - low) / (high - low)
        } else {
            0.0
        };
        BARS[((share * 7.0).round() as usize).min(7)]
    };
    logs.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_spans_its_values() {
        assert_eq!(
            sparkline(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]),
            "▁▂▃▄▅▆▇█"
        );
        assert_eq!(sparkline(&[3.0, 3.0]), "▁▁");
        assert_eq!(sparkline(&[]), "");
    }
}
