//! One figure over many runs.

use std::{fmt::Write as _, process::ExitCode};

use layermark_model::{Spec, nearest};
use layermark_report::{Change, Estimate, Figure, Series, changes, ratio_with, time_with};
use layermark_store::{Store, Summary};
use serde_json::{Value, json};

use super::{output, print_json, time};
use crate::failure::Failure;

/// A point in a layer over runs.
struct Trend<'a> {
    point: &'a str,
    layer: &'a str,
    /// Whether it is the baseline, of which the time is told.
    times: bool,
    series: Series<&'a Summary>,
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
    // As runs name it: options in the order of their names.
    let spec = layer.parse::<Spec>().map(|spec| spec.to_string());
    let layer = &spec.unwrap_or_else(|_| layer.to_owned());
    let mut labels: Vec<String> = Vec::new();
    let figures = runs.iter().filter_map(|run| {
        // A run that cannot be read is none of the trend's.
        let (loaded, trials) = store.load(&run.id).ok()?;
        let figure = Figure::of(&loaded, &trials, layer, point);
        labels.extend(loaded.points.into_iter().map(|p| p.label));
        Some((run, figure?))
    });
    let series = Series::of(figures);
    let Some((_, newest)) = series.kept.last() else {
        return Err(match series.doubtful {
            0 => nothing(runs, &labels, point, layer),
            n => none_sound(n, point, layer),
        });
    };
    let values: Vec<f64> = series.kept.iter().map(|(_, f)| f.value.estimate).collect();
    let trend = Trend {
        point,
        layer,
        times: newest.is_baseline,
        changes: changes(&values),
        series,
    };
    if json {
        print_json(&trend.json())?;
    } else {
        output::print(&trend.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn counted(n: usize) -> String {
    match n {
        1 => "1 run".to_owned(),
        n => format!("{n} runs"),
    }
}

fn none_sound(n: usize, point: &str, layer: &str) -> Failure {
    let text = format!(
        "no run of \"{point}\" in {layer} is complete and trusted: {} left out",
        counted(n)
    );
    Failure::usage(text).hint("layermark history")
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
        let values = || self.series.kept.iter().map(|(_, f)| f.value.estimate);
        let (low, high) = values().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        let runs = counted(self.series.kept.len());
        let mut text = format!(
            "{} at \"{}\": {what}, {runs}\n{}  {} to {}\n",
            self.layer,
            self.point,
            sparkline(&values().collect::<Vec<_>>()),
            plain(low),
            plain(high)
        );
        for change in &self.changes {
            let run = self.series.kept[change.at].0;
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
            text += match self.series.kept.len() {
                n if n < ENOUGH => "too few runs to look for changes: ten are needed\n",
                _ => "no change for good\n",
            };
        }
        text += &self.notes();
        text += "\n";
        for (run, figure) in &self.series.kept {
            let (started, shown) = (time(run.started_ms), self.shown(&figure.value));
            let _ = writeln!(
                text,
                "{:>4}  {:<26}  {started}  {shown}",
                run.number, run.id
            );
        }
        text
    }

    /// What changed below the figure, and which runs are not in it.
    fn notes(&self) -> String {
        let mut text = String::new();
        for (at, what) in self.series.machine_changes() {
            let run = self.series.kept[at].0;
            let (what, started) = (what.join(" and "), time(run.started_ms));
            // Writing to a string does not fail.
            let _ = writeln!(text, "{what} changed with #{} of {started}", run.number);
        }
        for (n, why) in [
            (
                self.series.other_work,
                "with other work or another baseline",
            ),
            (self.series.doubtful, "not complete or not trusted"),
        ] {
            if n > 0 {
                let _ = writeln!(text, "{} {why} left out", counted(n));
            }
        }
        text
    }

    fn json(&self) -> Value {
        let runs = self.series.kept.iter().map(|(run, figure)| {
            json!({
                "run": run.id, "number": run.number, "started_ms": run.started_ms,
                "value": figure.value.estimate, "interval": figure.value.interval,
            })
        });
        let machines = self.series.machine_changes().into_iter().map(|(at, what)| {
            let run = self.series.kept[at].0;
            json!({
                "run": run.id, "number": run.number, "started_ms": run.started_ms, "changed": what,
            })
        });
        let changes = self.changes.iter().map(|c| {
            let run = self.series.kept[c.at].0;
            json!({
                "run": run.id, "number": run.number, "started_ms": run.started_ms,
                "before": c.before, "after": c.after,
            })
        });
        json!({
            "schema": "layermark.trend/1", "point": self.point, "layer": self.layer, "unit": self.unit(),
            "runs": runs.collect::<Vec<_>>(), "changes": changes.collect::<Vec<_>>(),
            "machine_changes": machines.collect::<Vec<_>>(),
            "left_out": { "other_work": self.series.other_work, "doubtful": self.series.doubtful },
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
