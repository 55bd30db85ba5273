//! The time of a step as its system calls predict it: counted natively, at the costs that `meta` and
//! `file` measured in each layer of the same run.

use std::collections::{BTreeMap, BTreeSet};

use layermark_model::{Run, Target, TrialRecord, Untraced, calls};
use layermark_stats::median;

use crate::{
    facts::index::Index,
    statements::forecast::{Besides, CallAdvice, Lack, StepForecast},
    types::{Advice, Forecast, ForecastCall, ForecastRow, ResultRow, Verdict},
    words::{Names, Words},
};

mod costs;

use costs::{KINDS, Kind, anchors, at, is_measured, lacking};

/// Kinds with fewer calls than this share of all do not matter, except flushes.
const FEW: f64 = 0.01;
/// A task with a smaller share of the calls has not made them one after the other.
const ALONE: f64 = 0.8;
/// Costs are of names that were asked for as long before as in the step, within this factor.
const LONGER: f64 = 2.0;

/// Calls of one operation of a step.
struct CountedCalls {
    /// Calls and bytes by kind.
    kinds: BTreeMap<String, (f64, f64)>,
    /// Share of the task that made most of them.
    busiest: f64,
}

impl CountedCalls {
    fn of(record: &TrialRecord) -> Option<Self> {
        let figures = &record.trial.as_ref()?.figures;
        let [made, bytes] = [calls::GROUP, calls::BYTES].map(|group| figures.group(group));
        let each = |name: &str| {
            let moved = bytes.number(name).unwrap_or(0.0);
            Some((name.to_owned(), (made.number(name)?, moved)))
        };
        let kinds: BTreeMap<_, _> = figures.names(calls::GROUP).filter_map(each).collect();
        let all: f64 = kinds.values().map(|(n, _)| n).sum();
        let busiest = figures.number(calls::BUSIEST).unwrap_or(0.0);
        (all > 0.0).then(|| Self {
            busiest: (busiest / all).min(1.0),
            kinds,
        })
    }

    /// Kinds that matter, with their calls and bytes.
    fn kinds(&self) -> impl Iterator<Item = (&'static Kind, f64, f64)> {
        let all: f64 = self.kinds.values().map(|(n, _)| n).sum();
        KINDS.iter().filter_map(move |kind| {
            let (calls, bytes) = *self.kinds.get(kind.id)?;
            let matters = calls >= FEW * all || kind.id == "flush";
            matters.then_some((kind, calls, bytes))
        })
    }
}

/// Forecasts of every step in every layer whose costs the run has.
pub fn of(run: &Run, index: &Index, results: &[ResultRow]) -> Forecast {
    let mut forecast = Forecast::default();
    let names = Names {
        baseline: run.baseline(),
    };
    // Steps whose calls were not counted, by the reason.
    let (mut missing, mut untraced) = (Vec::new(), BTreeMap::<&Untraced, Vec<&str>>::new());
    // Kinds that were measured, and yet have no trusted result in these layers.
    let mut untrusted = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (point, at) in run.points.iter().enumerate() {
        if at.meaning.target != Target::Step || at.meaning.is_cold() {
            continue;
        }
        // They are counted in the layer native, which need not be the baseline.
        let records = || (0..run.layers.len()).flat_map(|layer| index.parts(layer, point));
        let Some(counted) = records().copied().find_map(CountedCalls::of) else {
            let mut why = records().filter_map(|r| r.trial.as_ref()?.untraced.as_ref());
            if let Some(why) = why.next() {
                untraced.entry(why).or_default().push(&at.label);
            }
            continue;
        };
        let kinds = counted.kinds().map(|(kind, ..)| kind);
        missing.extend(kinds.filter(|kind| !is_measured(run, kind)));
        let steps = results
            .iter()
            .filter(|r| r.label == at.label && r.layer != run.baseline() && r.is_told());
        for row in steps {
            let every_s = every_s(run, index, row);
            match forecast_of(row, &counted, every_s, results, &names) {
                Ok(found) => forecast.rows.extend(found),
                Err(kind) if is_measured(run, kind) => {
                    let layers = untrusted.entry(kind.id).or_default();
                    layers.insert(&row.layer);
                }
                Err(_) => {}
            }
        }
    }
    let costs = lacking(&missing).map(Lack::Costs).into_iter();
    let untrusted = untrusted.into_iter();
    let untrusted = untrusted.map(|(kind, layers)| Lack::Untrusted(kind, Vec::from_iter(layers)));
    let untraced = untraced.iter();
    let untraced = untraced.map(|(why, steps)| Lack::NotCounted(steps.clone(), why));
    let lacks = costs.chain(untrusted).chain(untraced);
    forecast.lacks = lacks.map(|lack| lack.words(&names).into()).collect();
    forecast
}

