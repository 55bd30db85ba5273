//! One figure over many runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use layermark_model::{Point, Spec, StoreOption, nearest};
use layermark_report::{
    Change, Estimate, STALLS, STALLS_MEANING, TrendFigure, TrendRun, TrendSeries, changes,
    ratio_with, time_with,
};
use layermark_store::{Store, Summary};
use serde_json::{Value, json};

use super::time;
use crate::{commands::stored, failure::Failure};

/// The result of one point in one layer, over runs.
pub struct Trend<'a> {
    point: String,
    layer: String,
    /// Whether the layer is the baseline: the trend is then of times, not of ratios.
    times: bool,
    series: TrendSeries<&'a Summary>,
    changes: Vec<Change>,
}

/// Builds the trend of a point in a layer. `runs` come newest first.
pub fn of<'a>(
    store: &mut Store,
    runs: &'a [Summary],
    point: &str,
    layer: &str,
) -> Result<Trend<'a>, Failure> {
    // Runs store the options of a layer in alphabetical order.
    let spec = layer.parse::<Spec>().map(|spec| spec.to_string());
    let layer = &spec.unwrap_or_else(|_| layer.to_owned());
    let mut points: Vec<Point> = Vec::new();
    // Runs of other versions may have the point under another label.
    let named = runs.iter().find_map(|run| {
        let (loaded, _) = stored::load(store, &run.id).ok()?;
        let named = loaded.points.iter().find(|p| p.label == point).cloned();
        points.extend(loaded.points);
        named
    });
    let like = match named {
        Some(named) => Some(named),
        None => begins_with(&points, point)?,
    };
    let labels: Vec<String> = points.iter().map(|p| p.label.clone()).collect();
    let point = like.as_ref().map_or(point, |like| like.label.as_str());
    let figures = runs.iter().filter_map(|run| {
        // A run that cannot be read is not part of the trend.
        let like = like.as_ref()?;
        let (loaded, trials) = stored::load(store, &run.id).ok()?;
        Some((run, TrendFigure::of(&loaded, &trials, layer, like)?))
    });
    let series = TrendSeries::of(figures);
    let Some((_, newest)) = series.kept.last() else {
        return Err(match series.doubtful {
            0 => nothing(runs, &labels, (point, layer), &store.option()),
            n => none_sound(n, (point, layer), &store.option()),
        });
    };
    let values: Vec<f64> = series.kept.iter().map(|(_, f)| f.value.estimate).collect();
    Ok(Trend {
        point: point.to_owned(),
        layer: layer.clone(),
        times: newest.is_baseline,
        changes: changes(&values),
        series,
    })
}

/// The point whose label begins with this one, as the matrix and people shorten them: `small read` is `small read, warm`.
/// `None` if there is none. An error if there are several.
fn begins_with(points: &[Point], short: &str) -> Result<Option<Point>, Failure> {
    let rest = |p: &&Point| {
        let rest = p.label.strip_prefix(short);
        rest.is_some_and(|rest| rest.starts_with(", "))
    };
    let found: BTreeMap<&str, &Point> = points
        .iter()
        .filter(rest)
        .map(|p| (p.label.as_str(), p))
        .collect();
    let mut all = found.values();
    match (all.next(), all.next()) {
        (Some(one), None) => Ok(Some((*one).clone())),
        (None, _) => Ok(None),
        (Some(_), Some(_)) => {
            let names: Vec<String> = found.keys().map(|label| format!("\"{label}\"")).collect();
            let text = format!("\"{short}\" is the beginning of several points");
            Err(Failure::usage(text).hint(format!("name one of them: {}", names.join(", "))))
        }
    }
}

fn counted(n: usize) -> String {
    match n {
        1 => "1 run".to_owned(),
        n => format!("{n} runs"),
    }
}

fn none_sound(n: usize, (point, layer): (&str, &str), store: &StoreOption) -> Failure {
    let text = format!(
        "no run of \"{point}\" in {layer} is complete and trusted: {} left out",
        counted(n)
    );
    Failure::usage(text).hint(format!("layermark history{store}"))
}

fn nothing(
    runs: &[Summary],
    labels: &[String],
    (point, layer): (&str, &str),
    store: &StoreOption,
) -> Failure {
    let layers: BTreeSet<&str> = runs
        .iter()
        .flat_map(|r| &r.layers)
        .map(String::as_str)
        .collect();
    let points: BTreeSet<&str> = labels.iter().map(String::as_str).collect();
    let hint = if runs.is_empty() {
        format!("make a run first: layermark run{store}")
    } else if !layers.contains(layer) {
        meant(layer, "layers", &layers, store)
    } else if !points.contains(point) {
        meant(point, "points", &points, store)
    } else {
        format!("see what {layer} was measured at: layermark history --layer {layer}{store}")
    };
    Failure::usage(format!("no run has measured \"{point}\" in {layer}")).hint(hint)
}