/// Seconds from one execution of a step to the next in the same layer: a round, or a block if it has one round.
fn every_s(run: &Run, index: &Index, row: &ResultRow) -> f64 {
    let Some((own, point)) = run.site(&row.layer, &row.label) else {
        return 0.0;
    };
    let trials = index.trials(own, point);
    let turns = |layer: usize| -> Vec<f64> {
        let trials = index.trials(layer, point).into_iter();
        let trials = trials.filter_map(|r| r.trial.as_ref());
        let turns = trials
            .flat_map(|t| &t.turns)
            .map(|t| t.elapsed_ns as f64 / 1e9);
        turns.collect()
    };
    if turns(own).len() > trials.len() {
        return (0..run.layers.len())
            .filter_map(|layer| median(&turns(layer)))
            .sum();
    }
    let blocks: Vec<f64> = trials
        .windows(2)
        .map(|pair| pair[1].at_ms.saturating_sub(pair[0].at_ms) as f64 / 1e3)
        .collect();
    median(&blocks).unwrap_or(0.0)
}

/// An error with the kind of call whose cost in the layer is not known.
fn forecast_of(
    row: &ResultRow,
    counted: &CountedCalls,
    every_s: f64,
    results: &[ResultRow],
    names: &Names,
) -> Result<Option<ForecastRow>, &'static Kind> {
    let Some((measured_us, native_us)) = row.op_us.zip(row.native_us) else {
        return Ok(None);
    };
    let mut calls = Vec::new();
    for (kind, n, bytes) in counted.kinds() {
        let anchors = anchors(results, &row.layer, kind, every_s);
        let each_us = at(&anchors, bytes / n).ok_or(kind)?;
        calls.push(ForecastCall {
            kind: kind.id.into(),
            calls: n,
            each_us,
            sum_us: n * each_us,
            rested_ms: anchors.iter().filter_map(|a| a.rested_ms).max(),
            evidence: anchors.into_iter().flat_map(|a| a.evidence).collect(),
        });
    }
    calls.sort_by(|a, b| b.sum_us.total_cmp(&a.sum_us));
    let forecast_us = native_us + calls.iter().map(|c| c.sum_us).sum::<f64>();
    let mut forecast = ForecastRow {
        result: row.id.clone(),
        label: row.label.clone(),
        layer: row.layer.clone(),
        native_us,
        forecast_us,
        measured_us,
        measured_interval_us: row.op_us_interval,
        gap: forecast_us / measured_us - 1.0,
        calls,
        every_s,
        busiest_task: counted.busiest,
        text: String::new(),
    };
    let step = StepForecast {
        row: &forecast,
        besides: besides(&forecast, row),
    };
    forecast.text = step.words(names).into();
    Ok(Some(forecast))
}

/// What was measured besides the calls. `None` if they explain the time.
fn besides(f: &ForecastRow, row: &ResultRow) -> Option<Vec<Besides>> {
    if f.is_explained() {
        return None;
    }
    let mut facts = Vec::new();
    // Caches that forget in between make the calls cheaper in one than in the other.
    let rested = f.calls.iter().filter_map(|call| call.rested_ms).max();
    let rested_s = rested.map(|ms| ms as f64 / 1e3);
    if f.every_s > LONGER * rested_s.unwrap_or(0.0).max(1.0) {
        facts.push(Besides::Rested(f.every_s, rested_s));
    }
    if f.busiest_task < ALONE {
        facts.push(Besides::Tasks(f.busiest_task));
    }
    if let Some(cpu) = row.cpu_us_per_op.filter(|cpu| cpu.upkeep > 0.0) {
        facts.push(Besides::Cpu(cpu.probe, cpu.upkeep));
    }
    Some(facts)
}

/// For each layer, the call that costs most in a step that the forecast explains.
pub fn advice(run: &Run, forecast: &Forecast, results: &[ResultRow]) -> Vec<Advice> {
    let names = Names {
        baseline: run.baseline(),
    };
    let mut best: BTreeMap<&str, (&ForecastRow, &ForecastCall)> = BTreeMap::new();
    for row in &forecast.rows {
        let slower = |r: &&ResultRow| r.id == row.result && r.leaning() == Verdict::Slower;
        let Some(call) = row.calls.first().filter(|_| row.is_explained()) else {
            continue;
        };
        // Half of what the layer adds.
        let main = call.sum_us >= 0.5 * (row.measured_us - row.native_us);
        if !main || !results.iter().any(|r| slower(&r)) {
            continue;
        }
        let known = best.entry(&row.layer).or_insert((row, call));
        if call.sum_us > known.1.sum_us {
            *known = (row, call);
        }
    }
    let all = best.into_values().filter_map(|(row, call)| {
        let kind = KINDS.iter().find(|kind| kind.id == call.kind)?;
        let mut evidence = vec![row.result.clone()];
        evidence.extend(call.evidence.clone());
        let advice = CallAdvice { row, kind: kind.id };
        Some(Advice {
            text: advice.words(&names).into(),
            evidence,
        })
    });
    all.collect()
}