/// A hint for a name that no run has: a similar name, or the known names.
fn meant(name: &str, kind: &str, known: &BTreeSet<&str>, store: &StoreOption) -> String {
    const LISTED: usize = 8;
    // A part of its name is nearer than what has some letters in common.
    let longer = known.iter().copied().find(|known| known.contains(name));
    if let Some(near) = longer.or_else(|| nearest(name, known.iter().copied())) {
        return format!("did you mean `{near}`?");
    }
    let listed: Vec<&str> = known.iter().copied().take(LISTED).collect();
    let more = match known.len() - listed.len() {
        0 => String::new(),
        more => format!("; and {more} more: layermark report last{store}"),
    };
    format!("{kind} of these runs: {}{more}", listed.join("; "))
}

impl Trend<'_> {
    fn unit(&self) -> &'static str {
        if self.times { "us" } else { "ratio" }
    }

    /// Name of the baseline, which all runs of a series have in common.
    fn baseline(&self) -> &str {
        let newest = self.series.kept.last();
        newest.map_or("", |(_, figure)| figure.baseline.as_str())
    }

    fn shown(&self, value: &Estimate) -> String {
        if self.times {
            time_with(value)
        } else {
            ratio_with(value)
        }
    }

    fn plain(&self, estimate: f64) -> String {
        self.shown(&Estimate {
            estimate,
            interval: None,
            average: None,
        })
    }

    pub fn text(&self) -> String {
        let what = self.drawn().quantity();
        let values = || self.series.kept.iter().map(|(_, f)| f.value.estimate);
        let (low, high) = values().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        let runs = counted(self.series.kept.len());
        let mut text = format!(
            "{} at \"{}\": {what}, {runs}\n{}  {} to {}\n",
            self.layer,
            self.point,
            sparkline(&values().collect::<Vec<_>>()),
            self.plain(low),
            self.plain(high)
        );
        text.extend(self.said().iter().map(|line| format!("{line}\n")));
        text += "\n";
        for (run, figure) in &self.series.kept {
            let (started, shown) = (time(run.started_ms), self.shown(&figure.value));
            let sign = if figure.stalls { STALLS } else { "" };
            let _ = writeln!(
                text,
                "{:>4}  {:<26}  {started}  {shown}{sign}",
                run.number, run.id
            );
        }
        text
    }

    /// The trend in words: the changes, or that there is none, then the runs that were left out.
    fn said(&self) -> Vec<String> {
        let of = |at: usize| {
            let run = self.series.kept[at].0;
            format!("#{} of {}", run.number, time(run.started_ms))
        };
        let change = |c: &Change| {
            let (run, before, after) = (of(c.at), self.plain(c.before), self.plain(c.after));
            format!("changed with {run}: {before} before, {after} since")
        };
        let mut said: Vec<String> = self.changes.iter().map(change).collect();
        if said.is_empty() {
            said.push(match self.series.kept.len() {
                n if n < ENOUGH => "too few runs to look for changes: ten are needed".into(),
                _ => "no lasting change".into(),
            });
        }
        let machines = self.series.machine_changes().into_iter();
        said.extend(
            machines.map(|(at, what)| format!("{} changed with {}", what.join(" and "), of(at))),
        );
        let other = "with other work or another baseline";
        let left = [
            (self.series.other_work, other),
            (self.series.doubtful, "not complete or not trusted"),
        ];
        let left = left.into_iter().filter(|(n, _)| *n > 0);
        said.extend(left.map(|(n, why)| format!("{} {why} left out", counted(n))));
        let stalls = self.series.kept.iter().filter(|(_, f)| f.stalls).count();
        if stalls > 0 {
            said.push(format!(
                "{} marked {STALLS}: {STALLS_MEANING}",
                counted(stalls)
            ));
        }
        said
    }

    /// The trend as drawn on a page.
    pub fn drawn(&self) -> layermark_report::Trend {
        let run = |(run, figure): &(&Summary, TrendFigure)| TrendRun {
            id: run.id.clone(),
            number: run.number,
            started: time(run.started_ms),
            value: figure.value,
            stalls: figure.stalls,
        };
        layermark_report::Trend {
            point: self.point.clone(),
            layer: self.layer.clone(),
            is_time: self.times,
            baseline: self.baseline().to_owned(),
            runs: self.series.kept.iter().map(run).collect(),
            changes: self.changes.clone(),
            said: self.said(),
        }
    }

    pub fn json(&self) -> Value {
        let runs = self.series.kept.iter().map(|(run, figure)| {
            json!({
                "run": run.id, "number": run.number, "started_ms": run.started_ms,
                "value": figure.value.estimate, "interval": figure.value.interval, "stalls": figure.stalls,
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
            "baseline": self.baseline(),
            "runs": runs.collect::<Vec<_>>(), "changes": changes.collect::<Vec<_>>(),
            "machine_changes": machines.collect::<Vec<_>>(),
            "left_out": { "other_work": self.series.other_work, "doubtful": self.series.doubtful },
        })
    }
}

/// Fewest runs in which changes are looked for.
const ENOUGH: usize = 10;

/// One character per value: eight heights from the lowest to the highest, on a logarithmic scale.
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
